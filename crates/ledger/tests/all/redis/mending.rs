//! Sums that differ from the charges are mended, and a loss of units is none of those.

use std::sync::Arc;
use std::time::Duration;

use ingest_base::clock::{Clock, SystemClock};
use ingest_ledger::redis::{RedisLedger, ServerTime};
use ingest_quota::{Account, ChargeId, Cost, Units};

use super::machine::{Machine, WINDOW, account};
use super::{MAX_SKEW, Standalone, TIMEOUT};
use crate::Store;
use crate::books::{Books, at, cost, entry, sliding};
use crate::shared_as_ledger::SharedAsLedger;
use ingest_testing::redis_server::RedisServer;

/// Writes another total than the right one.
fn misplace(server: &RedisServer, account: &Account, right: u64, wrong: u64) {
    let script = redis::Script::new(
        "local kept = { cmsgpack.unpack(redis.call('HGET', KEYS[1], 'state')) }
         if kept[10] ~= tonumber(ARGV[1]) then return kept[10] end
         kept[10] = tonumber(ARGV[2])
         redis.call('HSET', KEYS[1], 'state', cmsgpack.pack(unpack(kept)))
         return kept[10]",
    );
    let key = format!("ingest:{{{}}}:meta", account.name);
    let written: u64 = script
        .key(key)
        .arg(right)
        .arg(wrong)
        .invoke(&mut server.connect())
        .unwrap();
    assert_eq!(written, wrong);
}

#[tokio::test]
async fn a_total_that_differs_from_its_charges_is_mended() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(1000));
    let process = machine.process();
    for _ in 0..200 {
        process.take(&account, 1).await;
    }
    for wrong in [150, 250] {
        misplace(&server, &account, 200, wrong);
        assert_eq!(process.used(&account).await, wrong);
        let what = format!("daily stood at {wrong}, its charges sum to 200");
        assert_eq!(mended(&server, &account).await, [what]);
        assert_eq!(process.used(&account).await, 200);
        assert_eq!(mended(&server, &account).await, [""; 0]);
    }
}

#[tokio::test]
async fn totals_are_checked_from_time_to_time() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(2000));
    let process = machine.process();
    process.take(&account, 1).await;
    misplace(&server, &account, 1, 0);
    for _ in 0..511 {
        process.take(&account, 1).await;
    }
    while process.used(&account).await != 512 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn mended(server: &RedisServer, account: &Account) -> Vec<String> {
    let ledger = RedisLedger::new(&server.url(), TIMEOUT, MAX_SKEW).unwrap();
    ledger.mend(account, SystemClock.now()).await.unwrap()
}

fn key(account: &Account, part: &str) -> String {
    format!("ingest:{{{}}}:{part}", account.name)
}

fn marks(server: &RedisServer, account: &Account) -> Vec<String> {
    server.ask(&format!("ZRANGE {} 0 -1", key(account, "marks")))
}

/// More blocks than one check compares.
#[tokio::test]
async fn a_sum_that_differs_is_mended_in_whichever_block_it_is() {
    let server = RedisServer::start();
    let account = account(1_000_000);
    let ledger = RedisLedger::new(&server.url(), TIMEOUT, MAX_SKEW).unwrap();
    let books = Books::new(Arc::new(SharedAsLedger(ledger)), account.clone());
    let now = SystemClock.now();
    for batch in 0..36 {
        let charges: Vec<_> = (batch * 130..(batch + 1) * 130)
            .map(|nth| {
                let at = now - WINDOW / 2 + Duration::from_millis(nth);
                entry(&ChargeId::new(format!("id{nth}")), at, cost([("daily", 1)]))
            })
            .collect();
        books.absorb(&charges, &[], now).await;
    }
    let marks = marks(&server, &account);
    assert!(marks.len() > 64, "{}", marks.len());
    for place in [marks.len() - 1, 1] {
        let mark = &marks[place];
        server.tell(&format!("HSET {} {mark} 1", key(&account, "sums")));
        let mut found = Vec::new();
        for _ in 0..3 {
            found.extend(mended(&server, &account).await);
        }
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("the block up to {mark} summed to [1]")));
    }
}

