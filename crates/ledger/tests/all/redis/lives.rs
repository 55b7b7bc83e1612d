//! How long keys live: each from its first write for nine eighths of the longest window and at least 26 hours, and beyond
//! every closing (L50).

use std::sync::Arc;
use std::time::Duration;

use ingest_ledger::SharedLedger;
use ingest_ledger::redis::{RedisLedger, ServerTime};
use ingest_quota::{Account, Closing, Cost, Limit, Timestamp, Units};
use redis::Script;

use super::{MAX_SKEW, TIMEOUT};
use crate::books::{Books, account, at, cost, entry, id, limit, secs};
use crate::shared_as_ledger::SharedAsLedger;
use ingest_testing::redis_server::{RedisServer, ledger_config};

const HOUR: Duration = secs(60 * 60);
const DAY: Duration = secs(24 * 60 * 60);

/// Sees that every key of a server has a time to live.
pub(crate) fn every_key_expires(server: &RedisServer) {
    let eternal = Script::new(
        "local eternal = {}
        for _, key in ipairs(redis.call('KEYS', '*')) do
            if redis.call('PTTL', key) < 0 then eternal[#eternal + 1] = key end
        end
        return eternal",
    );
    let eternal: Vec<String> = eternal.invoke(&mut server.connect()).unwrap();
    assert!(eternal.is_empty(), "without a time to live: {eternal:?}");
}

fn daily(units: u64) -> Cost {
    cost([("daily", units)])
}

/// One account of one Redis, which is told the time.
struct Lives {
    server: RedisServer,
    books: Books,
    account: Account,
}

impl Lives {
    fn of(limit: Limit) -> Self {
        let server = RedisServer::start();
        let ledger = RedisLedger::new(&server.url(), &ledger_config(TIMEOUT, MAX_SKEW)).unwrap();
        let ledger = SharedAsLedger(ledger.with_time(ServerTime::Callers));
        let account = account([("daily", limit)]);
        let books = Books::new(Arc::new(ledger), account.clone());
        Self {
            server,
            books,
            account,
        }
    }

    async fn charge(&self, seconds: f64) {
        self.books.take(&daily(1), at(seconds)).await;
    }

    fn lives(&self) -> Vec<(String, Duration)> {
        let keys: Vec<String> = self.server.ask("KEYS *");
        let life = |key: String| {
            let life = self.server.ask(&format!("PTTL {key}"));
            (key, Duration::from_millis(life))
        };
        keys.into_iter().map(life).collect()
    }

    /// Sees that every key lives for this long, less the moment since, and a little more for the grace of the window.
    fn expect(&self, life: Duration) {
        let allowed = life - secs(60)..=life + life / 400;
        let account = format!("ingest:{{{}}}:", self.account.name);
        for (key, left) in self.lives() {
            assert!(key.starts_with(&account), "{key}");
            assert!(
                allowed.contains(&left),
                "{key} lives for {left:?}, not {life:?}"
            );
        }
    }

    fn shorten_lives(&self) {
        for (key, _) in self.lives() {
            self.server.tell(&format!("PEXPIRE {key} 1000000"));
        }
    }
}

#[tokio::test]
async fn keys_live_for_nine_eighths_of_the_longest_window_and_26_hours_and_outlive_a_closing() {
    let (minute, month) = (secs(60), 30 * DAY);
    for (window, closed, life) in [
        (minute, None, 26 * HOUR),
        (month, None, month * 9 / 8),
        (minute, Some(10 * DAY), 10 * DAY + 26 * HOUR),
    ] {
        let lives = Lives::of(limit(10, Some(window), None));
        lives.charge(0.0).await;
        if let Some(closed) = closed {
            let until = Closing::Until(at(0.0) + closed);
            lives.books.close("daily", until, at(0.0)).await;
        }
        lives.expect(life);
    }
}

#[tokio::test]
async fn keys_of_many_limits_outlive_the_closing_of_one_by_26_hours() {
    let mut lives = Lives::of(limit(1_000, Some(DAY), None));
    let more = (0..70).map(|nth| (format!("value/{nth}"), limit(10, Some(DAY), None)));
    lives.books.account.limits.extend(more);
    let all = lives.books.account.limits.keys();
    let of_all: Cost = all.map(|name| (name.clone(), Units::new(1))).collect();
    lives.books.take(&of_all, at(0.0)).await;
    let until = Closing::Until(at(0.0) + 10 * DAY);
    lives.books.close("value/7", until, at(0.0)).await;
    // A charge of another limit, when lives are renewed.
    lives.charge(10_000.0).await;
    lives.expect(10 * DAY + 26 * HOUR - secs(10_000));
}

#[tokio::test]
async fn a_report_tells_when_lives_were_renewed() {
    let lives = Lives::of(limit(1_000, Some(16 * HOUR), None));
    let ledger = RedisLedger::new(&lives.server.url(), &ledger_config(TIMEOUT, MAX_SKEW)).unwrap();
    let ledger = ledger.with_time(ServerTime::Callers);
    let renewed = async |seconds: f64| {
        let usage = ledger.usage(&lives.account, None, &[], at(seconds)).await;
        usage.unwrap().report.renewed
    };
    assert_eq!(renewed(0.0).await, Timestamp::from_micros(0));
    lives.books.reopen("daily", at(1.0)).await;
    assert_eq!(renewed(2.0).await, at(1.0));
    lives.charge(3.0).await;
    lives.charge(4.0).await;
    assert_eq!(renewed(5.0).await, at(1.0));
    lives.charge(3_700.0).await;
    assert_eq!(renewed(3_701.0).await, at(3_700.0));
}

#[tokio::test]
async fn lives_are_renewed_when_a_sixteenth_of_the_window_has_passed() {
    let lives = Lives::of(limit(1_000, Some(16 * HOUR), None));
    lives.charge(0.0).await;
    lives.charge(1.0).await;
    lives.shorten_lives();
    lives.charge(3_590.0).await;
    lives.expect(secs(1_000));
    lives.charge(3_700.0).await;
    lives.expect(26 * HOUR);
}

#[tokio::test]
async fn a_log_that_begins_after_the_state_has_a_life() {
    let lives = Lives::of(limit(100, Some(DAY), None));
    lives.books.absorb(&[], &[], at(0.0)).await;
    // The clock was set back.
    for nth in 0..20 {
        lives.charge(-1.0).await;
        lives.charge(f64::from(nth)).await;
    }
    assert_eq!(lives.lives().len(), 3);
    lives.expect(27 * HOUR);
    // A log that held nothing but what is forgotten begins again.
    let old = entry(&id("same"), at(2.0), daily(1));
    let lives = Lives::of(limit(10, Some(secs(60)), None));
    lives.books.absorb(&[old], &[], at(2.0)).await;
    // The lives were renewed just now.
    lives.books.reopen("daily", at(62.0)).await;
    lives.books.take_as(&id("same"), &daily(1), at(63.0)).await;
    lives.expect(26 * HOUR);
}
