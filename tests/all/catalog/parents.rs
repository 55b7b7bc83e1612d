//! The parents of records that a step of ids returned.

use ingest_catalog::PassId;

use crate::fixture::{Fixture, Page, at, held, pending_query, video_of};

async fn link(f: &Fixture, pass: PassId) {
    f.catalog
        .link_parents(
            &mut held(pass),
            1,
            pending_query("/snippet/channelId", at(0)),
        )
        .await
        .unwrap();
}

#[tokio::test]
async fn a_parent_that_is_listed_after_its_child_was_fetched_is_a_parent_too() {
    let f = Fixture::new();
    let listing = "select id, position, parent from listing where step = 1 order by position";
    let walk = f
        .land(&Page::of(vec![video_of("v1", "c")]).next("2"))
        .await
        .pass;
    let batch = f.land(&Page::channels(&["c", "d"], &["c", "x"])).await.pass;
    assert_eq!(f.rows(listing), ["c 1 -", "x 2 -"]);
    link(&f, batch).await;
    assert_eq!(f.rows(listing), ["c 1 v1", "x 2 -"]);
    f.land(&Page::of(vec![video_of("v2", "c")]).in_pass(walk))
        .await;
    for _ in 0..2 {
        link(&f, batch).await;
        assert_eq!(f.rows(listing), ["c 1 v1", "x 2 -", "c 3 v2"]);
    }
    let again = Page::channels(&["c", "d"], &["c"]).in_pass(batch);
    f.land(&again).await;
    link(&f, batch).await;
    assert_eq!(f.rows(listing), ["c 1 v1", "x 2 -", "c 3 v2"]);
    let records = format!("select records from pass where id = {}", batch.0);
    assert_eq!(
        f.rows(&records),
        ["2"],
        "a further parent is no further record"
    );
}
