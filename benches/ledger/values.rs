//! A limit with a scope is one limit for each value: what a charge and a report cost in Redis where they are many.

use std::sync::Arc;
use std::time::Duration;

use comfy_table::Table;
use ingest_base::clock::{Clock as _, SystemClock};
use ingest_ledger::Ledger;
use ingest_quota::{Account, Calendar, Cost, Decision, Limit, LimitName, Period, Units, Window};

use super::books::{DAY, timed_charge};
use super::machine::{Clock, Machine};
use super::table::{Plan, Times, micros, table};
use ingest_testing::redis_server::RedisServer;

const UTC: chrono_tz::Tz = chrono_tz::UTC;

struct Scenario {
    server: RedisServer,
    ledger: Arc<dyn Ledger>,
    account: Account,
    charges: usize,
    client: Times,
    /// Mean microseconds of a charge in the server, by turn.
    means: Vec<f64>,
    /// Microseconds of a report in the server, by turn.
    reports: Vec<f64>,
}

pub(crate) async fn charges(plan: &'static Plan) -> Table {
    let mut scenarios = Vec::new();
    for &limits in plan.limits {
        scenarios.push(Scenario::of(limits).await);
    }
    for turn in 0..plan.redis_turns {
        for scenario in &mut scenarios {
            scenario.take_turn(plan.redis_burst, turn == 0).await;
        }
    }
    written(&scenarios)
}

impl Scenario {
    /// An account with a limit of a day, and as many others, each of an hour, of which each has one charge.
    async fn of(limits: usize) -> Self {
        let server = RedisServer::start();
        let ledger = Machine::new(&server, Clock::Server);
        let limit = |window| {
            let quota = Units::new(u64::from(u32::MAX));
            Limit::new(quota, Units::ZERO, window).unwrap()
        };
        let hour = Window::new(None, Some(Calendar::new(UTC, Period::Hour))).unwrap();
        let values = (1..limits).map(|number| (value(number), limit(hour)));
        let day = limit(Window::new(Some(DAY), None).unwrap());
        let account = Account {
            name: "bench".to_owned(),
            limits: values.chain([("daily".to_owned(), day)]).collect(),
        };
        let mut scenario = Self {
            server,
            ledger: Arc::new(ledger),
            account,
            charges: 0,
            client: Times::default(),
            means: Vec::new(),
            reports: Vec::new(),
        };
        let names: Vec<LimitName> = scenario.account.limits.keys().cloned().collect();
        for names in names.chunks(100) {
            let cost = names.iter().map(|name| (name.clone(), Units::new(1)));
            scenario.charge(cost.collect()).await;
        }
        scenario
    }

    async fn take_turn(&mut self, burst: usize, warms_up: bool) {
        self.server.tell("CONFIG RESETSTAT");
        for _ in 0..burst {
            let values = self.account.limits.len() - 1;
            let value = (values > 0).then(|| value(1 + self.charges % values));
            let names = value.into_iter().chain(["daily".to_owned()]);
            let took = self
                .charge(names.map(|name| (name, Units::new(1))).collect())
                .await;
            if !warms_up {
                self.client.add(took);
            }
        }
        let mean = self.server_time();
        self.server.tell("CONFIG RESETSTAT");
        let now = SystemClock.now();
        self.ledger.usage(&self.account, now).await.unwrap();
        if !warms_up {
            self.means.push(mean);
            self.reports.push(self.server_time());
        }
    }

    async fn charge(&mut self, cost: Cost) -> Duration {
        self.charges += 1;
        let now = SystemClock.now();
        let (took, decision) = timed_charge(&*self.ledger, &self.account, &cost, now).await;
        assert!(matches!(decision, Decision::Granted(_)), "{decision:?}");
        took
    }

    /// Mean microseconds in the server of one script.
    fn server_time(&self) -> f64 {
        let stats: String = self.server.ask("INFO commandstats");
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_fcall:"))
            .unwrap();
        let mean = line
            .split(',')
            .find_map(|field| field.strip_prefix("usec_per_call="));
        mean.unwrap().parse().unwrap()
    }
}

fn value(number: usize) -> LimitName {
    format!("hourly/{number}")
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn written(scenarios: &[Scenario]) -> Table {
    let mut table = table([
        "Limits of the account",
        "server µs a charge",
        "client median µs",
        "server ms a report",
    ]);
    for one in scenarios {
        table.add_row([
            one.account.limits.len().to_string(),
            format!("{:.1}", median(&one.means)),
            micros(one.client.median()),
            format!("{:.2}", median(&one.reports) / 1000.0),
        ]);
    }
    table
}
