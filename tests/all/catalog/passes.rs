use ingest::catalog::{
    OpenPass, PassEnd, PassId, PassReader, PassRef, PassStore, RegionState, StepPosition,
};

use super::fixture::{Fixture, JOB, Page, at, new_pass, video};

async fn region_state(f: &Fixture, region: &str) -> RegionState {
    f.catalog
        .region_states(JOB, &[region.to_owned()], at(59))
        .await
        .unwrap()
        .remove(0)
}

async fn finish(f: &Fixture, pass: PassId, end: PassEnd) {
    f.catalog
        .finish(&PassRef::Open(pass), end, at(59))
        .await
        .unwrap();
}

#[tokio::test]
async fn nothing_is_known_of_a_region_that_was_never_walked() {
    let f = Fixture::new();
    let regions = ["US".to_owned(), "GB".to_owned()];
    let states = f
        .catalog
        .region_states(JOB, &regions, at(59))
        .await
        .unwrap();
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

#[tokio::test]
async fn an_unfinished_pass_stands_where_it_stopped() {
    let mut f = Fixture::new();
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
        },
        StepPosition {
            step: 2,
            pages: 1,
            cursor: None,
            request: Some("request".into()),
            empty_pages: 0,
        },
    ];
    let open = OpenPass {
        id: pass,
        region: "US".into(),
        started_at: at(0),
        steps,
        batches: Vec::new(),
    };
    assert_eq!(
        f.catalog.open_passes(JOB).await.unwrap(),
        std::slice::from_ref(&open)
    );
    assert_eq!(region_state(&f, "US").await.unfinished, Some(open));
    assert_eq!(region_state(&f, "GB").await.unfinished, None);
    assert_eq!(f.catalog.open_passes("another").await.unwrap(), []);
}

#[tokio::test]
async fn open_passes_come_oldest_first_with_the_shared_one_among_them() {
    let f = Fixture::new();
    for (region, minute) in [("US", 3), ("*", 1), ("GB", 2)] {
        f.land(&Page::of(vec![]).over(region, at(minute))).await;
    }
    let open = f.catalog.open_passes(JOB).await.unwrap();
    assert_eq!(
        open.iter()
            .map(|pass| pass.region.as_str())
            .collect::<Vec<_>>(),
        ["*", "GB", "US"]
    );
}

#[tokio::test]
async fn a_complete_pass_is_dated_by_its_start_and_tells_its_pages() {
    let f = Fixture::new();
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
    assert_eq!(
        f.rows("select outcome, finished_at from pass"),
        ["complete 2026-03-01T12:59:00.000000Z"]
    );
}

#[tokio::test]
async fn the_last_complete_pass_is_the_one_that_began_last() {
    let f = Fixture::new();
    for minute in [1, 9, 4] {
        let pass = f.land(&Page::of(vec![]).over("US", at(minute))).await.pass;
        finish(&f, pass, PassEnd::Complete).await;
    }
    assert_eq!(region_state(&f, "US").await.last_complete, Some(at(9)));
}

#[tokio::test]
async fn a_refusal_counts_until_a_later_pass_is_complete() {
    let f = Fixture::new();
    f.catalog
        .finish(&new_pass("US", at(5)), PassEnd::Refused, at(6))
        .await
        .unwrap();
    assert_eq!(region_state(&f, "US").await.last_refused, Some(at(5)));
    let pass = f.land(&Page::of(vec![]).over("US", at(7))).await.pass;
    finish(&f, pass, PassEnd::Complete).await;
    assert_eq!(region_state(&f, "US").await.last_refused, None);
    f.catalog
        .finish(&new_pass("US", at(8)), PassEnd::Refused, at(9))
        .await
        .unwrap();
    let state = region_state(&f, "US").await;
    assert_eq!(
        (state.last_complete, state.last_refused),
        (Some(at(7)), Some(at(8)))
    );
}

#[tokio::test]
async fn an_abandoned_pass_is_over_and_what_it_landed_stays() {
    let f = Fixture::new();
    let pass = f.land(&Page::of(vec![video("a", "")]).next("2")).await.pass;
    finish(&f, pass, PassEnd::Abandoned).await;
    let given_up = RegionState {
        region: "US".into(),
        last_abandoned: Some(at(59)),
        ..RegionState::default()
    };
    assert_eq!(region_state(&f, "US").await, given_up);
    assert_eq!((f.count("record"), f.count("listing")), (1, 1));
}

#[tokio::test]
async fn a_pass_ends_once() {
    let f = Fixture::new();
    let pass = f.land(&Page::of(vec![])).await.pass;
    finish(&f, pass, PassEnd::Complete).await;
    finish(&f, pass, PassEnd::Abandoned).await;
    assert_eq!(f.rows("select outcome from pass"), ["complete"]);
    let error = f
        .catalog
        .finish(&PassRef::Open(PassId(7)), PassEnd::Complete, at(0))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("no pass 7"), "{error}");
}

#[tokio::test]
async fn a_step_starts_over_once_with_its_listing_anew() {
    let mut f = Fixture::new();
    let pass = f
        .land(&Page::of(vec![video("a", ""), video("b", "")]).next("2"))
        .await
        .pass;
    f.land(&Page::of(vec![video("c", "")]).in_pass(pass).step(1))
        .await;
    assert!(f.catalog.restart_step(pass, 0).await.unwrap());
    assert_eq!(f.rows("select step, id from listing"), ["1 c"]);
    assert_eq!(
        f.rows("select pages, records, requests, units from pass"),
        [r#"1 1 2 {"daily":2}"#]
    );
    assert_eq!(f.catalog.open_passes(JOB).await.unwrap()[0].steps.len(), 1);
    let again = f
        .land(&Page::of(vec![video("b", "")]).in_pass(pass).next("2"))
        .await;
    assert!(!again.cursor_repeats, "the walk is a new one");
    f.reopen();
    assert!(!f.catalog.restart_step(pass, 0).await.unwrap());
    assert_eq!(
        f.rows("select position, id from listing where step = 0"),
        ["1 b"]
    );
    assert!(
        f.catalog.restart_step(pass, 1).await.unwrap(),
        "another step"
    );
}

#[tokio::test]
async fn a_step_of_no_pass_is_not_started_over() {
    let f = Fixture::new();
    let error = f.catalog.restart_step(PassId(7), 0).await.unwrap_err();
    assert!(error.to_string().contains("no pass 7"), "{error}");
}

/// Asks for the state of one region after the other, as a run does.
async fn time_to_ask(f: &Fixture, regions: usize) -> std::time::Duration {
    let began = std::time::Instant::now();
    for region in 0..regions {
        assert!(
            region_state(f, &format!("R{region}"))
                .await
                .unfinished
                .is_some()
        );
    }
    began.elapsed()
}

#[tokio::test]
async fn the_state_of_a_region_costs_the_same_however_many_regions_have_open_passes() {
    let (few, many) = (Fixture::new(), Fixture::new());
    for (f, regions) in [(&few, 20), (&many, 1_000)] {
        for region in 0..regions {
            let page = Page::of(vec![video("a", "fox")]).over(&format!("R{region}"), at(0));
            f.land(&page).await;
        }
    }
    let (alone, among_many) = (time_to_ask(&few, 20).await, time_to_ask(&many, 20).await);
    assert!(
        among_many < alone * 10,
        "{alone:?} for 20 regions of 20, {among_many:?} for 20 of 1,000"
    );
}
