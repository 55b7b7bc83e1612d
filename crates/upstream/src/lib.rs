//! One request: build, send, classify, page.
//!
//! [`Client`] sends a [`PageRequest`] over a [`Connection`] and returns an [`Exchange`]: a [`Page`] or a [`Failure`], and what the
//! response says about the quota. A failure says whether the request was counted; what is not known counts.
//!
//! Never charges, never retries, never stores: the caller does, and decides what a failure means for the run. Secrets are hidden
//! in every text that leaves this crate. Begin with [`Upstream`] below, then `client.rs`.

mod authorization;
mod beside;
mod body;
mod charset;
mod client;
mod connect;
mod connection;
mod decode;
mod elements;
mod endpoint;
mod http;
mod json;
mod large_body;
mod layout;
mod line;
mod link;
mod missing;
mod outline;
mod paging;
mod records;
mod redactor;
mod repeated;
mod reported;
mod request;
mod request_body;
mod response;
mod retry_after;
mod signs;
mod text;
mod token;
mod unread;
mod upstream_clock;

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Serialize;
use thiserror::Error;

use ingest_base::clock::Deadline;
use ingest_base::record::{CachedPage, Record, Tag};
use ingest_config::{Free, NoNumber, Region, SinceValue, Step};
use ingest_quota::{LimitName, Timestamp, Units};
use ingest_secret::SecretsInUse;

pub use beside::{Beside, is_setback, says_error, says_failure, says_part, says_refusal};
pub use client::{Client, ClientError, Recorder};
pub use connect::Connector;
pub use connection::Connection;
pub use ingest_config::End;
pub use ingest_secret::{self, Secret};
pub use large_body::LargeBodySlot;
pub use link::next_link;
pub use missing::{Missing, MissingFrom, SignKind, missing, signs_of_end};
pub use outline::{NextPlace, Outline, outline};
pub use records::{LeftOut, MembersOf};
pub use request::ShownRequest;
pub use response::{Response, failure_of};
pub use retry_after::{Wait, http_date, retry_after};
pub use unread::Unread;
pub use upstream_clock::UpstreamClock;

/// One request of a step.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<'a> {
    /// The call and its parameters.
    pub step: &'a Step,
    pub region: &'a Region,
    /// The batch of ids; empty in a step that lists.
    pub ids: &'a [String],
    /// The cursor; `None` for the first page.
    pub cursor: Option<&'a str>,
    /// The cursor of an earlier pass with which this one began; `None` in one that lists everything.
    pub lasting: Option<&'a str>,
    /// When its pass began: the time with which its templates are rendered.
    pub began: Timestamp,
    /// The current time, against which times in the response are read.
    pub now: Timestamp,
    /// The value of `{since}`; `None`: the Unix epoch.
    pub since: Option<&'a SinceValue>,
    /// The page that was landed before, for a conditional request.
    pub known: Option<&'a CachedPage>,
}

/// The result of one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Exchange {
    /// The page, or why there is none.
    pub page: Result<Page, Failure>,
    /// What the response reports about the quota, be it a page or a refusal.
    pub reported: ReportedCost,
    /// How the response was classified; `None`: there was none.
    pub classified: Option<Classified>,
}

/// How a response was classified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classified {
    /// The HTTP status.
    pub status: u16,
    /// The index of the first error rule that it matches; `None`: it matches no rule, or its rule was not applied.
    pub rule: Option<usize>,
}

impl From<Result<Page, Failure>> for Exchange {
    fn from(page: Result<Page, Failure>) -> Self {
        Self {
            page,
            reported: ReportedCost::default(),
            classified: None,
        }
    }
}

/// What a response reports about the quota.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReportedCost {
    /// The state of the limits that it reports.
    pub limits: Vec<ReportedLimit>,
    /// The true cost of the request, in units, for the limits whose cost it reports.
    pub cost: BTreeMap<LimitName, Units>,
    /// What it does not report although the configuration reads it, or in words that cannot be read.
    pub missing: Vec<Missing>,
    /// What of a refusal, or of the end of a list, the upstream does not count, as its error rule says.
    pub free: Free,
}

