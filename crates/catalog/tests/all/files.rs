use std::fs;
use std::os::unix::fs::PermissionsExt;

use ingest_catalog::{Catalog, CatalogReader, SearchQuery};
use ingest_sqlite as sqlite;
use ingest_sqlite::Schema;

use super::fixture::{Fixture, JOB, Page, at, pending_query, video};

fn words() -> SearchQuery {
    SearchQuery {
        words: "fox".into(),
        kind: None,
        region: None,
        since: None,
        limit: 9,
    }
}

#[tokio::test]
async fn a_catalog_that_is_not_there_reads_as_an_empty_one_and_stays_away() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state/catalog.db");
    let catalog = CatalogReader::open(&path).unwrap();
    assert_eq!(
        catalog
            .region_states(JOB, &["US".into()], at(59))
            .await
            .unwrap()[0]
            .region,
        "US"
    );
    assert_eq!(catalog.open_passes(JOB).await.unwrap(), []);
    assert_eq!(catalog.search(words()).await.unwrap().hits, []);
    let query = pending_query("/id", at(0));
    assert_eq!(catalog.pending_ids(query).await.unwrap(), []);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn reading_writes_nothing_on_disk() {
    let f = Fixture::new();
    f.land(&Page::of(vec![video("a", "fox")])).await;
    let dir = f.close();
    let snapshot = || {
        let mut files: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        files
            .into_iter()
            .map(|path| (fs::read(&path).unwrap(), path))
            .collect::<Vec<_>>()
    };
    let before = snapshot();
    let catalog = CatalogReader::open(&dir.path().join("catalog.db")).unwrap();
    assert_eq!(catalog.search(words()).await.unwrap().hits.len(), 1);
    assert_eq!(catalog.open_passes(JOB).await.unwrap().len(), 1);
    assert!(snapshot() == before);
    drop(catalog);
    assert!(snapshot() == before);
}

#[tokio::test]
async fn a_reader_sees_what_a_writer_landed_meanwhile() {
    let f = Fixture::new();
    f.land(&Page::of(vec![video("a", "fox")])).await;
    let reader = CatalogReader::open(&f.path()).unwrap();
    assert_eq!(reader.search(words()).await.unwrap().hits.len(), 1);
    f.land(&Page::of(vec![video("b", "fox")])).await;
    assert_eq!(reader.search(words()).await.unwrap().hits.len(), 2);
}

#[tokio::test]
async fn the_file_is_its_owners_alone() {
    let f = Fixture::new();
    f.land(&Page::of(vec![video("a", "fox")])).await;
    for file in fs::read_dir(f.dir.path()).unwrap() {
        let file = file.unwrap();
        assert_eq!(
            file.metadata().unwrap().permissions().mode() & 0o777,
            0o600,
            "{:?}",
            file.path()
        );
    }
}

#[tokio::test]
async fn a_file_of_the_next_version_is_left_alone() {
    let f = Fixture::new();
    let next = Schema {
        version: Catalog::schema().version + 1,
        ..Catalog::schema()
    };
    drop(sqlite::open(&f.path().with_file_name("next.db"), next).unwrap());
    for error in refusals(&f.path().with_file_name("next.db")) {
        let version = format!("version {}", next.version);
        assert!(
            error.contains(&version) && error.contains("upgrade ingest"),
            "{error}"
        );
    }
}

/// As another step of the work on this version wrote it, or an earlier one.
#[test]
fn a_file_whose_tables_are_others_is_refused_whatever_version_it_names() {
    for (version, digest) in [
        (Catalog::schema().version, 0),
        (Catalog::schema().version, 7),
        (1, Catalog::schema().identity().digest),
    ] {
        let f = Fixture::new();
        let file = rusqlite::Connection::open(f.path()).unwrap();
        file.pragma_update(None, "user_version", version).unwrap();
        file.pragma_update(None, "application_id", digest).unwrap();
        for error in refusals(&f.path()) {
            let found = format!("version {version} (tables {digest:08x})");
            assert!(
                error.contains(&found) && error.contains("keep the program that wrote it"),
                "{error}"
            );
        }
    }
}

fn refusals(path: &std::path::Path) -> [String; 2] {
    [
        Catalog::open(path).err().unwrap().to_string(),
        CatalogReader::open(path).err().unwrap().to_string(),
    ]
}

#[test]
fn what_is_no_catalog_is_refused_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.db");
    fs::write(
        &path,
        "this is no database, and somebody may want it".repeat(100),
    )
    .unwrap();
    let error = Catalog::open(&path).err().unwrap().to_string();
    assert!(
        error.contains("catalog.db") && error.contains("damaged"),
        "{error}"
    );
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .starts_with("this is no database")
    );
}

#[test]
fn no_statement_of_a_run_walks_a_table_from_end_to_end() {
    assert!(Catalog::statements().len() > 20);
    for (sql, plan) in plans() {
        for step in plan {
            let walks = step.starts_with("SCAN")
                && !step.contains("VIRTUAL TABLE")
                && !step.contains("CONSTANT ROW");
            assert!(!walks, "{step}\n{sql}");
        }
    }
}

#[test]
fn a_statement_that_names_an_id_finds_its_row_by_the_id() {
    let plans = plans();
    let named = plans.iter().filter(|(sql, _)| sql.contains(" id = ?"));
    let mut count = 0;
    for (sql, plan) in named {
        let is_found = plan.iter().any(|step| {
            step.contains("(id=?") || step.contains("AND id=?") || step.contains("rowid=?")
        });
        assert!(is_found, "{plan:?}\n{sql}");
        count += 1;
    }
    assert!(count > 10, "{count}");
}

/// The statements of a run, each with the steps of its plan.
fn plans() -> Vec<(String, Vec<String>)> {
    let f = Fixture::new();
    let connection = rusqlite::Connection::open(f.path()).unwrap();
    let plans = Catalog::statements().into_iter().map(|sql| {
        let mut explained = connection
            .prepare(&format!("explain query plan {sql}"))
            .unwrap();
        let unbound = vec![rusqlite::types::Null; explained.parameter_count()];
        let plan = explained
            .query_map(rusqlite::params_from_iter(unbound), |row| row.get("detail"))
            .unwrap();
        (sql, plan.map(Result::unwrap).collect())
    });
    plans.collect()
}
