//! A ledger that loses what it holds: nobody overspends what this machine knew of.

use std::sync::Arc;

use ingest_base::clock::{Clock, SystemClock};
use ingest_config::AfterLoss;
use ingest_ledger::redis::RedisLedger;
use ingest_ledger::{ChargeRequest, Purpose, SharedLedger, Update};
use ingest_quota::{Account, ChargeId, Closing, Cost, Outage, Units};

use super::machine::{Machine, Process, WINDOW, account, permit, refusal, rejection};
use super::stored::{key, stored, try_stored, whole};
use super::{MAX_SKEW, TIMEOUT};
use crate::books::{Books, cost, entry, floor, fresh_id, limit, secs};
use crate::shared_as_ledger::SharedAsLedger;
use ingest_testing::redis_server::{RedisServer, url, wait_until};

#[tokio::test]
async fn a_redis_that_restarts_empty_is_told_what_this_machine_charged() {
    let mut server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    let process = machine.process();
    for _ in 0..3 {
        process.take(&account, 2).await;
    }
    server.restart();
    assert_eq!(process.drain(&account).await, 4);
    assert_eq!(process.used(&account).await, 10);
}

#[tokio::test]
async fn what_was_flushed_is_told_again_before_anything_is_charged() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    let (one, other) = (machine.process(), machine.process());
    one.take(&account, 4).await;
    other.take(&account, 4).await;
    server.tell("FLUSHALL");
    assert_eq!(one.drain(&account).await + other.drain(&account).await, 2);
}

/// Makes the server forget the text in both its forms.
fn forget_text(server: &RedisServer) {
    server.tell("SCRIPT FLUSH");
    server.tell("FUNCTION FLUSH");
}

#[tokio::test]
async fn functions_and_scripts_that_were_flushed_are_loaded_again() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    let process = machine.process();
    process.take(&account, 2).await;
    forget_text(&server);
    assert_eq!(process.drain(&account).await, 8);
    forget_text(&server);
    assert_eq!(process.used(&account).await, 10);
}

#[tokio::test]
async fn a_floor_stands_for_what_others_charged_until_they_come_by() {
    let server = RedisServer::start();
    let (here, there, account) = (
        Machine::new(server.url()),
        Machine::new(server.url()),
        account(10),
    );
    let (here, there) = (here.process(), there.process());
    there.take(&account, 5).await;
    here.take(&account, 1).await;
    server.tell("FLUSHALL");
    assert_eq!(
        here.drain(&account).await,
        4,
        "the ledger had said 6 to this machine"
    );
    rejection(there.ask(&account, 1).await);
    assert_eq!(there.used(&account).await, 10);
}

#[tokio::test]
async fn every_machine_comes_by_after_a_loss_whoever_finds_it() {
    let server = RedisServer::start();
    let machines = [(); 3].map(|()| Machine::new(server.url()));
    let account = account(30);
    let processes = machines.each_ref().map(Machine::process);
    for process in &processes {
        process.take(&account, 5).await;
    }
    server.tell("FLUSHALL");
    let another = Machine::new(server.url());
    let newcomer = another.process();
    newcomer.take(&account, 1).await;
    for process in &processes {
        process.take(&account, 1).await;
    }
    // The floors say more: what the last machine had heard, and what was charged since.
    let used = newcomer.used(&account).await;
    assert!((19..=30).contains(&used), "{used}");
}

