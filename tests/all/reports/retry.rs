//! A retry-after is the first instant at which its charge fits, wherever it is told: a microsecond before it the ledger
//! says no, at it yes.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use ingest_ledger::redis::{RedisLedger, ServerTime};
use ingest_ledger::{Charge, Ledger, Purpose, SqliteLedger, fresh_id};
use ingest_quota::{Account, Cost, Decision, Timestamp, Units};
use serde_json::Value;

use super::promises::LISTING_ONLY;
use crate::shared_as_ledger::SharedAsLedger;
use crate::support::world::World;
use ingest_testing::redis_server::{RedisServer, ledger_config};

const MICROSECOND: Duration = Duration::from_micros(1);
const RUN: [&str; 4] = ["--region", "all", "--job", "trending"];
const PREVIEW: [&str; 5] = ["--region", "all", "--job", "trending", "--dry-run"];

fn world(store: &[&str]) -> World {
    let quota = "credentials.youtube.limits.daily={ quota = 22, headroom = 1, window = \"24h\", wait = \"0s\" }";
    World::configured(&[&LISTING_ONLY[..], &[quota], store].concat(), |_| {})
}

/// The account of a credential.
pub fn account(world: &World, credential: &str) -> Arc<Account> {
    Arc::clone(&world.config().credentials[credential].account)
}

/// A copy of the ledger's file, that may be charged as a test likes.
pub fn copied(world: &World) -> (tempfile::TempDir, SqliteLedger) {
    let directory = tempfile::tempdir().unwrap();
    for file in fs::read_dir(world.state_dir()).unwrap().map(Result::unwrap) {
        if file.file_name().to_string_lossy().starts_with("ledger.db") {
            fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
        }
    }
    let ledger = SqliteLedger::open(&directory.path().join("ledger.db")).unwrap();
    (directory, ledger)
}

async fn is_granted(ledger: &dyn Ledger, account: &Account, units: u64, now: Timestamp) -> bool {
    let cost = Cost::from_iter([("daily".to_owned(), Units::new(units))]);
    let (id, leave, purpose) = (fresh_id(), Cost::none(), Purpose::default());
    let charge = Charge {
        account,
        id: &id,
        cost: &cost,
        leave: &leave,
        purpose: &purpose,
    };
    match ledger.charge(charge, now).await.unwrap() {
        Decision::Granted(_) => true,
        Decision::Rejected(_) => false,
        other => panic!("{other:?}"),
    }
}

async fn assert_first_instant(
    ledger: &dyn Ledger,
    account: &Account,
    units: u64,
    at: Timestamp,
    told_by: &str,
) {
    assert!(
        !is_granted(ledger, account, units, at - MICROSECOND).await,
        "{told_by}: {units} fit before {at}"
    );
    assert!(
        is_granted(ledger, account, units, at).await,
        "{told_by}: {units} do not fit at {at}"
    );
}

pub fn instant(value: &Value) -> Timestamp {
    Timestamp::parse(
        value
            .as_str()
            .unwrap_or_else(|| panic!("no instant: {value}")),
    )
    .unwrap()
}

/// The instant as people read it: rounded up to the second.
fn in_words(at: Timestamp) -> String {
    (at + Duration::from_micros(999_999))
        .to_utc()
        .format("(%Y-%m-%d %H:%M:%S UTC)")
        .to_string()
}

/// What every output says of when 100 units fit.
fn told(world: &World) -> Vec<(&'static str, u64, Timestamp)> {
    let charge = |units: &str, more: &[&str]| {
        let arguments = [
            &[
                "charge",
                "youtube",
                "videos.list",
                "--times",
                units,
                "--format",
                "json",
            ],
            more,
        ]
        .concat();
        world.ingest(&arguments).json()
    };
    let run = world.json(&RUN);
    let preview = world.json(&PREVIEW);
    let limit = preview["limits"]
        .as_array()
        .unwrap()
        .iter()
        .find(|limit| limit["limit"] == "daily")
        .unwrap();
    let all = vec![
        ("charge", 1, instant(&charge("1", &[])["retry_at"])),
        ("charge of three", 3, instant(&charge("3", &[])["retry_at"])),
        ("charge of all", 21, instant(&charge("21", &[])["retry_at"])),
        ("run", 1, instant(&run["stopped_by"]["retry_at"])),
        ("preview", 1, instant(&limit["first_unfit"]["retry_at"])),
    ];
    let one = in_words(all[0].2);
    for arguments in [&RUN[..], &PREVIEW, &["charge", "youtube", "videos.list"]] {
        let said = world.ingest(arguments).stdout;
        assert!(said.contains(&one), "{one} is not in: {said}");
    }
    all
}

/// The limit is full, of charges at many instants.
fn fill(world: &World) {
    for units in ["2", "1", "2"] {
        world.json(&["charge", "youtube", "videos.list", "--times", units]);
    }
    let report = world.json(&RUN);
    assert_eq!(report["outcome"], "stopped", "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_output_tells_the_first_instant_at_which_a_charge_fits() {
    tokio::task::spawn_blocking(|| {
        let world = world(&[]);
        fill(&world);
        let (account, told) = (account(&world, "youtube"), told(&world));
        let status = world.json(&["status"]);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        for (told_by, units, at) in told {
            let (_directory, ledger) = copied(&world);
            runtime.block_on(assert_first_instant(&ledger, &account, units, at, told_by));
        }
        let mut back = 0;
        for returns in status["limits"][0]["returns"].as_array().unwrap() {
            back += returns["units"].as_u64().unwrap();
            let (_directory, ledger) = copied(&world);
            runtime.block_on(assert_first_instant(
                &ledger,
                &account,
                back,
                instant(&returns["at"]),
                "status",
            ));
        }
        assert_eq!(back, 21);
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn over_redis_too() {
    tokio::task::spawn_blocking(|| {
        let server = RedisServer::start();
        let url = format!("ledger.url=\"redis://127.0.0.1:{}\"", server.port());
        let world = world(&[&url, "ledger.timeout=5s"]);
        fill(&world);
        let (account, mut told) = (account(&world, "youtube"), told(&world));
        let status = world.json(&["status"]);
        let mut back = 0;
        for returns in status["limits"][0]["returns"].as_array().unwrap() {
            back += returns["units"].as_u64().unwrap();
            told.push(("status", back, instant(&returns["at"])));
        }
        assert_eq!(back, 21);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        for (told_by, units, at) in told {
            // Each by itself: the charge that fits is taken back by restoring what was there.
            let before = server.dump_all();
            let ledger = RedisLedger::new(
                &server.url(),
                &ledger_config(Duration::from_secs(20), Duration::from_secs(300)),
            )
            .unwrap();
            let ledger = SharedAsLedger(ledger.with_time(ServerTime::Callers));
            runtime.block_on(assert_first_instant(&ledger, &account, units, at, told_by));
            server.restore_all(&before);
        }
    })
    .await
    .unwrap();
}
