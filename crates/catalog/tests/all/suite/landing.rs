use std::sync::Arc;

use ingest_base::record::Record;
use ingest_catalog::{
    AtKnown, IdSince, KeptLists, KnownList, Landed, Landing, LastingCursor, PassEnd, PassRef,
    Rearrangement, StoredRecord,
};
use ingest_quota::{Cost, Units};
use serde_json::json;

use super::super::fixture::{JOB, Page, at, daily, held, new_pass, record, records_of, video};
use super::Catalog;

pub(crate) async fn a_complete_list_of_an_id_says_where_the_next_one_continues(mut f: Catalog) {
    let ids = ["c1", "c2", "c3"].map(str::to_owned);
    let since = |id: &str, minute, greatest: Option<&str>| IdSince {
        id: id.to_owned(),
        began: at(minute),
        greatest: greatest.map(str::to_owned),
        lasting: None,
    };
    let list = |pass: PassRef, since: Option<IdSince>| {
        let page = Page {
            pass,
            ..Page::channels(&["c1"], &["x"])
        };
        let landing = Landing {
            since,
            ..page.landing()
        };
        Arc::new(landing)
    };
    let first = list(new_pass("*", at(1)), Some(since("c1", 1, Some("7"))));
    let pass = f.store.land(first).await.unwrap().pass;
    for next in [
        Some(since("c1", 2, Some("9"))),
        Some(since("c3", 2, None)),
        None,
    ] {
        f.store.land(list(held(pass), next)).await.unwrap();
    }
    f.reopen();
    let sinces = f.store.id_sinces(JOB, "channels.list", &ids).await;
    let expected = [since("c1", 2, Some("9")), since("c3", 2, None)];
    assert_eq!(sinces.unwrap(), expected);
    for (job, call) in [(JOB, "videos.list"), ("another", "channels.list")] {
        assert_eq!(f.store.id_sinces(job, call, &ids).await.unwrap(), []);
    }
}

pub(crate) async fn a_body_is_kept_as_it_came(f: Catalog) {
    let body = json!({"z": 1, "a": ["<b>html</b>", null, 1.5e300, 18_446_744_073_709_551_615_u64], "id": "a", "nul": "\0"});
    f.land(&Page::of(vec![record("a", body.clone())])).await;
    assert_eq!(f.records("video").await[0].body, body.to_string());
}

pub(crate) async fn records_of_one_id_are_apart_by_kind_and_by_upstream(f: Catalog) {
    let page = Page::of(vec![video("a", "video")]);
    f.land(&page).await;
    let hit = Page {
        kind: records_of("search_result", &[], &[]),
        ..Page::of(vec![video("a", "result")])
    };
    f.land(&hit).await;
    f.land(&Page {
        upstream: "other".into(),
        ..page.clone()
    })
    .await;
    let videos = f.records("video").await;
    let upstreams: Vec<&str> = videos.iter().map(|one| &*one.upstream).collect();
    assert_eq!(upstreams, ["youtube", "other"]);
    assert!(videos.iter().all(|one| one.body.contains("\"video\"")));
    let results = f.records("search_result").await;
    assert!(results.len() == 1 && results[0].body.contains("\"result\""));
}

pub(crate) async fn units_add_up_by_limit(f: Catalog) {
    let search = |daily| -> Cost {
        let units = [("daily", daily), ("search", 1)];
        let units = units.map(|(limit, units)| (limit.to_owned(), Units::new(units)));
        units.into_iter().collect()
    };
    let first = Page {
        units: search(100),
        ..Page::of(vec![])
    };
    let pass = f.land(&first).await.pass;
    let second = Page {
        units: daily(5),
        requests: 2,
        ..Page::of(vec![])
    };
    f.land(&second.in_pass(pass)).await;
    let counts = f.history().await.remove(0);
    assert_eq!((counts.units, counts.requests), (search(105), 3));
}

