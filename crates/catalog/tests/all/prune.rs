use ingest_catalog::PassEnd;

use super::fixture::{Fixture, Page, at, held, video};

#[tokio::test]
async fn more_than_one_transaction_of_them_are_all_dropped() {
    let f = Fixture::new();
    f.land(&Page::of(
        (0..2_500).map(|n| video(&n.to_string(), "words")).collect(),
    ))
    .await;
    assert_eq!(
        f.catalog.drop_unseen("youtube", at(1)).await.unwrap(),
        2_500
    );
    assert_eq!((f.count("record"), f.count("record_text")), (0, 0));
}

#[tokio::test]
async fn former_bodies_are_dropped_with_their_record_and_by_their_age() {
    let f = Fixture::new();
    for (minute, title) in [(0, "one"), (5, "two"), (10, "three")] {
        let mut page = Page::of(vec![video("kept", title)]).now(at(minute));
        page.kind.history = true;
        f.land(&page).await;
    }
    for (minute, title) in [(0, "one"), (4, "two")] {
        let mut page = Page::of(vec![video("old", title)]).now(at(minute));
        page.kind.history = true;
        f.land(&page).await;
    }
    let versions = "select id, replaced_at from record_version order by number";
    assert_eq!(f.count("record_version"), 3);
    assert_eq!(f.catalog.drop_unseen("youtube", at(10)).await.unwrap(), 1);
    assert_eq!(f.rows(versions), ["kept 2026-03-01T12:10:00.000000Z"]);
    assert_eq!(f.catalog.drop_unseen("youtube", at(10)).await.unwrap(), 0);
}

#[tokio::test]
async fn what_records_name_is_kept_of_open_passes_and_of_the_last_complete_one_of_a_region() {
    let f = Fixture::new();
    let named = "select pass, at, record, id from wanted";
    for (minute, end, kept) in [
        (
            1,
            Some(PassEnd::Complete),
            vec!["1 /snippet/channelId v c-v"],
        ),
        (
            2,
            Some(PassEnd::Complete),
            vec!["2 /snippet/channelId v c-v"],
        ),
        (
            3,
            Some(PassEnd::Doubtful),
            vec!["2 /snippet/channelId v c-v"],
        ),
        (
            4,
            None,
            vec!["2 /snippet/channelId v c-v", "4 /snippet/channelId v c-v"],
        ),
    ] {
        let page = Page::of(vec![video("v", "t")]).over("US", at(minute));
        let pass = held(f.land(&page).await.pass);
        if let Some(end) = end {
            f.catalog
                .finish(&mut pass.clone(), end, at(minute))
                .await
                .unwrap();
        }
        assert_eq!(f.rows(named), kept);
    }
}
