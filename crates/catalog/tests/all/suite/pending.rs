use ingest_catalog::{PassEnd, PassRef};
use ingest_quota::Timestamp;
use serde_json::json;

use super::super::fixture::{Page, at, held, record, video_of};
use super::Catalog;

const CHANNEL: &str = "/snippet/channelId";

async fn ids(f: &Catalog, at: &str, fresh_since: Timestamp) -> Vec<String> {
    f.pending(at, fresh_since)
        .await
        .into_iter()
        .map(|(id, _)| id)
        .collect()
}

pub(crate) async fn a_record_that_its_list_lost_is_asked_for_again_however_fresh_unless_it_is_absent(
    f: Catalog,
) {
    let list = |minute, came: &[&str]| Page {
        call: "channels.all".into(),
        requested: Vec::new(),
        step: 0,
        ..Page::channels(&[], came)
            .over("GB", at(minute))
            .now(at(minute))
    };
    for (minute, came) in [(1, ["c1", "c2"].as_slice()), (2, &["c2"])] {
        let pass = f.land(&list(minute, came)).await.pass;
        f.store
            .complete(&mut held(pass), &[0], at(minute))
            .await
            .unwrap();
    }
    f.land(&Page::of(vec![video_of("v1", "c1"), video_of("v2", "c2")]).over("US", at(3)))
        .await;
    assert_eq!(f.last_fetched(&["c1", "c2"]).await, ["c2 2"]);
    assert_eq!(ids(&f, CHANNEL, at(0)).await, ["c1"]);
    f.land(&Page::channels(&["c1"], &[]).now(at(4))).await;
    assert_eq!(ids(&f, CHANNEL, at(0)).await, [""; 0]);
    f.land(&Page::channels(&["c1"], &["c1"]).now(at(5))).await;
    assert_eq!(f.last_fetched(&["c1"]).await, ["c1 5"]);
    // It is absent no more: a list that loses it again has it asked for again.
    for (minute, came) in [(6, ["c1", "c2"].as_slice()), (7, &["c2"])] {
        let pass = f.land(&list(minute, came)).await.pass;
        f.store
            .complete(&mut held(pass), &[0], at(minute))
            .await
            .unwrap();
    }
    assert_eq!(ids(&f, CHANNEL, at(0)).await, ["c1"]);
}

pub(crate) async fn only_open_passes_of_the_job_and_listings_of_the_call_and_kind_are_asked(
    f: Catalog,
) {
    let page = Page::of(vec![video_of("v", "c")]);
    let ended = f.land(&page).await.pass;
    f.store
        .finish(&mut held(ended), PassEnd::Complete, at(1))
        .await
        .unwrap();
    f.land(&Page {
        call: "search.list".into(),
        ..page.clone()
    })
    .await;
    f.land(&Page {
        upstream: "other".into(),
        ..page.clone()
    })
    .await;
    let other_job = PassRef::new("another", "US", None, at(0));
    f.land(&Page {
        pass: other_job,
        ..page.clone()
    })
    .await;
    assert_eq!(ids(&f, CHANNEL, at(0)).await, [""; 0]);
    f.land(&page.over("GB", at(0))).await;
    assert_eq!(ids(&f, CHANNEL, at(0)).await, ["c"]);
}

pub(crate) async fn a_pointer_may_name_several_ids_numbers_and_places_in_arrays(f: Catalog) {
    let body = json!({"a/b": [{"id": "x"}, {"id": 7}, {"id": null}, {"id": ""}, "odd"], "list": ["p", "q"], "n": {"0": "zero"}});
    f.land(&Page::of(vec![record("v", body)])).await;
    assert_eq!(ids(&f, "/a~1b/*/id", at(0)).await, ["7", "x"]);
    assert_eq!(ids(&f, "/list/1", at(0)).await, ["q"]);
    assert_eq!(ids(&f, "/n/0", at(0)).await, ["zero"]);
    assert_eq!(ids(&f, "/list", at(0)).await, [""; 0]);
    assert_eq!(ids(&f, "/nowhere/*", at(0)).await, [""; 0]);
}

pub(crate) async fn members_of_any_name_are_found(f: Catalog) {
    for name in [
        "a\"b", "a'b", "a.b", "a\\b", "$", "[0]", "#", "größe", "", "a b", "*x", "\u{1}",
    ] {
        f.land(&Page::of(vec![record("v", json!({ name: {"id": name} }))]))
            .await;
        let at_name = format!("/{}/id", name.replace('~', "~0").replace('/', "~1"));
        let expected: Vec<&str> = Some(name)
            .filter(|name| !name.is_empty())
            .into_iter()
            .collect();
        let mut found = ids(&f, &at_name, at(0)).await;
        found.dedup();
        assert_eq!(found, expected, "{name:?}");
    }
}

pub(crate) async fn a_record_names_what_it_named_in_each_pass_that_listed_it(f: Catalog) {
    let us = f.land(&Page::of(vec![video_of("v", "c1")])).await.pass;
    let other = Page::of(vec![video_of("v", "c2"), record("w", json!({}))]);
    let gb = f
        .land(&other.clone().over("GB", at(1)).next("2"))
        .await
        .pass;
    f.land(&other.in_pass(gb).now(at(1))).await;
    let named = [("c1".to_owned(), us), ("c2".to_owned(), gb)];
    assert_eq!(f.pending(CHANNEL, at(0)).await, named);
    // Of another place the bodies tell, and a dropped record has none.
    assert_eq!(ids(&f, "/id", at(0)).await, ["v", "v"]);
    f.store.drop_unseen("youtube", at(2)).await.unwrap();
    assert_eq!(f.pending(CHANNEL, at(0)).await, named);
    assert_eq!(ids(&f, "/id", at(0)).await, [""; 0]);
    // A step that starts over names what it lists then.
    assert!(f.store.restart_step(&mut held(us), 0, at(1)).await.unwrap());
    f.land(&Page::of(vec![video_of("v", "c3")]).in_pass(us))
        .await;
    let named = [("c3".to_owned(), us), ("c2".to_owned(), gb)];
    assert_eq!(f.pending(CHANNEL, at(0)).await, named);
}
