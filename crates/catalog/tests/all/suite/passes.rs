use ingest_base::list_so_far::ListSoFar;
use ingest_catalog::{
    KeptLists, OpenPass, PassEnd, PassId, PassRef, Rearrangement, RegionState, StepPosition,
};
use ingest_config::Slice;

use super::super::fixture::{JOB, Page, at, daily, held, new_pass, pending_query, video, video_of};
use super::Catalog;

async fn region_state(f: &Catalog, region: &str) -> RegionState {
    f.store
        .region_states(JOB, &[region.to_owned()], at(59))
        .await
        .unwrap()
        .remove(0)
}

async fn finish(f: &Catalog, pass: PassId, end: PassEnd) {
    f.store.finish(&mut held(pass), end, at(59)).await.unwrap();
}

pub(crate) async fn nothing_is_known_of_a_region_that_was_never_walked(f: Catalog) {
    let regions = ["US".to_owned(), "GB".to_owned()];
    let states = f.store.region_states(JOB, &regions, at(59)).await.unwrap();
    assert_eq!(
        states.iter().map(|s| s.region.as_str()).collect::<Vec<_>>(),
        ["US", "GB"]
    );
    assert_eq!(
        states[0],
        RegionState {
            region: "US".into(),
            ..RegionState::default()
        }
    );
}

pub(crate) async fn an_unfinished_pass_stands_where_it_stopped(mut f: Catalog) {
    let pass = f.land(&Page::of(vec![]).next("2")).await.pass;
    f.land(&Page::of(vec![]).in_pass(pass).next("3")).await;
    f.land(&Page::of(vec![]).in_pass(pass).step(2)).await;
    f.reopen();
    let steps = vec![
        StepPosition {
            step: 0,
            pages: 2,
            cursor: Some("3".into()),
            request: Some("request".into()),
            empty_pages: 0,
            list: ListSoFar::default(),
        },
        StepPosition {
            step: 2,
            pages: 1,
            cursor: None,
            request: Some("request".into()),
            empty_pages: 0,
            list: ListSoFar::default(),
        },
    ];
    let open = OpenPass {
        id: pass,
        region: "US".into(),
        slice: None,
        started_at: at(0),
        greatest: None,
        steps,
        batches: Vec::new(),
        doubts: Vec::new(),
        relists: false,
        landed: 3,
    };
    assert_eq!(
        f.store.open_passes(JOB).await.unwrap(),
        std::slice::from_ref(&open)
    );
    assert_eq!(region_state(&f, "US").await.unfinished, Some(open));
    assert_eq!(region_state(&f, "GB").await.unfinished, None);
    assert_eq!(f.store.open_passes("another").await.unwrap(), []);
}

pub(crate) async fn a_slice_has_its_own_passes_which_no_region_counts(mut f: Catalog) {
    let slice = |day: u64| Slice {
        from: at(day * 24 * 60),
        to: at((day + 1) * 24 * 60),
    };
    let new = |day, started_at| PassRef {
        slice: Some(slice(day)),
        ..new_pass("US", started_at)
    };
    let page = |day| Page {
        pass: new(day, at(day)),
        ..Page::of(vec![])
    };
    let done = f.land(&page(1)).await.pass;
    finish(&f, done, PassEnd::Complete).await;
    let open = f.land(&page(2).next("2")).await.pass;
    let refused = f
        .store
        .finish(&mut new(3, at(3)), PassEnd::Refused, at(4))
        .await;
    refused.unwrap();
    f.reopen();
    let regions = ["US".to_owned(), "GB".to_owned()];
    let slices = f.store.slices(JOB, &regions, at(59)).await.unwrap();
    assert_eq!(slices.len(), 3);
    for one in &slices {
        let alone = f.store.slice(JOB, "US", one.slice, at(59)).await.unwrap();
        assert_eq!(alone.as_ref(), Some(one));
    }
    for (region, day) in [("US", 4), ("GB", 1)] {
        let none = f.store.slice(JOB, region, slice(day), at(59)).await;
        assert_eq!(none.unwrap(), None, "{region} {day}");
    }
    assert!(slices.iter().all(|one| one.state.region == "US"));
    let [first, second, third] = [&slices[0], &slices[1], &slices[2]];
    assert_eq!(first.slice, slice(1));
    assert_eq!(first.state.last_complete, Some(at(1)));
    assert_eq!(first.state.last_complete_pass, Some(done));
    assert_eq!(second.slice, slice(2));
    assert_eq!(second.state.unfinished.as_ref().unwrap().id, open);
    assert_eq!(
        second.state.unfinished.as_ref().unwrap().slice,
        Some(slice(2))
    );
    assert_eq!(third.state.last_refused, Some(at(3)));
    let state = region_state(&f, "US").await;
    let nothing = RegionState {
        region: "US".into(),
        ..RegionState::default()
    };
    assert_eq!(state, nothing);
    assert_eq!(f.store.open_passes(JOB).await.unwrap().len(), 1);
    assert_eq!(
        f.store
            .last_pages(JOB, &["US".to_owned()], 1)
            .await
            .unwrap(),
        [[[(0, 1)]]]
    );
    assert_eq!(
        f.store.slices("another", &regions, at(59)).await.unwrap(),
        []
    );
}

