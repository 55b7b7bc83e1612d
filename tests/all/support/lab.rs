//! Runs inside the test's own process, with a clock that is moved by hand and that the sandbox goes by too.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ingest::foresight::{self, Forecast, JobFit, Plan};
use ingest::review::ComparedRecords;
use ingest::run::{self, Blocked, Context, InFlight, LearnedCosts, PassOutcome, RunReport, Silent};
use ingest_base::clock::{Clock, Deadline};
use ingest_base::record::Record;
use ingest_catalog::Catalog;
use ingest_config::{Config, Sources};
use ingest_ledger as ledger;
use ingest_ledger::Mode;
use ingest_quota::{Timestamp, Units};
use ingest_sandbox::{Options, Sandbox};
use ingest_upstream::{Client, Connection, Exchange, Failure, Page, PageRequest, Secret, Upstream};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::leases::MemoryLeases;
use super::world::{sandbox_client, shipped};

/// Twenty past midnight on 2026-03-01, UTC.
const BEGIN: Timestamp = Timestamp::from_micros(1_772_324_400_000_000);
/// 2026-11-20T12:00:00Z, four in the morning in Los Angeles.
pub const NOON: Timestamp = Timestamp::from_micros(1_795_176_000_000_000);
/// How many requests a run makes at once.
const CONCURRENCY: usize = 4;

/// Time passes only when a test says so, or when a run sleeps.
#[derive(Clone)]
pub struct HandClock(Arc<Mutex<Timestamp>>);

impl HandClock {
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(now)))
    }

    pub fn set(&self, now: Timestamp) {
        *self.0.lock().unwrap() = now;
    }

    pub fn pass(&self, span: Duration) {
        let mut now = self.0.lock().unwrap();
        *now += span;
    }

    /// Moves on to this time, never back.
    fn reach(&self, at: Timestamp) {
        let mut now = self.0.lock().unwrap();
        *now = at.max(*now);
    }
}

#[async_trait]
impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    /// Those who sleep at the same time wake at the same time.
    async fn sleep(&self, span: Duration) {
        let until = self.now() + span;
        // A request on its way arrives before this long sleep is over: the sandbox would count it at a time at which the program
        // would not send it any more. In many short ones, each of which waits its turn on a busy machine, as the request does.
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.reach(until);
    }
}

pub struct Lab {
    pub directory: TempDir,
    clock: HandClock,
    source: PathBuf,
    sets: Vec<String>,
    pub config: Config,
    pub sandbox: Sandbox,
    pub runtime: Runtime,
    leases: MemoryLeases,
}

impl Lab {
    /// The shipped configuration with some values changed.
    pub fn new(sets: &[&str]) -> Self {
        Self::of(shipped(), sets, Options::default())
    }

    /// The same at this time, and with a sandbox that grants more than any of its runs may spend.
    pub fn beginning_at(now: Timestamp, sets: &[&str]) -> Self {
        let quota = Some(Units::new(1_000_000));
        let options = Options {
            quota,
            ..Options::default()
        };
        let lab = Self::of(shipped(), sets, options);
        lab.clock.set(now);
        lab
    }

    /// A configuration that a test wrote, and files beside it.
    pub fn written(text: &str, files: &[(&str, String)], options: Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("written.toml");
        std::fs::write(&path, text).unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        Self {
            directory,
            ..Self::of(path, &[], options)
        }
    }

