//! A ledger that is away: what goes ahead, what does not, and what is told afterwards.

use std::time::{Duration, Instant};

use ingest_ledger::{ClientError, LedgerError};
use ingest_quota::{ChargeId, Closing, Cost, Outage};

use super::machine::{Machine, Process, WINDOW, account, permit, refusal, rejection};
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
async fn an_expensive_call_is_refused_and_never_rejected() {
    let machine = cut_off();
    let why = refusal(machine.process().ask(&account(10), 1).await);
    assert!(why.contains("cannot be reached"), "{why}");
    assert!(why.contains("repeat it when the ledger answers"), "{why}");
}

#[tokio::test]
async fn cheap_calls_go_ahead_until_the_allowance_is_spent() {
    let (machine, account) = (cut_off(), account(100));
    let process = machine.process();
    for _ in 0..2 {
        process.take_unmetered(&account, 2).await;
    }
    let why = refusal(process.ask_cheaply(&account, 2).await);
    assert!(why.contains("5 units"), "{why}");
    process.take_unmetered(&account, 1).await;
    refusal(process.ask_cheaply(&account, 1).await);
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
async fn many_short_outages_do_not_add_up() {
    let mut server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(100));
    for _ in 0..2 {
        server.kill();
        let process = machine.process();
        process.take_unmetered(&account, 2).await;
        server.restart();
        machine.process().take(&account, 1).await;
    }
    server.kill();
    let process = machine.process();
    process.take_unmetered(&account, 1).await;
    refusal(process.ask_cheaply(&account, 1).await);
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
async fn a_reply_that_was_lost_is_settled_to_nothing_where_the_call_was_refused() {
    let server = RedisServer::start();
    let (mut machine, account) = (Machine::new(server.url()), account(10));
    machine.process().take(&account, 1).await;
    machine.timeout = Duration::from_millis(100);
    let process = machine.process();
    server.hang();
    refusal(process.ask(&account, 4).await);
    // What was sent lies in the socket and runs now.
    server.resume();
    machine.timeout = super::TIMEOUT;
    assert_eq!(machine.process().drain(&account).await, 9);
}

#[tokio::test]
async fn a_reply_that_was_lost_is_counted_once_where_the_call_went_ahead() {
    let server = RedisServer::start();
    let (mut machine, account) = (Machine::new(server.url()), account(10));
    machine.process().take(&account, 1).await;
    machine.timeout = Duration::from_millis(100);
    let process = machine.process();
    process.used(&account).await;
    server.hang();
    process.take_unmetered(&account, 4).await;
    server.resume();
    machine.timeout = super::TIMEOUT;
    assert_eq!(machine.process().drain(&account).await, 5);
}

#[tokio::test]
async fn a_reply_that_was_lost_is_shown_once_before_the_next_contact() {
    let server = RedisServer::start();
    let (mut machine, account) = (Machine::new(server.url()), account(10));
    machine.process().take(&account, 1).await;
    machine.timeout = Duration::from_millis(100);
    let process = machine.process();
    process.used(&account).await;
    server.hang();
    process.take_unmetered(&account, 4).await;
    // The ledger is not asked again so soon: it never hears of this one.
    process.take_unmetered(&account, 1).await;
    server.resume();
    machine.timeout = super::TIMEOUT;
    assert_eq!(machine.watcher().used(&account).await, 6);
    assert_eq!(
        machine.process().used(&account).await,
        6,
        "after the contact"
    );
    assert_eq!(machine.watcher().used(&account).await, 6);
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
async fn true_costs_and_closings_are_kept_while_the_ledger_is_away() {
    let mut server = RedisServer::with(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--save",
        "",
    ]);
    let (machine, account) = (Machine::new(server.url()), account(10));
    let process = machine.process();
    let released = process.take(&account, 4).await;
    let dearer = process.take(&account, 1).await;
    server.kill();
    process.0.release(&account, &released).await.unwrap();
    process
        .0
        .settle(&account, &dearer.id, &cost([("daily", 3)]))
        .await
        .unwrap();
    process
        .0
        .close(&account, "daily", Closing::Probing)
        .await
        .unwrap();
    server.restart();
    rejection(machine.process().ask(&account, 1).await);
    machine.process().0.reopen(&account, "daily").await.unwrap();
    assert_eq!(machine.process().drain(&account).await, 7);
}

#[tokio::test]
async fn a_closing_binds_unmetered_calls() {
    let (machine, account) = (cut_off(), account(10));
    let process = machine.process();
    process
        .0
        .close(&account, "daily", Closing::Probing)
        .await
        .unwrap();
    let why = refusal(process.ask_cheaply(&account, 1).await);
    assert!(why.contains("exhausted, and it is closed until"), "{why}");
    process.0.reopen(&account, "daily").await.unwrap();
    process.take_unmetered(&account, 1).await;
}

#[tokio::test]
async fn a_closing_that_another_machine_told_binds_unmetered_calls() {
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
    let process = here.process();
    rejection(process.ask_cheaply(&account, 1).await);
    server.kill();
    refusal(process.ask_cheaply(&account, 1).await);
}

#[tokio::test]
async fn an_unmetered_charge_that_never_left_gives_its_allowance_back() {
    let (machine, account) = (cut_off(), account(10));
    let process = machine.process();
    let permit = process.take_unmetered(&account, 5).await;
    refusal(process.ask_cheaply(&account, 1).await);
    process.0.release(&account, &permit).await.unwrap();
    process.take_unmetered(&account, 5).await;
}

#[tokio::test]
async fn an_id_repeated_without_the_ledger_is_charged_once() {
    let mut server = RedisServer::start();
    let (machine, account, id) = (
        Machine::new(server.url()),
        account(10),
        ChargeId::new("by-hand"),
    );
    server.kill();
    let process = machine.process();
    for _ in 0..3 {
        let verdict = process
            .try_ask(&account, Some(&id), 3, Outage::Allow)
            .await
            .unwrap();
        assert!(!permit(verdict).metered);
    }
    server.restart();
    let process = machine.process();
    permit(
        process
            .try_ask(&account, Some(&id), 3, Outage::Allow)
            .await
            .unwrap(),
    );
    assert_eq!(process.used(&account).await, 3);
}

#[tokio::test]
async fn an_id_of_a_window_ago_costs_again_without_the_ledger() {
    let server = RedisServer::start();
    let (mut machine, account, id) = (
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
    machine.url = cut_off().url;
    let later = machine.process_later(WINDOW * 3 / 2);
    refusal(later.ask(&account, 1).await);
    for _ in 0..2 {
        permit(
            later
                .try_ask(&account, Some(&id), 3, Outage::Allow)
                .await
                .unwrap(),
        );
    }
    refusal(later.ask_cheaply(&account, 3).await);
    machine.url = server.url();
    assert_eq!(
        machine.process_later(WINDOW * 3 / 2).used(&account).await,
        3
    );
}

#[tokio::test]
async fn an_id_that_was_charged_otherwise_says_so_without_the_ledger_too() {
    let (machine, account, id) = (cut_off(), account(10), ChargeId::new("by-hand"));
    let process = machine.process();
    let ask = async |units| {
        permit(
            process
                .try_ask(&account, Some(&id), units, Outage::Allow)
                .await
                .unwrap(),
        )
        .grant
    };
    assert_eq!(
        (ask(1).await.repeated, ask(1).await.repeated),
        (false, true)
    );
    assert_eq!(
        (ask(1).await.held, ask(5).await.held),
        (None, Some(cost([("daily", 1)])))
    );
    process.take_unmetered(&account, 4).await;
    refusal(process.ask_cheaply(&account, 1).await);
}

#[tokio::test]
async fn an_unmetered_id_of_a_window_ago_costs_again_though_the_ledger_never_heard_of_it() {
    let server = RedisServer::start();
    let (mut machine, account, id) = (cut_off(), account(10), ChargeId::new("by-hand"));
    let later = WINDOW * 3 / 2;
    for process in [machine.process(), machine.process_later(later)] {
        permit(
            process
                .try_ask(&account, Some(&id), 5, Outage::Allow)
                .await
                .unwrap(),
        );
    }
    refusal(machine.process_later(later).ask_cheaply(&account, 1).await);
    machine.url = server.url();
    assert_eq!(machine.process_later(later).used(&account).await, 5);
}

#[tokio::test]
async fn what_a_limit_can_never_hold_goes_nowhere_without_the_ledger() {
    let verdict = cut_off().process().ask_cheaply(&account(3), 4).await;
    assert!(
        matches!(verdict, ingest_ledger::Acquired::Never { most, .. } if most.get() == 3),
        "{verdict:?}"
    );
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
async fn a_repeat_keeps_how_far_the_ledgers_clock_is_ahead() {
    let server = RedisServer::start();
    let (mut machine, account, id) = (
        Machine::new(server.url()),
        account(10),
        ChargeId::new("by-hand"),
    );
    let behind = secs(240);
    for later in [WINDOW / 4, WINDOW / 2] {
        let process = machine.process_behind(later, behind);
        permit(
            process
                .try_ask(&account, Some(&id), 1, Outage::Refuse)
                .await
                .unwrap(),
        );
    }
    machine.url = cut_off().url;
    machine
        .process_behind(WINDOW / 2, behind)
        .take_unmetered(&account, 2)
        .await;
    machine.url = server.url();
    let process = machine.process_behind(WINDOW * 3 / 2 - secs(60), behind);
    assert_eq!(
        process.used(&account).await,
        2,
        "it was sent a minute less than a window ago"
    );
}

#[tokio::test]
async fn an_id_that_was_refused_costs_when_it_is_used_again() {
    let server = RedisServer::start();
    let (mut machine, account, id) = (
        Machine::new(server.url()),
        account(10),
        ChargeId::new("by-hand"),
    );
    machine.timeout = Duration::from_millis(100);
    server.hang();
    refusal(
        machine
            .process()
            .try_ask(&account, Some(&id), 3, Outage::Refuse)
            .await
            .unwrap(),
    );
    server.resume();
    machine.timeout = super::TIMEOUT;
    let process = machine.process();
    permit(
        process
            .try_ask(&account, Some(&id), 3, Outage::Refuse)
            .await
            .unwrap(),
    );
    assert_eq!(process.used(&account).await, 3);
}

#[tokio::test]
async fn two_machines_one_of_them_cut_off_spend_no_more_than_the_allowance_beyond() {
    let server = RedisServer::start();
    let (here, mut there, account) = (Machine::new(server.url()), cut_off(), account(10));
    let (near, far) = (here.process(), there.process());
    assert_eq!(near.drain(&account).await, 10);
    far.take_unmetered(&account, 5).await;
    refusal(far.ask_cheaply(&account, 1).await);
    there.url = server.url();
    rejection(there.process().ask(&account, 1).await);
    assert_eq!(near.used(&account).await, 15, "said, and repaid");
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
async fn a_preview_counts_what_the_ledger_has_not_heard_of() {
    let mut server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    server.kill();
    machine.process().take_unmetered(&account, 4).await;
    server.restart();
    assert_eq!(machine.watcher().used(&account).await, 4);
    assert_eq!(server.ask::<i64>("DBSIZE"), 0, "nothing is written");
    assert_eq!(machine.process().used(&account).await, 4);
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

#[tokio::test]
async fn a_released_charge_is_not_charged_by_a_repeat() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(10));
    let process = machine.process();
    let permit = process.take(&account, 4).await;
    process
        .0
        .settle(&account, &permit.id, &Cost::none())
        .await
        .unwrap();
    assert_eq!(process.used(&account).await, 0);
}

#[tokio::test]
async fn what_went_unmetered_by_a_clock_that_was_days_behind_counts() {
    let mut server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(100));
    machine.process().take(&account, 1).await;
    machine
        .process_earlier(72 * WINDOW)
        .take_unmetered(&account, 5)
        .await;
    assert_eq!(machine.process().used(&account).await, 6);
    server.tell("FLUSHALL");
    machine.process().take(&account, 1).await;
    assert_eq!(
        machine.process().used(&account).await,
        7,
        "and is told again"
    );
    server.kill();
    refusal(machine.process().ask_cheaply(&account, 1).await);
}

#[tokio::test]
async fn a_machine_whose_clock_falls_behind_counts_from_when_it_last_heard_of_the_ledger() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), account(100));
    machine.process().take(&account, 1).await;
    machine
        .process_earlier(WINDOW - secs(60))
        .take_unmetered(&account, 5)
        .await;
    assert_eq!(machine.process_later(secs(120)).used(&account).await, 6);
}

