//! What `ingest check` finds of a Redis, and what the keys of a ledger are like.

use std::time::Duration;

use ingest_base::clock::{Clock, SystemClock};
use ingest_config::RedisUrl;
use ingest_ledger::redis::{Fitness, RedisLedger, ServerTime, inspect};
use ingest_ledger::{Charge, ChargeReply, Purpose, SharedLedger};
use ingest_quota::{ChargeId, Cost};

use super::kinds::with_shipped_users;
use super::machine::{Machine, WINDOW, account};
use super::stored::{stored, whole};
use super::{MAX_SKEW, Standalone, TIMEOUT};
use crate::Store;
use crate::books::{self, Books, at, cost, floor, limit, secs};
use crate::shared_as_ledger::SharedAsLedger;
use ingest_testing::redis_server::{RedisServer, ledger_config, url};

async fn fitness(url: &RedisUrl) -> Fitness {
    let config = ledger_config(TIMEOUT, MAX_SKEW);
    inspect(url, &config, SystemClock.now()).await.unwrap()
}

#[tokio::test]
async fn nothing_is_found_of_a_redis_as_we_ship_it() {
    let (server, url, _directory) = with_shipped_users();
    let fitness = fitness(&url).await;
    assert_eq!((fitness.risks, fitness.faults), (vec![], vec![]));
    assert_eq!(server.ask::<i64>("DBSIZE"), 0, "and nothing is left behind");
}

#[tokio::test]
async fn a_redis_that_evicts_or_keeps_nothing_is_found_out() {
    let server = RedisServer::with(&[
        "--save",
        "",
        "--appendonly",
        "no",
        "--maxmemory-policy",
        "allkeys-lru",
    ]);
    let found = fitness(&server.url()).await;
    let [evicts, keeps_nothing] = found.risks.as_slice() else {
        panic!("{found:?}")
    };
    assert!(evicts.contains("`allkeys-lru`; set `maxmemory-policy noeviction`"));
    assert!(keeps_nothing.contains("appendonly is off"));
    assert!(found.faults.is_empty(), "{found:?}");
}

#[tokio::test]
async fn a_permission_that_lacks_is_named() {
    let (server, url, _directory) = with_shipped_users();
    server.tell("ACL SETUSER ingest -hdel -zrem");
    let lacking = fitness(&url).await.faults;
    let [one, other] = lacking.as_slice() else {
        panic!("{lacking:?}")
    };
    assert!(one.starts_with("HDEL fails: NOPERM"), "{one}");
    assert!(other.starts_with("ZREM fails: NOPERM"), "{other}");
}

#[tokio::test]
async fn a_redis_that_does_not_tell_what_it_is_is_found_out() {
    let (server, url, _directory) = with_shipped_users();
    server.tell("ACL SETUSER ingest -info");
    let faults = fitness(&url).await.faults;
    let is_info = |fault: &String| fault.starts_with("INFO fails");
    assert!(
        faults.len() == 1 && faults.iter().all(is_info),
        "{faults:?}"
    );
}

#[tokio::test]
async fn a_clock_that_is_off_is_found_out() {
    let server = RedisServer::with(&["--appendonly", "yes"]);
    let now = SystemClock.now() + secs(3600);
    let config = ledger_config(TIMEOUT, MAX_SKEW);
    let found = inspect(&server.url(), &config, now).await.unwrap();
    assert!(
        found.faults.len() == 1 && found.faults[0].contains("more than ledger.max_skew"),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_redis_that_cannot_be_reached_is_no_finding() {
    assert!(
        inspect(
            &url("redis://127.0.0.1:1"),
            &ledger_config(TIMEOUT, MAX_SKEW),
            SystemClock.now()
        )
        .await
        .is_err()
    );
}

#[tokio::test]
async fn a_rejected_charge_writes_nothing() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(2));
    let process = machine.process();
    assert_eq!(process.drain(&account).await, 2);
    let before: i64 = changes(&server);
    for _ in 0..5 {
        process.ask(&account, 1).await;
    }
    process.used(&account).await;
    assert_eq!(changes(&server), before);
}

/// How often anything was written since the last save.
fn changes(server: &RedisServer) -> i64 {
    let info: String = server.ask("INFO persistence");
    info.lines()
        .find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"))
        .unwrap()
        .parse()
        .unwrap()
}