pub(crate) async fn open_passes_come_oldest_first_with_the_shared_one_among_them(f: Catalog) {
    for (region, minute) in [("US", 3), ("*", 1), ("GB", 2)] {
        f.land(&Page::of(vec![]).over(region, at(minute))).await;
    }
    let open = f.store.open_passes(JOB).await.unwrap();
    assert_eq!(
        open.iter()
            .map(|pass| pass.region.as_str())
            .collect::<Vec<_>>(),
        ["*", "GB", "US"]
    );
}

pub(crate) async fn a_complete_pass_is_dated_by_its_start_and_tells_its_pages(f: Catalog) {
    let pass = f
        .land(&Page::of(vec![]).over("US", at(5)).next("2").now(at(30)))
        .await
        .pass;
    f.land(&Page::of(vec![]).in_pass(pass)).await;
    f.land(&Page::of(vec![]).in_pass(pass).step(1)).await;
    finish(&f, pass, PassEnd::Complete).await;
    let state = region_state(&f, "US").await;
    assert_eq!(state.last_complete, Some(at(5)));
    assert_eq!(state.last_pages, [(0, 2), (1, 1)]);
    assert_eq!(state.unfinished, None);
}

pub(crate) async fn the_last_complete_pass_is_the_one_that_began_last(f: Catalog) {
    for minute in [1, 9, 4] {
        let pass = f.land(&Page::of(vec![]).over("US", at(minute))).await.pass;
        finish(&f, pass, PassEnd::Complete).await;
    }
    assert_eq!(region_state(&f, "US").await.last_complete, Some(at(9)));
}

pub(crate) async fn a_refusal_counts_until_a_later_pass_is_complete(f: Catalog) {
    f.store
        .finish(&mut new_pass("US", at(5)), PassEnd::Refused, at(6))
        .await
        .unwrap();
    assert_eq!(region_state(&f, "US").await.last_refused, Some(at(5)));
    let pass = f.land(&Page::of(vec![]).over("US", at(7))).await.pass;
    finish(&f, pass, PassEnd::Complete).await;
    assert_eq!(region_state(&f, "US").await.last_refused, None);
    f.store
        .finish(&mut new_pass("US", at(8)), PassEnd::Refused, at(9))
        .await
        .unwrap();
    let state = region_state(&f, "US").await;
    assert_eq!(
        (state.last_complete, state.last_refused),
        (Some(at(7)), Some(at(8)))
    );
}

pub(crate) async fn a_refusal_keeps_what_was_requested(f: Catalog) {
    let refused = f
        .store
        .finish(&mut new_pass("US", at(5)), PassEnd::Refused, at(6))
        .await
        .unwrap();
    assert_eq!(region_state(&f, "US").await.refused_request, None);
    f.store
        .store_refusal(&mut held(refused), "a\0b")
        .await
        .unwrap();
    let requested = region_state(&f, "US").await.refused_request;
    assert_eq!(requested.as_deref(), Some("a\0b"));
    let pass = f.land(&Page::of(vec![]).over("US", at(7))).await.pass;
    finish(&f, pass, PassEnd::Complete).await;
    assert_eq!(region_state(&f, "US").await.refused_request, None);
}

pub(crate) async fn an_abandoned_pass_is_over_and_what_it_landed_stays(f: Catalog) {
    let pass = f.land(&Page::of(vec![video("a", "")]).next("2")).await.pass;
    finish(&f, pass, PassEnd::Abandoned).await;
    let given_up = RegionState {
        region: "US".into(),
        last_abandoned: Some(at(59)),
        ..RegionState::default()
    };
    assert_eq!(region_state(&f, "US").await, given_up);
    assert_eq!(f.listed(pass).await, ["0 a"]);
}

pub(crate) async fn a_pass_ends_once(f: Catalog) {
    let pass = f.land(&Page::of(vec![])).await.pass;
    finish(&f, pass, PassEnd::Complete).await;
    finish(&f, pass, PassEnd::Abandoned).await;
    assert_eq!(region_state(&f, "US").await.last_abandoned, None);
    assert_eq!(region_state(&f, "US").await.last_complete, Some(at(0)));
}

