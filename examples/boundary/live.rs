//! The same sequence of charges against a Redis, by its own clock: a fixed window, a plain sorted set, and our ledger.

use std::time::{Duration, Instant};

use ingest_base::clock::{Clock, SystemClock};
use ingest_config::RedisUrl;
use ingest_ledger::redis::RedisLedger;
use ingest_ledger::{Charge, ChargeReply, Purpose, SharedLedger, fresh_id};
use ingest_quota::{Account, Cost, Limit, Timestamp, Units, Window};
use ingest_testing::redis_server::ledger_config;
use redis::aio::MultiplexedConnection;
use redis::{Client, Script};

use super::LIMIT;

const TIMEOUT: Duration = Duration::from_secs(20);
const MAX_SKEW: Duration = Duration::from_secs(300);

/// The sequence: charges of one unit, at tenths of the window after its beginning. The window of a key that expires begins with
/// the first charge.
const BURSTS: [(u32, u64); 3] = [(0, 1), (8, LIMIT), (12, LIMIT)];

/// Both return Redis' time in microseconds, or nothing where the charge does not fit.
const TIME: &str = "local t = redis.call('TIME')
local now, window, limit = t[1] * 1000000 + t[2], tonumber(ARGV[1]), tonumber(ARGV[2])
";
const FIXED_WINDOW: &str = "
if redis.call('INCR', KEYS[1]) == 1 then redis.call('PEXPIRE', KEYS[1], window / 1000) end
if tonumber(redis.call('GET', KEYS[1])) <= limit then return now end";
const SORTED_SET: &str = "
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
if redis.call('ZCARD', KEYS[1]) < limit then
    redis.call('ZADD', KEYS[1], now, ARGV[3])
    redis.call('PEXPIRE', KEYS[1], window / 1000)
    return now
end";

/// What a way to count let through: instants, by the clock of Redis.
pub type Granted = Vec<Timestamp>;

/// Charges each way to count in the Redis at `url`, and returns what it let through. Takes a bit longer than the window. The
/// keys are its own, and live little longer.
pub async fn live(url: &str, window: Duration) -> [(&'static str, Granted); 3] {
    let plain = |text| Plain {
        script: Script::new(&format!("{TIME}{text}")),
        key: format!("boundary:{}", fresh_id()),
        window,
    };
    let (fixed, sorted, ours) = (
        plain(FIXED_WINDOW),
        plain(SORTED_SET),
        Ours::new(url, window),
    );
    let client = Client::open(url).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let mut granted = [const { Granted::new() }; 3];
    let begun = Instant::now();
    for (tenths, charges) in BURSTS {
        tokio::time::sleep((window * tenths / 10).saturating_sub(begun.elapsed())).await;
        for _ in 0..charges {
            granted[0].extend(fixed.charge(&mut redis).await);
            granted[1].extend(sorted.charge(&mut redis).await);
            granted[2].extend(ours.charge().await);
        }
    }
    let [fixed, sorted, ours] = granted;
    [
        ("a fixed window: INCR and PEXPIRE", fixed),
        ("a plain sorted set", sorted),
        ("ingest", ours),
    ]
}

/// The most units that were let through within any window.
pub fn most_within(window: Duration, granted: &Granted) -> usize {
    let within = |from: &Timestamp| {
        let inside = |at: &&Timestamp| *from <= **at && **at < *from + window;
        granted.iter().filter(inside).count()
    };
    granted.iter().map(within).max().unwrap_or(0)
}

/// A script over one key.
struct Plain {
    script: Script,
    key: String,
    window: Duration,
}

impl Plain {
    async fn charge(&self, redis: &mut MultiplexedConnection) -> Option<Timestamp> {
        let mut call = self.script.key(&self.key);
        call.arg(self.window.as_micros() as u64).arg(LIMIT);
        let at: Option<i64> = call
            .arg(fresh_id().as_str())
            .invoke_async(redis)
            .await
            .unwrap();
        at.map(Timestamp::from_micros)
    }
}

/// The ledger of `ingest`.
struct Ours {
    ledger: RedisLedger,
    account: Account,
}

impl Ours {
    fn new(url: &str, window: Duration) -> Self {
        let url = RedisUrl::parse(url).unwrap().for_practice();
        let ledger = RedisLedger::new(&url, &ledger_config(TIMEOUT, MAX_SKEW)).unwrap();
        let limit = Window::new(Some(window), None).unwrap();
        let limit = Limit::new(Units::new(LIMIT), Units::ZERO, limit).unwrap();
        Self {
            ledger: ledger.with_least_life(window),
            account: Account {
                name: format!("boundary-{}", fresh_id()),
                limits: [("window".to_owned(), limit)].into(),
            },
        }
    }

    async fn charge(&self) -> Option<Timestamp> {
        let cost: Cost = [("window".to_owned(), Units::new(1))].into_iter().collect();
        let charge = Charge {
            account: &self.account,
            id: &fresh_id(),
            cost: &cost,
            leave: &Cost::none(),
            purpose: &Purpose::default(),
        };
        match self.ledger.charge(charge, None, SystemClock.now()).await {
            Ok(ChargeReply::Granted(granted)) => Some(granted.position.at),
            Ok(ChargeReply::Rejected { .. }) => None,
            other => panic!("{other:?}"),
        }
    }
}
