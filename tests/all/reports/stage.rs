//! The main job in this process, against a sandbox, with a clock that is moved by hand.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use ingest::foresight::{self, Forecast, JobFit, Plan, Preview};
use ingest::run::{self, Blocked, Context, PassOutcome, RunReport, Selection, Silent, channel};
use ingest_base::clock::{Clock, Deadline};
use ingest_base::record::Record;
use ingest_catalog::Catalog;
use ingest_config::Config;
use ingest_ledger::{LocalClient, SqliteLedger};
use ingest_quota::{Timestamp, Units};
use ingest_sandbox::{Options, Sandbox};
use ingest_upstream::{Client, Connection, Exchange, Failure, Page, PageRequest, Secret, Upstream};
use tempfile::TempDir;

use crate::support::leases::MemoryLeases;

/// 2026-11-20T12:00:00Z, four in the morning in Los Angeles.
pub const NOON: i64 = 1_795_176_000_000_000;
pub const HOUR: Duration = Duration::from_secs(60 * 60);

/// A fifth of the records on as many pages and in as many batches: what is spent is the same, and soon.
pub const LEAN: [&str; 4] = [
    "upstreams.youtube.calls.\"videos.list\".page.size=10",
    "upstreams.youtube.calls.\"search.list\".page.size=10",
    "jobs.trending.steps.1.ids.batch=10",
    "jobs.discover.steps.1.ids.batch=10",
];

pub struct Hand(AtomicI64);

#[async_trait::async_trait]
impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    async fn sleep(&self, span: Duration) {
        self.advance(span);
    }
}

impl Hand {
    pub fn advance(&self, span: Duration) {
        self.0
            .fetch_add(i64::try_from(span.as_micros()).unwrap(), Ordering::SeqCst);
    }

    pub fn reach(&self, at: Timestamp) {
        self.0.store(at.micros(), Ordering::SeqCst);
    }
}

pub struct Stage {
    pub clock: Arc<Hand>,
    sandbox: Sandbox,
    pub config: Config,
    pub directory: TempDir,
    catalog: Arc<Catalog>,
    ledger: SqliteLedger,
}

fn opened(directory: &TempDir) -> Arc<Catalog> {
    Arc::new(Catalog::open(&directory.path().join("catalog.db")).unwrap())
}

