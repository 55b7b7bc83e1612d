//! A ledger that loses what it holds: nobody overspends what this machine knew of.

use std::sync::Arc;

use ingest_base::clock::{Clock, SystemClock};
use ingest_config::AfterLoss;
use ingest_ledger::redis::RedisLedger;
use ingest_ledger::{ChargeRequest, Purpose, SharedLedger, Update};
use ingest_quota::{Account, ChargeId, Cost, Outage};

use super::machine::{Machine, Process, WINDOW, account, permit, refusal, rejection};
use super::stored::{key, whole};
use super::{MAX_SKEW, TIMEOUT};
use crate::books::{Books, cost, entry, floor, fresh_id, limit, secs};
use crate::shared_as_ledger::SharedAsLedger;
use ingest_testing::redis_server::{RedisServer, ledger_config};

/// One charge in about sixteen reads the log.
#[tokio::test]
async fn a_part_that_is_missing_is_found_by_charges_alone() {
    for part in ["log", "ids"] {
        let server = RedisServer::start();
        let (machine, account) = (Machine::new(server.url()), account(200));
        let process = machine.process();
        for _ in 0..40 {
            process.take(&account, 1).await;
        }
        server.tell(&format!("DEL {}", key(&account, part)));
        for _ in 0..30 {
            process.take(&account, 1).await;
        }
        whole(&server, &account);
        assert_eq!(process.used(&account).await, 70, "without {part}");
    }
}

#[tokio::test]
async fn an_id_of_yesterday_is_charged_again_and_what_it_took_today_survives_a_loss() {
    let mut server = RedisServer::start();
    let days = limit(100, None, Some(chrono_tz::UTC));
    let (machine, account) = (
        Machine::new(server.url()),
        crate::books::account([("daily", days)]),
    );
    let nightly = ChargeId::new("nightly");
    let charge = async |process: &Process, units| {
        let asked = process.try_ask(&account, Some(&nightly), units, Outage::Allow);
        permit(asked.await.unwrap())
    };
    let day = |days: u32| machine.process_later(days * secs(25 * 3600));
    assert!(charge(&day(0), 3).await.metered);
    let tomorrow = day(1);
    assert!(!charge(&tomorrow, 4).await.grant.repeated);
    assert_eq!(tomorrow.used(&account).await, 4);
    server.tell("FLUSHALL");
    assert_eq!(tomorrow.used(&account).await, 4);
    assert!(charge(&tomorrow, 4).await.grant.repeated);
    // The journal alone decides.
    server.kill();
    let third = day(2);
    let unmetered = charge(&third, 2).await;
    assert!(!unmetered.metered && !unmetered.grant.repeated);
    assert!(charge(&third, 2).await.grant.repeated);
    let fourth = day(3);
    assert!(!charge(&fourth, 1).await.grant.repeated);
    server.restart();
    assert_eq!(day(3).used(&account).await, 1);
}

/// Moves everything from one server to the other and back, so often, each time with a charge by another machine: each time
/// an epoch is over. The first charge is made before, by a machine that waits after a loss.
async fn one_that_was_away(moves: usize) -> (RedisServer, Machine, Account) {
    let mut servers = [RedisServer::start(), RedisServer::start()];
    let (mut waiting, mut other) = (
        Machine::new(servers[0].url()),
        Machine::new(servers[0].url()),
    );
    let account = account(100);
    waiting.policy.after_loss = AfterLoss::Wait;
    waiting.process().take(&account, 1).await;
    for _ in 0..moves {
        servers[1].tell("FLUSHALL");
        servers[1].restore_all(&servers[0].dump_all());
        servers.reverse();
        other.url = servers[0].url();
        other.process().take(&account, 1).await;
    }
    let [server, _] = servers;
    waiting.url = server.url();
    (server, waiting, account)
}

fn past_epochs(server: &RedisServer, account: &Account) -> usize {
    let epochs: Vec<u8> = server.ask(&format!("HGET {} epochs", key(account, "main")));
    // Each begins a text of 12 bytes, and nothing else there does.
    epochs.iter().filter(|byte| **byte == 0xac).count()
}

#[tokio::test]
async fn a_machine_that_missed_epochs_that_lost_nothing_waits_for_nothing() {
    for moves in [1, 3, 16] {
        let (server, waiting, account) = one_that_was_away(moves).await;
        waiting.process().take(&account, 1).await;
        let used = u64::try_from(moves).unwrap() + 2;
        assert_eq!(waiting.process().used(&account).await, used);
        assert_eq!(past_epochs(&server, &account), moves);
    }
}

#[tokio::test]
async fn sixteen_past_epochs_are_known_and_a_machine_that_missed_more_waits() {
    let (server, waiting, account) = one_that_was_away(18).await;
    let why = refusal(waiting.process().ask(&account, 1).await);
    assert!(why.contains("after_loss"), "{why}");
    assert_eq!(past_epochs(&server, &account), 16);
}

