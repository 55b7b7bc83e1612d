//! How many requests a run made, what they led to, and how long they took.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::upstream::Failure;

/// What a request led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Led {
    /// A page.
    Page,
    /// Nothing: it never left.
    NotSent,
    /// The limit is exhausted upstream.
    Spent,
    /// Too fast.
    SlowDown,
    /// The credential is no good.
    Denied,
    /// This region, or these ids, cannot be served.
    Skip,
    /// The cursor is no longer taken.
    BadCursor,
    /// An answer of another shape than configured.
    WrongShape,
    /// The same request may succeed later.
    Transient,
}

impl Led {
    /// Its name, as configuration and metrics write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::NotSent => "not_sent",
            Self::Spent => "spent",
            Self::SlowDown => "slow_down",
            Self::Denied => "denied",
            Self::Skip => "skip",
            Self::BadCursor => "bad_cursor",
            Self::WrongShape => "wrong_shape",
            Self::Transient => "transient",
        }
    }
}

impl From<&Failure> for Led {
    fn from(failure: &Failure) -> Self {
        match failure {
            Failure::Unreachable(_) | Failure::NotSent(_) | Failure::TooLate => Self::NotSent,
            Failure::Spent { .. } => Self::Spent,
            Failure::SlowDown { .. } => Self::SlowDown,
            Failure::Denied(_) => Self::Denied,
            Failure::Skip(_) => Self::Skip,
            Failure::BadCursor(_) => Self::BadCursor,
            Failure::WrongShape(_) => Self::WrongShape,
            Failure::Transient { .. } => Self::Transient,
        }
    }
}

/// Requests of one account to one call that led to the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests {
    /// Whose quota they drew on.
    pub account: String,
    /// What was called.
    pub call: String,
    /// What they led to.
    pub led: Led,
    /// How many.
    pub count: u64,
    /// How long they took, together.
    pub took: Duration,
}

/// The requests of one run, counted by everything that walks.
#[derive(Debug, Default)]
pub struct Asked(Mutex<Counted>);

/// By account, call and what they led to: how many, and how long they took.
type Counted = BTreeMap<(String, String, Led), (u64, Duration)>;

impl Asked {
    /// Counts a request.
    pub fn count(&self, account: &str, call: &str, led: Led, took: Duration) {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, sum) = counted
            .entry((account.to_owned(), call.to_owned(), led))
            .or_default();
        *count = count.saturating_add(1);
        *sum = sum.saturating_add(took);
    }

    /// All of them, by account and call.
    #[must_use]
    pub fn all(&self) -> Vec<Requests> {
        let counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let requests =
            |((account, call, led), (count, took)): (&(String, String, Led), &(u64, Duration))| {
                Requests {
                    account: account.clone(),
                    call: call.clone(),
                    led: *led,
                    count: *count,
                    took: *took,
                }
            };
        counted.iter().map(requests).collect()
    }
}
