//! What a run would spend. The run itself is simulated within the remaining units and, where it meets a limit, once more
//! without limits. Nothing is charged, requested or written.

mod estimate;
mod simulations;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join;
use serde::Serialize;

use super::simulation::{Balances, Bounds, Snapshot, in_memory};
use crate::run::retention::unseen;
use crate::run::{Deletion, HeldBack, LimitReport, Range, Selection, accounts, limit_reports};
use crate::when::seconds;
use ingest_catalog::{CatalogError, CatalogReader};
use ingest_config::Slice;
use ingest_ledger::LedgerClient;
use ingest_quota::{LimitName, Timestamp, Units};

use estimate::estimate;
use simulations::{JobUnits, Simulated, Simulations};

/// What a run would spend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// Always true: distinguishes a preview from a run.
    pub dry_run: bool,
    /// Each step of each region, in the order of the run.
    pub steps: Vec<StepPreview>,
    /// Each due region, in the order of the run.
    pub passes: Vec<PassPreview>,
    /// Each limit.
    pub limits: Vec<LimitPreview>,
    /// The credentials that the run would not ask, each with the jobs that so request nothing by it; missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_back: Vec<JobsHeldBack>,
    /// Records that the run would delete at its end, except those that it meets again; missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deletions: Vec<Deletion>,
}

/// Jobs that do not ask a credential which its upstream rejected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobsHeldBack {
    pub jobs: Vec<String>,
    #[serde(flatten)]
    pub credential: HeldBack,
}

/// What one step would spend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepPreview {
    /// The job.
    pub job: String,
    /// The region; `*` for batches that serve several.
    pub region: String,
    /// The slice, in a job with `slices`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
    /// Whether it is due now.
    pub due: bool,
    /// The call.
    pub call: String,
    /// Requests, without retries.
    pub requests: Range,
    /// The pages of this step in the region's last passes; `None` for batches, and where no pass is complete.
    pub previous: Option<Previous>,
    /// Units by limit.
    pub units: BTreeMap<LimitName, Range>,
    /// How much of it fits.
    pub fits: Fits,
    /// How its list is read that can end at what is known; missing for any other list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stops_at_known: Option<KnownPreview>,
    /// Whether it requests batches of which one page each is assumed, although their lists can have more.
    #[serde(skip)]
    pub assumes_one_page: bool,
    /// Whether its list names `{since}`.
    #[serde(skip)]
    pub names_since: bool,
}

impl StepPreview {
    /// Whether the only pass so far listed everything, and the next one lists what is new since.
    #[must_use]
    pub fn follows_first_pass(&self) -> bool {
        self.names_since && self.previous.is_some_and(|previous| previous.passes == 1)
    }
}

/// How a list is read that can end at what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KnownPreview {
    pub reads: Reads,
    /// From when on a pass reads everything again; `None`: never, or no pass has read it yet.
    pub complete_at: Option<Timestamp>,
}

/// What a pass reads of a list that can end at what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// Its pages up to the first one that is known. It is expected that this is the first page.
    WhatIsNew,
    Everything,
}

/// The pages of a step in the last complete passes of its region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Previous {
    /// How many passes; at most [`PREVIOUS_PASSES`].
    pub passes: u64,
    /// The fewest pages that one of them landed.
    pub min: u64,
    /// The most pages that one of them landed.
    pub max: u64,
}

/// How many of a region's last complete passes a preview shows.
pub const PREVIOUS_PASSES: u32 = 5;

/// The result of one region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassPreview {
    /// The job.
    pub job: String,
    /// The region.
    pub region: String,
    /// The slice, in a job with `slices`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
    /// How much of its pass fits; `all` where the run completes it.
    pub fits: Fits,
}

/// The first charge that would not fit a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstUnfit {
    /// For which job.
    pub job: String,
    /// For which region.
    pub region: String,
    /// Which call.
    pub call: String,
    /// How long until it fits, in seconds.
    #[serde(rename = "retry_after_seconds", serialize_with = "seconds")]
    pub retry_after: Duration,
    /// When it fits.
    pub retry_at: Timestamp,
    /// The job's `leave`, in units, where that alone keeps the charge from fitting.
    #[serde(skip)]
    pub leave: Option<Units>,
}