pub(crate) async fn a_page_for_a_pass_that_is_not_there_brings_its_records_and_costs(f: Catalog) {
    // After a failover its number can be another one's.
    let other = f.land(&Page::of(Vec::new()).over("GB", at(0))).await.pass;
    let page = Page {
        pass: PassRef {
            id: Some(other),
            ..PassRef::new(JOB, "US", None, at(0))
        },
        ..Page::of(vec![video("a", "words")])
    };
    let landed = f.land(&page).await;
    assert!(landed.is_lost);
    assert_eq!(f.found("words").await, ["a"]);
    let history = f.history().await;
    let [other, pass] = &history[..] else {
        panic!("{history:?}")
    };
    assert_eq!((other.outcome, other.requests), (None, 1));
    assert_eq!((pass.outcome, pass.requests), (Some(PassEnd::Failed), 1));
    assert_eq!((pass.pages, pass.records, &pass.units), (0, 0, &daily(1)));
}

pub(crate) async fn a_landing_that_is_repeated_is_stored_once(f: Catalog) {
    // The first page of a pass, and one of a pass that is open.
    let first = Page::of(vec![video("a", "words"), video("b", "")]).next("2");
    let landing = Arc::new(first.landing());
    let landed = f.store.land(Arc::clone(&landing)).await.unwrap();
    assert_eq!(f.store.land(landing).await.unwrap(), landed);
    let second = Page::of(vec![video("c", "")]).in_pass(landed.pass);
    let landing = Arc::new(second.landing());
    let landed = f.store.land(Arc::clone(&landing)).await.unwrap();
    assert_eq!(f.store.land(landing).await.unwrap(), landed);
    let history = f.history().await;
    let [pass] = &history[..] else {
        panic!("{history:?}")
    };
    assert_eq!((pass.pages, pass.records, pass.requests), (2, 3, 2));
}

pub(crate) async fn a_page_that_was_paid_for_lands_even_after_its_pass_ended(f: Catalog) {
    let landed = f.land(&Page::of(vec![])).await;
    let pass = held(landed.pass);
    f.store
        .finish(&mut pass.clone(), PassEnd::Abandoned, at(1))
        .await
        .unwrap();
    f.land(&Page::of(vec![video("a", "")]).in_pass(landed.pass))
        .await;
    let pass = f.history().await.remove(0);
    assert_eq!((pass.outcome, pass.records), (Some(PassEnd::Abandoned), 1));
}

pub(crate) async fn old_records_and_absent_ids_are_dropped_and_the_listing_stays(f: Catalog) {
    let old = [
        video("old", "ancient words"),
        video("kept", "lasting words"),
    ];
    let pass = f.land(&Page::of(old.to_vec())).await.pass;
    f.land(&Page::channels(&["gone"], &[])).await;
    f.land(&Page::of(vec![video("kept", "lasting words")]).now(at(10)))
        .await;
    f.land(&Page {
        upstream: "other".into(),
        ..Page::of(vec![video("old", "other")]).over("GB", at(0))
    })
    .await;
    assert_eq!(f.store.drop_unseen("youtube", at(10)).await.unwrap(), 1);
    let ids: Vec<String> = f
        .records("video")
        .await
        .into_iter()
        .map(|one| one.id)
        .collect();
    assert_eq!(ids, ["kept", "old"]);
    assert_eq!(f.found("ancient").await, [""; 0]);
    assert_eq!(f.found("lasting").await, ["kept"]);
    assert_eq!(f.last_fetched(&["gone"]).await, [""; 0]);
    assert_eq!(f.listed(pass).await, ["0 old", "0 kept"]);
    assert_eq!(f.store.drop_unseen("youtube", at(10)).await.unwrap(), 0);
}

pub(crate) async fn pages_landed_at_once_through_several_handles_all_land(f: Catalog) {
    let landings = (0..8).map(|handle: u64| {
        let other = f.another();
        tokio::spawn(async move {
            for page in 0..10 {
                let records = vec![
                    video("shared", "x"),
                    video(&format!("{handle}-{page}"), "y"),
                ];
                other
                    .land(&Page::of(records).over(&format!("R{handle} {page}"), at(page)))
                    .await;
            }
        })
    });
    for landing in landings.collect::<Vec<_>>() {
        landing.await.unwrap();
    }
    assert_eq!(f.records("video").await.len(), 81);
    let history = f.history().await;
    assert_eq!(history.len(), 80);
    assert_eq!(history.iter().map(|pass| pass.records).sum::<u64>(), 160);
}