#[tokio::test]
async fn a_closing_without_a_reset_lets_one_charge_try_though_the_ledger_has_told_its_end() {
    let server = RedisServer::start();
    let (mut machine, account) = (Machine::new(server.url()), account(10));
    let process = machine.process();
    process
        .0
        .close(&account, "daily", Closing::Probing)
        .await
        .unwrap();
    rejection(process.ask(&account, 1).await);
    machine.url = cut_off().url;
    let later = machine.process_later(WINDOW + secs(10));
    later.take_unmetered(&account, 1).await;
    let why = refusal(later.ask_cheaply(&account, 1).await);
    assert!(why.contains("exhausted, and it is closed until"), "{why}");
}

#[tokio::test]
async fn a_preview_counts_all_that_the_ledger_has_not_heard_of() {
    let mut server = RedisServer::start();
    let (mut machine, account) = (Machine::new(server.url()), account(1000));
    machine.policy.unmetered_max = 230.into();
    server.kill();
    let process = machine.process();
    for _ in 0..230 {
        process.take_unmetered(&account, 1).await;
    }
    server.restart();
    assert_eq!(machine.watcher().used(&account).await, 230);
}

#[tokio::test]
async fn unmetered_probes_back_off_until_one_is_accepted() {
    let (machine, account) = (cut_off(), account(10));
    let close = async |process: &Process| {
        process
            .0
            .close(&account, "daily", Closing::Probing)
            .await
            .unwrap();
    };
    close(&machine.process()).await;
    let first = machine.process_later(secs(3700));
    let probe = first.take_unmetered(&account, 1).await;
    assert_eq!(probe.grant.probing["daily"], secs(3600));
    close(&first).await;
    refusal(
        machine
            .process_later(secs(3700 + 7100))
            .ask_cheaply(&account, 1)
            .await,
    );
    let second = machine.process_later(secs(3700 + 7300));
    let probe = second.take_unmetered(&account, 1).await;
    assert_eq!(probe.grant.probing["daily"], secs(7200));
    second.0.reopen(&account, "daily").await.unwrap();
    let open = second.take_unmetered(&account, 1).await;
    assert!(open.grant.probing.is_empty());
}
