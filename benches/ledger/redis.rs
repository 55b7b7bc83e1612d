//! One Redis charge: the time in the server, the time of the round trip, and the bytes; beside the ways in which others
//! count.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::Table;
use redis::aio::MultiplexedConnection;
use redis::{Client, Script, cmd};

use super::books::{Books, Room};
use super::machine::{Clock, Machine};
use super::table::{Plan, Times, micros, ratio, table};
use ingest_testing::redis_server::RedisServer;

const COSTS: [u32; 2] = [1, 100];
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

/// How a charge is made.
enum Way {
    Ours(Box<Books>),
    /// A script over a set of its own, and how many charges it made.
    Theirs {
        script: Script,
        set: String,
        charges: u64,
        empties: bool,
    },
}

/// One way of charging a cost, with a number of units already in the window.
struct Scenario {
    what: &'static str,
    cost: u32,
    fill: u32,
    way: Way,
    bytes: u64,
    is_slow: bool,
    /// Mean microseconds of a call in the server, by turn.
    server: Vec<f64>,
    client: Times,
    /// The round trip of a script that returns 1, taken in turns.
    nothing: Times,
}

impl Scenario {
    fn server(&self) -> f64 {
        let mut means = self.server.clone();
        means.sort_by(f64::total_cmp);
        means.get(means.len() / 2).copied().unwrap_or_default()
    }
}

struct Bench {
    server: RedisServer,
    connection: MultiplexedConnection,
    plan: &'static Plan,
}

/// The figures, and the ratios that are wanted of them.
pub(crate) async fn charges(plan: &'static Plan) -> [Table; 2] {
    let server = RedisServer::start();
    let client = Client::open(server.url().expose().clone()).unwrap();
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .unwrap();
    let mut bench = Bench {
        server,
        connection,
        plan,
    };
    let mut all = Vec::new();
    for cost in COSTS {
        for &fill in plan.fills {
            all.extend(bench.side_by_side(cost, fill).await);
        }
    }
    all.sort_by_key(|scenario| scenario.what);
    [written(&all), ratios(&all)]
}

/// What others write for a charge: its name, and the script.
struct Rival(&'static str, &'static str);

impl Bench {
    async fn side_by_side(&mut self, cost: u32, fill: u32) -> Vec<Scenario> {
        self.send(&mut cmd("FLUSHALL")).await;
        let mut scenarios = [
            self.ours("ours, granted", cost, fill, Room::Free).await,
            self.ours("ours, rejected", cost, fill, Room::None).await,
            self.theirs(Rival("a member a unit", MEMBER_A_UNIT), cost, fill, fill)
                .await,
            self.theirs(
                Rival("a member a unit, in a loop", MEMBER_A_UNIT_IN_A_LOOP),
                cost,
                fill,
                fill,
            )
            .await,
        ];
        // By itself: it leaves the others nothing of the processor's caches.
        let mut scan = [self
            .theirs(Rival("scan and sum", SCAN_AND_SUM), cost, fill, fill / cost)
            .await];
        self.take_turns(&mut scenarios).await;
        self.take_turns(&mut scan).await;
        scenarios.into_iter().chain(scan).collect()
    }

    async fn take_turns(&mut self, scenarios: &mut [Scenario]) {
        for turn in 0..self.plan.redis_turns {
            for scenario in &mut *scenarios {
                self.take_turn(scenario, turn == 0).await;
            }
        }
    }

    async fn take_turn(&mut self, scenario: &mut Scenario, warms_up: bool) {
        self.send(cmd("CONFIG").arg("RESETSTAT")).await;
        let burst = if scenario.is_slow {
            self.plan.short_burst
        } else {
            self.plan.redis_burst
        };
        for _ in 0..burst {
            let charged = self.charge(&mut scenario.way, scenario.cost).await;
            if !warms_up {
                scenario.client.add(charged);
            }
        }
        if !warms_up {
            scenario.server.push(self.server_time().await);
        }
        // Not between the charges: it would keep the others' interpreter in the processor's caches, and not that of functions.
        for _ in 0..burst {
            let returned = self.nothing().await;
            if !warms_up {
                scenario.nothing.add(returned);
            }
        }
    }

    async fn ours(&mut self, what: &'static str, cost: u32, fill: u32, room: Room) -> Scenario {
        // A window that is to stay empty is left behind by days.
        let is_empty = fill == 0 && room == Room::Free;
        let clock = if is_empty { Clock::Told } else { Clock::Server };
        let ledger = Arc::new(Machine::new(&self.server, clock));
        let charges = if room == Room::None {
            (fill / cost).max(1)
        } else {
            fill / cost
        };
        let before = self.bytes().await;
        let books = Books::filled(ledger, charges, u64::from(cost), room).await;
        let bytes = self.bytes().await - before;
        Scenario::new(what, cost, fill, Way::Ours(books.into()), bytes)
    }

    /// A charge as others make it, in a set of `members` members.
    async fn theirs(&mut self, script: Rival, cost: u32, fill: u32, members: u32) -> Scenario {
        let Rival(what, code) = script;
        let set = what.to_owned();
        let units = if what == "scan and sum" { cost } else { 1 };
        let before = self.bytes().await;
        for member in 0..members {
            let name = format!("{member:032}:{units}");
            self.send(
                cmd("ZADD")
                    .arg(&set)
                    .arg(DAY_IN_MICROS + u64::from(member))
                    .arg(name),
            )
            .await;
        }
        let bytes = self.bytes().await - before;
        let way = Way::Theirs {
            script: Script::new(code),
            set,
            charges: 0,
            empties: members == 0,
        };
        let slow = what == "scan and sum" && members > 500;
        Scenario {
            is_slow: slow,
            ..Scenario::new(what, cost, fill, way, bytes)
        }
    }