pub(crate) async fn an_export_is_in_the_order_of_first_sight_and_can_be_held_to_region_and_time(
    f: Catalog,
) {
    let many = (0..600).map(|n| video(&format!("v{n}"), "t")).collect();
    f.land(&Page::of(many).over("US", at(0))).await;
    f.land(
        &Page::of(vec![video("v7", "t"), video("new", "t")])
            .over("GB", at(1))
            .now(at(9)),
    )
    .await;
    let ids: Vec<String> = f
        .records("video")
        .await
        .into_iter()
        .map(|one| one.id)
        .collect();
    let expected = (0..600).map(|n| format!("v{n}")).chain(["new".to_owned()]);
    assert_eq!(ids, expected.collect::<Vec<_>>());
    let mut query = Catalog::records_query("video");
    query.region = Some("GB".into());
    assert_eq!(f.exported(query.clone()).await, ["v7", "new"]);
    query.region = Some("US".into());
    query.since = Some(at(9));
    assert_eq!(f.exported(query).await, ["v7"]);
}

pub(crate) async fn records_are_read_page_by_page_and_by_name(f: Catalog) {
    let many = (0..7).map(|n| video(&format!("v{n}"), "t")).collect();
    f.land(&Page::of(many)).await;
    let (mut after, mut sizes, mut ids) = (None, Vec::new(), Vec::new());
    loop {
        let query = Catalog::records_query("video");
        let page = f.archive().records_page(query, after, 3).await.unwrap();
        sizes.push(page.records.len());
        ids.extend(page.records.iter().map(|one| one.id.clone()));
        after = page.records.last().map(|last| last.position);
        if !page.more {
            break;
        }
    }
    assert_eq!(sizes, [3, 3, 1]);
    assert_eq!(ids, (0..7).map(|n| format!("v{n}")).collect::<Vec<_>>());
    f.land(&Page::of(vec![video("later", "t")]).now(at(1)))
        .await;
    let query = Catalog::records_query("video");
    let page = f.archive().records_page(query, after, 3).await.unwrap();
    assert_eq!(page.records[0].id, "later");
    let record = f.archive().record("youtube", "video", "v3").await.unwrap();
    assert_eq!(record.map(|one| one.id).as_deref(), Some("v3"));
    for (upstream, kind, id) in [("other", "video", "v3"), ("youtube", "channel", "v3")] {
        let record = f.archive().record(upstream, kind, id).await.unwrap();
        assert_eq!(record, None);
    }
}

pub(crate) async fn a_page_of_very_long_bodies_ends_early(f: Catalog) {
    let long = "x".repeat(3 * 1024 * 1024);
    let many = (0..3).map(|n| video(&format!("v{n}"), &long)).collect();
    f.land(&Page::of(many)).await;
    let query = Catalog::records_query("video");
    let page = f.archive().records_page(query, None, 100).await.unwrap();
    assert!(page.more && !page.records.is_empty());
    let rest = page.records.last().map(|last| last.position);
    let query = Catalog::records_query("video");
    let next = f.archive().records_page(query, rest, 100).await.unwrap();
    assert_eq!(page.records.len() + next.records.len(), 3);
}