impl Stage {
    /// The shipped configuration with some values changed.
    pub async fn shipped(sets: &[&str]) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("quotas.toml");
        Self::written(&std::fs::read_to_string(path).unwrap(), sets).await
    }

    pub async fn written(text: &str, sets: &[&str]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let clock = Arc::new(Hand(AtomicI64::new(NOON)));
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let parse = |sets: &[String]| Config::parse(text, Path::new("test.toml"), sets).unwrap();
        let config = parse(&sets);
        let quota = Some(Units::new(1_000_000));
        let options = Options {
            quota,
            ..Options::default()
        };
        let sandbox = Sandbox::start(&config, options, Arc::clone(&clock) as Arc<dyn Clock>)
            .await
            .unwrap();
        let urls = sandbox.base_urls();
        let urls = urls
            .iter()
            .map(|(name, url)| format!("upstreams.{name}.base_url=\"{url}\""));
        let config = parse(&sets.iter().cloned().chain(urls).collect::<Vec<_>>());
        let directory = tempfile::tempdir().unwrap();
        let catalog = opened(&directory);
        let ledger = SqliteLedger::open(&directory.path().join("ledger.db")).unwrap();
        Self {
            clock,
            sandbox,
            config,
            directory,
            catalog,
            ledger,
        }
    }

    /// Opens the catalog anew: what earlier runs left in its log is written into its file, which otherwise happens beside them.
    pub fn reopen(&mut self) {
        self.catalog = opened(&self.directory);
    }

    pub fn selection(&self, jobs: &[&str]) -> Selection {
        let wanted = self
            .config
            .jobs
            .iter()
            .filter(|job| jobs.is_empty() || jobs.contains(&&*job.name));
        wanted
            .map(|job| (Arc::clone(job), job.regions.clone()))
            .collect()
    }

    pub fn ledger(&self) -> LocalClient {
        LocalClient::new(
            self.ledger.clone(),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
        )
    }

    /// How many requests the sandbox counted.
    pub fn requests(&self) -> u64 {
        self.sandbox.requests()
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog)
    }

    pub async fn what_fits(
        &self,
        jobs: &[&str],
        starts: &[Timestamp],
        until: Timestamp,
    ) -> Vec<JobFit> {
        let selection = self.selection(jobs);
        let from = self.clock.now();
        let plan = Plan {
            selection: &selection,
            starts,
            later: &[],
            from,
            until,
            concurrency: 4,
            stop: None,
        };
        let (catalog, ledger) = (&*self.catalog, self.ledger());
        let forecast = foresight::forecast(catalog, &ledger, plan).await.unwrap();
        let fits = foresight::what_fits(catalog, &ledger, plan, &forecast).await;
        fits.unwrap().unwrap()
    }

    /// A run against an upstream of four short pages, without HTTP.
    pub async fn run_briefly(&self, jobs: &[&str]) -> RunReport {
        let selection = self.selection(jobs);
        let brief: Arc<dyn Upstream> = Arc::new(Brief);
        let upstreams = selection
            .iter()
            .map(|(job, _)| (job.credential.name.clone(), Ok(Arc::clone(&brief))))
            .collect();
        self.run_with(&selection, upstreams).await
    }

    pub async fn run(&self, jobs: &[&str]) -> RunReport {
        let selection = self.selection(jobs);
        let client = |(job, _): &(Arc<ingest_config::Job>, _)| {
            let credential = &job.credential;
            let secret = Secret::given(
                &credential.name,
                Sandbox::secret_of(&credential.name).into(),
            );
            let client = Client::new(Arc::clone(&credential.upstream), secret).unwrap();
            (
                credential.name.clone(),
                Ok(Arc::new(client) as Arc<dyn Upstream>),
            )
        };
        self.run_with(&selection, selection.iter().map(client).collect())
            .await
    }

    async fn run_with(
        &self,
        selection: &Selection,
        upstreams: HashMap<String, Result<Arc<dyn Upstream>, String>>,
    ) -> RunReport {
        let context = Context {
            catalog: self.catalog(),
            ledger: Arc::new(self.ledger()),
            upstreams,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            unlanded: None,
            leases: Arc::new(MemoryLeases::default()),
            stop: channel().1,
            blocked: Blocked::default(),
            known_calls: ingest::run::KnownCalls::default(),
            learned_costs: ingest::run::LearnedCosts::default(),
            waits: ingest::run::Waits::default(),
            in_flight: ingest::run::InFlight::default(),
            compared_records: Some(ingest::review::ComparedRecords::default()),
            progress: Arc::new(Silent),
            concurrency: 4,
            cheap_max: Units::new(5),
        };
        run::run(&context, selection).await.unwrap()
    }

    pub async fn preview(&self, jobs: &[&str]) -> Preview {
        let selection = self.selection(jobs);
        foresight::preview(
            &self.catalog,
            &self.ledger(),
            &selection,
            self.clock.now(),
            4,
        )
        .await
        .unwrap()
    }

    pub async fn forecast(
        &self,
        jobs: &[&str],
        starts: &[Timestamp],
        until: Timestamp,
    ) -> Forecast {
        let selection = self.selection(jobs);
        let from = self.clock.now();
        let plan = Plan {
            selection: &selection,
            starts,
            later: &[],
            from,
            until,
            concurrency: 4,
            stop: None,
        };
        foresight::forecast(&self.catalog, &self.ledger(), plan)
            .await
            .unwrap()
    }
}

struct Brief;

#[async_trait::async_trait]
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
            body: serde_json::json!({}),
        };
        let next = (page < 4).then(|| (page + 1).to_string());
        Ok(Page {
            records: vec![record],
            skipped: 0,
            next,
            ..Page::default()
        })
        .into()
    }
}

/// What a run charged of a limit.
pub fn spent(report: &RunReport, limit: &str) -> u64 {
    report
        .passes
        .iter()
        .map(|pass| pass.units.of(limit).get())
        .sum()
}

/// The regions that a run completed.
pub fn completed(report: &RunReport) -> Vec<String> {
    let complete = report
        .passes
        .iter()
        .filter(|pass| pass.outcome == PassOutcome::Complete && pass.region != "*");
    complete.map(|pass| pass.region.clone()).collect()
}
