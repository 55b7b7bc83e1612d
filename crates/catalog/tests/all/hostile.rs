use std::iter;

use ingest_catalog::{PassRef, SearchQuery};
use ingest_quota::Timestamp;
use serde_json::{Value, json};

use super::fixture::{Fixture, Page, at, new_pass, record, records_of};

const ODD: &[&str] = &[
    "",
    "\0",
    "a\0b",
    "'; drop table record; --",
    "\u{1b}]0;pwned\u{7}",
    "../../x",
    "\u{202E}rtl",
    "💥",
    "\u{FFFF}",
    "%s%n",
    "\r\n",
    "*",
];

#[tokio::test]
async fn ids_cursors_regions_and_calls_of_any_text_are_kept_as_they_are() {
    let mut f = Fixture::new();
    for odd in ODD {
        let mut page = Page::of(vec![record(
            odd,
            json!({"snippet": {"title": odd, "channelId": odd}}),
        )])
        .next(odd);
        page.pass = PassRef {
            job: (*odd).into(),
            ..new_pass(odd, at(0))
        };
        page.call = (*odd).into();
        page.requested = vec![(*odd).into(), format!("{odd}!")];
        let pass = f.land(&page).await.pass;
        assert!(
            f.land(&page.clone().in_pass(pass)).await.cursor_repeats,
            "{odd:?}"
        );
    }
    f.reopen();
    for odd in ODD {
        let state = f
            .catalog
            .region_states(odd, &[(*odd).to_owned()], at(59))
            .await
            .unwrap()
            .remove(0);
        let open = state.unfinished.unwrap();
        assert_eq!((open.region.as_str(), open.steps[0].pages), (*odd, 2));
    }
    let mut kept = f.rows("select id from record");
    let mut expected: Vec<String> = ODD.iter().map(|odd| (*odd).to_owned()).collect();
    kept.sort();
    expected.sort();
    assert_eq!(kept, expected);
    assert_eq!(f.count("listing"), ODD.len());
    assert_eq!(f.count("absent"), ODD.len());
}

#[tokio::test]
async fn bodies_of_any_shape_are_landed_listed_and_found() {
    let f = Fixture::new();
    let deep = iter::repeat_n((), 500).fold(json!("bottom"), |inner, ()| json!([inner]));
    let bodies: Vec<Value> = vec![
        Value::Null,
        json!(1e308),
        json!(i64::MIN),
        json!("text"),
        json!([]),
        json!({}),
        deep,
        json!({"snippet": {"title": {"not": "text"}, "tags": "not a list"}}),
        json!({"snippet": {"title": "nul \0 findme"}}),
    ];
    let records: Vec<_> = bodies
        .iter()
        .enumerate()
        .map(|(n, body)| record(&n.to_string(), body.clone()))
        .collect();
    let page = Page {
        kind: records_of(
            "video",
            &["", "/snippet/title", "/snippet/tags/*"],
            &[("t", "/snippet/title")],
        ),
        ..Page::of(records)
    };
    f.land(&page).await;
    assert_eq!(f.count("youtube_video"), bodies.len());
    assert_eq!(f.pending("/snippet/title", at(0)).await.len(), 1);
    let query = SearchQuery {
        words: "findme".into(),
        kind: None,
        region: None,
        since: None,
        limit: 9,
    };
    let hits = f.catalog.search(query).await.unwrap().hits;
    assert_eq!(hits[0].body, bodies[8]);
}

#[tokio::test]
async fn times_beyond_the_calendar_sort_before_and_after_all_others() {
    let f = Fixture::new();
    let (first, last) = (
        Timestamp::from_micros(i64::MIN),
        Timestamp::from_micros(i64::MAX),
    );
    f.land(
        &Page::of(vec![record("a", json!({"snippet": {"channelId": "c"}}))])
            .over("US", first)
            .now(last),
    )
    .await;
    f.land(
        &Page::of(vec![record("b", json!({}))])
            .over("GB", last)
            .now(first),
    )
    .await;
    assert_eq!(f.catalog.open_passes("trending").await.unwrap().len(), 2);
    assert_eq!(
        f.rows("select id from record order by last_seen"),
        ["b", "a"]
    );
    assert_eq!(f.catalog.drop_unseen("youtube", at(0)).await.unwrap(), 1);
    assert_eq!(f.catalog.drop_unseen("youtube", first).await.unwrap(), 0);
    assert_eq!(f.pending("/snippet/channelId", last).await.len(), 1);
}

#[tokio::test]
async fn counts_beyond_what_a_column_holds_saturate() {
    let f = Fixture::new();
    let page = Page {
        requests: u64::MAX,
        units: super::fixture::daily(u64::MAX),
        ..Page::of(vec![])
    };
    let pass = f.land(&page).await.pass;
    f.land(&page.in_pass(pass)).await;
    assert_eq!(
        f.rows("select units from pass"),
        [r#"{"daily":18446744073709551615}"#]
    );
}
