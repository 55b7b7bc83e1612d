//! Why a walk goes no further.

use thiserror::Error;

use super::outcome::{PassOutcome, StoppedBy};
use crate::catalog::{CatalogError, Holder};
use crate::ledger::ClientError;
use crate::quota::Units;

/// Why a walk goes no further. What was landed stays, and so does the cursor.
#[derive(Debug, Clone, Error)]
pub enum StopReason {
    /// A limit said no.
    #[error("{}", stopped(.0))]
    Stopped(Box<StoppedBy>),
    /// The upstream said no although the ledger had said yes.
    #[error("{}", exhausted(.0, .1))]
    Exhausted(Box<StoppedBy>, String),
    /// The upstream asks to wait for longer than a run waits.
    #[error("{}", paused(.0, .1))]
    Paused(Box<StoppedBy>, String),
    /// The upstream does not serve this region, or these ids.
    #[error("the upstream refused the request: {0}")]
    Unserved(String),
    /// The upstream does not take the credential.
    #[error("the upstream rejected the credential: {0}")]
    Denied(String),
    /// The ledger cannot be reached, and the call does not go ahead without it.
    #[error("{0}")]
    LedgerAway(String),
    /// The cursor is no longer taken.
    #[error("the cursor has expired: {0}")]
    BadCursor(String),
    /// It did not work, after its retries.
    #[error("{0}")]
    Failed(String),
    /// Another run walks the region.
    #[error("another run is walking this region{}", by(.0.as_ref()))]
    Busy(Option<Holder>),
    /// A signal ended the run; and why the last attempt brought no page, where that stays charged.
    #[error("{}", interrupted(.0.as_deref()))]
    Interrupted(Option<String>),
}

impl StopReason {
    /// How a pass ends that meets this.
    #[must_use]
    pub const fn outcome(&self) -> PassOutcome {
        match self {
            Self::Stopped(_) | Self::Exhausted(..) | Self::Paused(..) => PassOutcome::Stopped,
            Self::Unserved(_) | Self::Denied(_) | Self::LedgerAway(_) => PassOutcome::Refused,
            Self::BadCursor(_) | Self::Failed(_) => PassOutcome::Failed,
            Self::Busy(_) => PassOutcome::Busy,
            Self::Interrupted(_) => PassOutcome::Interrupted,
        }
    }
}

impl StopReason {
    /// The refusal that it is about, if a limit ended the walk.
    pub const fn stop(&mut self) -> Option<&mut StoppedBy> {
        match self {
            Self::Stopped(stop) | Self::Exhausted(stop, _) | Self::Paused(stop, _) => Some(stop),
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

fn stopped(by: &StoppedBy) -> String {
    let (leave, remaining) = (by.leave(), by.remaining);
    let of_which = if leave == Units::ZERO {
        String::new()
    } else {
        format!(", {leave} of them reserved by `leave`")
    };
    format!(
        "{} needs {} {}; {remaining} remaining{of_which}; retry at {}",
        by.call, by.units, by.limit, by.retry_at
    )
}

fn paused(by: &StoppedBy, message: &str) -> String {
    format!(
        "{message}; {} is closed for every run until {}",
        by.limit, by.retry_at
    )
}

fn exhausted(by: &StoppedBy, message: &str) -> String {
    format!(
        "the upstream reported {} exhausted ({message}); the limit is closed for every run until {}",
        by.limit, by.retry_at
    )
}
