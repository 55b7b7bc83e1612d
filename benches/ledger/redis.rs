//! One Redis charge: the time in the server, the time of the round trip, and the bytes; beside the ways in which others
//! count.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::Table;
use ingest::ledger::redis::{RedisLedger, ServerTime};
use redis::aio::MultiplexedConnection;
use redis::{Client, Script, cmd};

use crate::books::{Books, Room};
use crate::redis_server::RedisServer;
use crate::table::{Times, micros, table};

const FILLS: [u32; 4] = [0, 1_000, 9_000, 100_000];
const COSTS: [u32; 2] = [1, 100];
const WARM_UP: usize = 300;
const SAMPLES: usize = 3_000;
const TIMEOUT: Duration = Duration::from_secs(60);
const DAY_IN_MICROS: u64 = 24 * 3600 * 1_000_000;

const NOTHING: &str = "return 1";

/// A sorted set with a member for every unit.
const MEMBER_A_UNIT: &str = "
    local now, window, quota, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
    if redis.call('ZCARD', KEYS[1]) + cost > quota then return 0 end
    local members = {}
    for unit = 1, cost do
        members[2 * unit - 1] = ARGV[1]
        members[2 * unit] = ARGV[5] .. ':' .. unit
    end
    redis.call('ZADD', KEYS[1], unpack(members))
    redis.call('PEXPIRE', KEYS[1], window / 1000)
    return 1";

/// The same as it is mostly written: a call for each unit.
const MEMBER_A_UNIT_IN_A_LOOP: &str = "
    local now, window, quota, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
    if redis.call('ZCARD', KEYS[1]) + cost > quota then return 0 end
    for unit = 1, cost do
        redis.call('ZADD', KEYS[1], ARGV[1], ARGV[5] .. ':' .. unit)
    end
    redis.call('PEXPIRE', KEYS[1], window / 1000)
    return 1";

/// A sorted set with a member for every charge, summed at each.
const SCAN_AND_SUM: &str = "
    local now, window, quota, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
    local used = 0
    for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
        used = used + tonumber(string.match(member, ':(%d+)$'))
    end
    if used + cost > quota then return 0 end
    redis.call('ZADD', KEYS[1], ARGV[1], ARGV[5] .. ':' .. cost)
    redis.call('PEXPIRE', KEYS[1], window / 1000)
    return 1";

struct Row {
    what: &'static str,
    cost: u32,
    fill: u32,
    server: f64,
    client: Times,
    /// The round trip of a script that returns 1, taken in turns.
    nothing: Times,
    bytes: u64,
}

struct Bench {
    server: RedisServer,
    connection: MultiplexedConnection,
}

pub(crate) async fn charges() -> Table {
    let server = RedisServer::start();
    let client = Client::open(server.url().expose().clone()).unwrap();
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&config).await.unwrap();
    let mut bench = Bench { server, connection };
    let mut rows = Vec::new();
    for cost in COSTS {
        for fill in FILLS {
            rows.push(bench.ours("ours, granted", fill, cost, Room::Free).await);
            rows.push(bench.ours("ours, rejected", fill, cost, Room::None).await);
            rows.push(bench.others("a member a unit", MEMBER_A_UNIT, fill, cost).await);
            rows.push(bench.others("a member a unit, in a loop", MEMBER_A_UNIT_IN_A_LOOP, fill, cost).await);
            rows.push(bench.others("scan and sum", SCAN_AND_SUM, fill / cost, cost).await);
        }
    }
    rows.sort_by_key(|row| row.what);
    written(&rows)
}

impl Bench {
    async fn ours(&mut self, what: &'static str, fill: u32, cost: u32, room: Room) -> Row {
        self.flush().await;
        let ledger = RedisLedger::new(&self.server.url(), TIMEOUT, Duration::ZERO).unwrap();
        let ledger = Arc::new(ledger.with_time(ServerTime::Callers));
        let charges = if room == Room::None { (fill / cost).max(1) } else { fill / cost };
        let mut books = Books::filled(ledger, charges, u64::from(cost), room).await;
        let bytes = self.bytes().await;
        let (mut client, mut nothing) = (Times::default(), Times::default());
        for turn in 0..WARM_UP + SAMPLES {
            if turn == WARM_UP {
                self.reset_times().await;
            }
            let (charged, returned) = (books.charge().await, self.nothing().await);
            if turn >= WARM_UP {
                client.add(charged);
                nothing.add(returned);
            }
        }
        Row { what, cost, fill, server: self.server_time().await, client, nothing, bytes }
    }

