//! A ledger that is away: what goes ahead, what does not, and what is told afterwards.

use std::time::{Duration, Instant};

use ingest_ledger::{ClientError, LedgerError};
use ingest_quota::Outage;

use super::machine::{Machine, account, refusal};
use crate::books::{cost, limit, secs};
use ingest_testing::redis_server::{RedisServer, url};

/// A machine whose ledger refuses connections.
fn cut_off() -> Machine {
    Machine::new(url("redis://127.0.0.1:1"))
}

/// Asks until the ledger is asked again.
async fn until_metered(process: &super::machine::Process, account: &ingest_quota::Account) {
    let begun = Instant::now();
    while !matches!(
        process.ask(account, 1).await,
        ingest_ledger::Acquired::Permitted(_)
    ) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_damaged_cost_in_the_journal_is_an_error_and_no_cost_of_nothing() {
    let (machine, account) = (cut_off(), account(100));
    let process = machine.process();
    process.take_unmetered(&account, 5).await;
    let journal = rusqlite::Connection::open(machine.journal()).unwrap();
    let damage = "update charge set cost = '{\"daily\":'";
    assert_eq!(journal.execute(damage, []).unwrap(), 1);
    let cheap = process.try_ask(&account, None, 1, Outage::Allow).await;
    assert!(matches!(cheap, Err(ClientError::Journal(_))), "{cheap:?}");
}

#[tokio::test]
async fn the_allowance_is_one_for_all_processes_of_a_machine() {
    let (machine, account) = (cut_off(), account(100));
    let mut asks = Vec::new();
    for _ in 0..8 {
        let (process, account) = (machine.process(), account.clone());
        asks.push(tokio::spawn(async move {
            let mut units = 0;
            for _ in 0..3 {
                units += u64::from(matches!(
                    process.ask_cheaply(&account, 1).await,
                    ingest_ledger::Acquired::Permitted(_)
                ));
            }
            units
        }));
    }
    let mut units = 0;
    for ask in asks {
        units += ask.await.unwrap();
    }
    assert_eq!(units, 5);
}

#[tokio::test]
async fn what_went_unmetered_is_told_as_soon_as_the_ledger_answers() {
    let mut server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    let process = machine.process();
    process.take(&account, 1).await;
    server.kill();
    process.take_unmetered(&account, 3).await;
    server.restart();
    until_metered(&process, &account).await;
    assert_eq!(process.used(&account).await, 5, "in the middle of a run");
    assert_eq!(process.drain(&account).await, 5);
}

#[tokio::test]
async fn a_silent_ledger_is_waited_for_once_and_not_for_every_call() {
    let server = RedisServer::start();
    let (mut machine, account) = (Machine::new(server.url()), account(100));
    machine.timeout = Duration::from_millis(250);
    let process = machine.process();
    server.hang();
    let begun = Instant::now();
    for _ in 0..200 {
        refusal(process.ask(&account, 1).await);
    }
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
    server.resume();
}

#[tokio::test]
async fn a_ledger_that_always_answers_too_late_for_a_short_window_refuses_after_some_attempts() {
    let server = RedisServer::start();
    let machine = Machine::new(server.url());
    let short = crate::books::account([("daily", limit(10, Some(secs(1)), None))]);
    let process = super::between::late(&machine, short.grant_lifetime(&cost([("daily", 1)])));
    let why = refusal(process.ask(&short, 1).await);
    assert!(
        why.contains("responds too slowly") && why.contains("100ms"),
        "{why}"
    );
    assert_eq!(
        machine.process().used(&short).await,
        0,
        "they were given back"
    );
}

#[tokio::test]
async fn usage_of_a_ledger_that_is_away_is_an_outage() {
    let usage = cut_off().process().0.usage(&account(10)).await;
    assert!(
        matches!(usage, Err(ClientError::Ledger(LedgerError::Unreachable(_)))),
        "{usage:?}"
    );
}

#[tokio::test]
async fn a_machine_that_only_looks_does_not_charge() {
    let server = RedisServer::start();
    let machine = Machine::new(server.url());
    let asked = machine
        .watcher()
        .try_ask(&account(10), None, 1, Outage::Allow)
        .await;
    assert!(matches!(asked, Err(ClientError::ReadOnly)), "{asked:?}");
    assert!(!machine.journal().exists());
}