impl ReportedCost {
    /// Returns the same with other names of the limits.
    #[must_use]
    pub fn renamed(self, name: impl Fn(LimitName) -> LimitName) -> Self {
        let limits = self.limits.into_iter().map(|one| ReportedLimit {
            limit: name(one.limit),
            ..one
        });
        let cost = self.cost.into_iter();
        Self {
            limits: limits.collect(),
            cost: cost.map(|(limit, units)| (name(limit), units)).collect(),
            missing: self.missing,
            free: self.free.renamed(name),
        }
    }
}

/// A page of a list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Its records, in the order of the response.
    pub records: Vec<Record>,
    /// The ids of records that say that they were removed.
    pub removed: Vec<String>,
    /// Records that were left out because they have no id.
    pub skipped: u64,
    /// What the first of them has instead.
    pub has_instead: MembersOf,
    /// Records that were left out because an earlier one of the page has the same id.
    pub repeated: u64,
    /// Those of them whose bodies differ from that one's.
    pub differing: u64,
    /// Members at the place of the records that were left out because they are no objects.
    pub left_out: LeftOut,
    /// A member of a record that `records.key` or a template of `records.columns` replaced by another value.
    pub replaced: Option<String>,
    /// Whether there was no list where its records belong. It counts as an empty one.
    pub lacks_list: bool,
    /// Whether the body is of a format in which an empty list leaves its elements out, and has what would contain them.
    pub lacks_elements: bool,
    /// Whether a table has no byte, not even the names of its columns.
    pub is_blank: bool,
    /// Whether a connection that broke would have looked like its end.
    pub is_unbounded: bool,
    /// What says that it is a part of what was requested; `None`: it is whole.
    pub part: Option<String>,
    /// Where the next page is; `None` at the end.
    pub next: Option<String>,
    /// Whether the upstream names the next page, or says that there is one. Otherwise it is only counted.
    pub is_named: bool,
    /// Whether there is no page: the upstream refused it, and a rule says that the list ends there.
    pub is_refused: bool,
    /// The cursor with which the next pass begins: on the last page of a list that has one.
    pub lasting: Option<String>,
    /// Its `ETag`, if the call uses conditional requests.
    pub tag: Option<Tag>,
    /// Whether the upstream answered "not modified": the records are those that were landed before, and cost nothing.
    pub unchanged: bool,
    /// Why no next page can be requested although the response names one.
    pub dead_end: Option<String>,
    /// Whether it is the first page of its list.
    pub is_first: bool,
    /// The number of records that the response listed.
    pub listed: u64,
    /// What it says about its list although the configuration does not read it.
    pub unread: Unread,
    /// Why the list ends with it, where there is no next page.
    pub end: End,
    /// The number of records that were requested; `None` if the configuration has no size.
    pub size: Option<u64>,
    /// The number of all records that it reports where the configuration says.
    pub total: Option<u64>,
    /// The number of all pages that it reports where the configuration says.
    pub pages: Option<u64>,
    /// The number of records before it, if its cursor tells.
    pub before: Option<u64>,
    /// The keys of `page` that name a place, and whether the response has that.
    pub places: Vec<(&'static str, bool)>,
    /// Where a response without a list at its place has one.
    pub elsewhere: Option<String>,
    /// The upstream's clock beside this machine's.
    pub clock: UpstreamClock,
    /// The slot of a large response: no other one is processed until this is dropped.
    pub slot: LargeBodySlot,
}

impl Page {
    /// Whether it has no record, and removes none.
    pub const fn is_empty(&self) -> bool {
        self.records.is_empty() && self.removed.is_empty()
    }
}

/// The state of a limit by the upstream's own count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReportedLimit {
    /// The limit, by its name in the configuration.
    pub limit: LimitName,
    /// The remaining units of its quota; `None`: the response reports its reset alone, and no request may follow until then.
    pub remaining: Option<Units>,
    /// When all units return.
    pub reset: Option<Timestamp>,
}

