//! A plan comes to life: its events happen one after the other, and after each of them everything that `ingest` reports is
//! compared with what the sandbox counted.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures_util::TryStreamExt;
use ingest::foresight::{self, Plan as Schedule, Preview};
use ingest::run::{self, Context, PassOutcome, RunReport};
use ingest_catalog::{CatalogReader, RecordIds, RecordsQuery};
use ingest_config::Job;
use ingest_quota::{Account, Cost, Timestamp};
use ingest_sandbox::Options;
use ingest_upstream::Upstream;
use proptest::test_runner::TestCaseError;
use serde_json::Value;

use super::checks;
use super::plan::{Cut, Event, Plan, span};
use super::witness::{Knife, Seen, Thing, Witness};
use crate::support::lab::Lab;

pub type Held = Result<(), TestCaseError>;

/// Units by account and limit.
pub type Sums = BTreeMap<(String, String), u64>;

pub struct Life {
    pub lab: Lab,
    /// What only looks goes this way.
    pub watch: Context,
    pub plan: Plan,
    pub seen: Arc<Seen>,
    /// How many runs there were.
    runs: u32,
    /// How many of them were killed.
    pub kills: u64,
    /// Whether a run had to wait for another one: then time passed while that one worked.
    pub waited: bool,
    /// How many times two runs went on at once.
    pub pairs: u64,
    /// When a list last changed.
    changed: Timestamp,
    /// When the charge fits that stopped the last run.
    retry_at: Option<Timestamp>,
    /// When the last run began.
    pub began: Timestamp,
    /// Complete slices, by job, region and start.
    pub sliced: HashSet<(String, String, i64)>,
}

/// Lives through a plan.
pub fn live(plan: &Plan) -> Held {
    let mut life = Life::new(plan);
    for (index, list) in plan.lists.iter().enumerate() {
        life.lab
            .lists_hold(&format!("list{index}"), list.total.into());
    }
    for event in &plan.events {
        life.happen(event)?;
    }
    life.run_twice()
}

impl Life {
    fn new(plan: &Plan) -> Self {
        let options = Options {
            failure_rate: if plan.fails { 0.1 } else { 0.0 },
            seed: plan.seed,
            ..Options::default()
        };
        let files = [("regions.csv", plan.regions_file())];
        let lab = Lab::written(&plan.config(), &files, options);
        let now = lab.now();
        Self {
            changed: now,
            watch: lab.context(),
            lab,
            plan: plan.clone(),
            seen: Arc::default(),
            runs: 0,
            kills: 0,
            waited: false,
            pairs: 0,
            retry_at: None,
            began: now,
            sliced: HashSet::new(),
        }
    }

    fn happen(&mut self, event: &Event) -> Held {
        match event {
            Event::Wait(wait) => self.lab.pass(span(*wait)),
            Event::UntilRetry => {
                if let Some(at) = self.retry_at.take() {
                    self.lab.reach(at);
                }
            }
            Event::Chart { list, total } => {
                self.lab.lists_hold(&format!("list{list}"), (*total).into());
                self.changed = self.lab.now();
            }
            Event::Run { jobs, cut } => {
                self.run(&self.jobs(*jobs), *cut)?;
            }
            Event::Pair { first, second } => {
                self.pair(&self.jobs(*first), &self.jobs(second & !first))?;
            }
        }
        checks::counts(self)
    }

    fn jobs(&self, bits: u8) -> Vec<String> {
        let set = |index: &usize| bits & (1 << index) != 0;
        (0..self.plan.jobs.len())
            .filter(set)
            .map(|index| format!("job{index}"))
            .collect()
    }

    /// One run, with what was previewed before it and what it reports compared with what it did.
    fn run(&mut self, jobs: &[String], cut: Cut) -> Result<Option<RunReport>, TestCaseError> {
        let names: Vec<&str> = jobs.iter().map(String::as_str).collect();
        let selection = self.lab.selection(&names);
        if selection.is_empty() {
            return Ok(None);
        }
        let is_known = self.is_known(&selection);
        self.began = self.lab.now();
        let before = self.counted();
        let (preview, forecast) = self.foreseen(&selection);
        let Some(report) = self.one_run(&selection, cut) else {
            return Ok(None);
        };
        let after = self.counted();
        let spent = spent(&before, &after);
        checks::report(self, &report, &spent)?;
        checks::slices(self, &selection, &forecast, &report)?;
        self.sliced.extend(checks::complete_slices(&report));
        self.complete(&selection, &report);
        checks::retry(self, &selection, &report)?;
        if cut == Cut::No {
            let told = checks::Told {
                preview: &preview,
                forecast: &forecast,
                report: &report,
                spent: &spent,
            };
            checks::bounds(self, &told)?;
            // Which of two jobs that share ids fetches one of them depends on which response comes first.
            let has_twins = self.plan.twins && jobs.iter().take(2).eq(["job0", "job1"]);
            if is_known && !self.plan.fails && !has_twins {
                checks::exact(&told)?;
            }
        }
        self.retry_at = report.stopped_by.as_ref().map(|stop| stop.retry_at);
        Ok(Some(report))
    }

