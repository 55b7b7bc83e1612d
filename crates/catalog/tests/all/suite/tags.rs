use ingest_base::record::{CachedPage, Record, Tag};

use super::super::fixture::{Page, at, video};
use super::Catalog;

const DAYS: u64 = 24 * 60;

fn tag(request: &str, name: &str, next: Option<&str>) -> Tag {
    Tag {
        request: request.to_owned(),
        name: name.to_owned(),
        next: next.map(str::to_owned),
    }
}

fn tagged(request: &str, name: &str, records: Vec<Record>) -> Page {
    Page {
        tag: Some(tag(request, name, Some("on"))),
        ..Page::of(records)
    }
}

async fn cached_page(f: &Catalog, request: &str) -> Option<CachedPage> {
    f.store
        .cached_page("youtube", "video", request)
        .await
        .unwrap()
}

pub(crate) async fn a_page_that_came_under_a_tag_is_known_as_it_was_last_seen(f: Catalog) {
    f.land(&tagged(
        "one",
        "v1",
        vec![video("b", "old"), video("a", "second")],
    ))
    .await;
    f.land(&Page::of(vec![video("b", "new")]).now(at(1))).await;
    let page = cached_page(&f, "one").await.unwrap();
    assert_eq!(page.tag, tag("one", "v1", Some("on")));
    assert_eq!(page.records, [video("b", "new"), video("a", "second")]);
    assert_eq!(cached_page(&f, "another").await, None);
    assert_eq!(
        f.store
            .cached_page("youtube", "channel", "one")
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        f.store.cached_page("other", "video", "one").await.unwrap(),
        None
    );
}

pub(crate) async fn the_last_landing_is_what_is_known(f: Catalog) {
    f.land(&tagged("one", "v1", vec![video("a", "x")])).await;
    f.land(&Page {
        tag: Some(tag("one", "v2", None)),
        ..Page::of(vec![])
    })
    .await;
    assert_eq!(
        cached_page(&f, "one").await,
        Some(CachedPage {
            tag: tag("one", "v2", None),
            records: Vec::new()
        })
    );
    assert_eq!(
        f.store.tags("youtube").await.unwrap(),
        [tag("one", "v2", None)]
    );
}

pub(crate) async fn a_page_of_which_a_record_was_dropped_is_not_known(f: Catalog) {
    f.land(&tagged("one", "v1", vec![video("a", "x"), video("b", "x")]))
        .await;
    f.land(&tagged("two", "v1", vec![video("b", "x")]).now(at(10)))
        .await;
    assert_eq!(f.store.drop_unseen("youtube", at(10)).await.unwrap(), 1);
    assert_eq!(cached_page(&f, "one").await, None);
    assert!(cached_page(&f, "two").await.is_some());
    assert_eq!(
        f.store.tags("youtube").await.unwrap().len(),
        1,
        "what is no use is forgotten"
    );
}

pub(crate) async fn what_was_not_asked_for_in_a_month_is_forgotten(f: Catalog) {
    f.land(&tagged("daily/1", "v1", vec![video("a", "x")]))
        .await;
    f.land(&tagged("daily/2", "v1", vec![video("a", "x")]).now(at(31 * DAYS)))
        .await;
    assert_eq!(f.store.tags("youtube").await.unwrap().len(), 2);
    f.land(&tagged("daily/3", "v1", vec![video("a", "x")]).now(at(40 * DAYS)))
        .await;
    let kept: Vec<String> = f
        .store
        .tags("youtube")
        .await
        .unwrap()
        .into_iter()
        .map(|tag| tag.request)
        .collect();
    assert_eq!(kept, ["daily/2", "daily/3"]);
}

pub(crate) async fn the_tags_of_a_call_are_forgotten_together(f: Catalog) {
    f.land(&tagged("one", "v1", vec![])).await;
    f.land(&tagged("two", "v1", vec![])).await;
    f.land(&Page {
        call: "videos.top".into(),
        ..tagged("three", "v1", vec![])
    })
    .await;
    f.store.forget_tags("youtube", "videos.list").await.unwrap();
    assert_eq!(
        f.store.tags("youtube").await.unwrap(),
        [tag("three", "v1", Some("on"))]
    );
}

pub(crate) async fn a_page_whose_pass_is_lost_remembers_no_tag(f: Catalog) {
    let nowhere = tagged("one", "v1", vec![video("a", "x")]).in_pass(ingest_catalog::PassId(99));
    assert!(f.land(&nowhere).await.is_lost);
    assert_eq!(cached_page(&f, "one").await, None);
}