pub(crate) async fn a_pass_that_is_not_there_cannot_end(f: Catalog) {
    let error = f
        .store
        .finish(&mut held(PassId(7)), PassEnd::Complete, at(0))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("took over"), "{error}");
}

pub(crate) async fn a_step_of_no_pass_is_not_started_over(f: Catalog) {
    let error = f
        .store
        .restart_step(&mut held(PassId(7)), 0, at(0))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("took over"), "{error}");
}

pub(crate) async fn a_history_has_every_pass_oldest_first_with_its_counts(f: Catalog) {
    let newer = f
        .land(&Page::of(vec![video("a", "")]).over("US", at(2)))
        .await;
    finish(&f, newer.pass, PassEnd::Complete).await;
    f.land(&Page::of(vec![video("a", ""), video("b", "")]).over("GB", at(1)))
        .await;
    f.store
        .count_unproductive(&new_pass("DE", at(3)), 4, &daily(9), at(5))
        .await
        .unwrap();
    let history = f.history().await;
    let shown: Vec<_> = history
        .iter()
        .map(|pass| {
            (
                &*pass.region,
                pass.outcome,
                pass.pages,
                pass.records,
                pass.requests,
            )
        })
        .collect();
    let expected = [
        ("GB", None, 1, 2, 1),
        ("US", Some(PassEnd::Complete), 1, 1, 1),
        ("DE", Some(PassEnd::Failed), 0, 0, 4),
    ];
    assert_eq!(shown, expected);
    assert_eq!(history[1].finished_at, Some(at(59)));
    assert_eq!(
        (history[0].finished_at, &history[2].units),
        (None, &daily(9))
    );
    let late = f.archive().history(at(2)).await.unwrap();
    assert_eq!(late, history[1..]);
    let mut walked = f.archive().jobs_and_regions().await.unwrap();
    walked.sort();
    let of_job = |region: &str| (JOB.to_owned(), region.to_owned());
    assert_eq!(walked, ["DE", "GB", "US"].map(of_job));
}

pub(crate) async fn a_pass_says_why_it_got_no_further_until_it_is_complete(f: Catalog) {
    let open = f.land(&Page::of(vec![]).next("2")).await.pass;
    let pass = held(open);
    f.store
        .store_outcome(&pass, true, Some("a \0 and more"), at(5))
        .await
        .unwrap();
    let failures = f.archive().failures(at(5), 9).await.unwrap();
    assert_eq!(failures.len(), 1);
    let noted = (
        failures[0].id,
        failures[0].left_at,
        failures[0].notes.as_deref(),
    );
    assert_eq!(noted, (open, Some(at(5)), Some("a \0 and more")));
    assert_eq!(
        f.archive().pass(open).await.unwrap().as_ref(),
        Some(&failures[0])
    );
    assert!(f.archive().failures(at(6), 9).await.unwrap().is_empty());
    finish(&f, open, PassEnd::Complete).await;
    let complete = f.archive().pass(open).await.unwrap().unwrap();
    assert_eq!((complete.failed, complete.notes), (false, None));
    assert!(f.archive().failures(at(0), 9).await.unwrap().is_empty());
    assert_eq!(f.archive().pass(PassId(99)).await.unwrap(), None);
}

pub(crate) async fn of_passes_that_failed_before_any_request_the_last_is_kept(f: Catalog) {
    for minute in 1..4 {
        f.store
            .store_outcome(
                &new_pass("US", at(minute)),
                true,
                Some("no secret"),
                at(minute),
            )
            .await
            .unwrap();
    }
    f.store
        .store_outcome(&new_pass("GB", at(1)), false, Some("a limit"), at(1))
        .await
        .unwrap();
    let counted = new_pass("US", at(7));
    f.store
        .count_unproductive(&counted, 2, &daily(1), at(8))
        .await
        .unwrap();
    f.store
        .store_outcome(&counted, true, Some("it answered 500"), at(8))
        .await
        .unwrap();
    let failures = f.archive().failures(at(0), 9).await.unwrap();
    let shown: Vec<_> = failures
        .iter()
        .map(|pass| {
            (
                &*pass.region,
                pass.started_at,
                pass.requests,
                pass.notes.as_deref(),
            )
        })
        .collect();
    let expected = [
        ("US", at(7), 2, Some("it answered 500")),
        ("US", at(3), 0, Some("no secret")),
    ];
    assert_eq!(shown, expected);
    assert_eq!(f.archive().failures(at(0), 1).await.unwrap().len(), 1);
    assert_eq!(f.history().await.len(), 2);
}

