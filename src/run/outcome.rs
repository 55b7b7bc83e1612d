//! What became of a run, as people and scripts read it.

use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::quota::{Cost, LimitName, Timestamp, Units};

/// How one pass ended in this run, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PassOutcome {
    /// Its last complete pass is young enough.
    NotDue,
    /// Another run is walking it.
    Busy,
    /// All of it is landed.
    Complete,
    /// A limit said no; the next run goes on.
    Stopped,
    /// The upstream does not serve it, or the ledger's outage forbids it.
    Refused,
    /// It did not work, after its retries.
    Failed,
    /// A signal ended the run.
    Interrupted,
}

/// How a run ended: the worst of its passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// There was nothing to do.
    NothingDue,
    /// All that was due is landed.
    Complete,
    /// A limit said no; the next run goes on.
    Stopped,
    /// Something failed or was refused.
    Failed,
    /// A signal ended it.
    Interrupted,
}

impl PassOutcome {
    /// Its name, as results write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotDue => "not_due",
            Self::Busy => "busy",
            Self::Complete => "complete",
            Self::Stopped => "stopped",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

impl RunOutcome {
    /// Every one of them.
    pub const ALL: [Self; 5] = [
        Self::NothingDue,
        Self::Complete,
        Self::Stopped,
        Self::Failed,
        Self::Interrupted,
    ];

    /// Its name, as results write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NothingDue => "nothing_due",
            Self::Complete => "complete",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<PassOutcome> for RunOutcome {
    fn from(outcome: PassOutcome) -> Self {
        match outcome {
            PassOutcome::NotDue | PassOutcome::Busy => Self::NothingDue,
            PassOutcome::Complete => Self::Complete,
            PassOutcome::Stopped => Self::Stopped,
            PassOutcome::Refused | PassOutcome::Failed => Self::Failed,
            PassOutcome::Interrupted => Self::Interrupted,
        }
    }
}

/// What became of one region of a job in this run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassReport {
    /// The job.
    pub job: String,
    /// The region; `*` for batches that serve several.
    pub region: String,
    /// How it ended.
    pub outcome: PassOutcome,
    /// Whether it went on from where an earlier run had stopped.
    pub resumed: bool,
    /// Pages landed by this run.
    pub pages: u64,
    /// Records landed by this run.
    pub records: u64,
    /// Requests made by this run, failed ones included.
    pub requests: u64,
    /// Units charged by this run.
    pub units: Cost,
    /// What a person should know.
    pub detail: Option<String>,
}

impl PassReport {
    /// Adds what became of more of it.
    pub fn add(&mut self, more: Self) {
        self.outcome = self.outcome.max(more.outcome);
        self.resumed |= more.resumed;
        self.pages += more.pages;
        self.records += more.records;
        self.requests += more.requests;
        self.units.add(&more.units);
        let is_new = |detail: &String| self.detail.as_ref() != Some(detail);
        let details: Vec<String> = self
            .detail
            .iter()
            .cloned()
            .chain(more.detail.into_iter().filter(is_new))
            .collect();
        self.detail = (!details.is_empty()).then(|| details.join("; "));
    }
}

/// What a charge takes, and what must stay free beside it, in units by limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// What it takes.
    pub cost: Cost,
    /// What the job leaves.
    pub leave: Cost,
}

/// A limit's refusal that ended work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoppedBy {
    /// Whose limit.
    pub account: String,
    /// Which.
    pub limit: LimitName,
    /// The call that did not fit.
    pub call: String,
    /// What it takes of the limit, in units.
    pub units: Units,
    /// What is left, in units.
    pub remaining: Units,
    /// What it takes of all limits, and what the job has to leave of them.
    #[serde(skip)]
    pub claim: Claim,
    /// How long until it fits, in seconds.
    #[serde(rename = "retry_after_seconds", serialize_with = "seconds")]
    pub retry_after: Duration,
    /// When it fits.
    pub retry_at: Timestamp,
}

impl StoppedBy {
    /// What the job has to leave of the limit, in units.
    #[must_use]
    pub fn leave(&self) -> Units {
        self.claim.leave.of(&self.limit)
    }

    /// It fits at another time than was said: by the same clock that said so.
    pub fn fits_at(&mut self, at: Timestamp) {
        let (later, sooner) = (at.since(self.retry_at), self.retry_at.since(at));
        self.retry_after = self
            .retry_after
            .saturating_add(later)
            .saturating_sub(sooner);
        self.retry_at = at;
    }
}

/// How a limit stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitReport {
    /// Whose.
    pub account: String,
    /// Which.
    pub limit: LimitName,
    /// What the upstream grants, in units a window.
    pub quota: Units,
    /// What is let through, in units a window.
    pub enforced: Units,
    /// What counts now, in units; `None` where the ledger cannot be reached.
    pub used: Option<Units>,
    /// What is left, in units; `None` where the ledger cannot be reached.
    pub remaining: Option<Units>,
    /// Until when the upstream's "spent" closes it.
    pub closed_until: Option<Timestamp>,
}

/// What became of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// The worst of its passes.
    pub outcome: RunOutcome,
    /// Its passes, in the order in which they were taken up.
    pub passes: Vec<PassReport>,
    /// Requests made.
    pub requests: u64,
    /// Units spent while the ledger could not be reached.
    pub unmetered_units: Units,
    /// How the limits stand at its end.
    pub limits: Vec<LimitReport>,
    /// The limit that fits soonest, of those that said no.
    pub stopped_by: Option<StoppedBy>,
}

/// Whole microseconds, written as seconds: `3.25`.
///
/// # Errors
/// When the serializer fails.
pub fn seconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_secs_f64())
}
