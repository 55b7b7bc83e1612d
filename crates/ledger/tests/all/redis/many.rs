//! Accounts with thousands of limits. A script is sent those that it needs, and reads and writes no others.

use std::sync::Arc;

use ingest_base::clock::{Clock, SystemClock};
use ingest_ledger::redis::{RedisLedger, ServerTime};
use ingest_ledger::{Acquired, ChargeRequest, Purpose};
use ingest_quota::{Account, Closing, Cost, Outage, Units};

use super::machine::{Machine, Process, WINDOW, permit, rejection};
use super::stored::whole;
use super::{MAX_SKEW, TIMEOUT};
use crate::books::{Books, MICROSECOND, account, at, limit};
use crate::shared_as_ledger::SharedAsLedger;
use ingest_testing::redis_server::{RedisServer, ledger_config};

/// More than Lua's stack holds values of.
const LIMITS: usize = 3_000;

fn value(number: usize) -> String {
    format!("value/{number:04}")
}

/// An account with `limits` limits of two units each, beside `daily`.
fn with_values(limits: usize) -> Account {
    let mut account = account([("daily", limit(1_000_000, Some(WINDOW), None))]);
    let values = (0..limits).map(|number| (value(number), limit(2, Some(WINDOW), None)));
    account.limits.extend(values);
    account
}

/// One unit of each.
fn of(numbers: impl IntoIterator<Item = usize>) -> Cost {
    let names = numbers.into_iter().map(value).chain(["daily".to_owned()]);
    names.map(|name| (name, Units::new(1))).collect()
}

async fn ask(process: &Process, account: &Account, cost: &Cost) -> Acquired {
    let request = ChargeRequest {
        account,
        id: None,
        cost,
        leave: &Cost::none(),
        outage: Outage::Refuse,
        purpose: &Purpose::default(),
    };
    process.0.acquire(request).await.unwrap()
}

/// Returns the number of limits of which exactly `units` are used.
async fn used(process: &Process, account: &Account, units: u64) -> usize {
    let usage = process.0.usage(account).await.unwrap();
    let is_used = |usage: &&ingest_quota::LimitUsage| usage.used.get() == units;
    usage.iter().filter(is_used).count()
}

#[tokio::test]
async fn what_thousands_of_limits_counted_survives_a_loss() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), with_values(LIMITS));
    let process = machine.process();
    for batch in 0..6 {
        permit(ask(&process, &account, &of(batch * 500..(batch + 1) * 500)).await);
    }
    let closing = Closing::Until(SystemClock.now() + WINDOW);
    let closed = value(1);
    process.0.close(&account, &closed, closing).await.unwrap();
    for wipe in ["PING", "FLUSHALL"] {
        server.tell(wipe);
        assert_eq!(
            used(&machine.watcher(), &account, 1).await,
            LIMITS,
            "{wipe}"
        );
        assert_eq!(used(&process, &account, 1).await, LIMITS, "{wipe}");
        let rejected = rejection(ask(&process, &account, &of([1])).await);
        assert_eq!(rejected.limit, closed, "{wipe}");
    }
    permit(ask(&process, &account, &of([2])).await);
    assert_eq!(
        rejection(ask(&process, &account, &of([2])).await).limit,
        value(2)
    );
    process.0.reopen(&account, &closed).await.unwrap();
    let released = permit(ask(&process, &account, &of([1, 3])).await);
    assert_eq!(used(&process, &account, 2).await, 3);
    process.0.release(&account, &released).await.unwrap();
    assert_eq!(used(&process, &account, 2).await, 1);
    whole(&server, &account);
}

/// Their charges are read once for all of them.
#[tokio::test]
async fn a_report_of_many_limits_counts_a_charge_until_its_last_instant() {
    let server = RedisServer::start();
    let ledger = RedisLedger::new(&server.url(), &ledger_config(TIMEOUT, MAX_SKEW)).unwrap();
    let ledger = SharedAsLedger(ledger.with_time(ServerTime::Callers));
    let books = Books::new(Arc::new(ledger), with_values(120));
    books.take(&of(0..119), at(1.0)).await;
    let gone = limit(2, Some(WINDOW), None).window().expiry(at(1.0));
    for (now, units) in [(gone - MICROSECOND, 1), (gone, 0)] {
        let usage = books.usage(now).await;
        let counted = usage.iter().filter(|usage| usage.used.get() == 1);
        assert_eq!(counted.count(), units * 120, "{now}");
    }
}
