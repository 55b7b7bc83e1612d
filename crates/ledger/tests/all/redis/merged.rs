//! A limit that counts in parts forgets its charges one by one, here and in Redis. What they took survives every loss, and
//! is counted once.

use std::time::Duration;

use ingest_quota::{Account, Closing, Counting, Entry, Limit, Timestamp, Units, Window};

use super::Standalone;
use super::machine::{Machine, Process, WINDOW};
use super::stored::{key, stored, whole};
use crate::Store;
use crate::books::{Books, account, at, cost, entry, floor, fresh_id, secs, sliding};
use ingest_testing::redis_server::RedisServer;

/// Longer than ids are remembered.
const LATER: Duration = secs(20 * 60);

fn counted_in_parts(quota: u64) -> Account {
    account([("daily", in_parts(quota))])
}

fn in_parts(quota: u64) -> Limit {
    let window = Window::new(Some(WINDOW), None).unwrap();
    let window = window.counted(Counting::Buckets(60)).unwrap();
    Limit::new(Units::new(quota), Units::ZERO, window).unwrap()
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
    stored(server, account).records
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

/// As many charges as end a block, so that what is older than ids are remembered is merged.
async fn end_a_block(books: &Books) {
    for nth in 0..64 {
        let now = at(1_500.0 + f64::from(nth) / 100.0);
        books.take(&cost([("daily", 1)]), now).await;
    }
}

#[tokio::test]
async fn what_a_limit_forgot_before_its_charges_were_merged_does_not_return_units_twice() {
    let store = Standalone::open().await;
    let limits = [("burst", sliding(3, secs(5))), ("daily", in_parts(1_000))];
    let books = Books::new(store.ledger(), account(limits));
    for seconds in [1.0, 2.0, 10.0] {
        books
            .take(&cost([("burst", 1), ("daily", 1)]), at(seconds))
            .await;
    }
    end_a_block(&books).await;
    for seconds in [1_600.0, 1_600.1, 1_600.2] {
        books.take(&cost([("burst", 1)]), at(seconds)).await;
    }
    books.reject(&cost([("burst", 1)]), at(1_600.3)).await;
    assert_eq!(books.used("daily", at(1_600.3)).await, 67);
    books.take(&cost([("daily", 1)]), at(1_900.0)).await;
    // What is kept for longer keeps the keys for longer.
    let key = format!("PTTL {}", key(&books.account, "log"));
    assert!(store.0.ask::<u128>(&key) < 27 * WINDOW.as_millis());
}

#[tokio::test]
async fn charges_on_both_sides_of_a_floor_stay_apart() {
    for floor_at in [1.0, 5.0, 10.0] {
        let store = Standalone::open().await;
        let books = Books::new(store.ledger(), counted_in_parts(1_000));
        books.take(&cost([("daily", 2)]), at(1.0)).await;
        books
            .absorb(&[], &[floor("daily", at(floor_at), 10)], at(10.0))
            .await;
        for seconds in [10.0, 11.0] {
            books.take(&cost([("daily", 3)]), at(seconds)).await;
        }
        end_a_block(&books).await;
        // Of the same instant, and more than was known of it.
        let raised = floor("daily", at(floor_at), 20);
        books.absorb(&[], &[raised], at(1_600.0)).await;
        let used = books.used("daily", at(1_600.0)).await;
        assert_eq!(used, 20 + 6 + 64, "a floor at {floor_at} s");
    }
}

/// What ends the block charges `daily` alone: the floor is in the field of a limit that it does not read by itself.
#[tokio::test]
async fn a_floor_of_one_of_many_limits_keeps_its_charges_apart_though_others_end_the_block() {
    let store = Standalone::open().await;
    let mut account = counted_in_parts(1_000);
    let others = (0..119).map(|number| (format!("value/{number}"), in_parts(1_000)));
    account.limits.extend(others);
    let books = Books::new(store.ledger(), account);
    let all = books.account.limits.keys();
    let all = all.map(|name| (name.clone(), Units::new(1))).collect();
    books.take(&all, at(0.5)).await;
    let one = |units| cost([("value/5", units)]);
    books.take(&one(2), at(1.0)).await;
    books
        .absorb(&[], &[floor("value/5", at(5.0), 10)], at(10.0))
        .await;
    for seconds in [10.0, 11.0] {
        books.take(&one(3), at(seconds)).await;
    }
    end_a_block(&books).await;
    let raised = floor("value/5", at(5.0), 20);
    books.absorb(&[], &[raised], at(1_600.0)).await;
    assert_eq!(books.used("value/5", at(1_600.0)).await, 20 + 6);
}

/// What comes first after the state of a ledger is gone.
#[derive(Debug, Clone, Copy)]
enum First {
    Charge,
    Settlement,
    Closing,
}

#[tokio::test]
async fn what_is_left_of_a_ledger_without_its_state_gives_no_units_back() {
    for first in [First::Charge, First::Settlement, First::Closing] {
        let store = Standalone::open().await;
        let books = Books::new(store.ledger(), account([("daily", sliding(1_000, WINDOW))]));
        books.take(&cost([("daily", 600)]), at(1.0)).await;
        let main = key(&books.account, "main");
        assert_eq!(store.0.ask::<usize>(&format!("DEL {main}")), 1);
        match first {
            First::Charge => {}
            First::Settlement => books.settle(&fresh_id(), &cost([]), at(9.0)).await,
            First::Closing => {
                let closing = Closing::Until(at(9.5));
                books.close("daily", closing, at(9.0)).await;
            }
        }
        books.take(&cost([("daily", 100)]), at(10.0)).await;
        // The charge before the loss would leave the window now.
        let later = at(5.0) + WINDOW;
        assert_eq!(books.used("daily", later).await, 100, "{first:?}");
    }
}

/// Two charges in each of 30 parts, then many in one; a floor lies before all of them.
#[tokio::test]
async fn what_is_merged_leaves_neither_units_nor_blocks_behind() {
    let store = Standalone::open().await;
    let account = counted_in_parts(10_000);
    let books = Books::new(store.ledger(), account.clone());
    let part = WINDOW / 60;
    let start =
        at(0.0) + part - Duration::from_micros(at(0.0).micros() as u64 % part.as_micros() as u64);
    books.absorb(&[], &[floor("daily", start, 1)], start).await;
    // Blocks of charges that become one.
    for nth in 0..200 {
        let now = start + Duration::from_millis(1 + nth);
        books.take(&cost([("daily", 1)]), now).await;
    }
    for nth in 1..30 {
        for within in [1, 2] {
            books
                .take(&cost([("daily", 1)]), start + part * nth + secs(within))
                .await;
        }
    }
    let later = start + part * 30 + LATER;
    for nth in 0..200 {
        books
            .take(&cost([("daily", 1)]), later + Duration::from_millis(nth))
            .await;
    }
    let now = later + secs(1);
    let left = stored(&store.0, &account);
    assert_eq!(left.wrong, [""; 0]);
    // The last chunks are not merged yet.
    assert!((228..300).contains(&left.records), "{left:?}");
    assert!(left.ids < 228, "{left:?}");
    assert_eq!(books.used("daily", now).await, 459);
    // The block that they became is divided.
    let told = entry_each(200, start + Duration::from_millis(100));
    books.absorb(&told, &[], now).await;
    whole(&store.0, &account);
    assert_eq!(books.used("daily", now).await, 659);
}

fn entry_each(count: u64, first: Timestamp) -> Vec<Entry> {
    let nth = |nth| first + Duration::from_micros(nth);
    let told = (0..count).map(|number| entry(&fresh_id(), nth(number), cost([("daily", 1)])));
    told.collect()
}

#[tokio::test]
async fn charges_of_one_part_become_one_whatever_lies_before_them_and_however_they_come() {
    let store = Standalone::open().await;
    let account = counted_in_parts(10_000);
    let books = Books::new(store.ledger(), account.clone());
    let part = WINDOW / 60;
    let start =
        at(0.0) + part - Duration::from_micros(at(0.0).micros() as u64 % part.as_micros() as u64);
    let take = async |count: u64, first: Duration, apart: Duration| {
        for nth in 0..count {
            let now = start + first + apart * u32::try_from(nth).unwrap();
            books.take(&cost([("daily", 1)]), now).await;
        }
    };
    // More of one instant, and from elsewhere, than are merged at a time.
    for _ in 0..3 {
        let told: Vec<_> = (0..100)
            .map(|_| entry(&fresh_id(), start, cost([("daily", 1)])))
            .collect();
        books.absorb(&told, &[], start).await;
    }
    // Two of one instant, which are forgotten before the third.
    take(2, secs(1), Duration::ZERO).await;
    take(1, secs(50), Duration::ZERO).await;
    take(320, secs(611), Duration::from_millis(1)).await;
    take(64, secs(660), Duration::ZERO).await;
    take(256, secs(1_300), Duration::from_millis(1)).await;
    assert_eq!(entries(&store.0, &account), 300 + 1 + 1 + 1 + 256);
    let now = start + secs(1_302);
    assert_eq!(books.used("daily", now).await, 300 + 3 + 320 + 64 + 256);
}