pub(crate) async fn a_pass_without_a_page_that_a_limit_stopped_is_no_failure(f: Catalog) {
    let stopped = new_pass("US", at(2));
    let units = daily(1);
    let counted = f.store.count_unproductive(&stopped, 2, &units, at(3));
    counted.await.unwrap();
    let why = Some("daily is used up");
    let stored = f.store.store_outcome(&stopped, false, why, at(4));
    stored.await.unwrap();
    assert_eq!(f.archive().failures(at(0), 9).await.unwrap(), []);
    let history = f.history().await;
    let [pass] = history.as_slice() else {
        panic!("{history:?}");
    };
    let shown = (pass.word(), pass.notes.as_deref(), pass.requests);
    assert_eq!(shown, (Some("no page"), why, 2));
}

pub(crate) async fn a_step_ends_at_its_last_landed_page(f: Catalog) {
    let pass = f.land(&Page::of(vec![]).next("2")).await.pass;
    f.land(&Page::of(vec![]).in_pass(pass).next("3")).await;
    f.store
        .end_step(&mut held(pass), (0, false), &ListSoFar::default(), &[])
        .await
        .unwrap();
    let open = f.store.open_passes(JOB).await.unwrap().remove(0);
    assert_eq!((open.steps[0].pages, &open.steps[0].cursor), (2, &None));
}

pub(crate) async fn a_cut_pass_is_complete_and_no_start_for_the_next_one(f: Catalog) {
    let whole = f.land(&Page::of(vec![]).over("US", at(1))).await.pass;
    finish(&f, whole, PassEnd::Complete).await;
    let cut = f
        .land(&Page::of(vec![]).over("US", at(2)).next("2"))
        .await
        .pass;
    f.store
        .end_step(&mut held(cut), (0, true), &ListSoFar::default(), &[])
        .await
        .unwrap();
    finish(&f, cut, PassEnd::Complete).await;
    let state = region_state(&f, "US").await;
    assert_eq!(
        (state.last_complete, state.since.map(|uncut| uncut.began)),
        (Some(at(2)), Some(at(1)))
    );
}

pub(crate) async fn steps_move_and_are_dropped_with_the_job(f: Catalog) {
    let pass = f.land(&Page::of(vec![]).next("a")).await.pass;
    f.land(&Page::of(vec![]).in_pass(pass).step(1).next("b"))
        .await;
    f.land(&Page::of(vec![]).in_pass(pass).step(2).next("c"))
        .await;
    let change = Rearrangement {
        moved: vec![(0, 1), (1, 0)],
        dropped: vec![2],
    };
    f.store.rearrange(&mut held(pass), &change).await.unwrap();
    let open = f.store.open_passes(JOB).await.unwrap().remove(0);
    let mut steps: Vec<_> = open
        .steps
        .into_iter()
        .map(|at| (at.step, at.cursor))
        .collect();
    steps.sort();
    assert_eq!(steps, [(0, Some("b".into())), (1, Some("a".into()))]);
}

pub(crate) async fn what_a_pass_listed_has_a_child_of_several_parents_once(f: Catalog) {
    let videos = vec![video_of("v1", "c"), video_of("v2", "c")];
    f.land(&Page::of(videos)).await;
    let batch = f.land(&Page::channels(&["c"], &["c"])).await.pass;
    let query = pending_query("/snippet/channelId", at(0));
    f.store
        .link_parents(&mut held(batch), 1, query)
        .await
        .unwrap();
    assert_eq!(f.listed(batch).await, ["1 c"]);
}

