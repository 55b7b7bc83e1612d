//! Runs inside the test's own process, with a clock that is moved by hand and that the sandbox goes by too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ingest::catalog::SqliteCatalog;
use ingest::clock::Clock;
use ingest::config::{Config, Sources};
use ingest::ledger::{self, Mode};
use ingest::quota::Timestamp;
use ingest::run::{
    self, Asked, Believing, Context, Estimates, Gate, Locks, PassOutcome, RunReport, Silent,
};
use ingest::sandbox::{Options, Sandbox};
use ingest::upstream::{Client, Secret, Upstream};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::world::shipped;

/// Twenty past midnight on 2026-03-01, UTC.
const BEGIN: Timestamp = Timestamp::from_micros(1_772_324_400_000_000);

/// Time passes only when a test says so, or when a run sleeps.
#[derive(Clone)]
struct HandClock(Arc<Mutex<Timestamp>>);

impl HandClock {
    fn pass(&self, span: Duration) {
        let mut now = self.0.lock().unwrap();
        *now = now.after(span);
    }
}

#[async_trait]
impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    async fn sleep(&self, span: Duration) {
        self.pass(span);
    }
}

pub struct Lab {
    pub directory: TempDir,
    clock: HandClock,
    sets: Vec<String>,
    config: Config,
    sandbox: Sandbox,
    runtime: Runtime,
}

impl Lab {
    pub fn new(sets: &[&str]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Runtime::new().unwrap();
        let clock = HandClock(Arc::new(Mutex::new(BEGIN)));
        let mut sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let config = configured(&sets);
        let sandbox = Sandbox::start(&config, Options::default(), Arc::new(clock.clone()));
        let sandbox = runtime.block_on(sandbox).unwrap();
        sets.push(format!(
            "upstreams.youtube.base_url=\"{}\"",
            sandbox.base_url("youtube")
        ));
        let config = configured(&sets);
        Self {
            directory: tempfile::tempdir().unwrap(),
            clock,
            sets,
            config,
            sandbox,
            runtime,
        }
    }

    /// Changes the configuration of every later run.
    pub fn set(&mut self, set: &str) {
        self.sets.push(set.to_owned());
        self.config = configured(&self.sets);
    }

    pub fn pass(&self, span: Duration) {
        self.clock.pass(span);
    }

    /// Runs one job over all of its regions.
    pub fn run(&self, job: &str) -> RunReport {
        self.run_all(&[job])
    }

    /// Runs these jobs over all of their regions.
    pub fn run_all(&self, jobs: &[&str]) -> RunReport {
        let selection: run::Selection = self
            .config
            .jobs
            .iter()
            .filter(|known| jobs.contains(&&*known.name))
            .map(|job| (Arc::clone(job), job.regions.to_vec()))
            .collect();
        let context = self.context();
        self.runtime
            .block_on(run::run(&context, &selection))
            .unwrap()
    }

    fn context(&self) -> Context {
        let config = &self.config;
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let state = self.directory.path();
        let meter =
            ledger::open(&config.ledger, state, Mode::ReadWrite, Arc::clone(&clock)).unwrap();
        Context {
            catalog: Arc::new(SqliteCatalog::open(&state.join("catalog.db")).unwrap()),
            meter: Arc::new(meter),
            upstreams: upstreams(config),
            clock,
            locks: Locks::open(state).unwrap(),
            stop: run::channel().1,
            gate: Gate::default(),
            asked: Asked::default(),
            estimates: Estimates::default(),
            believing: Believing::default(),
            progress: Arc::new(Silent),
            concurrency: 4,
            cheap_max: config.ledger.cheap_max,
        }
    }

    pub fn requests(&self) -> u64 {
        self.sandbox.requests()
    }

    /// The most that the sandbox ever counted of a limit within one of its windows, in units.
    pub fn most_in_window(&self, limit: &str) -> u64 {
        let usage = self.sandbox_says("usage");
        let limits = usage["limits"].as_array().unwrap();
        limits.iter().find(|one| one["limit"] == limit).unwrap()["most_in_window"]
            .as_u64()
            .unwrap()
    }

    fn sandbox_says(&self, what: &str) -> Value {
        let url = format!("http://{}/_sandbox/{what}", self.sandbox.address());
        self.runtime
            .block_on(async { reqwest::get(url).await.unwrap().json().await.unwrap() })
    }

    /// How much the lists of a call hold from now on.
    pub fn lists_hold(&self, call: &str, total: u64) {
        let url = format!("http://{}/_sandbox/totals", self.sandbox.address());
        let totals = HashMap::from([(call, total)]);
        let answer = self
            .runtime
            .block_on(reqwest::Client::new().post(url).json(&totals).send())
            .unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }

    /// One number from the catalog.
    pub fn count(&self, query: &str) -> i64 {
        let catalog = rusqlite::Connection::open(self.directory.path().join("catalog.db")).unwrap();
        let index = self.directory.path().join("search.db");
        let attach = format!("attach '{}' as search", index.display());
        catalog.execute_batch(&attach).unwrap();
        catalog.query_row(query, [], |row| row.get(0)).unwrap()
    }
}

fn configured(sets: &[String]) -> Config {
    Config::load(&Sources {
        path: Some(shipped()),
        sets: sets.to_vec(),
    })
    .unwrap()
}

fn upstreams(config: &Config) -> HashMap<String, Result<Arc<dyn Upstream>, String>> {
    let way = |(name, credential): (&String, &Arc<ingest::config::Credential>)| {
        let secret = Secret::given(name, Sandbox::secret_of(name).into());
        let client: Arc<dyn Upstream> =
            Arc::new(Client::new(Arc::clone(&credential.upstream), secret).unwrap());
        (name.clone(), Ok(client))
    };
    config.credentials.iter().map(way).collect()
}

/// The regions of a report that ended so.
pub fn ended(report: &RunReport, outcome: PassOutcome) -> Vec<&str> {
    let regions = report
        .passes
        .iter()
        .filter(|pass| pass.outcome == outcome && pass.region != "*");
    regions.map(|pass| pass.region.as_str()).collect()
}
