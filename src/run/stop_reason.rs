//! Why a pass stops before its end.

use thiserror::Error;

use super::outcome::{ClosedBy, PassOutcome, StoppedBy};
use ingest_base::plain::{count, instant};
use ingest_catalog::{CatalogError, Holder};
use ingest_ledger::ClientError;

/// Why a pass stops before its end. Its pages and its cursor stay in the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StopReason {
    /// A limit refused the request.
    #[error("{}", stopped(.0, .1))]
    Stopped(Box<StoppedBy>, Refused),
    /// The upstream does not serve this region, or these ids.
    #[error("{}", unserved(.0))]
    Unserved(String),
    /// No request can be built for one id.
    #[error("{0}; this id is left out")]
    Unsendable(String),
    /// The upstream rejected the credential.
    #[error("the upstream rejected the credential: {0}")]
    Denied(String),
    /// The upstream rejected one request of a credential that it had accepted before in this run.
    #[error("{}", forbidden(.0))]
    Forbidden(String),
    /// The ledger cannot be reached, and its outage policy refuses the call.
    #[error("{0}")]
    LedgerAway(String),
    /// The cursor has expired.
    #[error("the cursor has expired: {0}")]
    BadCursor(String),
    /// The cursor with which the pass began is too old.
    #[error("the cursor of the last pass is too old: {0}")]
    OldCursor(String),
    /// A request or a store failed, after its retries.
    #[error("{0}")]
    Failed(String),
    /// Another run walks the region.
    #[error("another run is walking this region{}", by(.0.as_ref()))]
    Busy(Option<Holder>),
    /// A signal ended the run. Holds why the last attempt returned no page, where that stays charged.
    #[error("{}", interrupted(.0.as_deref()))]
    Interrupted(Option<String>),
}

/// How a limit refused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The charge did not fit.
    Charge,
    /// The upstream reported the limit exhausted although the ledger had granted the charge.
    Exhausted(String),
    /// The upstream requests a longer pause than a run waits out.
    Paused(String),
}

impl StopReason {
    /// Returns the outcome of a pass that stops for it.
    #[must_use]
    pub const fn outcome(&self) -> PassOutcome {
        match self {
            Self::Stopped(..) => PassOutcome::Stopped,
            Self::Unserved(_)
            | Self::Unsendable(_)
            | Self::Denied(_)
            | Self::Forbidden(_)
            | Self::LedgerAway(_) => PassOutcome::Refused,
            Self::BadCursor(_) | Self::OldCursor(_) | Self::Failed(_) => PassOutcome::Failed,
            Self::Busy(_) => PassOutcome::Busy,
            Self::Interrupted(_) => PassOutcome::Interrupted,
        }
    }

    /// Returns the limit's refusal; `None` where no limit stopped the pass.
    pub const fn stop(&mut self) -> Option<&mut StoppedBy> {
        match self {
            Self::Stopped(stop, _) => Some(stop),
            _ => None,
        }
    }
}

impl From<CatalogError> for StopReason {
    fn from(error: CatalogError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<ClientError> for StopReason {
    fn from(error: ClientError) -> Self {
        Self::Failed(error.to_string())
    }
}

fn by(holder: Option<&Holder>) -> String {
    holder.map_or_else(String::new, |holder| format!(": {holder}"))
}

fn interrupted(in_doubt: Option<&str>) -> String {
    match in_doubt {
        None => "interrupted".to_owned(),
        Some(why) => {
            format!("interrupted; the last attempt returned no page and stays charged: {why}")
        }
    }
}

fn stopped(by: &StoppedBy, refused: &Refused) -> String {
    match refused {
        Refused::Charge => does_not_fit(by),
        Refused::Exhausted(message) => message.clone(),
        Refused::Paused(message) => format!(
            "{message}; {} is closed for every run until {}",
            by.limit,
            instant(by.retry_at)
        ),
    }
}

fn does_not_fit(by: &StoppedBy) -> String {
    let needs = format!("{} needs {} {}", by.call, count(by.units.get()), by.limit);
    let retry = format!("retry at {}", instant(by.retry_at));
    let or_by_hand = match by.closed_by {
        ClosedBy::Others => ", or by hand",
        ClosedBy::Report | ClosedBy::Pause => "",
    };
    match by.closed_until.map(instant) {
        None => {
            let (left, reserved) = (count(by.remaining.get()), by.reserved());
            format!("{needs}; {left} remaining{reserved}; {retry}")
        }
        Some(closed) if by.closed_until >= Some(by.retry_at) => {
            format!("{needs}; closed by the upstream until {closed}{or_by_hand}")
        }
        Some(closed) => {
            format!("{needs}; closed by the upstream until {closed}{or_by_hand}; {retry}")
        }
    }
}

fn forbidden(why: &str) -> String {
    let status = why.split(' ').next().unwrap_or_default();
    format!(
        "the upstream rejected one request: {why}; it accepted the credential before in this run, so the cause is the request. If that is \
        to be expected, add {{ status = {status}, class = \"skip\" }} to the upstream's `errors`, or to the call's, which come first"
    )
}

/// What the upstream refused begins with its status; what a bound of ours refuses does not.
fn unserved(why: &str) -> String {
    match why.starts_with("the response ") {
        true => why.to_owned(),
        false => format!("the upstream refused the request: {why}"),
    }
}

/// A page that the catalog did not take.
pub struct NotLanded {
    /// What happened.
    pub why: String,
    /// Whether the next run stores it, with the requests that it cost.
    pub is_kept: bool,
}
