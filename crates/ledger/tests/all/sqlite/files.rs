//! What is in the file, and who may read it.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ingest_quota::{Closing, Cost};
use rusqlite::{Connection, TransactionBehavior};

use super::File;
use crate::Store;
use crate::books::{Books, account, at, cost, entry, fresh_id, id, secs, sliding};
use crate::properties::{agreement, cases, check};

#[tokio::test]
async fn the_file_and_its_directory_are_their_owners_alone() {
    let file = File::new();
    let books = Books::new(file.ledger(), account([("daily", sliding(10, secs(60)))]));
    books.take(&cost([("daily", 1)]), at(0.0)).await;
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let state = file.path().parent().unwrap().to_owned();
    assert_eq!(mode(&state), 0o700);
    let names: Vec<_> = state
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.iter().all(|name| mode(name) == 0o600), "{names:?}");
}

#[tokio::test]
async fn charges_stay_for_reports_after_they_leave_the_window() {
    let file = File::new();
    let books = Books::new(
        file.ledger(),
        account([
            ("daily", sliding(10, secs(60))),
            ("search", sliding(9, secs(60))),
        ]),
    );
    books
        .take_as(&id("first"), &cost([("daily", 4), ("search", 1)]), at(0.0))
        .await;
    books
        .take_as(&id("second"), &cost([("daily", 10)]), at(1000.0))
        .await;
    let sql = "SELECT concat_ws(' ', id, job, region, call, (at - ?1) / 1000000, limit_name, units)
               FROM charge JOIN taken USING (account, at, n) WHERE account = ?2 ORDER BY at, limit_name";
    let connection = file.query();
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map((at(0.0).micros(), &books.account.name), |row| {
        row.get::<_, String>(0)
    });
    let rows: Vec<_> = rows.unwrap().map(Result::unwrap).collect();
    let expected = [
        "first trending US videos.list 0 daily 4",
        "first trending US videos.list 0 search 1",
        "second trending US videos.list 1000 daily 10",
    ];
    assert_eq!(rows, expected);
}

fn wrong_totals(connection: &Connection) -> i64 {
    let sql = "SELECT count(*) FROM (
        SELECT total, sum(units) OVER (PARTITION BY account, limit_name ORDER BY at, n) AS expected FROM taken
    ) WHERE total <> expected";
    connection.query_row(sql, (), |row| row.get(0)).unwrap()
}

#[test]
fn running_totals_are_sums_whatever_was_told_in_whatever_order() {
    let file = File::new();
    check(
        async || Shared(file.path()),
        cases::stories(),
        agreement::with_the_model,
    );
    let rows: i64 = file
        .query()
        .query_row("SELECT count(*) FROM taken", (), |row| row.get(0))
        .unwrap();
    assert!(rows > 100, "{rows} rows");
    assert_eq!(wrong_totals(&file.query()), 0);
}

struct Shared(std::path::PathBuf);

impl Store for Shared {
    fn ledger(&self) -> std::sync::Arc<dyn ingest_ledger::Ledger> {
        std::sync::Arc::new(super::open(&self.0))
    }
}

#[tokio::test]
async fn what_comes_in_the_middle_of_many_charges_is_counted_there() {
    let file = File::new();
    let books = Books::new(
        file.ledger(),
        account([("daily", sliding(1_000_000, secs(86_400)))]),
    );
    let many: Vec<_> = (0..20_000)
        .map(|second| entry(&fresh_id(), at(f64::from(second)), cost([("daily", 1)])))
        .collect();
    books.absorb(&many, &[], at(20_000.0)).await;
    books
        .settle(&many[100].id, &cost([("daily", 50)]), at(20_000.0))
        .await;
    books
        .settle(&many[200].id, &Cost::none(), at(20_000.0))
        .await;
    assert_eq!(books.used("daily", at(20_000.0)).await, 20_048);
    assert_eq!(wrong_totals(&file.query()), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_waits_while_another_program_writes() {
    let file = File::new();
    let books = Books::new(file.ledger(), account([("daily", sliding(10, secs(60)))]));
    let mut other = file.query();
    let writing = other
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    let waiting = tokio::spawn(async move { books.charge(&cost([("daily", 1)]), at(0.0)).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    writing.commit().unwrap();
    assert!(matches!(
        waiting.await.unwrap(),
        ingest_quota::Decision::Granted(_)
    ));
}

#[tokio::test]
async fn a_closing_of_an_earlier_release_lasted_an_hour() {
    let file = File::new();
    let books = Books::new(file.ledger(), account([("daily", sliding(10, secs(60)))]));
    books.close("daily", Closing::Probing, at(0.0)).await;
    let earlier = "update closing set probe_interval = null";
    assert_eq!(file.query().execute(earlier, []).unwrap(), 1);
    let probe = books.take(&cost([("daily", 1)]), at(3600.0)).await;
    assert_eq!(probe.probing["daily"], secs(3600));
    books.close("daily", Closing::Probing, at(3601.0)).await;
    let until = books.standing("daily", at(3602.0)).await.closed_until;
    assert_eq!(until, Some(at(3601.0 + 7200.0)));
}

#[tokio::test]
async fn each_charge_of_a_window_is_read_without_a_look_at_all_others() {
    let file = File::new();
    let ledger = Arc::new(super::open(&file.path()));
    let account = account([("daily", sliding(1_000_000, secs(86_400)))]);
    let books = Books::new(ledger.clone(), account.clone());
    let many: Vec<_> = (0..30_000)
        .map(|second| entry(&fresh_id(), at(f64::from(second)), cost([("daily", 1)])))
        .collect();
    books.absorb(&many, &[], at(30_000.0)).await;
    let began = Instant::now();
    let read = ledger.entries(&account, at(30_000.0)).await.unwrap();
    assert_eq!(read.len(), many.len());
    // With a look at all others it is hundreds of times as long.
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
}