#[tokio::test]
async fn a_block_from_before_many_limits_came_is_right_in_the_form_it_has() {
    let server = RedisServer::start();
    let machine = Machine::new(server.url());
    let mut account = account(1_000);
    for _ in 0..200 {
        machine.process().take(&account, 1).await;
    }
    let more = (0..70).map(|nth| (format!("limit{nth}"), sliding(1_000, WINDOW)));
    account.limits.extend(more);
    let ledger = RedisLedger::new(&server.url(), TIMEOUT, MAX_SKEW).unwrap();
    let books = Books::new(Arc::new(SharedAsLedger(ledger)), account.clone());
    let names = account.limits.keys();
    let all: Cost = names.map(|name| (name.clone(), Units::new(1))).collect();
    books.take(&all, SystemClock.now()).await;
    assert_eq!(mended(&server, &account).await, [""; 0]);
}

#[tokio::test]
async fn units_that_are_gone_are_a_loss_that_the_next_charge_finds() {
    // In blocks, and without any.
    for charges in [200, 20] {
        charge_after_units_are_gone(charges).await;
    }
}

async fn charge_after_units_are_gone(charges: u64) {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(1_000));
    let process = machine.process();
    let mut ids = Vec::new();
    for _ in 0..charges {
        ids.push(process.take(&account, 1).await.id);
    }
    let gone = ids[ids.len() / 2].as_str();
    let units = key(&account, "units");
    assert_eq!(server.ask::<usize>(&format!("HDEL {units} {gone}")), 1);
    server.tell(&format!("DEL {}", key(&account, "sums")));
    assert_eq!(mended(&server, &account).await, [""; 0]);
    let lives = || {
        for key in server.ask::<Vec<String>>("KEYS *") {
            let life: i64 = server.ask(&format!("PTTL {key}"));
            assert!(life > 0, "{key} lives for {life} ms");
        }
    };
    lives();
    process.take(&account, 1).await;
    lives();
    assert!(server.ask::<bool>(&format!("HEXISTS {units} {gone}")));
    assert_eq!(process.used(&account).await, charges + 1);
}

#[tokio::test]
async fn charges_that_left_the_window_are_in_no_total() {
    let store = Standalone::open().await;
    let account = account(1_000);
    let books = Books::new(store.ledger(), account.clone());
    books.take(&cost([("daily", 5)]), at(1.0)).await;
    let later = at(10.0) + WINDOW;
    books.take(&cost([("daily", 1)]), later).await;
    let ledger = RedisLedger::new(&store.0.url(), TIMEOUT, MAX_SKEW).unwrap();
    let ledger = ledger.with_time(ServerTime::Callers);
    assert_eq!(ledger.mend(&account, later).await.unwrap(), [""; 0]);
}

#[tokio::test]
async fn a_charge_fits_at_the_same_instant_though_the_sum_of_a_block_is_gone() {
    let store = Standalone::open().await;
    let account = account(300);
    let books = Books::new(store.ledger(), account.clone());
    for nth in 0..300 {
        books.take(&cost([("daily", 1)]), at(f64::from(nth))).await;
    }
    let marks = marks(&store.0, &account);
    assert!(marks.len() > 3, "{marks:?}");
    let retries = async || {
        let mut retries = Vec::new();
        for units in 1..300 {
            let rejection = books.reject(&cost([("daily", units)]), at(300.0)).await;
            retries.push(rejection.retry_at);
        }
        retries
    };
    let before = retries().await;
    server_forgets(&store.0, &account, &marks[2]);
    assert_eq!(retries().await, before);
}

fn server_forgets(server: &RedisServer, account: &Account, mark: &str) {
    let forgotten: usize = server.ask(&format!("HDEL {} {mark}", key(account, "sums")));
    assert_eq!(forgotten, 1);
}

/// A machine counts a charge again that none of its own limits counts any more: more than was charged, and never less.
#[tokio::test]
async fn an_id_is_remembered_while_a_limit_of_the_machine_that_charges_counts_it() {
    let store = Standalone::open().await;
    let long = account(100);
    let mut short = long.clone();
    short
        .limits
        .insert("daily".to_owned(), sliding(100, WINDOW / 10));
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