#[tokio::test]
async fn a_restart_that_lost_nothing_changes_nothing_however_many_came_before() {
    let mut server = RedisServer::with(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--save",
        "",
    ]);
    let (machine, account) = (Machine::new(server.url()), account(100));
    let process = machine.process();
    for restarts in 1..=4 {
        process.take(&account, 3).await;
        process.take(&account, 3).await;
        server.restart();
        process.take(&account, 1).await;
        assert_eq!(
            stored(&server, &account).floors,
            0,
            "after {restarts} restarts"
        );
        assert_eq!(process.used(&account).await, 7 * restarts);
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

#[tokio::test]
async fn a_promoted_replica_that_lacks_the_last_writes_is_found_out() {
    let primary = RedisServer::start();
    let replica = RedisServer::start();
    replica.tell(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let (mut machine, account) = (Machine::new(primary.url()), account(10));
    machine.process().take(&account, 2).await;
    wait_until("the replica has the charge", || {
        try_stored(&replica, &account).is_ok_and(|stored| stored.records == 1)
    });
    replica.hang();
    machine.process().take(&account, 5).await;
    drop(primary);
    replica.resume();
    replica.tell("REPLICAOF NO ONE");
    machine.url = replica.url();
    assert_eq!(machine.process().drain(&account).await, 3);
}

#[tokio::test]
async fn a_settlement_that_a_promoted_replica_lacks_is_sent_to_it_again() {
    let primary = RedisServer::start();
    let replica = RedisServer::start();
    replica.tell(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let (mut machine, account) = (Machine::new(primary.url()), account(10));
    let process = machine.process();
    let permit = process.take(&account, 1).await;
    wait_until("the replica has the charge", || {
        try_stored(&replica, &account).is_ok_and(|stored| stored.records == 1)
    });
    replica.hang();
    let truth = Cost::from_iter([("daily".to_owned(), Units::new(6))]);
    process
        .0
        .settle(&account, &permit.id, &truth)
        .await
        .unwrap();
    drop(primary);
    replica.resume();
    replica.tell("REPLICAOF NO ONE");
    machine.url = replica.url();
    assert_eq!(machine.process().drain(&account).await, 4);
}

#[tokio::test]
async fn a_promoted_replica_that_lacks_only_others_writes_is_another_server_still() {
    let primary = RedisServer::start();
    let replica = RedisServer::start();
    replica.tell(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let (mut here, mut there, account) = (
        Machine::new(primary.url()),
        Machine::new(primary.url()),
        account(20),
    );
    here.process().take(&account, 2).await;
    wait_until("the replica has the charge", || {
        try_stored(&replica, &account).is_ok_and(|stored| stored.records == 1)
    });
    replica.hang();
    there.process().take(&account, 5).await;
    drop(primary);
    replica.resume();
    replica.tell("REPLICAOF NO ONE");
    (here.url, there.url) = (replica.url(), replica.url());
    here.process().take(&account, 1).await;
    there.process().take(&account, 1).await;
    assert_eq!(
        here.process().used(&account).await,
        9,
        "the other machine came by, too"
    );
}

#[tokio::test]
async fn an_id_that_is_charged_again_after_its_window_is_told_again_after_a_loss() {
    let server = RedisServer::start();
    let (machine, account, id) = (
        Machine::new(server.url()),
        account(10),
        ChargeId::new("by-hand"),
    );
    permit(
        machine
            .process()
            .try_ask(&account, Some(&id), 3, Outage::Refuse)
            .await
            .unwrap(),
    );
    let later = machine.process_later(WINDOW * 3 / 2);
    permit(
        later
            .try_ask(&account, Some(&id), 4, Outage::Refuse)
            .await
            .unwrap(),
    );
    server.tell("FLUSHALL");
    assert_eq!(later.drain(&account).await, 6);
}

#[tokio::test]
async fn a_key_that_is_lost_while_a_floor_holds_counts_nothing_twice() {
    for key in ["log", "ids"] {
        let server = RedisServer::start();
        let (machine, account) = (Machine::new(server.url()), account(100));
        machine.process().take(&account, 3).await;
        server.tell("FLUSHALL");
        machine.process().take(&account, 20).await;
        for used in [24, 25] {
            server.tell(&format!("DEL ingest:{{{}}}:{key}", account.name));
            machine.process().take(&account, 1).await;
            assert_eq!(machine.process().used(&account).await, used, "{key}");
        }
    }
}

#[tokio::test]
async fn closings_survive_a_loss() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    let process = machine.process();
    let permit = process.take(&account, 1).await;
    process
        .0
        .settle(&account, &permit.id, &crate::books::cost([("daily", 2)]))
        .await
        .unwrap();
    process
        .0
        .close(&account, "daily", Closing::Probing)
        .await
        .unwrap();
    server.tell("FLUSHALL");
    rejection(process.ask(&account, 1).await);
    process.0.reopen(&account, "daily").await.unwrap();
    assert_eq!(process.drain(&account).await, 8);
}

#[tokio::test]
async fn a_ledger_that_comes_back_from_before_a_reopening_is_closed_until_the_next() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    let process = machine.process();
    process.take(&account, 1).await;
    process
        .0
        .close(&account, "daily", Closing::Probing)
        .await
        .unwrap();
    let closed = server.dump_all();
    process.0.reopen(&account, "daily").await.unwrap();
    process.take(&account, 1).await;
    server.tell("FLUSHALL");
    server.restore_all(&closed);
    rejection(process.ask(&account, 1).await);
    process.0.reopen(&account, "daily").await.unwrap();
    assert_eq!(process.drain(&account).await, 8);
}

#[tokio::test]
async fn a_release_survives_a_loss() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    let process = machine.process();
    let kept = process.take(&account, 3).await;
    let released = process.take(&account, 3).await;
    process.0.release(&account, &released).await.unwrap();
    process.take(&account, 1).await;
    server.tell("FLUSHALL");
    assert_eq!(
        process.drain(&account).await,
        6,
        "{} is counted, {} is not",
        kept.id,
        released.id
    );
}

#[tokio::test]
async fn a_machine_that_waits_after_a_loss_refuses_for_a_window() {
    let server = RedisServer::start();
    let (mut machine, account) = (Machine::new(server.url()), account(10));
    machine.policy.after_loss = AfterLoss::Wait;
    let process = machine.process();
    process.take(&account, 1).await;
    server.tell("FLUSHALL");
    for process in [process, machine.process()] {
        let why = refusal(process.ask_cheaply(&account, 1).await);
        assert!(why.contains("after_loss"), "{why}");
    }
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
    // The name of an epoch is as long as it is nowhere else.
    epochs.iter().filter(|byte| **byte == 0xd9).count()
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

async fn one_that_charged_before_a_loss_and_waits() -> (RedisServer, Machine, Account) {
    let server = RedisServer::start();
    let (mut machine, account) = (Machine::new(server.url()), account(10));
    machine.policy.after_loss = AfterLoss::Wait;
    machine.process().take(&account, 1).await;
    server.tell("FLUSHALL");
    (server, machine, account)
}

#[tokio::test]
async fn a_machine_that_was_quiet_for_a_window_finds_a_loss_while_the_ledgers_keys_should_live() {
    let (_server, machine, account) = one_that_charged_before_a_loss_and_waits().await;
    let why = refusal(machine.process_later(2 * WINDOW).ask(&account, 1).await);
    assert!(why.contains("after_loss"), "{why}");
}

#[tokio::test]
async fn a_machine_that_was_quiet_for_longer_than_the_ledgers_keys_live_is_a_newcomer() {
    let (_server, machine, account) = one_that_charged_before_a_loss_and_waits().await;
    machine.process_later(26 * WINDOW).take(&account, 10).await;
}

#[tokio::test]
async fn a_machine_that_waits_tells_a_ledger_that_lost_its_data_again() {
    let server = RedisServer::start();
    let (mut machine, account) = (Machine::new(server.url()), account(10));
    machine.policy.after_loss = AfterLoss::Wait;
    let waiting = machine.process();
    waiting.take(&account, 4).await;
    for _ in 0..2 {
        server.tell("FLUSHALL");
        refusal(waiting.ask(&account, 1).await);
        let newcomer = Machine::new(server.url());
        let other = newcomer.process();
        assert_eq!(other.used(&account).await, 4);
    }
}

#[tokio::test]
async fn a_preview_of_a_lost_ledger_tells_what_this_machine_knows() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    machine.process().take(&account, 4).await;
    server.tell("FLUSHALL");
    assert_eq!(machine.watcher().used(&account).await, 4);
    assert_eq!(server.ask::<i64>("DBSIZE"), 0, "nothing is written");
}

#[tokio::test]
async fn whichever_key_is_lost_alone_nothing_is_spent_twice() {
    for key in ["main", "log", "ids"] {
        let server = RedisServer::start();
        let (machine, account) = (Machine::new(server.url()), account(300));
        let process = machine.process();
        for _ in 0..200 {
            process.take(&account, 1).await;
        }
        server.tell(&format!("DEL ingest:{{{}}}:{key}", account.name));
        assert_eq!(
            machine.process().drain(&account).await,
            100,
            "without {key}"
        );
    }
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
async fn records_that_are_lost_alone_are_a_loss_and_change_no_total() {
    let (server, machine, account) = one_that_charged(200).await;
    server.tell(&format!("DEL {}", key(&account, "log")));
    assert_eq!(machine.watcher().used(&account).await, 200);
    assert_eq!(machine.process().drain(&account).await, 100);
    assert_eq!(machine.process().used(&account).await, 300);
    whole(&server, &account);
}

#[tokio::test]
async fn records_that_are_lost_alone_are_found_by_the_very_next_charge_by_another_rule() {
    let (server, machine, mut account) = one_that_charged(200).await;
    server.tell(&format!("DEL {}", key(&account, "log")));
    account
        .limits
        .insert("daily".to_owned(), limit(290, Some(WINDOW), None));
    assert_eq!(machine.process().drain(&account).await, 90);
}

#[tokio::test]
async fn what_the_totals_said_holds_when_units_are_lost_whoever_finds_it() {
    for others in [200, 300] {
        let (server, _machine, account) = one_that_charged(others).await;
        server.tell(&format!("DEL {}", key(&account, "log")));
        let newcomer = Machine::new(server.url());
        assert_eq!(
            newcomer.process().drain(&account).await,
            300 - others,
            "the others have not come by"
        );
    }
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
    let ledger = RedisLedger::new(&server.url(), TIMEOUT, MAX_SKEW).unwrap();
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
async fn one_chunk_that_is_missing_is_a_loss_that_the_next_chunk_finds() {
    let (server, machine, account) = one_that_charged(200).await;
    server.tell(&format!("ZREMRANGEBYRANK {} 3 3", key(&account, "log")));
    assert_eq!(machine.process().drain(&account).await, 100);
    assert_eq!(machine.process().used(&account).await, 300);
    whole(&server, &account);
}

#[tokio::test]
async fn what_went_unmetered_before_the_first_grant_is_told_again_after_a_loss() {
    for others in [0, 1] {
        let mut server = RedisServer::start();
        let (machine, account) = (Machine::new(server.url()), account(10));
        server.kill();
        machine.process().take_unmetered(&account, 5).await;
        server.restart();
        assert_eq!(machine.process().used(&account).await, 5);
        server.tell("FLUSHALL");
        let newcomer = Machine::new(server.url());
        for _ in 0..others {
            newcomer.process().take(&account, 1).await;
        }
        machine.process().take(&account, 1).await;
        assert_eq!(newcomer.process().used(&account).await, 6 + others);
    }
}

#[tokio::test]
async fn what_was_told_lately_keeps_a_loss_visible_though_the_last_grant_is_long_ago() {
    let server = RedisServer::start();
    let (mut machine, account) = (Machine::new(server.url()), account(10));
    machine.policy.after_loss = AfterLoss::Wait;
    machine.process().take(&account, 1).await;
    machine.url = url("redis://127.0.0.1:1");
    machine
        .process_later(24 * WINDOW)
        .take_unmetered(&account, 5)
        .await;
    machine.url = server.url();
    machine.process_later(24 * WINDOW).used(&account).await;
    server.tell("FLUSHALL");
    let why = refusal(machine.process_later(27 * WINDOW).ask(&account, 1).await);
    assert!(why.contains("after_loss"), "{why}");
}

#[tokio::test]
async fn a_closing_that_was_told_before_the_first_grant_survives_a_loss() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    machine
        .process()
        .0
        .close(&account, "daily", Closing::Probing)
        .await
        .unwrap();
    server.tell("FLUSHALL");
    rejection(machine.process().ask(&account, 1).await);
}

#[tokio::test]
async fn a_limit_that_is_granted_again_is_not_closed_by_what_a_machine_had_heard_before() {
    let mut server = RedisServer::start();
    let (here, there, account) = (
        Machine::new(server.url()),
        Machine::new(server.url()),
        account(10),
    );
    there
        .process()
        .0
        .close(&account, "daily", Closing::Probing)
        .await
        .unwrap();
    rejection(here.process().ask(&account, 1).await);
    there.process().0.reopen(&account, "daily").await.unwrap();
    here.process().take(&account, 1).await;
    server.kill();
    here.process().take_unmetered(&account, 1).await;
    server.restart();
    here.process().take(&account, 1).await;
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
async fn what_a_rejection_reported_counts_after_a_loss() {
    let (server, here, account) = one_of_two_that_spent_all().await;
    rejection(here.process().ask(&account, 1).await);
    server.tell("FLUSHALL");
    assert_eq!(here.process().drain(&account).await, 0);
}

#[tokio::test]
async fn what_the_usage_reported_counts_after_a_loss() {
    let (server, here, account) = one_of_two_that_spent_all().await;
    assert_eq!(here.process().used(&account).await, 10);
    server.tell("FLUSHALL");
    assert_eq!(here.process().drain(&account).await, 0);
}

#[tokio::test]
async fn a_machine_that_was_only_ever_rejected_remembers_it_after_a_loss() {
    let server = RedisServer::start();
    let (here, there, account) = (
        Machine::new(server.url()),
        Machine::new(server.url()),
        account(10),
    );
    there.process().take(&account, 10).await;
    rejection(here.process().ask(&account, 1).await);
    server.tell("FLUSHALL");
    assert_eq!(here.process().drain(&account).await, 0);
}

/// A machine that charged 1 of 10 units and knows nothing of the 9 that another one charged after that.
async fn one_of_two_that_spent_all() -> (RedisServer, Machine, Account) {
    let server = RedisServer::start();
    let (here, there, account) = (
        Machine::new(server.url()),
        Machine::new(server.url()),
        account(10),
    );
    here.process().take(&account, 1).await;
    there.process().take(&account, 9).await;
    (server, here, account)
}

#[tokio::test]
async fn a_restart_that_lost_nothing_of_what_a_rejection_reported_changes_nothing() {
    let mut server = RedisServer::with(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--save",
        "",
    ]);
    let (here, there, account) = (
        Machine::new(server.url()),
        Machine::new(server.url()),
        account(10),
    );
    here.process().take(&account, 1).await;
    there.process().take(&account, 8).await;
    rejection(here.process().ask(&account, 2).await);
    server.restart();
    there.process().used(&account).await;
    server.restart();
    here.process().take(&account, 1).await;
    let floors = stored(&server, &account).floors;
    assert_eq!(floors, 0, "no floor is needed");
}

#[tokio::test]
async fn a_promoted_replica_that_lacks_what_a_rejection_reported_is_told_of_it() {
    for others_come_first in [false, true] {
        let primary = RedisServer::start();
        let replica = RedisServer::start();
        replica.tell(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        let (mut here, there, account) = (
            Machine::new(primary.url()),
            Machine::new(primary.url()),
            account(10),
        );
        here.process().take(&account, 1).await;
        wait_until("the replica has the charge", || {
            try_stored(&replica, &account).is_ok_and(|stored| stored.records == 1)
        });
        // From here on it lags behind.
        replica.tell("REPLICAOF NO ONE");
        there.process().take(&account, 9).await;
        rejection(here.process().ask(&account, 1).await);
        drop(primary);
        here.url = replica.url();
        if others_come_first {
            let third = Machine::new(replica.url());
            for _ in 0..3 {
                third.process().take(&account, 1).await;
            }
        }
        let granted = here.process().drain(&account).await;
        assert_eq!(granted, 0, "others come first: {others_come_first}");
    }
}

#[tokio::test]
async fn the_interval_between_probes_survives_a_loss() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    let first = machine.process();
    first
        .0
        .close(&account, "daily", Closing::Probing)
        .await
        .unwrap();
    let later = machine.process_later(secs(3700));
    let probe = later.take(&account, 1).await;
    assert_eq!(probe.grant.probing["daily"], secs(3600));
    later
        .0
        .close(&account, "daily", Closing::Probing)
        .await
        .unwrap();
    server.tell("FLUSHALL");
    let retry_after = rejection(later.ask(&account, 1).await).retry_after;
    assert!(
        (secs(7100)..=secs(7200)).contains(&retry_after),
        "{retry_after:?}"
    );
    let probe = machine.process_later(secs(11_000)).take(&account, 1).await;
    assert_eq!(probe.grant.probing["daily"], secs(7200));
}

#[tokio::test]
async fn an_interval_that_another_machine_lengthened_survives_a_loss_too() {
    let server = RedisServer::start();
    let (here, there, account) = (
        Machine::new(server.url()),
        Machine::new(server.url()),
        account(10),
    );
    for (machine, later) in [(&here, 0), (&there, 3700), (&here, 11_000)] {
        let process = machine.process_later(secs(later));
        process.take(&account, 1).await;
        process
            .0
            .close(&account, "daily", Closing::Probing)
            .await
            .unwrap();
    }
    server.tell("FLUSHALL");
    let process = here.process_later(secs(11_001));
    let retry_after = rejection(process.ask(&account, 1).await).retry_after;
    assert!(retry_after > secs(4 * 3600 - 100), "{retry_after:?}");
}

#[tokio::test]
async fn a_machine_that_only_saw_what_another_told_finds_that_it_is_lost() {
    let (server, machine, account) = one_that_charged(5).await;
    let process = machine.process();
    let older = server.dump_all();
    let ledger = RedisLedger::new(&server.url(), TIMEOUT, MAX_SKEW).unwrap();
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
    let ledger = RedisLedger::new(&server.url(), TIMEOUT, MAX_SKEW).unwrap();
    let now = SystemClock.now();
    let told = entry(&fresh_id(), now - secs(1), cost([("daily", 100)]));
    let wrong = now + 2 * MAX_SKEW;
    let update = Update::Absorb(std::slice::from_ref(&told));
    assert!(ledger.update(&account, update, None, wrong).await.is_err());
    assert_eq!(machine.process().used(&account).await, 5);
}
