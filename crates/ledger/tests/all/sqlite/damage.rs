//! Files that cannot be used say why, and grant nothing.

use std::os::unix::fs::FileExt;

use ingest_ledger::{Charge, Ledger, LedgerError, Purpose, SqliteLedger};
use ingest_quota::{Account, Cost};
use ingest_sqlite::explain;

use super::{File, open};
use crate::Store;
use crate::books::{Books, account, at, cost, entry, fresh_id, id, secs, sliding};

fn daily() -> Account {
    account([("daily", sliding(u64::MAX / 2, secs(86_400)))])
}

/// What a charge fails with, as a person reads it.
async fn failure(ledger: &dyn Ledger, account: &Account) -> String {
    let (id, cost, purpose) = (fresh_id(), cost([("daily", 1)]), Purpose::default());
    let charge = Charge {
        account,
        id: &id,
        cost: &cost,
        leave: &Cost::none(),
        purpose: &purpose,
    };
    match ledger.charge(charge, at(0.0)).await {
        Err(LedgerError::Broken(message)) => message,
        other => panic!("expected a broken ledger, got {other:?}"),
    }
}

#[test]
fn a_file_of_a_later_release_is_refused() {
    let file = File::new();
    drop(open(&file.path()));
    file.query()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    for refused in [
        SqliteLedger::open(&file.path()),
        SqliteLedger::open_read_only(&file.path()),
    ] {
        let message = refused.unwrap_err().to_string();
        assert!(
            message.starts_with(file.path().to_str().unwrap()),
            "{message}"
        );
        assert!(
            message
                .contains("this ledger has version 99, and this release supports versions up to 6"),
            "{message}"
        );
        assert!(message.contains("upgrade ingest"), "{message}");
    }
}

#[test]
fn a_file_of_something_else_is_refused() {
    let file = File::new();
    std::fs::create_dir(file.path().parent().unwrap()).unwrap();
    std::fs::write(
        file.path(),
        "no database, but rather more than a hundred bytes of plain text\n".repeat(99),
    )
    .unwrap();
    for refused in [
        SqliteLedger::open(&file.path()),
        SqliteLedger::open_read_only(&file.path()),
    ] {
        let message = refused.unwrap_err().to_string();
        assert!(
            message.contains("cannot open the ledger: file is not a database"),
            "{message}"
        );
        assert!(
            message.contains("the file is damaged: move it away, or restore it from a backup"),
            "{message}"
        );
    }
}

#[test]
fn a_path_that_cannot_be_is_refused() {
    let file = File::new();
    std::fs::write(file.path().parent().unwrap(), "").unwrap();
    let message = SqliteLedger::open(&file.path()).unwrap_err().to_string();
    assert!(
        message.contains("cannot open the ledger: ") && message.contains("ledger.db"),
        "{message}"
    );
}

#[tokio::test]
async fn a_damaged_file_grants_nothing() {
    let file = File::new();
    let books = Books::new(file.ledger(), daily());
    let entries: Vec<_> = (0..500)
        .map(|second| entry(&fresh_id(), at(-f64::from(second)), cost([("daily", 1)])))
        .collect();
    books.absorb(&entries, &[], at(0.0)).await;
    let account = books.account.clone();
    drop(books);
    let length = file.path().metadata().unwrap().len();
    let raw = std::fs::OpenOptions::new()
        .write(true)
        .open(file.path())
        .unwrap();
    raw.write_all_at(&vec![0xA5; usize::try_from(length).unwrap() - 4096], 4096)
        .unwrap();
    let message = failure(&open(&file.path()), &account).await;
    assert!(
        message.contains("the ledger failed: ") && message.contains("the file is damaged"),
        "{message}"
    );
}

#[tokio::test]
async fn a_ledger_opened_to_read_grants_nothing() {
    let file = File::new();
    let account = daily();
    let empty = SqliteLedger::open_read_only(&file.path()).unwrap();
    drop(open(&file.path()));
    let there = SqliteLedger::open_read_only(&file.path()).unwrap();
    for ledger in [empty, there] {
        let message = failure(&ledger, &account).await;
        assert!(message.contains("readonly"), "{message}");
    }
}

#[tokio::test]
async fn the_largest_costs_add_up_and_can_be_corrected() {
    let file = File::new();
    let books = Books::new(file.ledger(), daily());
    let settle = async |name: &str, units: u64| {
        let units = cost([("daily", units)]);
        books.settle(&id(name), &units, at(0.0)).await;
    };
    books
        .take_as(&id("a"), &cost([("daily", 5)]), at(0.0))
        .await;
    settle("a", u64::MAX).await;
    settle("b", u64::MAX / 2).await;
    assert_eq!(books.used("daily", at(0.0)).await, 1 << 53);
    settle("a", 5).await;
    settle("b", 0).await;
    assert_eq!(books.used("daily", at(0.0)).await, 5);
}

#[test]
fn what_sqlite_says_comes_with_a_remedy() {
    for (code, remedy) in [
        (rusqlite::ffi::SQLITE_FULL, "free some space on its disk"),
        (rusqlite::ffi::SQLITE_IOERR, "check its disk"),
        (
            rusqlite::ffi::SQLITE_READONLY,
            "make the file and its directory writable for this user",
        ),
        (
            rusqlite::ffi::SQLITE_CANTOPEN,
            "check that its directory exists and is writable for this user",
        ),
        (rusqlite::ffi::SQLITE_CORRUPT, "restore it from a backup"),
        (rusqlite::ffi::SQLITE_BUSY, "find it with `fuser`"),
    ] {
        let message = explain(&rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(code),
            None,
        ));
        assert!(message.contains(remedy), "{message}");
    }
}

/// A charge is not granted where one of the files is gone, and does not count either.
#[tokio::test]
async fn a_file_that_is_gone_takes_no_charge() {
    for (gone, counted) in [("ledger.db", 0), ("ledger.db-wal", 1), ("ledger.db-shm", 1)] {
        let file = File::new();
        let books = Books::new(file.ledger(), daily());
        books.take(&cost([("daily", 1)]), at(0.0)).await;
        std::fs::remove_file(file.path().with_file_name(gone)).unwrap();
        let message = failure(&*books.ledger, &books.account).await;
        let said = "was deleted, moved or replaced while it was in use";
        assert!(message.contains(&format!("{gone} {said}")), "{message}");
        let account = books.account.clone();
        drop(books);
        let again = Books::new(file.ledger(), account);
        assert_eq!(again.used("daily", at(1.0)).await, counted, "{gone}");
    }
}
