//! The result of a run, as people and scripts read it.

use std::time::Duration;

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::retention::Deletion;
use crate::when::seconds;

use ingest_base::plain::count;
use ingest_base::record::Doubted;
use ingest_config::{Region, Slice};
use ingest_quota::{Cost, LimitName, Timestamp, Units};

/// How one pass ended in this run, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum PassOutcome {
    /// Its last complete pass is younger than `every`.
    NotDue,
    /// Another run is walking it.
    Busy,
    /// All its pages are landed.
    Complete,
    /// A limit stopped it; the next run resumes it.
    Stopped,
    /// A list of it cannot be trusted.
    Doubtful,
    /// The upstream does not serve it, or it is not allowed during the outage of the ledger.
    Refused,
    /// It failed, after its retries.
    Failed,
    /// A signal ended the run.
    Interrupted,
}

/// How a run ended: the worst of its passes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RunOutcome {
    /// No region was due.
    NothingDue,
    /// All due regions are complete.
    Complete,
    /// A limit stopped it; the next run resumes it.
    Stopped,
    /// Something failed, was refused, or is doubtful.
    Failed,
    /// A signal ended it.
    Interrupted,
}

impl PassOutcome {
    /// Whether people have to look: it failed, was refused, or is doubtful.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        matches!(self, Self::Doubtful | Self::Refused | Self::Failed)
    }

    /// Returns its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl RunOutcome {
    /// Returns its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl From<PassOutcome> for RunOutcome {
    fn from(outcome: PassOutcome) -> Self {
        match outcome {
            PassOutcome::NotDue | PassOutcome::Busy => Self::NothingDue,
            PassOutcome::Complete => Self::Complete,
            PassOutcome::Stopped => Self::Stopped,
            PassOutcome::Doubtful | PassOutcome::Refused | PassOutcome::Failed => Self::Failed,
            PassOutcome::Interrupted => Self::Interrupted,
        }
    }
}

/// The result of one region of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassReport {
    pub job: String,
    /// The region; `*` for batches that serve several.
    pub region: String,
    /// The slice, in a job with `slices`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
    /// How it ended.
    pub outcome: PassOutcome,
    /// Whether it resumed the pass of an earlier run.
    pub resumed: bool,
    /// Pages landed by this run.
    pub pages: u64,
    /// Records landed by this run.
    pub records: u64,
    /// Requests made by this run, failed ones included.
    pub requests: u64,
    /// Units charged by this run.
    pub units: Cost,
    /// Why it stopped, and other notes for people.
    pub detail: Option<String>,
    /// The doubts about its lists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<Doubted>,
}

impl PassReport {
    /// Returns the region and, if there is one, the slice.
    #[must_use]
    pub fn key(&self) -> String {
        Region::key_of(&self.region, self.slice)
    }

    /// Adds the result of more requests of the same region.
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
        for doubt in more.doubts {
            if !self.doubts.contains(&doubt) {
                self.doubts.push(doubt);
            }
        }
        self.detail = (!details.is_empty()).then(|| details.join("; "));
    }
}

/// What a charge needs, in units by limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    pub cost: Cost,
    /// The job's `leave`: units that must remain after it.
    pub leave: Cost,
}

/// Who closed a limit, as far as a run knows: the ledger keeps no more than until when.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClosedBy {
    /// An earlier run or another machine, after a report of the upstream, or `ingest close`.
    #[default]
    Others,
    /// This run: the upstream reported the limit exhausted.
    Report,
    /// This run: the upstream requested a pause.
    Pause,
}

/// The refusal of a limit that stopped a pass.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StoppedBy {
    pub account: String,
    pub limit: LimitName,
    /// The call that did not fit.
    pub call: String,
    /// The units of the limit that it needs.
    pub units: Units,
    pub remaining: Units,
    /// Until when the limit is closed; `None` where it is open.
    #[serde(skip)]
    pub closed_until: Option<Timestamp>,
    /// Who closed it.
    #[serde(skip)]
    pub closed_by: ClosedBy,
    /// What it needs of all limits.
    #[serde(skip)]
    pub claim: Claim,
    /// How long until it fits, in seconds.
    #[serde(rename = "retry_after_seconds", serialize_with = "seconds")]
    pub retry_after: Duration,
    /// When it fits.
    pub retry_at: Timestamp,
}

impl StoppedBy {
    /// Returns the job's `leave` of the limit, in units.
    #[must_use]
    pub fn leave(&self) -> Units {
        self.claim.leave.of(&self.limit)
    }

    /// Returns how many of the remaining units the job leaves to others, as an addition to their number.
    #[must_use]
    pub fn reserved(&self) -> String {
        match (self.leave(), self.remaining) {
            (Units::ZERO, _) => String::new(),
            (leave, remaining) if leave <= remaining || remaining == Units::ZERO => {
                format!(", {} of them reserved for other jobs", count(leave.get()))
            }
            _ => ", all reserved for other jobs".to_owned(),
        }
    }

    /// Changes when it fits. `at` is by the same clock as `retry_at`, which may be the ledger's.
    pub fn fits_at(&mut self, at: Timestamp) {
        let (later, sooner) = (at.since(self.retry_at), self.retry_at.since(at));
        self.retry_after = self
            .retry_after
            .saturating_add(later)
            .saturating_sub(sooner);
        self.retry_at = at;
    }
}

/// The state of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitReport {
    /// The account.
    pub account: String,
    /// The limit.
    pub limit: LimitName,
    /// The upstream's quota, in units a window.
    pub quota: Units,
    /// The enforced limit, in units a window.
    pub enforced: Units,
    /// The used units; `None` where the ledger cannot be reached.
    pub used: Option<Units>,
    /// The remaining units; `None` where the ledger cannot be reached.
    pub remaining: Option<Units>,
    /// Until when it is closed because the upstream reported it exhausted, or by hand.
    pub closed_until: Option<Timestamp>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// The worst of its passes.
    pub outcome: RunOutcome,
    /// Its passes, in their order.
    pub passes: Vec<PassReport>,
    /// Requests made.
    pub requests: u64,
    /// Units spent while the ledger could not be reached.
    pub unmetered_units: Units,
    /// The limits at its end.
    pub limits: Vec<LimitReport>,
    /// Of the refusals of limits, the one that fits soonest.
    pub stopped_by: Option<StoppedBy>,
    /// Records that it deleted since no response contained them within `keep`; missing if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deletions: Vec<Deletion>,
}
