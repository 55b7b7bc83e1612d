//! Where catalog and ledger are, and what the servers among them execute.

use std::time::Duration;

use ingest_ledger::redis::RedisLedger;
use ingest_ledger::{SharedLedger, Update, fresh_id};
use ingest_quota::{Account, Cost, Entry, Origin, Timestamp, Units};
use ingest_testing::postgres::PostgresServer;
use ingest_testing::redis_server::{RedisServer, ledger_config};

use tokio::runtime::Runtime;

use super::grown::Taken;
use super::place::Place;
use super::place::figures::Measured;

pub struct Servers {
    postgres: PostgresServer,
    redis: RedisServer,
}

/// Where catalog and ledger are.
#[derive(Clone, Copy)]
pub struct Stores<'a> {
    pub name: &'static str,
    pub postgres: Option<&'a PostgresServer>,
    pub redis: Option<&'a RedisServer>,
}

/// The files of the state directory.
pub const FILES: Stores<'static> = Stores {
    name: "files",
    postgres: None,
    redis: None,
};

impl Servers {
    pub fn start() -> Self {
        // Its statistics are those of a server in use: otherwise its plans are of empty tables.
        let settings = [
            "shared_preload_libraries=pg_stat_statements",
            "autovacuum=on",
        ];
        let postgres = PostgresServer::local(&settings);
        postgres.rows("create extension pg_stat_statements");
        Self {
            postgres,
            redis: RedisServer::start(),
        }
    }

    /// Every pair of a catalog and a ledger.
    pub fn pairs(&self) -> [Stores<'_>; 4] {
        let (postgres, redis) = (Some(&self.postgres), Some(&self.redis));
        let pair = |name, postgres, redis| Stores {
            name,
            postgres,
            redis,
        };
        [
            FILES,
            pair("file and Redis", None, redis),
            pair("PostgreSQL and file", postgres, None),
            self.both(),
        ]
    }

    pub const fn both(&self) -> Stores<'_> {
        Stores {
            name: "PostgreSQL and Redis",
            postgres: Some(&self.postgres),
            redis: Some(&self.redis),
        }
    }
}

impl Stores<'_> {
    /// What the program is told of them. Each account and schema is new.
    pub fn sets(&self, credential: &str) -> Vec<String> {
        let mut sets = vec![format!("credentials.{credential}.account={}", fresh_id())];
        if let Some(server) = self.postgres {
            let schema = server.schema();
            sets.push(format!("catalog.url=\"{}\"", schema.reached_at()));
            sets.push(format!("catalog.schema={}", schema.name));
        }
        if let Some(server) = self.redis {
            sets.push(format!("ledger.url=\"{}\"", server.url().expose()));
        }
        sets
    }

    /// What a command took: the program, and the servers that executed something for it.
    pub fn taken(&self, command: impl FnOnce() -> Measured) -> Taken {
        if let Some(server) = self.postgres {
            server.rows("select pg_stat_statements_reset()");
        }
        let before = self.redis.map_or([0.0; 2], scripts);
        let measured = command();
        let after = self.redis.map_or([0.0; 2], scripts);
        let [mut statements, mut seconds] = [0, 1].map(|figure| after[figure] - before[figure]);
        if let Some(server) = self.postgres {
            let executed = "select sum(calls)::float8, sum(total_exec_time)::float8 / 1e3 from pg_stat_statements";
            let row = &server.rows(executed)[0];
            statements += row.get::<_, Option<f64>>(0).unwrap_or_default();
            seconds += row.get::<_, Option<f64>>(1).unwrap_or_default();
        }
        Taken {
            seconds: seconds + measured.computed.as_secs_f64(),
            megabytes: measured.megabytes,
            statements,
        }
    }

    /// Takes the catalog of a place to the server, and fills a ledger there. Returns what the copy took.
    pub fn take(&self, runtime: &Runtime, place: &mut Place, charges: i64) -> Taken {
        let sets = self.sets("youtube");
        let (postgres, redis) = (self.postgres.unwrap(), self.redis.unwrap());
        let url = postgres.url();
        let schema = sets.iter().find(|set| set.starts_with("catalog.schema="));
        let to = ["--to", &url, "--set", schema.unwrap()];
        let copy = [&["catalog", "copy", "--from", "sqlite"], &to[..]].concat();
        let taken = self.taken(|| {
            let copied = place.measure(&copy);
            assert_eq!(copied.exit, "0", "{copied:?}");
            copied
        });
        postgres.rows("analyze");
        sets.into_iter().for_each(|set| place.set(set));
        let account = &place.config().credentials["youtube"].account;
        runtime.block_on(fill(redis, account, charges));
        taken
    }
}

/// Fills an account with charges of one unit, evenly over the last 23 hours.
async fn fill(server: &RedisServer, account: &Account, charges: i64) {
    let patience = Duration::from_secs(60);
    let ledger = RedisLedger::new(&server.url(), &ledger_config(patience, patience)).unwrap();
    let now = Timestamp::from(chrono::Utc::now());
    let step = Duration::from_secs(23 * 3600) / u32::try_from(charges).unwrap();
    let entries = (1..).take(charges as usize).map(|nth| Entry {
        origin: Origin::CarriedOver,
        id: fresh_id(),
        at: now - step * nth,
        cost: Cost::from_iter([("daily".to_owned(), Units::new(1))]),
    });
    for entries in entries.collect::<Vec<_>>().chunks(1000) {
        let absorbed = ledger.update(account, Update::Absorb(entries), None, now);
        absorbed.await.unwrap();
    }
}

/// How many scripts a Redis executed, and the seconds that it computed.
fn scripts(server: &RedisServer) -> [f64; 2] {
    let (calls, computed): (String, String) =
        (server.ask("INFO commandstats"), server.ask("INFO cpu"));
    let sum = |text: &str, begins: &[&str]| -> f64 {
        let lines = text.lines().filter_map(|line| {
            let (name, figure) = line.split_once(':')?;
            let is_one = begins.iter().any(|begin| name.starts_with(begin));
            let figure = figure.strip_prefix("calls=").unwrap_or(figure);
            is_one.then(|| figure.split(',').next().unwrap().parse::<f64>().unwrap())
        });
        lines.sum()
    };
    [
        sum(&calls, &["cmdstat_eval", "cmdstat_fcall"]),
        sum(&computed, &["used_cpu_sys_main", "used_cpu_user_main"]),
    ]
}