    async fn charge(&mut self, way: &mut Way, cost: u32) -> Duration {
        let (script, set, charges, empties) = match way {
            Way::Ours(books) => return books.charge().await,
            Way::Theirs {
                script,
                set,
                charges,
                empties,
            } => (script, set, charges, empties),
        };
        // A window that is to stay empty is left behind after each charge.
        let now = DAY_IN_MICROS * if *empties { 2 + 2 * *charges } else { 2 } - 1;
        let mut call = script.key(&*set);
        call.arg(now)
            .arg(DAY_IN_MICROS)
            .arg(u64::from(u32::MAX))
            .arg(cost)
            .arg(format!("{charges:032}x"));
        *charges += 1;
        let began = Instant::now();
        let granted: i64 = call.invoke_async(&mut self.connection).await.unwrap();
        assert_eq!(granted, 1);
        began.elapsed()
    }

    async fn nothing(&mut self) -> Duration {
        let began = Instant::now();
        let _: i64 = cmd("EVAL_RO")
            .arg(NOTHING)
            .arg(0)
            .query_async(&mut self.connection)
            .await
            .unwrap();
        began.elapsed()
    }

    async fn send(&mut self, command: &mut redis::Cmd) {
        let _: redis::Value = command.query_async(&mut self.connection).await.unwrap();
    }

    /// Mean microseconds in the server of one call.
    async fn server_time(&mut self) -> f64 {
        let stats: String = cmd("INFO")
            .arg("commandstats")
            .query_async(&mut self.connection)
            .await
            .unwrap();
        let line = stats
            .lines()
            .find_map(|line| {
                let calls = line.strip_prefix("cmdstat_")?.split_once(':')?;
                matches!(calls.0, "fcall" | "evalsha").then_some(calls.1)
            })
            .unwrap();
        let fields: HashMap<_, _> = line
            .split(',')
            .filter_map(|field| field.split_once('='))
            .collect();
        fields.get("usec_per_call").unwrap().parse().unwrap()
    }

    async fn bytes(&mut self) -> u64 {
        let keys: Vec<String> = cmd("KEYS")
            .arg("*")
            .query_async(&mut self.connection)
            .await
            .unwrap();
        let mut bytes = 0;
        for key in keys {
            let mut usage = cmd("MEMORY");
            usage.arg("USAGE").arg(key).arg("SAMPLES").arg(0);
            bytes += usage
                .query_async::<u64>(&mut self.connection)
                .await
                .unwrap();
        }
        bytes
    }
}

impl Scenario {
    fn new(what: &'static str, cost: u32, fill: u32, way: Way, bytes: u64) -> Self {
        let (server, client, nothing) = (Vec::new(), Times::default(), Times::default());
        Self {
            what,
            cost,
            fill,
            way,
            bytes,
            is_slow: false,
            server,
            client,
            nothing,
        }
    }
}

fn written(scenarios: &[Scenario]) -> Table {
    let mut table = table([
        "One Redis charge",
        "cost",
        "units in the window",
        "server µs",
        "times ours",
        "client median µs",
        "times a script that returns 1",
        "bytes in Redis",
    ]);
    for one in scenarios {
        let ours = scenarios.iter().find(|other| {
            other.what == "ours, granted" && (other.cost, other.fill) == (one.cost, one.fill)
        });
        table.add_row([
            one.what.to_owned(),
            one.cost.to_string(),
            one.fill.to_string(),
            format!("{:.1}", one.server()),
            format!(
                "{:.2}",
                one.server() / ours.map_or(f64::NAN, Scenario::server)
            ),
            micros(one.client.median()),
            ratio(one.client.median(), one.nothing.median()),
            one.bytes.to_string(),
        ]);
    }
    table
}

/// What is wanted, by the time in the server: of each fill of the window.
fn ratios(scenarios: &[Scenario]) -> Table {
    let mut table = table([
        "Server time of one Redis charge",
        "units in the window",
        "measured",
        "wanted",
    ]);
    let times = |what, cost, fill| {
        let same = |one: &&Scenario| (one.what, one.cost, one.fill) == (what, cost, fill);
        scenarios
            .iter()
            .find(same)
            .map_or(f64::NAN, Scenario::server)
    };
    let (ours, rejected, theirs) = ("ours, granted", "ours, rejected", "a member a unit");
    let fills: BTreeSet<u32> = scenarios.iter().map(|one| one.fill).collect();
    for fill in fills {
        let rows = [
            (
                "cost 1, ours against a member a unit",
                times(ours, 1, fill) / times(theirs, 1, fill),
                "at most 2",
            ),
            (
                "cost 100, a member a unit against ours",
                times(theirs, 100, fill) / times(ours, 100, fill),
                "at least 6",
            ),
            (
                "cost 1, a rejection against a grant",
                times(rejected, 1, fill) / times(ours, 1, fill),
                "at most 1",
            ),
        ];
        for (what, measured, wanted) in rows {
            table.add_row([
                what.to_owned(),
                fill.to_string(),
                format!("{measured:.2}"),
                wanted.to_owned(),
            ]);
        }
    }
    table
}
