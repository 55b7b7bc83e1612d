//! What a run would spend: the run itself is simulated, once without limits and once within what the ledger has left.
//! Nothing is charged, requested or written.

mod estimate;
mod simulations;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join;
use serde::Serialize;

use super::Selection;
use super::outcome::seconds;
use super::range::Range;
use super::report::{accounts, limit_reports};
use super::simulation::{Bounds, Snapshot, balances};
use crate::catalog::{CatalogError, PassReader};
use crate::ledger::LedgerClient;
use crate::quota::{LimitName, Timestamp, Units};

use estimate::estimate;
use simulations::{Simulated, Simulations};

/// What a run would spend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// Always true: tells a preview from a run.
    pub dry_run: bool,
    /// Each step of each region, in the order in which a run takes them up.
    pub steps: Vec<StepPreview>,
    /// Each region that is due, in the order in which a run takes them up.
    pub passes: Vec<PassPreview>,
    /// What that means for the limits.
    pub limits: Vec<LimitPreview>,
}

/// What one step would spend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepPreview {
    /// The job.
    pub job: String,
    /// The region; `*` for batches that serve several.
    pub region: String,
    /// Whether a run would take it up now.
    pub due: bool,
    /// The call.
    pub call: String,
    /// Requests, without retries.
    pub requests: Range,
    /// What this step took in the region's last passes; `None` for batches, and where no pass is complete.
    pub previous: Option<Previous>,
    /// Units by limit.
    pub units: BTreeMap<LimitName, Range>,
    /// How much of it fits.
    pub fits: Fits,
}

/// What a step took in the last complete passes of its region, each from beginning to end.
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

/// What would become of one region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassPreview {
    /// The job.
    pub job: String,
    /// The region.
    pub region: String,
    /// How much of its pass fits; all of it: the run completes it.
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
}

/// What a run would take of one limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitPreview {
    /// Whose limit.
    pub account: String,
    /// Which.
    pub limit: LimitName,
    /// What is left, in units; `None` where the ledger cannot be reached.
    pub remaining: Option<Units>,
    /// Units.
    #[serde(flatten)]
    pub units: Range,
    /// What the run would spend of it, in units, as far as it fits; `None` where the ledger cannot be reached.
    pub spends: Option<Units>,
    /// How much of it fits.
    pub fits: Fits,
    /// What the run would stop at.
    pub first_unfit: Option<FirstUnfit>,
}

/// How much of what is expected fits what is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fits {
    /// All of it.
    All,
    /// Some of it: the run would stop on its way.
    Part,
    /// None of it.
    None,
    /// The ledger cannot be reached.
    Unknown,
}

/// What a run over this selection would spend now, so many regions at once.
///
/// # Errors
/// When the catalog cannot be read.
pub async fn preview(
    catalog: &dyn PassReader,
    ledger: &dyn LedgerClient,
    selection: &Selection,
    now: Timestamp,
    concurrency: usize,
) -> Result<Preview, CatalogError> {
    let accounts = accounts(selection.iter().map(|(job, _)| &job.credential));
    let mut limits = Vec::new();
    for account in &accounts {
        limits.extend(limit_reports(ledger, account).await);
    }
    let (snapshot, balances) = join(
        Snapshot::of(catalog, selection, now),
        balances(ledger, &accounts, now),
    )
    .await;
    let snapshot = snapshot?;
    let simulation = async |bounds| {
        Simulated::of(
            snapshot.simulation(selection, &balances, bounds, now),
            now,
            concurrency,
        )
        .await
    };
    let (first_admitted, fitting) = if balances.len() == accounts.len() {
        let first = snapshot.simulation(selection, &balances, Bounds::Enforced, now);
        let first_admitted = first.first_admitted(concurrency).await?;
        (first_admitted, Some(simulation(Bounds::Enforced).await?))
    } else {
        (Vec::new(), None)
    };
    let simulations = match fitting {
        Some(fitting) if fitting.simulation.refused().is_empty() => Simulations {
            requested: None,
            fitting: Some(fitting),
        },
        fitting => Simulations {
            requested: Some(simulation(Bounds::Lifted).await?),
            fitting,
        },
    };
    let mut steps = estimate(&snapshot.catalog(), selection, &first_admitted, now).await?;
    estimate::add_previous(catalog, &mut steps).await?;
    let steps = simulations.steps(steps);
    let mut previews = Vec::new();
    for limit in &limits {
        let first_unfit = simulations.first_unfit(ledger, &accounts, limit, now).await;
        previews.push(LimitPreview {
            first_unfit,
            ..simulations.limit(limit, selection, &steps)
        });
    }
    Ok(Preview {
        dry_run: true,
        passes: simulations.passes(),
        steps,
        limits: previews,
    })
}

impl Fits {
    const fn of(expected: u64, fitting: u64) -> Self {
        match (expected, fitting) {
            (expected, fitting) if fitting >= expected => Self::All,
            (_, 0) => Self::None,
            _ => Self::Part,
        }
    }
}