pub(crate) async fn a_pass_begins_with_the_cursor_of_the_last_complete_one(mut f: Catalog) {
    let list = |pass: PassRef, lasting: Option<&str>, removed: &[&str]| Landing {
        lasting: lasting.map(str::to_owned),
        removed: removed.iter().map(|id| (*id).to_owned()).collect(),
        ..Page {
            pass,
            ..Page::of(vec![video("a", "A"), video("b", "B")])
        }
        .landing()
    };
    let cursor = |cursor: &str| LastingCursor {
        request: "request".to_owned(),
        cursor: cursor.to_owned(),
    };
    let first = list(new_pass("US", at(0)), Some("delta 1"), &[]);
    let first = f.store.land(Arc::new(first)).await.unwrap().pass;
    f.reopen();
    let of = async |f: &Catalog, pass| {
        let known = f.store.lasting_cursors(&[pass]).await.unwrap();
        known.get(&pass).cloned().unwrap_or_default()
    };
    assert_eq!(of(&f, first).await, [cursor("delta 1")]);
    f.store
        .complete(&mut held(first), &[], at(1))
        .await
        .unwrap();
    let second = Landing {
        records: Vec::new(),
        now: at(5),
        ..list(new_pass("US", at(4)), Some("delta 2"), &["b", "unknown"])
    };
    let second = f.store.land(Arc::new(second)).await.unwrap().pass;
    let gone = |records: Vec<StoredRecord>| {
        let gone = records.into_iter().filter(|one| one.gone_at.is_some());
        gone.map(|one| one.id).collect::<Vec<_>>()
    };
    assert_eq!(gone(f.records("video").await), ["b"]);
    f.store.forget_lasting(JOB, "US", "another").await.unwrap();
    f.store.forget_lasting(JOB, "GB", "request").await.unwrap();
    assert_eq!(of(&f, second).await, [cursor("delta 2")]);
    f.store.forget_lasting(JOB, "US", "request").await.unwrap();
    assert_eq!(of(&f, second).await, []);
    // Another list that no longer has a record does not speak for the one that names changes, unless that said that it was removed.
    let other = |minute| Landing {
        step: 1,
        request: "other".to_owned(),
        now: at(minute),
        ..list(new_pass("GB", at(minute)), None, &[])
    };
    let one = f.store.land(Arc::new(other(6))).await.unwrap().pass;
    f.store.complete(&mut held(one), &[1], at(7)).await.unwrap();
    let empty = Landing {
        records: Vec::new(),
        ..other(8)
    };
    let empty = f.store.land(Arc::new(empty)).await.unwrap().pass;
    assert_eq!(
        f.store
            .complete(&mut held(empty), &[1], at(9))
            .await
            .unwrap(),
        1
    );
    assert_eq!(gone(f.records("video").await), ["b"]);
}

pub(crate) async fn the_list_of_an_id_begins_with_the_cursor_of_its_last_one(f: Catalog) {
    let lasting = LastingCursor {
        request: "request".to_owned(),
        cursor: "delta".to_owned(),
    };
    let since = IdSince {
        id: "c1".to_owned(),
        began: at(1),
        greatest: None,
        lasting: Some(lasting),
    };
    let landing = Landing {
        since: Some(since.clone()),
        ..Page::channels(&["c1"], &["x"]).landing()
    };
    f.store.land(Arc::new(landing)).await.unwrap();
    let ids = ["c1".to_owned()];
    let read = async |f: &Catalog| f.store.id_sinces(JOB, "channels.list", &ids).await.unwrap();
    assert_eq!(read(&f).await, std::slice::from_ref(&since));
    f.store
        .forget_lasting_of_id(JOB, "channels.list", "c1")
        .await
        .unwrap();
    let forgotten = IdSince {
        lasting: None,
        ..since
    };
    assert_eq!(read(&f).await, [forgotten]);
}

pub(crate) async fn a_cursor_at_the_end_of_a_list_moves_and_is_dropped_with_its_step(f: Catalog) {
    let list = |minute, step, records: Vec<Record>| {
        let landing = Landing {
            lasting: Some(format!("delta {minute}")),
            now: at(minute),
            step,
            ..Page {
                pass: new_pass("US", at(minute)),
                ..Page::of(records)
            }
            .landing()
        };
        Arc::new(landing)
    };
    let first = list(1, 0, vec![video("a", "A"), video("b", "B")]);
    let first = f.store.land(first).await.unwrap().pass;
    let change = Rearrangement {
        moved: vec![(0, 1)],
        dropped: vec![],
    };
    f.store.rearrange(&mut held(first), &change).await.unwrap();
    f.store
        .complete(&mut held(first), &[1], at(2))
        .await
        .unwrap();
    // It names what changed: nothing. The list still has what the first pass named.
    let second = f.store.land(list(3, 1, vec![])).await.unwrap().pass;
    assert_eq!(
        f.store
            .complete(&mut held(second), &[1], at(4))
            .await
            .unwrap(),
        0
    );

    let third = f.store.land(list(5, 0, vec![])).await.unwrap().pass;
    let change = Rearrangement {
        moved: vec![],
        dropped: vec![0],
    };
    f.store.rearrange(&mut held(third), &change).await.unwrap();
    let known = f.store.lasting_cursors(&[third]).await.unwrap();
    assert!(known.values().all(Vec::is_empty), "{known:?}");
}