pub(crate) async fn a_holder_writes_nothing_to_a_pass_that_another_one_took_up(f: Catalog) {
    let page = Page::of(vec![video("a", "")]).next("2");
    let mut mine = page.pass.clone();
    mine.confirm(&f.land(&page).await);
    let open = f.store.open_passes(JOB).await.unwrap().remove(0);
    let other = f.another();
    let theirs = other.store.take_up(JOB, &open).await.unwrap().unwrap();
    let before = (f.store.open_passes(JOB).await.unwrap(), f.history().await);
    let (id, now) = (mine.id.unwrap(), at(9));
    let change = Rearrangement {
        dropped: vec![0],
        ..Rearrangement::default()
    };
    let kept = KeptLists {
        new_only: vec![0],
        ..KeptLists::default()
    };
    let (store, list) = (&f.store, ListSoFar::default());
    let query = pending_query("/snippet/channelId", now);
    let refused = [
        store.restart_step(&mut mine, 0, now).await.err(),
        store.rearrange(&mut mine, &change).await.err(),
        store.link_parents(&mut mine, 0, query).await.err(),
        store.mark_gone(&mut mine, (id, &[0]), now).await.err(),
        store.end_step(&mut mine, (0, true), &list, &[]).await.err(),
        store.finish(&mut mine, PassEnd::Abandoned, now).await.err(),
        store.complete(&mut mine, &[0], now).await.err(),
        store.store_refusal(&mut mine, "request").await.err(),
        store.keep_named(&mut mine, kept).await.err(),
    ];
    for (number, error) in refused.into_iter().enumerate() {
        let error = error.unwrap_or_else(|| panic!("the write {number} took place"));
        assert!(error.to_string().contains("took over"), "{error}");
    }
    let stored = store.store_outcome(&mine, true, Some("it failed"), now);
    stored.await.unwrap();
    let after = (f.store.open_passes(JOB).await.unwrap(), f.history().await);
    assert_eq!(after, before);
    let late = Page {
        pass: mine,
        ..Page::of(vec![video("a", ""), video("b", "")])
    };
    assert!(f.land(&late).await.is_lost);
    assert_eq!(f.listed(id).await, ["0 a"]);
    assert_eq!(f.records("video").await.len(), 2);
    let [pass] = &f.history().await[..] else {
        panic!("the requests count for the pass")
    };
    assert_eq!((pass.pages, pass.requests), (1, 2));
    let next = Page {
        pass: theirs,
        ..Page::of(vec![video("c", "")])
    };
    assert!(!other.land(&next).await.is_lost);
    assert_eq!(f.listed(id).await, ["0 a", "0 c"]);
}

pub(crate) async fn a_pass_is_taken_up_only_as_it_was_read(f: Catalog) {
    let pass = f.land(&Page::of(vec![]).next("2")).await.pass;
    let read = f.store.open_passes(JOB).await.unwrap().remove(0);
    f.land(&Page::of(vec![]).in_pass(pass).next("3")).await;
    assert_eq!(f.store.take_up(JOB, &read).await.unwrap(), None);
    f.land(&Page::of(vec![]).in_pass(pass).next("4")).await;
    let read = f.store.open_passes(JOB).await.unwrap().remove(0);
    assert!(f.store.take_up(JOB, &read).await.unwrap().is_some());
    let late = Page::of(vec![]).in_pass(pass).next("5");
    assert!(f.land(&late).await.is_lost);
    assert_eq!(f.store.open_passes(JOB).await.unwrap(), [read]);
}

pub(crate) async fn a_page_that_was_requested_before_another_run_walked_the_region_begins_no_pass(
    f: Catalog,
) {
    let mine = |minute| Page {
        pass: PassRef::new(JOB, "US", None, at(minute)),
        ..Page::of(vec![video("a", "")]).now(at(3))
    };
    let late = mine(0);
    let walked = f.land(&Page::of(vec![]).over("US", at(1))).await.pass;
    assert!(f.land(&late).await.is_lost, "one is open");
    finish(&f, walked, PassEnd::Complete).await;
    assert!(f.land(&late).await.is_lost, "one is complete");
    let began_later = f.land(&Page::of(vec![]).over("DE", at(5))).await.pass;
    finish(&f, began_later, PassEnd::Complete).await;
    let waited = mine(0).over("DE", at(0));
    assert!(f.land(&waited).await.is_lost, "one began behind the page");
    let region = |region: &str| mine(0).over(region, at(0));
    assert!(!f.land(&region("GB")).await.is_lost);
    let began_with_that_one = f.land(&mine(1).over("US", at(1))).await;
    assert!(!began_with_that_one.is_lost);
    // One that a clock which ran ahead began keeps nobody from walking.
    finish(&f, began_with_that_one.pass, PassEnd::Abandoned).await;
    let ahead = f.land(&Page::of(vec![]).over("US", at(9))).await.pass;
    finish(&f, ahead, PassEnd::Complete).await;
    assert!(!f.land(&mine(2)).await.is_lost);
}

pub(crate) async fn first_pages_that_waited_for_each_other_are_of_one_pass(f: Catalog) {
    let first = Page::channels(&["c1"], &["c1"]);
    let second = Page::channels(&["c2"], &["c2", "c1"]);
    let pass = f.land(&first).await;
    let landed = f.land(&second).await;
    assert_eq!((landed.pass, landed.listed), (pass.pass, 3));
    assert_eq!(f.listed(pass.pass).await, ["1 c1", "1 c2"]);
    assert_eq!(f.history().await[0].requests, 2);
}