#[tokio::test]
async fn however_charges_come_the_log_falls_into_short_chunks() {
    let server = RedisServer::start();
    let account = account(1_000_000);
    let ledger = RedisLedger::new(&server.url(), &ledger_config(TIMEOUT, MAX_SKEW)).unwrap();
    let books = Books::new(std::sync::Arc::new(SharedAsLedger(ledger)), account.clone());
    let now = SystemClock.now();
    // One machine tells what it charged, in order; another as many in between, backwards; then somebody charges.
    let entry = |machine: &str, nth: u64, at| {
        crate::books::entry(
            &ChargeId::new(format!("{machine}-{nth}")),
            at,
            cost([("daily", 1)]),
        )
    };
    for batch in 0..10 {
        let one: Vec<_> = (0..150)
            .map(|nth| batch * 150 + nth)
            .map(|nth| entry("one", nth, now - secs(3500 - 2 * nth)))
            .collect();
        let other: Vec<_> = (0..150)
            .map(|nth| batch * 150 + nth)
            .map(|nth| entry("other", nth, now - secs(501 + 2 * nth)))
            .collect();
        books.absorb(&one, &[], now).await;
        books.absorb(&other, &[], now).await;
    }
    for _ in 0..300 {
        books.take(&cost([("daily", 1)]), now).await;
    }
    whole(&server, &account);
    assert!(stored(&server, &account).chunks >= 3300 / 33);
    assert_eq!(books.used("daily", now).await, 3300);
}

#[tokio::test]
async fn a_floor_that_counts_no_more_is_forgotten() {
    let store = Standalone::open().await;
    let books = Books::new(store.ledger(), account(10));
    let floors = || stored(&store.0, &books.account).floors;
    books
        .absorb(&[], &[floor("daily", at(0.0), 7)], at(1.0))
        .await;
    books.take(&cost([("daily", 1)]), at(2.0)).await;
    assert_eq!(floors(), 1);
    books
        .take(&cost([("daily", 1)]), at(2.0) + 2 * WINDOW)
        .await;
    assert_eq!(floors(), 0);
}

#[tokio::test]
async fn charges_that_no_window_holds_leave_the_log() {
    let store = Standalone::open().await;
    let books = Books::new(store.ledger(), account(100_000));
    for nth in 0..2000 {
        books
            .take(&cost([("daily", 1)]), at(f64::from(nth) * 36.0))
            .await;
    }
    let left = stored(&store.0, &books.account);
    assert_eq!(left.wrong, [""; 0]);
    // A window holds a hundred charges.
    assert!(left.records < 150 && left.ids < 150, "{left:?}");
}

#[tokio::test]
async fn a_repeated_charge_is_told_with_the_time_at_which_it_was_made() {
    let (server, account) = (RedisServer::start(), account(10));
    let ledger = RedisLedger::new(&server.url(), &ledger_config(TIMEOUT, MAX_SKEW))
        .unwrap()
        .with_time(ServerTime::Callers);
    let (id, cost, leave, purpose) = (
        ChargeId::new("a"),
        cost([("daily", 1)]),
        Cost::none(),
        Purpose::default(),
    );
    for (moment, made_now) in [(0.0, true), (5.0, false)] {
        let charge = Charge {
            account: &account,
            id: &id,
            cost: &cost,
            leave: &leave,
            purpose: &purpose,
        };
        match ledger.charge(charge, None, at(moment)).await.unwrap() {
            ChargeReply::Granted(granted) => {
                assert_eq!(
                    (granted.position.at, granted.is_fresh()),
                    (at(0.0), made_now)
                )
            }
            other => panic!("expected a grant, got {other:?}"),
        }
    }
}

/// A machine counts a charge again that none of its own limits counts any more: more than was charged, and never less.
#[tokio::test]
async fn an_id_is_remembered_while_a_limit_of_the_machine_that_charges_counts_it() {
    let store = Standalone::open().await;
    let long = account(100);
    let mut short = long.clone();
    short
        .limits
        .insert("daily".to_owned(), limit(100, Some(WINDOW / 10), None));
    let (long, short) = (
        Books::new(store.ledger(), long),
        Books::new(store.ledger(), short),
    );
    let (charge, units) = (ChargeId::new("one"), cost([("daily", 1)]));
    long.take_as(&charge, &units, at(0.0)).await;
    let later = at(0.0) + WINDOW / 2;
    assert!(long.take_as(&charge, &units, later).await.repeated);
    assert!(!short.take_as(&charge, &units, later).await.repeated);
    assert_eq!(long.used("daily", later).await, 2);
}

/// The log is read in parts, and a rejection reaches further than one of them.
#[tokio::test]
async fn a_report_and_a_rejection_over_a_long_log_are_exact() {
    let store = Standalone::open().await;
    let books = Books::new(store.ledger(), account(40_000));
    let charges: Vec<_> = (0..40_000)
        .map(|nth| {
            let at = at(0.0) + Duration::from_millis(nth);
            books::entry(&ChargeId::new(format!("{nth}")), at, cost([("daily", 1)]))
        })
        .collect();
    let now = at(60.0);
    for charges in charges.chunks(2_000) {
        books.absorb(charges, &[], now).await;
    }
    assert_eq!(books.used("daily", now).await, 40_000);
    let gone = |nth| {
        let window = limit(1, Some(WINDOW), None);
        window.window().expiry(at(0.0) + Duration::from_millis(nth))
    };
    for units in [1, 20_000, 39_990] {
        let rejection = books.reject(&cost([("daily", units)]), now).await;
        assert_eq!(rejection.retry_at, gone(units - 1), "{units}");
    }
    whole(&store.0, &books.account);
}