/// What a run would charge to one limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitPreview {
    /// The account.
    pub account: String,
    /// The limit.
    pub limit: LimitName,
    /// The remaining units; `None` where the ledger cannot be reached.
    pub remaining: Option<Units>,
    /// The units that everything due would charge.
    #[serde(flatten)]
    pub units: Range,
    /// The units that the run would charge, as far as they fit; `None` where the ledger cannot be reached.
    pub spends: Option<Units>,
    /// How much of it fits. A limit with less left than is expected of it never has `all`, even if another limit stops the run
    /// first.
    pub fits: Fits,
    /// The charge at which the run would stop.
    pub first_unfit: Option<FirstUnfit>,
    /// Until when the limit is closed; `None` where it is open.
    #[serde(skip)]
    pub closed_until: Option<Timestamp>,
}

/// How much of the expected requests fits the remaining units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fits {
    /// All of it.
    All,
    /// Some of it: the run would stop before the end.
    Part,
    /// None of it.
    None,
    /// The ledger cannot be reached.
    Unknown,
}

/// Returns what a run over this selection would spend now, with `concurrency` regions at once.
///
/// # Errors
/// When the catalog cannot be read.
pub async fn preview(
    catalog: &CatalogReader,
    ledger: &dyn LedgerClient,
    selection: &Selection,
    now: Timestamp,
    concurrency: usize,
) -> Result<Preview, CatalogError> {
    let accounts = accounts(selection.iter().flat_map(|(job, _)| job.credentials()));
    let mut limits = Vec::new();
    for account in &accounts {
        limits.extend(limit_reports(ledger, account).await);
    }
    let (snapshot, balances) = join(
        Snapshot::read(catalog, selection, now),
        Balances::read(ledger, &accounts, now),
    )
    .await;
    let (snapshot, balances) = (snapshot?, balances.map_err(in_memory)?);
    let simulate = async |bounds| {
        let simulation = snapshot.simulation(selection, &balances, bounds, now);
        Simulated::new(simulation.await?, now, concurrency).await
    };
    let mut simulations = Simulations::default();
    let mut first_admitted = Vec::new();
    // Where the ledger of one account is away, nobody knows at which charge the run would stop.
    if balances.len() == accounts.len() {
        // In a simulation of its own: the admission reads what remains before anything is charged.
        let first = snapshot.simulation(selection, &balances, Bounds::Enforced, now);
        first_admitted = first.await?.first_admitted(concurrency).await?;
        simulations.fitting = Some(simulate(Bounds::Enforced).await?);
    }
    // A run that meets no limit requests all that it would without limits.
    if simulations.meets_a_limit() {
        simulations.requested = Some(simulate(Bounds::Lifted).await?);
    }
    let beginning = snapshot.catalog()?;
    let mut steps = estimate(&beginning, selection, &first_admitted, now).await?;
    estimate::add_previous(catalog, &mut steps).await?;
    let steps = simulations.steps(steps);
    let mut units = JobUnits::new();
    for step in &steps {
        for (limit, range) in &step.units {
            let of_job = units.entry((step.job.clone(), limit.clone()));
            let of_job = of_job.or_insert(Range::exactly(0));
            *of_job = of_job.plus(*range);
        }
    }
    let mut previews = Vec::new();
    for limit in &limits {
        let first_unfit = simulations
            .first_unfit(ledger, &accounts, (limit, selection), now)
            .await;
        previews.push(LimitPreview {
            first_unfit,
            ..simulations.limit(limit, selection, &units)
        });
    }
    Ok(Preview {
        dry_run: true,
        passes: simulations.passes(),
        steps,
        limits: previews,
        held_back: Vec::new(),
        deletions: unseen(catalog, selection, now).await?,
    })
}

impl LimitPreview {
    /// A limit of which the run charges nothing.
    #[must_use]
    pub fn untouched(limit: &LimitReport) -> Self {
        Self {
            account: limit.account.clone(),
            limit: limit.limit.clone(),
            remaining: limit.remaining,
            units: Range::exactly(0),
            spends: limit.remaining.map(|_| Units::ZERO),
            fits: Fits::All,
            first_unfit: None,
            closed_until: limit.closed_until,
        }
    }
}

impl Fits {
    const fn new(expected: u64, fitting: u64) -> Self {
        match (expected, fitting) {
            (expected, fitting) if fitting >= expected => Self::All,
            (_, 0) => Self::None,
            _ => Self::Part,
        }
    }
}