/// A page of a list that can end at what is known, of a pass that begins then.
fn feed_page(region: &str, minute: u64, records: &[(&str, &str)]) -> Landing {
    let records = records.iter().map(|(id, title)| video(id, title));
    Landing {
        at_known: AtKnown::Stop,
        ..Page {
            pass: new_pass(region, at(minute)),
            ..Page::of(records.collect()).next("2").now(at(minute))
        }
        .landing()
    }
}

impl Catalog {
    async fn land_feed(&self, landing: Landing) -> Landed {
        self.store.land(Arc::new(landing)).await.unwrap()
    }

    async fn known_list(&self, region: &str) -> Option<KnownList> {
        let lists = [(region.to_owned(), "request".to_owned())];
        let lists = self.store.known_lists(JOB, &lists, at(999)).await.unwrap();
        lists[0]
    }
}

pub(crate) async fn a_list_ends_at_a_page_that_the_passes_which_tell_about_it_returned_last(
    mut f: Catalog,
) {
    let (first, second) = ([("b", "B"), ("a", "A")], [("c", "C"), ("b", "B")]);
    let end = async |f: &Catalog, landed: Landed, end: PassEnd| {
        let pass = held(landed.pass);
        f.store
            .finish(&mut pass.clone(), end, at(500))
            .await
            .unwrap()
    };
    // Of a pass that is given up behind its first page.
    let is_known = async |f: &Catalog, landing: Landing| {
        let landed = f.land_feed(landing).await;
        end(f, landed, PassEnd::Abandoned).await;
        landed.is_known
    };
    assert!(
        !is_known(&f, feed_page("US", 0, &first)).await,
        "no pass tells about the list"
    );
    let whole = f.land_feed(feed_page("US", 1, &first)).await;
    assert!(!whole.is_known, "an abandoned pass tells nothing");
    assert_eq!(f.known_list("US").await, None);
    let again = Landing {
        pass: held(whole.pass),
        ..feed_page("US", 2, &first)
    };
    let again = f.land_feed(again).await;
    assert!(!again.is_known, "an unfinished pass tells nothing");
    let last = Landing {
        pass: held(whole.pass),
        next: None,
        ..feed_page("US", 1, &[])
    };
    f.land_feed(last).await;
    end(&f, whole, PassEnd::Complete).await;
    let known = f.known_list("US").await.unwrap();
    let expected = (whole.pass, at(1), 3, true);
    assert_eq!(
        (known.pass, known.began, known.pages, known.is_whole),
        expected
    );
    f.reopen();

    let other = f.land_feed(feed_page("GB", 3, &first)).await;
    assert!(!other.is_known, "a list of another region");
    let another = Landing {
        request: "another".to_owned(),
        ..feed_page("US", 3, &first)
    };
    assert!(!is_known(&f, another).await, "another list");
    let read_on = Landing {
        at_known: AtKnown::ReadOn,
        ..feed_page("US", 3, &first)
    };
    assert!(!is_known(&f, read_on).await);
    let last = Landing {
        next: None,
        ..feed_page("US", 3, &first)
    };
    assert!(!is_known(&f, last).await, "the end of the list");
    assert!(
        !is_known(&f, feed_page("US", 3, &[])).await,
        "an empty page"
    );

    assert!(!is_known(&f, feed_page("US", 4, &second)).await, "c is new");
    let known = f.land_feed(feed_page("US", 5, &first)).await;
    assert!(known.is_known && !known.cursor_repeats);
    let open = f.store.open_passes(JOB).await.unwrap();
    let open = open.iter().find(|open| open.id == known.pass).unwrap();
    assert_eq!(open.steps[0].cursor, None, "the step is done");
    assert!(open.steps[0].list.is_known && open.steps[0].list.is_partial);
    end(&f, known, PassEnd::Complete).await;
    let last = f.known_list("US").await.unwrap();
    assert_eq!(
        last.pass, whole.pass,
        "a pass that stopped did not read everything"
    );

    // What a doubtful pass and a cut one returned last is not known, nor is a body of before.
    for (minute, outcome) in [(6, PassEnd::Doubtful), (8, PassEnd::Complete)] {
        let landing = Landing {
            cut: outcome == PassEnd::Complete,
            ..feed_page("US", minute, &second)
        };
        let landed = f.land_feed(landing).await;
        end(&f, landed, outcome).await;
        assert!(
            !is_known(&f, feed_page("US", minute + 1, &second)).await,
            "{outcome:?}"
        );
    }
    let changed = f
        .land_feed(feed_page("US", 10, &[("b", "B2"), ("a", "A")]))
        .await;
    assert!(!changed.is_known);
    end(&f, changed, PassEnd::Complete).await;
    assert!(
        !is_known(&f, feed_page("US", 11, &first)).await,
        "B was before B2"
    );
    let now = feed_page("US", 11, &[("b", "B2"), ("a", "A")]);
    assert!(is_known(&f, now).await);
}

