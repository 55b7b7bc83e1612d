//! One charge in Redis, beside a sorted set with a member for each unit: the time in the server, and the bytes.

use std::sync::Arc;

use comfy_table::Table;
use ingest_ledger::fresh_id;
use redis::aio::MultiplexedConnection;
use redis::{Client, Script, cmd};

use super::books::{Books, DAY, Room};
use super::machine::{Clock, Machine};
use super::table::{Plan, table};
use ingest_testing::redis_server::RedisServer;
use uuid::Uuid;

/// By the caller's clock; where it tells none, by Redis' own.
const MEMBER_A_UNIT: &str = "
    local now, window, quota, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
    if not now then
        local time = redis.call('TIME')
        now = time[1] * 1000000 + time[2]
    end
    redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - window)
    if redis.call('ZCARD', KEYS[1]) + cost > quota then return 0 end
    local members = {}
    for unit = 1, cost do
        members[2 * unit - 1] = now
        members[2 * unit] = ARGV[5] .. ':' .. unit
    end
    redis.call('ZADD', KEYS[1], unpack(members))
    redis.call('PEXPIRE', KEYS[1], window / 1000)
    return 1";

/// What the window of a day holds when a charge is made.
#[derive(Clone, Copy)]
enum Held {
    /// Units, none of which leaves it.
    Units(u32),
    /// Charges of 1, the first of which leaves it.
    Expiring(u32),
}

enum Way {
    Ours(Box<Books>),
    /// The key of a sorted set; when its next charge is made, in microseconds, or `None` by Redis' clock; how much later each is.
    Set(&'static str, Option<u64>, u64),
}

struct Scenario {
    way: Way,
    /// Mean microseconds of a call in the server, by turn.
    server: Vec<f64>,
}

struct Bench {
    server: RedisServer,
    script: Script,
    connection: MultiplexedConnection,
    plan: &'static Plan,
}

/// Times and bytes, each beside what the set takes in the same run.
pub(crate) async fn charges(plan: &'static Plan) -> [Table; 2] {
    let server = RedisServer::start();
    let client = Client::open(server.url().expose().clone()).unwrap();
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&config);
    let mut bench = Bench {
        connection: connection.await.unwrap(),
        script: Script::new(MEMBER_A_UNIT),
        server,
        plan,
    };
    [bench.times().await, bench.memory().await]
}

impl Bench {
    async fn times(&mut self) -> Table {
        let mut times = table([
            "One Redis charge of",
            "units in the window",
            "server µs",
            "times a set",
            "times a set by Redis' clock",
            "a rejection, times a grant",
        ]);
        for cost in [1, 100] {
            let held = self.plan.units.iter().copied().map(Held::Units);
            let expiring = self.plan.expiring.iter().copied().map(Held::Expiring);
            for held in held.chain(expiring.filter(|_| cost == 1)) {
                let [set, by_redis, granted, rejected] = self.side_by_side(cost, held).await;
                let ratio = |is_measured: bool, time: f64, base: f64| match is_measured {
                    true => format!("{:.2}", time / base),
                    false => String::new(),
                };
                let (what, is_by_redis, is_rejected) = match held {
                    Held::Units(units) => (units.to_string(), units > 0, true),
                    Held::Expiring(charges) => (format!("{charges}, one expires"), false, false),
                };
                times.add_row([
                    cost.to_string(),
                    what,
                    format!("{granted:.1}"),
                    ratio(true, granted, set),
                    ratio(is_by_redis, granted, by_redis),
                    ratio(is_rejected, rejected, granted),
                ]);
            }
        }
        times
    }

    /// Mean microseconds in the server: of a set by the caller's clock, of one by Redis', of a grant, of a rejection.
    async fn side_by_side(&mut self, cost: u32, held: Held) -> [f64; 4] {
        self.send(&mut cmd("FLUSHALL")).await;
        let mut scenarios = [
            self.set("set", false, cost, held).await,
            self.set("by-redis", true, cost, held).await,
            self.ours(cost, held, Room::Free).await,
            self.ours(cost, held, Room::None).await,
        ];
        // They take turns, so that whatever else the machine does slows all of them alike.
        for turn in 0..self.plan.redis_turns {
            for scenario in &mut scenarios {
                self.send(cmd("CONFIG").arg("RESETSTAT")).await;
                self.charge(&mut scenario.way, cost, self.plan.redis_burst)
                    .await;
                // The first turn warms up.
                if turn > 0 {
                    scenario.server.push(self.server_time());
                }
            }
        }
        scenarios.map(|mut scenario| {
            scenario.server.sort_by(f64::total_cmp);
            let middle = scenario.server.len() / 2;
            scenario.server.get(middle).copied().unwrap_or_default()
        })
    }