    /// A charge as others make it, in a set of `members` members.
    async fn others(&mut self, what: &'static str, code: &'static str, members: u32, cost: u32) -> Row {
        self.flush().await;
        let script = Script::new(code);
        for member in 0..members {
            let name = if what == "scan and sum" { format!("{member:032}:{cost}") } else { format!("{member:032}:1") };
            self.send(cmd("ZADD").arg("set").arg(DAY_IN_MICROS + u64::from(member)).arg(name)).await;
        }
        let bytes = self.bytes().await;
        let samples = if members > 5_000 && what == "scan and sum" { 100 } else { SAMPLES };
        let (mut client, mut nothing) = (Times::default(), Times::default());
        for turn in 0..WARM_UP.min(samples) + samples {
            if turn == WARM_UP.min(samples) {
                self.reset_times().await;
            }
            let charged = self.charge(&script, turn, cost, members == 0).await;
            let returned = self.nothing().await;
            if turn >= WARM_UP.min(samples) {
                client.add(charged);
                nothing.add(returned);
            }
        }
        let fill = if what == "scan and sum" { members * cost } else { members };
        Row { what, cost, fill, server: self.server_time().await, client, nothing, bytes }
    }

    async fn charge(&mut self, script: &Script, turn: usize, cost: u32, empties: bool) -> Duration {
        // A window that is to stay empty is left behind after each charge.
        let now = DAY_IN_MICROS * if empties { 2 + 2 * turn as u64 } else { 2 } - 1;
        let mut call = script.key("set");
        call.arg(now).arg(DAY_IN_MICROS).arg(u64::from(u32::MAX)).arg(cost).arg(format!("{turn:032}x"));
        let began = Instant::now();
        let granted: i64 = call.invoke_async(&mut self.connection).await.unwrap();
        assert_eq!(granted, 1);
        began.elapsed()
    }

    /// Another command than the others' runs it, so that the server counts its time apart.
    async fn nothing(&mut self) -> Duration {
        let began = Instant::now();
        let _: i64 = cmd("EVAL_RO").arg(NOTHING).arg(0).query_async(&mut self.connection).await.unwrap();
        began.elapsed()
    }

    async fn send(&mut self, command: &mut redis::Cmd) {
        let _: redis::Value = command.query_async(&mut self.connection).await.unwrap();
    }

    async fn flush(&mut self) {
        self.send(&mut cmd("FLUSHALL")).await;
    }

    async fn reset_times(&mut self) {
        self.send(cmd("CONFIG").arg("RESETSTAT")).await;
    }

    /// Mean microseconds in the server of one call.
    async fn server_time(&mut self) -> f64 {
        let stats: String = cmd("INFO").arg("commandstats").query_async(&mut self.connection).await.unwrap();
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:")).unwrap();
        let fields: HashMap<_, _> = line.split(',').filter_map(|field| field.split_once('=')).collect();
        fields.get("usec_per_call").unwrap().parse().unwrap()
    }

    async fn bytes(&mut self) -> u64 {
        let keys: Vec<String> = cmd("KEYS").arg("*").query_async(&mut self.connection).await.unwrap();
        let mut bytes = 0;
        for key in keys {
            let mut usage = cmd("MEMORY");
            usage.arg("USAGE").arg(key).arg("SAMPLES").arg(0);
            bytes += usage.query_async::<u64>(&mut self.connection).await.unwrap();
        }
        bytes
    }
}

fn written(rows: &[Row]) -> Table {
    let mut table = table([
        "One Redis charge",
        "cost",
        "units in the window",
        "server µs",
        "client median µs",
        "a script that returns 1",
        "bytes in Redis",
    ]);
    for row in rows {
        table.add_row([
            row.what.to_owned(),
            row.cost.to_string(),
            row.fill.to_string(),
            format!("{:.1}", row.server),
            micros(row.client.median()),
            micros(row.nothing.median()),
            row.bytes.to_string(),
        ]);
    }
    table
}
