//! A limit that counts in parts forgets its charges one by one, here and in Redis. What they took survives every loss, and
//! is counted once.

use std::time::Duration;

use ingest_quota::{Account, Counting, Limit, Units, Window};

use super::machine::{Machine, Process, WINDOW};
use crate::ledger::books::{account, cost, secs};
use crate::support::redis_server::RedisServer;

/// Longer than ids are remembered.
const LATER: Duration = secs(20 * 60);

fn counted_in_parts(quota: u64) -> Account {
    let window = Window::new(Some(WINDOW), None).unwrap();
    let window = window.counted(Counting::Buckets(60)).unwrap();
    let limit = Limit::new(Units::new(quota), Units::ZERO, window).unwrap();
    account([("daily", limit)])
}

async fn take(process: &Process, account: &Account, charges: usize) {
    for _ in 0..charges {
        process.take(account, 1).await;
    }
}

/// A machine that charged 400 units, 20 minutes later 140 more.
async fn merged() -> (RedisServer, Machine, Account) {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), counted_in_parts(1_000));
    take(&machine.process(), &account, 400).await;
    take(&machine.process_later(LATER), &account, 140).await;
    (server, machine, account)
}

fn entries(server: &RedisServer, account: &Account) -> usize {
    let key = format!("ingest:{{{}}}:log", account.name);
    server.ask(&format!("ZCARD {key}"))
}

#[tokio::test]
async fn old_charges_become_one_for_each_part_in_redis_and_in_the_journal() {
    let (server, machine, account) = merged().await;
    let entries = entries(&server, &account);
    assert!((140..300).contains(&entries), "{entries}");
    let later = machine.process_later(LATER);
    assert_eq!(later.used(&account).await, 540);
    let journal = rusqlite::Connection::open(machine.journal()).unwrap();
    let row = |sql: &str| {
        journal
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let rows = row("select count(*) from charge");
    assert!((140..300).contains(&rows), "{rows}");
    let units = "select sum(json_extract(cost, '$.daily')) from charge";
    assert_eq!(row(units), 540);
    assert_eq!(row("select sum(charges) from charge"), 540);
}

#[tokio::test]
async fn what_was_merged_counts_after_a_ledger_lost_everything() {
    let (server, machine, account) = merged().await;
    server.tell("FLUSHALL");
    let later = machine.process_later(LATER);
    assert_eq!(later.drain(&account).await, 460);
    assert_eq!(later.used(&account).await, 1_000);
}

#[tokio::test]
async fn what_was_merged_counts_once_after_a_ledger_lost_its_newest_charges() {
    let (server, machine, account) = merged().await;
    let older = server.dump_all();
    let later = machine.process_later(LATER);
    take(&later, &account, 3).await;
    server.restore_all(&older);
    later.take(&account, 1).await;
    assert_eq!(later.used(&account).await, 544);
}

#[tokio::test]
async fn a_cost_that_was_corrected_long_ago_counts_after_a_loss() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), counted_in_parts(100));
    let process = machine.process();
    let permit = process.take(&account, 10).await;
    let truth = cost([("daily", 15)]);
    process
        .0
        .settle(&account, &permit.id, &truth)
        .await
        .unwrap();
    server.tell("FLUSHALL");
    assert_eq!(machine.process_later(LATER).drain(&account).await, 85);
}

#[tokio::test]
async fn what_went_unmetered_long_ago_counts_once_after_a_loss() {
    let mut server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), counted_in_parts(100));
    machine.process().take(&account, 1).await;
    server.kill();
    machine.process().take_unmetered(&account, 3).await;
    server.restart();
    let later = machine.process_later(LATER);
    later.take(&account, 1).await;
    for wipe in ["FLUSHALL", "PING"] {
        server.tell(wipe);
        let later = machine.process_later(2 * LATER);
        later.take(&account, 1).await;
    }
    assert_eq!(machine.process_later(2 * LATER).used(&account).await, 7);
}