    async fn ours(&mut self, cost: u32, held: Held, room: Room) -> Scenario {
        let units = u64::from(cost);
        let books = match held {
            Held::Units(0) if room == Room::Free => {
                Books::filled(self.machine(Clock::Told), 0, units, room).await
            }
            Held::Units(held) => {
                let charges = (held / cost).max(1);
                Books::filled(self.machine(Clock::Server), charges, units, room).await
            }
            Held::Expiring(charges) => {
                let books = Books::filled(self.machine(Clock::Told), 0, units, Room::Free).await;
                books.every(DAY / charges)
            }
        };
        let mut way = Way::Ours(books.into());
        if let Held::Expiring(charges) = held {
            // Until the first has left the window and its grace.
            self.charge(&mut way, cost, (charges + charges / 50) as usize)
                .await;
        }
        Scenario {
            way,
            server: Vec::new(),
        }
    }

    async fn set(
        &mut self,
        key: &'static str,
        is_by_redis: bool,
        cost: u32,
        held: Held,
    ) -> Scenario {
        let day = DAY.as_micros() as u64;
        let (charges, step) = match held {
            // A window that is to stay empty is left behind after each charge.
            Held::Units(0) => (0, 2 * day),
            Held::Units(units) => (units / cost, 10),
            Held::Expiring(charges) => (charges, day / u64::from(charges)),
        };
        let mut way = Way::Set(key, (!is_by_redis).then_some(2 * day), step);
        self.charge(&mut way, cost, charges as usize).await;
        Scenario {
            way,
            server: Vec::new(),
        }
    }

    fn machine(&self, clock: Clock) -> Arc<Machine> {
        Arc::new(Machine::new(&self.server, clock))
    }

    async fn charge(&mut self, way: &mut Way, cost: u32, times: usize) {
        for _ in 0..times {
            match way {
                Way::Ours(books) => drop(books.charge().await),
                Way::Set(key, now, step) => {
                    let at = now.map(|now| now.to_string()).unwrap_or_default();
                    *now = now.map(|now| now + *step);
                    self.charge_set(key, at, cost, fresh_id().to_string()).await;
                }
            }
        }
    }

    async fn charge_set(&mut self, key: &str, at: String, cost: u32, id: String) {
        let mut call = self.script.key(key);
        call.arg(at)
            .arg(DAY.as_micros() as u64)
            .arg(u32::MAX)
            .arg(cost)
            .arg(id);
        let granted: i64 = call.invoke_async(&mut self.connection).await.unwrap();
        assert_eq!(granted, 1);
    }

    async fn send(&mut self, command: &mut redis::Cmd) {
        let _: redis::Value = command.query_async(&mut self.connection).await.unwrap();
    }

    /// Mean microseconds in the server of one call.
    fn server_time(&self) -> f64 {
        let stats: String = self.server.ask("INFO commandstats");
        let of_calls = |line: &str| {
            let (command, of_it) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            matches!(command, "fcall" | "evalsha").then_some(())?;
            let (_, mean) = of_it.split_once("usec_per_call=")?;
            mean.split(',').next()?.parse().ok()
        };
        stats.lines().find_map(of_calls).unwrap()
    }

    async fn memory(&mut self) -> Table {
        let mut memory = table([
            "Charges of 1 in Redis",
            "bytes of a set with the same ids",
            "of one with UUIDs",
            "of ours",
        ]);
        let new_ids: [fn() -> String; 2] =
            [|| fresh_id().to_string(), || Uuid::now_v7().to_string()];
        for &charges in self.plan.weighed {
            let mut row = vec![charges.to_string()];
            for new_id in new_ids {
                self.send(&mut cmd("FLUSHALL")).await;
                for at in 0..charges {
                    let at = 2 * DAY.as_micros() + u128::from(at);
                    self.charge_set("set", at.to_string(), 1, new_id()).await;
                }
                row.push(self.bytes().to_string());
            }
            self.send(&mut cmd("FLUSHALL")).await;
            let books = Books::filled(self.machine(Clock::Told), 0, 1, Room::Free).await;
            let books = books.every(DAY / charges / 2);
            self.charge(&mut Way::Ours(books.into()), 1, charges as usize)
                .await;
            row.push(self.bytes().to_string());
            memory.add_row(row);
        }
        memory
    }

    fn bytes(&self) -> u64 {
        let keys: Vec<String> = self.server.ask("KEYS *");
        let keys = keys.iter();
        keys.map(|key| {
            self.server
                .ask::<u64>(&format!("MEMORY USAGE {key} SAMPLES 0"))
        })
        .sum()
    }
}
