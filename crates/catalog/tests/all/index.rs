//! The full-text index is in a file of its own: it has to follow the catalog, whatever either of them lost.

use std::fs;

use ingest_catalog::{Archive, SearchQuery, SqliteCatalog};

use super::fixture::{Fixture, Page, at, found, video};

const INDEX: &str = SqliteCatalog::INDEX_FILE;

#[tokio::test]
async fn the_catalog_holds_no_table_that_only_one_reader_knows() {
    let f = Fixture::new();
    f.land(&Page::of(vec![video("a", "fox")])).await;
    assert_eq!(
        f.rows("select name from main.sqlite_schema where sql like 'create virtual%'"),
        [""; 0]
    );
    assert_eq!(f.found("fox").await, ["a"]);
}

#[tokio::test]
async fn what_a_power_cut_took_from_the_index_is_indexed_by_the_next_writer() {
    let mut f = Fixture::new();
    f.land(&Page::of(vec![video("a", "fox"), video("b", "hen")]))
        .await;
    f.copy(INDEX, "saved");
    f.land(&Page::of(vec![video("b", "fox"), video("c", "fox")]).now(at(1)))
        .await;
    f.release();
    f.copy("saved", INDEX);
    f.reopen();
    assert_eq!(f.found("fox").await, ["a", "b", "c"]);
    assert_eq!(f.found("hen").await, [""; 0]);
}

#[tokio::test]
async fn a_writer_that_lands_nothing_leaves_the_index_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, log) = ("catalog.db", format!("{INDEX}-wal"));
    let [path, log] = [path, &log].map(|name| dir.path().join(name));
    let open = || SqliteCatalog::open(&path).unwrap();
    let page = |id| Page::of(vec![video(id, "fox")]);
    page("a").land(&open()).await.unwrap();
    let catalog = open();
    assert!(!log.exists());
    page("b").land(&catalog).await.unwrap();
    assert_eq!(found(&catalog, "fox").await, ["a", "b"]);
    assert!(log.exists());
}

#[tokio::test]
async fn what_an_index_lacks_without_a_sign_of_it_is_indexed_with_the_next_page() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let open = || SqliteCatalog::open(&file("catalog.db")).unwrap();
    let page = |id| Page::of(vec![video(id, "fox")]);
    page("a").land(&open()).await.unwrap();
    fs::copy(file(INDEX), file("saved")).unwrap();
    page("b").land(&open()).await.unwrap();
    fs::copy(file("saved"), file(INDEX)).unwrap();
    let catalog = open();
    page("c").land(&catalog).await.unwrap();
    assert_eq!(found(&catalog, "fox").await, ["a", "b", "c"]);
}

#[tokio::test]
async fn an_index_that_is_ahead_of_a_restored_catalog_is_made_anew() {
    let mut f = Fixture::new();
    f.land(&Page::of(vec![video("a", "fox")])).await;
    f.copy("catalog.db", "saved");
    f.land(&Page::of(vec![video("gone", "fox")])).await;
    f.release();
    f.copy("saved", "catalog.db");
    f.reopen();
    f.land(&Page::of(vec![video("new", "hen")])).await;
    assert_eq!(f.found("fox").await, ["a"]);
    assert_eq!(f.found("hen").await, ["new"]);
}

#[tokio::test]
async fn a_catalog_without_its_index_is_refused_by_a_search_and_indexed_by_the_next_writer() {
    let mut f = Fixture::new();
    f.land(&Page::of(vec![video("a", "fox")])).await;
    fs::create_dir(f.dir.path().join("other")).unwrap();
    f.copy("catalog.db", "other/catalog.db");
    let other = f.dir.path().join("other/catalog.db");
    let reader = SqliteCatalog::open_read_only(&other).unwrap();
    let query = SearchQuery {
        words: "fox".into(),
        kind: None,
        region: None,
        since: None,
        limit: 9,
    };
    let error = reader.search(query).await.unwrap_err().to_string();
    assert!(error.contains("ingest repair"), "{error}");
    f.catalog = SqliteCatalog::open(&other).unwrap();
    assert_eq!(f.found("fox").await, ["a"]);
}

#[tokio::test]
async fn a_damaged_index_keeps_no_page_from_landing_and_is_repaired() {
    let mut f = Fixture::new();
    f.land(&Page::of(vec![video("a", "fox")])).await;
    f.release();
    for side in ["-wal", "-shm"] {
        let _ = fs::remove_file(f.dir.path().join(format!("{INDEX}{side}")));
    }
    fs::write(f.dir.path().join(INDEX), "no database".repeat(1_000)).unwrap();
    f.reopen();
    f.land(&Page::of(vec![video("b", "fox")])).await;
    assert_eq!(f.count("record"), 2);
    assert_eq!(f.catalog.rebuild_text().await.unwrap(), 2);
    assert_eq!(f.found("fox").await, ["a", "b"]);
}