/// A machine that has charged `charges` of 300 units.
async fn one_that_charged(charges: u64) -> (RedisServer, Machine, Account) {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(300));
    let process = machine.process();
    for _ in 0..charges {
        process.take(&account, 1).await;
    }
    (server, machine, account)
}

#[tokio::test]
async fn records_that_are_lost_alone_are_found_by_the_very_next_charge_by_another_rule() {
    let (server, machine, mut account) = one_that_charged(200).await;
    server.tell(&format!("DEL {}", key(&account, "log")));
    account
        .limits
        .insert("daily".to_owned(), limit(290, Some(WINDOW / 2), None));
    assert_eq!(machine.process().drain(&account).await, 90);
}

#[tokio::test]
async fn what_a_floor_said_and_was_charged_after_it_holds_when_units_are_lost() {
    // Who looks first has heard of no use yet: only the ledger itself knows of it.
    for looks_first in [true, false] {
        floor_when_units_are_lost(looks_first).await;
    }
}

async fn floor_when_units_are_lost(looks_first: bool) {
    let (server, account) = (RedisServer::start(), account(300));
    let ledger = RedisLedger::new(&server.url(), &ledger_config(TIMEOUT, MAX_SKEW)).unwrap();
    let books = Books::new(Arc::new(SharedAsLedger(ledger)), account.clone());
    let now = SystemClock.now();
    books.absorb(&[], &[floor("daily", now, 100)], now).await;
    let machine = Machine::new(server.url());
    for _ in 0..40 {
        machine.process().take(&account, 1).await;
    }
    server.tell(&format!("DEL {}", key(&account, "log")));
    let newcomer = Machine::new(server.url());
    if looks_first {
        assert_eq!(newcomer.process().used(&account).await, 140);
    }
    assert_eq!(newcomer.process().drain(&account).await, 160);
}

#[tokio::test]
async fn what_another_configuration_charged_is_told_whole_by_one_that_does_not_know_all_its_limits()
{
    let mut server = RedisServer::start();
    let (machine, narrow) = (Machine::new(server.url()), account(10));
    let mut wide = narrow.clone();
    wide.limits
        .insert("search".to_owned(), limit(5, Some(WINDOW), None));
    let both = cost([("daily", 1), ("search", 1)]);
    let (leave, purpose) = (Cost::none(), Purpose::default());
    let ask = ChargeRequest {
        account: &wide,
        id: None,
        cost: &both,
        leave: &leave,
        outage: Outage::Allow,
        purpose: &purpose,
    };
    let used = async || {
        let usage = machine.process().0.usage(&wide).await.unwrap();
        usage
            .iter()
            .map(|usage| usage.used.get())
            .collect::<Vec<_>>()
    };
    assert!(permit(machine.process().0.acquire(ask).await.unwrap()).metered);
    server.kill();
    assert!(!permit(machine.process().0.acquire(ask).await.unwrap()).metered);
    server.restart();
    server.tell("FLUSHALL");
    machine.process().take(&narrow, 1).await;
    assert_eq!(used().await, [3, 2]);
    server.kill();
    assert!(!permit(machine.process().0.acquire(ask).await.unwrap()).metered);
    server.restart();
    machine.process().take(&narrow, 1).await;
    assert_eq!(used().await, [5, 3], "restarted empty");
    for _ in 0..2 {
        permit(machine.process().0.acquire(ask).await.unwrap());
    }
    assert_eq!(
        rejection(machine.process().0.acquire(ask).await.unwrap()).limit,
        "search"
    );
    whole(&server, &wide);
}

#[tokio::test]
async fn a_machine_that_only_saw_what_another_told_finds_that_it_is_lost() {
    let (server, machine, account) = one_that_charged(5).await;
    let process = machine.process();
    let older = server.dump_all();
    let ledger = RedisLedger::new(&server.url(), &ledger_config(TIMEOUT, MAX_SKEW)).unwrap();
    let books = Books::new(Arc::new(SharedAsLedger(ledger)), account.clone());
    let now = SystemClock.now();
    let told = entry(&fresh_id(), now - secs(1), cost([("daily", 100)]));
    books.absorb(&[told], &[], now).await;
    assert_eq!(process.used(&account).await, 105);
    server.restore_all(&older);
    assert_eq!(process.drain(&account).await, 300 - 105);
}

#[tokio::test]
async fn a_machine_whose_clock_is_wrong_tells_nothing() {
    let (server, machine, account) = one_that_charged(5).await;
    let ledger = RedisLedger::new(&server.url(), &ledger_config(TIMEOUT, MAX_SKEW)).unwrap();
    let now = SystemClock.now();
    let told = entry(&fresh_id(), now - secs(1), cost([("daily", 100)]));
    let wrong = now + 2 * MAX_SKEW;
    let update = Update::Absorb(std::slice::from_ref(&told));
    assert!(ledger.update(&account, update, None, wrong).await.is_err());
    assert_eq!(machine.process().used(&account).await, 5);
}