/// Why there is no page. No text contains the secret or a URL with it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Failure {
    /// No connection was made. The request provably never left, and costs nothing.
    #[error("{0}")]
    Unreachable(String),
    /// No request can be built, now or later. It costs nothing.
    #[error("{0}")]
    NotSent(String),
    /// No request can be built for these ids, now or later. It costs nothing, and other ids are not to blame.
    #[error("{0}")]
    Unsendable(String),
    /// The grant expired before the request could be sent. It costs nothing.
    #[error("the grant expired before the request could be sent")]
    TooLate,
    /// The limit is exhausted upstream.
    #[error("{message}")]
    Spent {
        /// The upstream's message.
        message: String,
        /// The upstream's name for the limit; `None` if it names none.
        limit: Option<String>,
        /// How long it takes until the limit opens; `None` if the upstream does not say.
        until: Option<Wait>,
    },
    /// Requests come too fast.
    #[error("{message}")]
    SlowDown {
        /// The upstream's message.
        message: String,
        /// The requested pause; `None` if the upstream requests none.
        retry_after: Option<Wait>,
        /// The limit that the error rule names, if it names one.
        limit: Option<String>,
    },
    /// The upstream rejected the credential.
    #[error("{0}")]
    Denied(String),
    /// This region, or these ids, cannot be served.
    #[error("{0}")]
    Skip(String),
    /// The cursor has expired.
    #[error("{0}")]
    BadCursor(String),
    /// The cursor with which the pass began is too old.
    #[error("{0}")]
    OldCursor(String),
    /// The response is complete and readable, but has another shape than configured. The same request would return the same.
    #[error("{0}")]
    WrongShape(String),
    /// The response is complete, but cannot be read in the configured format. The same request may succeed later, unless the same
    /// body comes again.
    #[error("{message}")]
    Unreadable {
        /// What came instead.
        message: String,
        /// The hash of the body.
        body: u128,
    },
    /// A failure of the upstream or the network. The same request may succeed later.
    #[error("{message}")]
    Transient {
        /// What happened.
        message: String,
        /// The requested pause; `None` if the upstream requests none.
        retry_after: Option<Wait>,
        /// The limit that the error rule names, if it names one.
        limit: Option<String>,
    },
}

/// A client of an upstream, with one credential.
#[async_trait]
pub trait Upstream: Send + Sync {
    /// Checks that requests can be sent, so that a missing secret is found before anything is charged.
    async fn ready(&self) -> Result<(), Failure>;

    /// The secrets that a request carries, or with which an access token is requested. `None`: the credential has none.
    ///
    /// # Errors
    /// One is missing.
    async fn secrets(&self) -> Result<Option<SecretsInUse>, Failure> {
        Ok(None)
    }

    /// A connection for one request, made before the request is charged: connecting can take longer than a grant lasts.
    ///
    /// # Errors
    /// No connection can be made. Nothing was sent.
    async fn connect(&self) -> Result<Connection, Failure>;

    /// Sends one request, once and before its deadline, and interprets the response. The caller charges, pauses and retries.
    /// Makes another connection if none is given, or if the given one was closed meanwhile.
    async fn fetch(
        &self,
        request: PageRequest<'_>,
        connection: Connection,
        deadline: Deadline,
    ) -> Exchange;
}

impl From<NoNumber> for Failure {
    fn from(error: NoNumber) -> Self {
        Self::Unsendable(error.to_string())
    }
}

impl Failure {
    /// Names the ids that no request can be built for. Without ids, no request of the call can be built.
    fn of_ids(self, ids: &[String]) -> Self {
        match self {
            Self::Unsendable(why) if ids.is_empty() => Self::NotSent(why),
            Self::Unsendable(why) => Self::Unsendable(format!("{}: {why}", ids.join(", "))),
            other => other,
        }
    }
}

fn transient(message: String) -> Failure {
    Failure::Transient {
        message,
        retry_after: None,
        limit: None,
    }
}
