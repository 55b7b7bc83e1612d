//! Whoever only looks leaves no trace.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use ingest_ledger::SqliteLedger;

use super::File;
use super::processes::{self, Writer};
use crate::Store;
use crate::books::{Books, at, cost};

/// Every file of a directory: its bytes, and when it was written last.
fn snapshot(directory: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime)> {
    let Ok(files) = directory.read_dir() else {
        return BTreeMap::new();
    };
    files
        .map(|file| {
            let file = file.unwrap();
            let written = file.metadata().unwrap().modified().unwrap();
            (
                file.file_name().into_string().unwrap(),
                (std::fs::read(file.path()).unwrap(), written),
            )
        })
        .collect()
}

/// What a reader sees used, twice, with nothing changed on the disk by it.
async fn used_without_a_trace(path: &Path) -> u64 {
    let directory = path.parent().unwrap();
    let before = snapshot(directory);
    let ledger = SqliteLedger::open_read_only(path).unwrap();
    let books = Books::new(std::sync::Arc::new(ledger), processes::account());
    let used = books.used("daily", at(0.0)).await;
    assert_eq!(books.used("daily", at(0.0)).await, used);
    let during = snapshot(directory);
    drop(books);
    let after = snapshot(directory);
    for now in [during, after] {
        assert_eq!(
            now.keys().collect::<Vec<_>>(),
            before.keys().collect::<Vec<_>>()
        );
        assert!(now == before, "something was written");
    }
    used
}

#[tokio::test]
async fn reading_where_there_is_nothing_creates_nothing() {
    let file = File::new();
    assert_eq!(used_without_a_trace(&file.path()).await, 0);
    assert!(!file.path().parent().unwrap().exists());
}

#[tokio::test]
async fn reading_a_file_that_is_just_being_created_finds_it_empty() {
    let file = File::new();
    std::fs::create_dir(file.path().parent().unwrap()).unwrap();
    std::fs::write(file.path(), "").unwrap();
    assert_eq!(used_without_a_trace(&file.path()).await, 0);
}

#[tokio::test]
async fn reading_a_closed_file_leaves_no_trace() {
    let file = File::new();
    Books::new(file.ledger(), processes::account())
        .take(&cost([("daily", 7)]), at(0.0))
        .await;
    assert_eq!(snapshot(file.path().parent().unwrap()).len(), 1);
    assert_eq!(used_without_a_trace(&file.path()).await, 7);
}

/// Its log is there and empty, and has no index yet. SQLite would delete it under the writer's hands.
#[tokio::test]
async fn reading_a_file_whose_writer_just_begins_leaves_the_writer_its_log() {
    let file = File::new();
    Books::new(file.ledger(), processes::account())
        .take(&cost([("daily", 7)]), at(0.0))
        .await;
    std::fs::write(format!("{}-wal", file.path().display()), "").unwrap();
    assert_eq!(used_without_a_trace(&file.path()).await, 7);
}

#[tokio::test]
async fn reading_beside_a_writer_leaves_no_trace_and_sees_its_charges() {
    let file = File::new();
    let mut writer = Writer::start(&file.path());
    for used in 1..5 {
        writer.spend();
        assert_eq!(used_without_a_trace(&file.path()).await, used);
    }
    let reader = SqliteLedger::open_read_only(&file.path()).unwrap();
    let reader = Books::new(std::sync::Arc::new(reader), processes::account());
    for used in 5..9 {
        writer.spend();
        assert_eq!(
            reader.used("daily", at(0.0)).await,
            used,
            "a reader that stays sees what comes"
        );
    }
}

#[tokio::test]
async fn reading_after_a_kill_leaves_no_trace_and_sees_every_grant() {
    let file = File::new();
    let granted = processes::granted_until_killed(&file.path(), 20);
    let used = used_without_a_trace(&file.path()).await;
    assert!(
        granted <= used && used <= granted + 1,
        "{used} used, {granted} granted"
    );
}

#[tokio::test]
async fn reading_a_copy_that_lacks_the_index_of_its_log_leaves_no_trace() {
    let (file, copy) = (File::new(), File::new());
    let granted = processes::granted_until_killed(&file.path(), 20);
    std::fs::create_dir(copy.path().parent().unwrap()).unwrap();
    for suffix in ["", "-wal"] {
        let side = |file: &File| format!("{}{suffix}", file.path().display());
        std::fs::copy(side(&file), side(&copy)).unwrap();
    }
    assert!(used_without_a_trace(&copy.path()).await >= granted);
}

#[tokio::test]
async fn reading_takes_any_path() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory
        .path()
        .join("50% of #1? yes & a=b")
        .join("ledger.db");
    let mut writer = Writer::start(&path);
    writer.spend();
    assert_eq!(used_without_a_trace(&path).await, 1);
    writer.end();
    assert_eq!(used_without_a_trace(&path).await, 1);
}
