use ingest::catalog::{PassReader, PassRef, PassStore};
use ingest::quota::Units;
use serde_json::json;

use super::fixture::{Fixture, Page, at, daily, record, records_of, video};

#[tokio::test]
async fn a_page_lands_with_its_records_listing_cursor_and_counts() {
    let f = Fixture::new();
    let mut page = Page::of(vec![video("a", "A"), video("b", "B")])
        .next("page2")
        .now(at(1));
    page.requests = 3;
    page.units = daily(3);
    let landed = f.land(&page).await;
    assert!(!landed.cursor_repeats);
    assert_eq!(
        f.rows("select upstream, kind, id, first_seen, last_seen from record order by id"),
        [
            "youtube video a 2026-03-01T12:01:00.000000Z 2026-03-01T12:01:00.000000Z",
            "youtube video b 2026-03-01T12:01:00.000000Z 2026-03-01T12:01:00.000000Z",
        ]
    );
    assert_eq!(
        f.rows(
            "select pass, step, call, upstream, position, kind, id from listing order by position"
        ),
        [
            "1 0 videos.list youtube 1 video a",
            "1 0 videos.list youtube 2 video b"
        ]
    );
    assert_eq!(
        f.rows("select * from checkpoint"),
        ["1 0 1 page2 2026-03-01T12:01:00.000000Z request 0 0"]
    );
    assert_eq!(
        f.rows("select job, region, started_at, finished_at, outcome, pages, records, requests, units from pass"),
        [r#"trending US 2026-03-01T12:00:00.000000Z - - 1 2 3 {"daily":3}"#]
    );
}

#[tokio::test]
async fn a_body_is_kept_as_it_came() {
    let f = Fixture::new();
    let body = json!({"z": 1, "a": ["<b>html</b>", null, 1.5e300, 18_446_744_073_709_551_615_u64], "id": "a"});
    f.land(&Page::of(vec![record("a", body.clone())])).await;
    assert_eq!(f.rows("select body from record"), [body.to_string()]);
}

#[tokio::test]
async fn a_record_seen_from_eight_regions_is_stored_once_and_listed_eight_times() {
    let f = Fixture::new();
    for (minute, region) in ["US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"]
        .iter()
        .enumerate()
    {
        let minute = minute as u64;
        let page = Page::of(vec![video("a", &format!("title {minute}"))])
            .over(region, at(minute))
            .now(at(minute));
        f.land(&page).await;
    }
    assert_eq!(
        f.rows("select body ->> '$.snippet.title', first_seen, last_seen from record"),
        ["title 7 2026-03-01T12:00:00.000000Z 2026-03-01T12:07:00.000000Z"]
    );
    assert_eq!(f.count("listing"), 8);
    assert_eq!(f.count("pass"), 8);
    assert_eq!(f.count("record_text"), 1);
}

#[tokio::test]
async fn positions_go_on_over_pages_and_a_record_is_listed_once_a_step() {
    let f = Fixture::new();
    let pass = f
        .land(&Page::of(vec![video("a", ""), video("b", ""), video("a", "")]).next("2"))
        .await
        .pass;
    f.land(&Page::of(vec![video("b", ""), video("c", "")]).in_pass(pass))
        .await;
    f.land(&Page::of(vec![video("c", "")]).in_pass(pass).step(1))
        .await;
    assert_eq!(
        f.rows("select step, position, id from listing order by step, position"),
        ["0 1 a", "0 2 b", "0 3 c", "1 1 c"]
    );
    assert_eq!(f.rows("select pages, records from pass"), ["3 4"]);
}

#[tokio::test]
async fn records_of_one_id_are_apart_by_kind_and_by_upstream() {
    let f = Fixture::new();
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
    assert_eq!(
        f.rows("select upstream, kind, body ->> '$.snippet.title' from record order by 1, 2"),
        [
            "other video video",
            "youtube search_result result",
            "youtube video video"
        ]
    );
}

#[tokio::test]
async fn units_add_up_by_limit() {
    let f = Fixture::new();
    let search = [
        ("daily".to_owned(), Units::new(100)),
        ("search".to_owned(), Units::new(1)),
    ]
    .into_iter()
    .collect();
    let pass = f
        .land(&Page {
            units: search,
            ..Page::of(vec![])
        })
        .await
        .pass;
    f.land(
        &Page {
            units: daily(5),
            requests: 2,
            ..Page::of(vec![])
        }
        .in_pass(pass),
    )
    .await;
    assert_eq!(
        f.rows("select units, requests from pass"),
        [r#"{"daily":105,"search":1} 3"#]
    );
}

#[tokio::test]
async fn a_cursor_seen_before_in_a_step_is_told_and_ends_the_step() {
    let mut f = Fixture::new();
    let pass = f.land(&Page::of(vec![]).next("x")).await.pass;
    assert!(
        !f.land(&Page::of(vec![]).in_pass(pass).next("y"))
            .await
            .cursor_repeats
    );
    assert!(
        !f.land(&Page::of(vec![]).in_pass(pass).step(1).next("x"))
            .await
            .cursor_repeats,
        "another step"
    );
    assert!(
        !f.land(&Page::of(vec![]).over("GB", at(0)).next("x"))
            .await
            .cursor_repeats,
        "another pass"
    );
    f.reopen();
    assert!(
        f.land(&Page::of(vec![]).in_pass(pass).next("x"))
            .await
            .cursor_repeats
    );
    let open = f.catalog.open_passes("trending").await.unwrap();
    assert_eq!(open[0].steps[0].cursor, None);
    assert_eq!(open[0].steps[0].pages, 3);
}

#[tokio::test]
async fn a_page_for_a_pass_that_is_not_there_changes_nothing() {
    let f = Fixture::new();
    let page = Page {
        pass: PassRef::Open(ingest::catalog::PassId(7)),
        ..Page::of(vec![video("a", "words")])
    };
    let error = page.land(&f.catalog).await.unwrap_err();
    assert!(error.to_string().contains("no pass 7"), "{error}");
    for table in [
        "record",
        "listing",
        "checkpoint",
        "pass",
        "kind",
        "record_text",
    ] {
        assert_eq!(f.count(table), 0, "{table}");
    }
}

#[tokio::test]
async fn a_page_that_was_paid_for_lands_even_after_its_pass_ended() {
    let f = Fixture::new();
    let landed = f.land(&Page::of(vec![])).await;
    let pass = PassRef::Open(landed.pass);
    f.catalog
        .finish(&pass, ingest::catalog::PassEnd::Abandoned, at(1))
        .await
        .unwrap();
    f.land(&Page::of(vec![video("a", "")]).in_pass(landed.pass))
        .await;
    assert_eq!(f.rows("select outcome, records from pass"), ["abandoned 1"]);
}

#[tokio::test]
async fn an_id_that_did_not_come_is_absent_until_it_comes() {
    let f = Fixture::new();
    let pass = f.land(&Page::channels(&["a", "b"], &["a"])).await.pass;
    assert_eq!(
        f.rows("select * from absent"),
        ["youtube channel b 2026-03-01T12:00:00.000000Z"]
    );
    f.land(&Page::channels(&["b"], &[]).in_pass(pass).now(at(5)))
        .await;
    assert_eq!(
        f.rows("select at from absent"),
        ["2026-03-01T12:05:00.000000Z"]
    );
    f.land(&Page::channels(&["b"], &["b"]).in_pass(pass)).await;
    assert_eq!(f.count("absent"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_landed_at_once_through_several_connections_all_land() {
    let f = Fixture::new();
    let path = f.path();
    let landings = (0..8).map(|connection: u64| {
        let path = path.clone();
        tokio::spawn(async move {
            let catalog = ingest::catalog::SqliteCatalog::open(&path).unwrap();
            for page in 0..10 {
                let records = vec![
                    video("shared", "x"),
                    video(&format!("{connection}-{page}"), "y"),
                ];
                Page::of(records)
                    .over(&format!("R{connection}"), at(page))
                    .land(&catalog)
                    .await
                    .unwrap();
            }
        })
    });
    for landing in landings.collect::<Vec<_>>() {
        landing.await.unwrap();
    }
    assert_eq!(f.count("record"), 81);
    assert_eq!(f.count("pass"), 80);
    assert_eq!(f.count("listing"), 160);
}