pub(crate) async fn what_a_list_lacks_that_was_read_to_its_end_is_gone_when_the_next_pass_did_not_meet_it(
    f: Catalog,
) {
    let read = async |f: &Catalog, minute, records: &[(&str, &str)]| {
        let landing = Landing {
            next: None,
            at_known: AtKnown::ReadOn,
            ..feed_page("US", minute, records)
        };
        let pass = f.land_feed(landing).await.pass;
        f.store
            .complete(&mut held(pass), &[], at(minute))
            .await
            .unwrap();
        pass
    };
    read(&f, 1, &[("c", "C"), ("b", "B"), ("a", "A")]).await;
    // A pass that stopped found one more, which counts as in the list.
    let stopped = f.land_feed(feed_page("US", 2, &[("d", "D")])).await.pass;
    f.store
        .complete(&mut held(stopped), &[], at(2))
        .await
        .unwrap();
    let walk = read(&f, 3, &[("c", "C")]).await;
    let front = f.land_feed(feed_page("US", 4, &[("b", "B2")])).await.pass;
    assert_eq!(
        f.store
            .mark_gone(&mut held(walk), (walk, &[0]), at(5))
            .await
            .unwrap(),
        2
    );
    f.store
        .complete(&mut held(front), &[], at(5))
        .await
        .unwrap();
    let gone = f.records("video").await.into_iter();
    let gone = gone.filter(|one| one.gone_at.is_some());
    let mut gone: Vec<String> = gone.map(|one| one.id).collect();
    gone.sort();
    assert_eq!(gone, ["a", "d"], "b moved to the front meanwhile");
    assert_eq!(
        f.store
            .mark_gone(&mut held(walk), (walk, &[0]), at(6))
            .await
            .unwrap(),
        0
    );
}

