//! A file that no longer knows what this process was granted grants nothing more.

use std::fs;
use std::path::Path;

use ingest_ledger::{Charge, Ledger, LedgerError, OpenLedgerError, Purpose, SqliteLedger, Witness};
use ingest_quota::{Account, Cost, Decision};

use crate::books::{account, at, cost, fresh_id, secs, sliding};

/// What happens to the file, and what is said of it.
type Change = (&'static str, fn(&Path));

async fn charge(ledger: &SqliteLedger, account: &Account) -> Result<Decision, LedgerError> {
    let charge = Charge {
        account,
        id: &fresh_id(),
        cost: &cost([("daily", 1)]),
        leave: &Cost::none(),
        purpose: &Purpose::default(),
    };
    ledger.charge(charge, at(0.0)).await
}

fn why(opened: Result<SqliteLedger, OpenLedgerError>) -> String {
    match opened {
        Err(OpenLedgerError::Ledger(forgotten @ LedgerError::Forgotten(_))) => {
            forgotten.to_string()
        }
        other => panic!("expected a forgotten ledger, got {other:?}"),
    }
}

fn delete(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(ingest_sqlite::beside(path, suffix));
    }
}

#[tokio::test]
async fn a_file_without_charges_that_were_granted_grants_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ledger.db");
    let account = account([("daily", sliding(10, secs(60)))]);
    let ledger = SqliteLedger::open(&path).unwrap();
    assert!(matches!(
        charge(&ledger, &account).await,
        Ok(Decision::Granted(_))
    ));
    let other = rusqlite::Connection::open(&path).unwrap();
    other
        .execute_batch("DELETE FROM charge; DELETE FROM taken;")
        .unwrap();
    let error = charge(&ledger, &account).await.unwrap_err();
    assert!(matches!(error, LedgerError::Forgotten(_)), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("lacks charges that this process made")
    );
    let charges: i64 = other
        .query_row("SELECT count(*) FROM charge", [], |row| row.get(0))
        .unwrap();
    assert_eq!(charges, 0);
}

#[tokio::test]
async fn a_process_opens_no_other_file_than_the_one_that_it_charged() {
    let account = account([("daily", sliding(10, secs(60)))]);
    let changes: [Change; 4] = [
        ("was deleted", delete),
        ("was deleted, or moved away", |path| {
            let directory = path.parent().unwrap();
            fs::rename(directory, directory.with_extension("away")).unwrap();
        }),
        ("was replaced by another file", |path| {
            // Written before the deletion, whose inode it could get otherwise.
            let other = path.with_extension("other");
            fs::write(&other, "").unwrap();
            delete(path);
            fs::rename(&other, path).unwrap();
        }),
        ("lacks charges", |path| fs::write(path, "").unwrap()),
    ];
    for (said, change) in changes {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state").join("ledger.db");
        let witness = Witness::default();
        let open = || SqliteLedger::open_seen(&path, &witness);
        assert!(matches!(
            charge(&open().unwrap(), &account).await,
            Ok(Decision::Granted(_))
        ));
        assert!(matches!(
            charge(&open().unwrap(), &account).await,
            Ok(Decision::Granted(_))
        ));
        change(&path);
        let first = why(open());
        assert!(
            first.contains(said) && first.contains("Put the file back"),
            "{first}"
        );
        assert!(why(open()).contains(said), "a refusal changes nothing");
        // Another process knows nothing of it.
        SqliteLedger::open_seen(&path, &Witness::default()).unwrap();
    }
}