    /// The whole run; `None` where it was killed.
    fn one_run(&mut self, selection: &run::Selection, cut: Cut) -> Option<RunReport> {
        let (context, knife) = self.context(cut);
        let report = self.lab.runtime.block_on(async {
            tokio::select! {
                report = run::run(&context, selection) => Some(report.unwrap()),
                () = knife.killed.notified() => None,
            }
        });
        drop(context);
        if report.is_none() {
            self.kills += 1;
            self.after_kill();
        }
        report
    }

    fn pair(&mut self, first: &[String], second: &[String]) -> Held {
        let names = |jobs: &[String]| -> Vec<String> { jobs.to_vec() };
        let (first, second) = (names(first), names(second));
        let select = |jobs: &[String]| {
            self.lab
                .selection(&jobs.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let (one, two) = (select(&first), select(&second));
        if one.is_empty() || two.is_empty() {
            return Ok(());
        }
        let (first, _) = self.context(Cut::No);
        // Both count as one run: what either of them was given since they began, neither may request again.
        self.runs -= 1;
        let (second, _) = self.context(Cut::No);
        let began = self.lab.now();
        let reports = self.lab.runtime.block_on(async {
            let (one, two) =
                futures_util::future::join(run::run(&first, &one), run::run(&second, &two)).await;
            [one.unwrap(), two.unwrap()]
        });
        for (selection, report) in [&one, &two].into_iter().zip(&reports) {
            self.sliced.extend(checks::complete_slices(report));
            self.complete(selection, report);
        }
        self.pairs += 1;
        self.waited |= self.lab.now() > began;
        Ok(())
    }

    /// Two runs of everything, one at once after the other.
    fn run_twice(&mut self) -> Held {
        let jobs = self.jobs(u8::MAX);
        let first = self.run(&jobs, Cut::No)?;
        checks::counts(self)?;
        let began = self.lab.now();
        let second = self.run(&jobs, Cut::No)?;
        checks::counts(self)?;
        if let (Some(first), Some(second)) = (first, second) {
            checks::again(self, &first, &second, began)?;
            checks::lost(self, &second)?;
        }
        Ok(())
    }

    /// Notes which lists a run completed: those that are not for a time, of passes that it completed.
    fn complete(&self, selection: &run::Selection, report: &RunReport) {
        for (job, all) in selection.iter().filter(|(job, _)| job.slices.is_none()) {
            let complete = regions(report, &job.name, PassOutcome::Complete);
            for region in all.iter().filter(|region| complete.contains(&region.code)) {
                let lists = job.steps.iter().filter(|step| step.ids.is_none());
                lists.for_each(|step| self.seen.completed(step, region));
            }
        }
    }

    fn context(&mut self, cut: Cut) -> (Context, Arc<Knife>) {
        self.runs += 1;
        let (stop, stopped) = run::channel();
        let knife = Arc::new(Knife::new(cut, stop));
        let mut context = self.lab.context();
        context.stop = stopped;
        context.concurrency = self.plan.concurrency.into();
        for client in context.upstreams.values_mut() {
            let witness: Arc<dyn Upstream> = Arc::new(Witness {
                inner: Arc::clone(client.as_ref().unwrap()),
                seen: Arc::clone(&self.seen),
                clock: Arc::clone(&context.clock),
                run: self.runs,
                began: context.clock.now(),
                knife: Arc::clone(&knife),
            });
            *client = Ok(witness);
        }
        (context, knife)
    }

    /// What a run over this selection would spend now, twice: by its preview, and by a forecast of it alone.
    fn foreseen(&self, selection: &run::Selection) -> (Preview, foresight::Forecast) {
        let now = self.lab.now();
        let concurrency = self.plan.concurrency.into();
        self.lab.runtime.block_on(async {
            let (catalog, ledger) = (&*self.watch.catalog, &*self.watch.ledger);
            let preview = foresight::preview(catalog, ledger, selection, now, concurrency);
            let preview = preview.await.unwrap();
            let schedule = Schedule {
                selection,
                starts: &[now],
                later: &[],
                from: now,
                until: now,
                concurrency,
                stop: None,
            };
            let forecast = foresight::forecast(catalog, ledger, schedule)
                .await
                .unwrap();
            (preview, forecast)
        })
    }

    /// Whether every region was walked to its end since a list changed.
    fn is_known(&self, selection: &run::Selection) -> bool {
        let candidates = run::candidates(&self.watch.catalog, selection, self.lab.now());
        let candidates = self.lab.runtime.block_on(candidates).unwrap();
        // A list of what is new has other records after each pass.
        let is_since = |job: &Arc<Job>| job.since.first.is_some() || job.since.at.is_some();
        if candidates.iter().any(|candidate| is_since(&candidate.job)) {
            return false;
        }
        let is_known = |candidate: &run::Candidate| {
            let state = &candidate.state;
            let since = |at: Option<Timestamp>| at.is_some_and(|at| at > self.changed);
            let open = state.unfinished.as_ref();
            since(state.last_complete) && open.is_none_or(|pass| pass.started_at > self.changed)
        };
        candidates.iter().all(is_known)
    }

    fn after_kill(&self) {
        let is_there = |(kind, id): &Thing| {
            let id = RecordIds::new("api", kind, &[Arc::from(id.as_str())]);
            let fetched = self.watch.catalog.last_fetched(id);
            !self.lab.runtime.block_on(fetched).unwrap().is_empty()
        };
        self.seen.killed(self.runs, is_there);
    }

    pub fn accounts(&self) -> Vec<Arc<Account>> {
        run::accounts(self.lab.config.credentials.values())
    }

    /// Every request that arrived: when, whose, and what it cost.
    pub fn arrived(&self) -> Vec<(Timestamp, String, Cost)> {
        let log = self.lab.sandbox_says("requests");
        let calls = &self.lab.config.upstreams["api"].calls;
        let is_counted = |logged: &&Value| {
            let failed = logged["status"]
                .as_u64()
                .is_some_and(|status| status >= 500);
            !(self.plan.extras.free && failed)
        };
        let request = |logged: &Value| {
            let at: chrono::DateTime<chrono::Utc> = logged["at"].as_str().unwrap().parse().unwrap();
            let call = &calls[logged["call"].as_str().unwrap()];
            let account = logged["account"].as_str().unwrap().to_owned();
            let region = logged["params"]["region"].as_str().unwrap_or_default();
            let cost = call.cost.iter();
            let cost = cost.map(|(limit, units)| (self.plan.in_ledger(limit, region), units));
            (Timestamp::from(at), account, cost.collect())
        };
        let log = log.as_array().unwrap().iter();
        log.filter(is_counted).map(request).collect()
    }

    /// What arrived, in units by account and limit.
    pub fn counted(&self) -> Sums {
        let mut sums = Sums::new();
        for (_, account, cost) in self.arrived() {
            for (limit, units) in cost.iter() {
                *sums.entry((account.clone(), limit.clone())).or_default() += units.get();
            }
        }
        sums
    }

    /// What the ledger holds, in units by account and limit.
    pub fn charged(&self) -> Sums {
        let mut sums = Sums::new();
        for account in self.accounts() {
            let from = Timestamp::from_micros(0);
            let spending = self
                .lab
                .runtime
                .block_on(self.watch.ledger.spent(&account, from));
            for spent in spending.unwrap().charges {
                *sums.entry((account.name.clone(), spent.limit)).or_default() += spent.units.get();
            }
        }
        sums
    }

    /// Every record that the catalog hands out.
    pub fn exported(&self) -> Vec<Thing> {
        let mut things = Vec::new();
        let catalog = self.archive();
        for kind in ["item", "hit", "owner", "play"] {
            let query = RecordsQuery {
                kind: kind.to_owned(),
                region: None,
                since: None,
                changed_since: None,
            };
            let records = self.lab.runtime.block_on(async {
                let pages: Vec<_> = catalog.records(query).try_collect().await.unwrap();
                pages.concat()
            });
            things.extend(records.into_iter().map(|record| (record.kind, record.id)));
        }
        things
    }

    /// Records that no list has any more, by the catalog.
    pub fn gone(&self) -> HashSet<Thing> {
        let path = self.lab.directory.path().join("catalog.db");
        let catalog = rusqlite::Connection::open(path).unwrap();
        let mut query = catalog
            .prepare("select kind, id from record where gone_at is not null")
            .unwrap();
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// How many former bodies of each record the catalog keeps, where it keeps any.
    pub fn former_bodies(&self) -> BTreeMap<Thing, u32> {
        let path = self.lab.directory.path().join("catalog.db");
        let catalog = rusqlite::Connection::open(path).unwrap();
        let mut query = catalog
            .prepare("select kind, id, count(*) from record_version group by kind, id")
            .unwrap();
        let rows = query.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)));
        rows.unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// The catalog, for reading.
    pub fn archive(&self) -> CatalogReader {
        CatalogReader::open(&self.lab.directory.path().join("catalog.db")).unwrap()
    }

    /// The most that one request costs of any limit.
    pub fn dearest(&self) -> u64 {
        let calls = self.lab.config.upstreams["api"].calls.values();
        calls.map(|call| call.cost.largest().get()).max().unwrap()
    }
}

fn spent(before: &Sums, after: &Sums) -> Sums {
    let less = |(key, units): (&(String, String), &u64)| {
        (
            key.clone(),
            units - before.get(key).copied().unwrap_or_default(),
        )
    };
    after.iter().map(less).collect()
}

/// The regions of a job that ended so.
pub fn regions(report: &RunReport, job: &str, outcome: PassOutcome) -> HashSet<String> {
    let passes = report.passes.iter();
    passes
        .filter(|pass| pass.job == job && pass.outcome == outcome && pass.region != "*")
        .map(|pass| pass.region.clone())
        .collect()
}
