use super::fixture::{Fixture, Page, at, daily, video};

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
        f.rows("select pass, step, page, cursor, landed_at, request, empty_pages, cut, list from checkpoint"),
        [r#"1 0 1 page2 2026-03-01T12:01:00.000000Z request 0 0 {"listed":2}"#]
    );
    assert_eq!(
        f.rows("select job, region, started_at, finished_at, outcome, pages, records, requests, units from pass"),
        [r#"trending US 2026-03-01T12:00:00.000000Z - - 1 2 3 {"daily":3}"#]
    );
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
