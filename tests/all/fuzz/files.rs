//! Files of the state directory with bytes changed, as bad disks leave them.

use std::fs;
use std::path::Path;

use ingest_catalog::{Catalog, CatalogReader, SearchQuery};
use ingest_ledger::{Charge, Journal, Ledger, Purpose, SqliteLedger};
use ingest_quota::Cost;
use ingest_sqlite as sqlite;
use proptest::prelude::*;
use proptest::sample::Index;
use tokio::runtime::Runtime;

use crate::books::{account, at, cost, fresh_id, secs, sliding};
use crate::support::world::World;
use ingest_testing::fuzz::{cases, is_plain};

fn failing<T, E: std::fmt::Display>(result: Result<T, E>) -> Option<T> {
    result
        .inspect_err(|error| assert!(is_plain(&error.to_string()), "{error}"))
        .ok()
}

async fn use_catalog(path: &Path) {
    if let Some(catalog) = failing(CatalogReader::open(path)) {
        read_catalog(&catalog).await;
    }
    if let Some(catalog) = failing(Catalog::open(path)) {
        read_catalog(&catalog).await;
        failing(catalog.drop_unseen("youtube", at(0.0)).await);
    }
}

async fn read_catalog(catalog: &CatalogReader) {
    let query = SearchQuery {
        words: "the".into(),
        kind: None,
        region: Some("US".into()),
        since: None,
        limit: 5,
    };
    failing(catalog.search(query).await);
    failing(
        catalog
            .region_states("trending", &["US".to_owned()], at(9.0))
            .await,
    );
    failing(catalog.open_passes("trending").await);
    failing(catalog.history(at(0.0)).await);
}

async fn use_ledger(path: &Path) {
    let (account, cost) = (
        account([("daily", sliding(9_500, secs(86_400)))]),
        cost([("daily", 1)]),
    );
    let Some(ledger) = failing(SqliteLedger::open(path)) else {
        return;
    };
    let (id, leave, purpose) = (fresh_id(), Cost::none(), Purpose::default());
    let charge = Charge {
        account: &account,
        id: &id,
        cost: &cost,
        leave: &leave,
        purpose: &purpose,
    };
    failing(ledger.charge(charge, at(0.0)).await);
    failing(ledger.settle(&account, &id, &cost, at(1.0)).await);
    failing(ledger.usage(&account, at(0.0)).await);
    failing(ledger.spent(&account, at(0.0)).await);
}

#[test]
fn a_damaged_file_is_an_error_and_no_more() {
    let world = World::new();
    assert_eq!(
        world.ingest(&["--region", "US", "--job", "trending"]).code,
        0
    );
    let whole =
        ["catalog.db", "ledger.db"].map(|name| fs::read(world.state_dir().join(name)).unwrap());
    let (directory, runtime) = (tempfile::tempdir().unwrap(), Runtime::new().unwrap());
    let bytes = || prop::collection::vec(any::<u8>(), 1..200);
    let damage = prop::collection::vec((any::<Index>(), any::<bool>(), bytes()), 1..8);
    proptest!(cases(16), |(damage in damage, cut in prop::option::weighted(0.2, any::<Index>()))| {
        for (number, bytes) in whole.iter().enumerate() {
            let mut bytes = bytes.clone();
            for (at, in_header, change) in &damage {
                let end = if *in_header { 200 } else { bytes.len() - 200 };
                let at = at.index(end);
                bytes[at..at + change.len()].copy_from_slice(change);
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            let _ = fs::remove_dir_all(directory.path().join("state"));
            let path = directory.path().join("state/file.db");
            fs::create_dir(directory.path().join("state")).unwrap();
            fs::write(&path, &bytes).unwrap();
            runtime.block_on(async { if number == 0 { use_catalog(&path).await } else { use_ledger(&path).await } });
            failing(Journal::open(&path));
            let _ = sqlite::mend(&path);
        }
    });
}