    fn of(source: PathBuf, sets: &[&str], options: Options) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Runtime::new().unwrap();
        let clock = HandClock::at(BEGIN);
        let mut sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let config = configured(&source, &sets);
        let sandbox = Sandbox::start(&config, options, Arc::new(clock.clone()));
        let sandbox = runtime.block_on(sandbox).unwrap();
        for (name, url) in sandbox.base_urls() {
            sets.push(format!("upstreams.{name}.base_url=\"{url}\""));
        }
        let config = configured(&source, &sets);
        Self {
            directory: tempfile::tempdir().unwrap(),
            clock,
            source,
            sets,
            config,
            sandbox,
            runtime,
            leases: MemoryLeases::default(),
        }
    }

    /// Changes the configuration of every later run.
    pub fn set(&mut self, set: &str) {
        self.sets.push(set.to_owned());
        self.config = configured(&self.source, &self.sets);
    }

    pub fn pass(&self, span: Duration) {
        self.clock.pass(span);
    }

    /// Lets time pass until then, if that is later than now.
    pub fn reach(&self, at: Timestamp) {
        self.clock.reach(at);
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Runs one job over all of its regions.
    pub fn run(&self, job: &str) -> RunReport {
        self.run_all(&[job])
    }

    /// Runs these jobs over all of their regions.
    pub fn run_all(&self, jobs: &[&str]) -> RunReport {
        let selection = self.selection(jobs);
        let context = self.context();
        self.runtime
            .block_on(run::run(&context, &selection))
            .unwrap()
    }

    /// Runs these jobs against an upstream of four short pages, without HTTP.
    pub fn run_briefly(&self, jobs: &[&str]) -> RunReport {
        let brief: Arc<dyn Upstream> = Arc::new(Brief);
        let (mut context, selection) = (self.context(), self.selection(jobs));
        let upstreams = context.upstreams.values_mut();
        upstreams.for_each(|upstream| *upstream = Ok(Arc::clone(&brief)));
        let run = run::run(&context, &selection);
        self.runtime.block_on(run).unwrap()
    }

    /// What a run of these jobs would spend now.
    pub fn preview(&self, jobs: &[&str]) -> foresight::Preview {
        let (context, selection) = (self.context(), self.selection(jobs));
        let (catalog, ledger) = (&*context.catalog, &*context.ledger);
        let preview =
            foresight::preview(catalog, ledger, &selection, self.now(), context.concurrency);
        self.runtime.block_on(preview).unwrap()
    }

    /// What runs at these times would spend.
    pub fn forecast(&self, jobs: &[&str], times: (&[Timestamp], Timestamp)) -> Forecast {
        let (context, selection) = (self.context(), self.selection(jobs));
        let plan = self.plan(&selection, times);
        let forecast = foresight::forecast(&context.catalog, &*context.ledger, plan);
        self.runtime.block_on(forecast).unwrap()
    }

    /// How often each of these jobs could run, and over how many regions.
    pub fn what_fits(&self, jobs: &[&str], times: (&[Timestamp], Timestamp)) -> Vec<JobFit> {
        let forecast = self.forecast(jobs, times);
        let (context, selection) = (self.context(), self.selection(jobs));
        let plan = self.plan(&selection, times);
        let fits = foresight::what_fits(&context.catalog, &*context.ledger, plan, &forecast);
        self.runtime.block_on(fits).unwrap().unwrap()
    }

    /// Runs at these times, and until when their units count.
    fn plan<'a>(
        &self,
        selection: &'a run::Selection,
        (starts, until): (&'a [Timestamp], Timestamp),
    ) -> Plan<'a> {
        Plan {
            selection,
            starts,
            later: &[],
            from: self.now(),
            until,
            concurrency: CONCURRENCY,
            stop: None,
        }
    }

    /// These jobs, each over all of its regions.
    pub fn selection(&self, jobs: &[&str]) -> run::Selection {
        self.config
            .jobs
            .iter()
            .filter(|known| jobs.contains(&&*known.name))
            .map(|job| (Arc::clone(job), job.regions.to_vec()))
            .collect()
    }

    /// What one run works with.
    pub fn context(&self) -> Context {
        let config = &self.config;
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        let state = self.directory.path();
        let ledger =
            ledger::open(&config.ledger, state, Mode::ReadWrite, Arc::clone(&clock)).unwrap();
        Context {
            catalog: Arc::new(Catalog::open(&state.join("catalog.db")).unwrap()),
            ledger,
            upstreams: upstreams(config),
            clock,
            unlanded: None,
            leases: Arc::new(self.leases.clone()),
            stop: run::channel().1,
            blocked: Blocked::default(),
            known_calls: ingest::run::KnownCalls::default(),
            learned_costs: LearnedCosts::default(),
            waits: ingest::run::Waits::default(),
            in_flight: InFlight::default(),
            compared_records: Some(ComparedRecords::default()),
            progress: Arc::new(Silent),
            concurrency: CONCURRENCY,
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

    pub fn sandbox_says(&self, what: &str) -> Value {
        let url = format!("http://{}/_sandbox/{what}", self.sandbox.address());
        let request = sandbox_client().build().unwrap().get(url);
        self.runtime
            .block_on(async { request.send().await.unwrap().json().await.unwrap() })
    }

    /// How much the lists of a call hold from now on.
    pub fn lists_hold(&self, call: &str, total: u64) {
        let url = format!("http://{}/_sandbox/totals", self.sandbox.address());
        let totals = HashMap::from([(call, total)]);
        let request = sandbox_client().build().unwrap().post(url).json(&totals);
        let answer = self.runtime.block_on(request.send()).unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }

    /// One number from the catalog.
    pub fn count(&self, query: &str) -> i64 {
        let catalog = rusqlite::Connection::open(self.directory.path().join("catalog.db")).unwrap();
        catalog.query_row(query, [], |row| row.get(0)).unwrap()
    }
}

/// An upstream of lists of four pages with a record each.
struct Brief;

#[async_trait]
impl Upstream for Brief {
    async fn ready(&self) -> Result<(), Failure> {
        Ok(())
    }

    async fn connect(&self) -> Result<Connection, Failure> {
        Ok(Connection::default())
    }

    async fn fetch(&self, request: PageRequest<'_>, _: Connection, _: Deadline) -> Exchange {
        let page: u32 = request.cursor.map_or(1, |cursor| cursor.parse().unwrap());
        let record = Record {
            id: format!("{}-{page}", request.region.code),
            body: json!({}),
        };
        Ok(Page {
            records: vec![record],
            next: (page < 4).then(|| (page + 1).to_string()),
            ..Page::default()
        })
        .into()
    }
}

fn configured(source: &Path, sets: &[String]) -> Config {
    Config::load(&Sources {
        path: Some(source.to_owned()),
        sets: sets.to_vec(),
    })
    .unwrap()
}

fn upstreams(config: &Config) -> HashMap<String, Result<Arc<dyn Upstream>, String>> {
    let way = |(name, credential): (&String, &Arc<ingest_config::Credential>)| {
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

/// What a run charged of a limit.
pub fn spent(report: &RunReport, limit: &str) -> u64 {
    let passes = report.passes.iter();
    passes.map(|pass| pass.units.of(limit).get()).sum()
}
