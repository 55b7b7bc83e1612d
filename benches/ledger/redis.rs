//! One charge in Redis, beside a sorted set with a member for each unit: the time in the server, and the bytes.

use comfy_table::Table;
use ingest_ledger::fresh_id;
use ingest_testing::redis_server::RedisServer;
use redis::aio::MultiplexedConnection;
use redis::{Client, Script, cmd};

use super::Plan;
use super::books::{Books, Clock, DAY, Room, Store};
use super::figures::table;

const MEMBER_A_UNIT: &str = "
    local now, window, quota, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
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
    /// When the next charge of the set is made, and how much later each is, in microseconds.
    Set {
        now: u64,
        step: u64,
    },
}

struct Bench {
    server: RedisServer,
    script: Script,
    connection: MultiplexedConnection,
    plan: &'static Plan,
}

/// Times and bytes, each beside what the set takes in the same run.
pub(crate) async fn beside_a_set(plan: &'static Plan, server: RedisServer) -> [Table; 2] {
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
        let mut times = table(&[
            "One Redis charge of",
            "units in the window",
            "server µs",
            "times a set",
            "a rejection, times a grant",
        ]);
        for cost in [1, 100] {
            let held = self.plan.held.iter().copied().map(Held::Units);
            let expiring = self.plan.expiring.iter().copied().map(Held::Expiring);
            for held in held.chain(expiring.filter(|_| cost == 1)) {
                let [set, granted, rejected] = self.side_by_side(cost, held).await;
                let (what, rejection) = match held {
                    Held::Units(units) => (units.to_string(), format!("{:.2}", rejected / granted)),
                    Held::Expiring(charges) => (format!("{charges}, one expires"), String::new()),
                };
                times.add_row([
                    cost.to_string(),
                    what,
                    format!("{granted:.1}"),
                    format!("{:.2}", granted / set),
                    rejection,
                ]);
            }
        }
        times
    }

    /// Mean microseconds in the server: of the set, of a grant, of a rejection.
    async fn side_by_side(&mut self, cost: u32, held: Held) -> [f64; 3] {
        self.send(&mut cmd("FLUSHALL")).await;
        let mut ways = [
            (self.set(cost, held).await, Vec::new()),
            (self.ours(cost, held, Room::Free).await, Vec::new()),
            (self.ours(cost, held, Room::None).await, Vec::new()),
        ];
        for turn in 0..self.plan.turns {
            for (way, means) in &mut ways {
                self.send(cmd("CONFIG").arg("RESETSTAT")).await;
                self.charge(way, cost, self.plan.burst).await;
                if turn > 0 {
                    means.push(self.server_time());
                }
            }
        }
        ways.map(|(_, mut means)| {
            means.sort_by(f64::total_cmp);
            means.get(means.len() / 2).copied().unwrap_or_default()
        })
    }

    async fn ours(&mut self, cost: u32, held: Held, room: Room) -> Way {
        let units = u64::from(cost);
        match held {
            Held::Units(0) if room == Room::Free => self.empty(units).await.into(),
            Held::Units(held) => {
                let store = Store::redis(&self.server, Clock::Server);
                let books = Books::filled(store, (held / cost).max(1), units, room).await;
                books.into()
            }
            Held::Expiring(charges) => {
                let mut way = self.empty(units).await.every(DAY / charges).into();
                // Until the first has left the window and its grace.
                let charges = (charges + charges / 50) as usize;
                self.charge(&mut way, cost, charges).await;
                way
            }
        }
    }

    /// An account of which nothing is charged, by the clock of the caller.
    async fn empty(&self, units: u64) -> Books {
        let store = Store::redis(&self.server, Clock::Told);
        Books::filled(store, 0, units, Room::Free).await
    }

    async fn set(&mut self, cost: u32, held: Held) -> Way {
        let day = DAY.as_micros() as u64;
        let (charges, step) = match held {
            // A window that is to stay empty is left behind after each charge.
            Held::Units(0) => (0, 2 * day),
            Held::Units(units) => (units / cost, 10),
            Held::Expiring(charges) => (charges, day / u64::from(charges)),
        };
        let mut way = Way::Set { now: 2 * day, step };
        self.charge(&mut way, cost, charges as usize).await;
        way
    }

    async fn charge(&mut self, way: &mut Way, cost: u32, times: usize) {
        for _ in 0..times {
            match way {
                Way::Ours(books) => drop(books.charge().await),
                Way::Set { now, step } => {
                    let mut call = self.script.key("set");
                    let call = call.arg(*now).arg(DAY.as_micros() as u64).arg(u32::MAX);
                    let call = call.arg(cost).arg(fresh_id().as_str());
                    let granted: i64 = call.invoke_async(&mut self.connection).await.unwrap();
                    assert_eq!(granted, 1);
                    *now += *step;
                }
            }
        }
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
        let mut memory = table(&["Charges of 1 in Redis", "bytes of a set", "of ours"]);
        for &charges in self.plan.weighed {
            let set = Way::Set {
                now: 2 * DAY.as_micros() as u64,
                step: 1,
            };
            let ours = self.empty(1).await.every(DAY / charges / 2);
            let mut row = vec![charges.to_string()];
            for mut way in [set, ours.into()] {
                self.send(&mut cmd("FLUSHALL")).await;
                self.charge(&mut way, 1, charges as usize).await;
                row.push(self.bytes().to_string());
            }
            memory.add_row(row);
        }
        memory
    }

    fn bytes(&self) -> u64 {
        let keys: Vec<String> = self.server.ask("KEYS *");
        let bytes = |key| {
            self.server
                .ask::<u64>(&format!("MEMORY USAGE {key} SAMPLES 0"))
        };
        keys.iter().map(bytes).sum()
    }
}

impl From<Books> for Way {
    fn from(books: Books) -> Self {
        Self::Ours(books.into())
    }
}
