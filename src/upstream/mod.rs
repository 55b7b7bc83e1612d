//! One request: build, send, classify, page. The caller charges, and decides what a failure means for the run.

mod authorization;
mod body;
mod charset;
mod client;
mod connect;
mod connection;
mod decode;
mod http;
mod json;
mod large_body;
mod line;
mod link;
mod missing;
mod paging;
mod records;
mod redactor;
mod refusal;
mod reported;
mod request;
mod request_body;
mod response;
mod retry_after;
mod text;
mod token;
mod trial;

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

use crate::clock::Deadline;
use crate::config::{Region, SinceValue, Step};
use crate::quota::{LimitName, Timestamp, Units};
use crate::record::{CachedPage, Record, Tag};

pub use crate::secret::{self, Secret};
pub use client::{Client, ClientError};
pub use connection::Connection;
pub use large_body::LargeBodySlot;
pub use link::next_link;
pub use missing::{Missing, missing};
pub use refusal::failure_of;
pub use response::Response;
pub use retry_after::{LONGEST_WAIT, retry_after};
pub use trial::{Classified, Recorder, ShownRequest, Trial};

/// One request of a step.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'a> {
    /// What to call, with which parameters.
    pub step: &'a Step,
    /// For which region.
    pub region: &'a Region,
    /// The batch of ids; empty in a step that lists.
    pub ids: &'a [String],
    /// Where to go on; `None` for the first page.
    pub cursor: Option<&'a str>,
    /// When its pass began: the time with which its templates are rendered.
    pub began: Timestamp,
    /// Now, for dates in answers.
    pub now: Timestamp,
    /// The value of `{since}`; `None`: the Unix epoch.
    pub since: Option<&'a SinceValue>,
    /// What is there already: the answer may be that it did not change.
    pub known: Option<&'a CachedPage>,
}

/// What came of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// The page, or why there is none.
    pub page: Result<Page, Failure>,
    /// What the answer tells of the quota, a refusal's too.
    pub reported: ReportedCost,
}

impl From<Result<Page, Failure>> for Exchange {
    fn from(page: Result<Page, Failure>) -> Self {
        Self {
            page,
            reported: ReportedCost::default(),
        }
    }
}

/// What an answer tells of the quota.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportedCost {
    /// How limits stand that its headers tell of.
    pub limits: Vec<ReportedLimit>,
    /// What the request truly cost, in units, of the limits whose cost its body tells.
    pub cost: BTreeMap<LimitName, Units>,
    /// Whether it is a refusal, or the end of a list, that the upstream does not count, as its error rule says.
    pub free: bool,
}

/// An answer that was understood.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Its records, in the answer's order.
    pub records: Vec<Record>,
    /// Records that were left out because they have no id.
    pub skipped: u64,
    /// Records that were left out because an earlier one of the page has the same id.
    pub repeated: u64,
    /// Whether there was no list where its records belong, which is as good as an empty one.
    pub lacks_list: bool,
    /// Where the next page is; `None` at the end.
    pub next: Option<String>,
    /// The upstream's name for it, where the call is asked only for what changed.
    pub tag: Option<Tag>,
    /// Whether this is what was there already, and cost nothing.
    pub unchanged: bool,
    /// Why the list goes no further although the upstream leads on.
    pub dead_end: Option<String>,
    /// Where it is a large one, no other is at hand until this is dropped.
    pub slot: LargeBodySlot,
}

/// How a limit stands by the upstream's own count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedLimit {
    /// Which, by our name.
    pub limit: LimitName,
    /// What is left of its quota, in units.
    pub remaining: Units,
    /// When all of it is back.
    pub reset: Option<Timestamp>,
}

/// Why there is no page. None of these texts ever holds the secret or a URL with it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// No connection was made: the request provably never left, and costs nothing.
    #[error("{0}")]
    Unreachable(String),
    /// No request can be made of this, now or later. It costs nothing.
    #[error("{0}")]
    NotSent(String),
    /// Its time was over before it could be sent. It costs nothing.
    #[error("the grant expired before the request could be sent")]
    TooLate,
    /// The limit is exhausted upstream.
    #[error("{message}")]
    Spent {
        /// What the upstream said.
        message: String,
        /// How the upstream calls the limit, if it said.
        limit: Option<String>,
        /// When it said to come back.
        until: Option<Timestamp>,
    },
    /// Too fast.
    #[error("{message}")]
    SlowDown {
        /// What the upstream said.
        message: String,
        /// How long it asked us to wait.
        retry_after: Option<Duration>,
        /// The limit that the error rule names, if it names one.
        limit: Option<String>,
    },
    /// The credential is no good.
    #[error("{0}")]
    Denied(String),
    /// This region, or these ids, cannot be served.
    #[error("{0}")]
    Skip(String),
    /// The cursor is no longer taken.
    #[error("{0}")]
    BadCursor(String),
    /// The answer came whole and is JSON, but not of the configured shape. The same request would bring the same.
    #[error("{0}")]
    WrongShape(String),
    /// Their fault, or the network's: the same request may succeed later.
    #[error("{message}")]
    Transient {
        /// What happened.
        message: String,
        /// How long the upstream asked us to wait.
        retry_after: Option<Duration>,
        /// The limit that the error rule names, if it names one.
        limit: Option<String>,
    },
}

/// One credential's way to its upstream.
#[async_trait]
pub trait Upstream: Send + Sync {
    /// Whether a request can be sent at all, so that a missing secret is found before anything is charged.
    async fn ready(&self) -> Result<(), Failure>;

    /// A connection for one request, made before the request is charged: connecting can take longer than a grant lasts.
    ///
    /// # Errors
    /// Where there is none. Nothing was sent.
    async fn connect(&self) -> Result<Connection, Failure>;

    /// Sends one request, once and before its deadline, and understands the answer. Charging, pausing and trying again are
    /// the caller's. Where the connection was closed meanwhile, or where none is given, it makes another one.
    async fn fetch(
        &self,
        request: PageRequest<'_>,
        connection: Connection,
        deadline: Deadline,
    ) -> Exchange;
}

fn transient(message: String) -> Failure {
    Failure::Transient {
        message,
        retry_after: None,
        limit: None,
    }
}