pub(crate) async fn a_record_is_not_gone_while_another_list_has_it_whatever_that_list_reads(
    f: Catalog,
) {
    let list = |region: &str, minute, step, ids: &[&str], removed: &[&str]| {
        let records = ids.iter().map(|id| video(id, "body")).collect();
        Arc::new(Landing {
            removed: removed.iter().map(|id| (*id).to_owned()).collect(),
            now: at(minute),
            step,
            request: format!("list {step}"),
            ..Page {
                pass: new_pass(region, at(minute)),
                ..Page::of(records)
            }
            .landing()
        })
    };
    let land = async |landing| f.store.land(landing).await.unwrap().pass;
    let gone = async || {
        let gone = f.records("video").await.into_iter();
        let gone = gone.filter(|one| one.gone_at.is_some()).map(|one| one.id);
        let mut gone = gone.collect::<Vec<_>>();
        gone.sort();
        gone
    };
    // A list of what is new named `new` once.
    let lists = KeptLists {
        new_only: vec![1],
        ..KeptLists::default()
    };
    for (minute, ids) in [(0, ["new"].as_slice()), (1, &[])] {
        let pass = land(list("US", minute, 1, ids, &[])).await;
        f.store
            .keep_named(&mut held(pass), lists.clone())
            .await
            .unwrap();
        f.store
            .complete(&mut held(pass), &[], at(minute))
            .await
            .unwrap();
    }
    // Another job requested `asked` by its id.
    let mut asked = list("US", 2, 2, &["asked"], &[]);
    let landing = Arc::get_mut(&mut asked).unwrap();
    landing.requested = vec!["asked".to_owned()];
    "discover".clone_into(&mut landing.pass.job);
    let asked = land(asked).await;
    f.store
        .complete(&mut held(asked), &[], at(2))
        .await
        .unwrap();
    for (minute, ids) in [(3, ["new", "asked", "old"].as_slice()), (4, &[])] {
        let pass = land(list("GB", minute, 0, ids, &[])).await;
        f.store
            .complete(&mut held(pass), &[0], at(minute))
            .await
            .unwrap();
    }
    assert_eq!(gone().await, ["old"]);
    // A record moves from one list to another, in whichever order they are read, and then out of both.
    let moves = async |region, minute, ids: &[&str], removed: &[&str]| {
        let pass = land(list(region, minute, 3, ids, removed)).await;
        f.store
            .complete(&mut held(pass), &[], at(minute))
            .await
            .unwrap();
    };
    moves("IN", 5, &["moved"], &[]).await;
    moves("BR", 6, &["moved"], &[]).await;
    moves("IN", 7, &[], &["moved"]).await;
    assert_eq!(gone().await, ["old"]);
    moves("IN", 8, &["moved"], &[]).await;
    moves("BR", 9, &[], &["moved"]).await;
    assert_eq!(gone().await, ["old"]);
    moves("IN", 10, &[], &["moved"]).await;
    assert_eq!(gone().await, ["moved", "old"]);
}

pub(crate) async fn what_a_pass_saw_that_did_not_complete_is_gone_once_a_whole_list_lacks_it(
    f: Catalog,
) {
    let list = |minute, ids: &[&str]| {
        let records = ids.iter().map(|id| video(id, "body")).collect();
        Page::of(records).over("US", at(minute)).now(at(minute))
    };
    let gone = async || {
        let records = f.records("video").await.into_iter();
        let gone = records.filter(|one| one.gone_at.is_some());
        gone.map(|one| one.id).collect::<Vec<_>>()
    };
    for (minute, end) in [(0, PassEnd::Abandoned), (1, PassEnd::Doubtful)] {
        let name = format!("seen {minute}");
        let pass = f.land(&list(minute, &["kept", &name])).await.pass;
        let pass = held(pass);
        f.store
            .finish(&mut pass.clone(), end, at(minute))
            .await
            .unwrap();
    }
    // A list that starts over saw `left` before that.
    let pass = f.land(&list(2, &["kept", "left"])).await.pass;
    f.store
        .complete(&mut held(pass), &[0], at(2))
        .await
        .unwrap();
    assert_eq!(gone().await, ["seen 0", "seen 1"]);
    let pass = f.land(&list(3, &["kept", "left"]).next("2")).await.pass;
    assert!(
        f.store
            .restart_step(&mut held(pass), 0, at(4))
            .await
            .unwrap()
    );
    f.land(&list(5, &["kept"]).in_pass(pass)).await;
    f.store
        .complete(&mut held(pass), &[0], at(5))
        .await
        .unwrap();
    assert_eq!(gone().await, ["seen 0", "seen 1", "left"]);
}
