use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Pointer, Template};
use crate::quota::{Cost, LimitName, Outage, Units};

/// One metered method of an upstream.
#[derive(Debug, Clone)]
pub struct Call {
    /// Its own name, such as `videos.list`.
    pub name: String,
    /// What one request charges.
    pub cost: Cost,
    /// Whether it goes ahead when the ledger cannot be reached; unset: by `ledger.cheap_max`.
    pub outage: Option<Outage>,
    /// How it is requested.
    pub method: Method,
    /// Its path below the upstream's base URL; `None` for a call that is only charged by hand.
    pub path: Option<Template>,
    /// Headers of its own, beside those of its upstream.
    pub headers: BTreeMap<String, Template>,
    /// The JSON body of a POST: every string in it is a template.
    pub body: Option<serde_json::Value>,
    /// How it turns pages.
    pub paging: Paging,
    /// How many empty pages in a row a list may contain while its cursor continues. A list that exceeds it is not complete.
    pub empty_pages: u64,
    /// What is in its answers; `None` for a call that is only charged by hand.
    pub records: Option<Arc<Records>>,
    /// Whether to ask only for what changed.
    pub etag: Etag,
    /// Where an answer tells what it truly cost, by the limit: `cost` is then an estimate.
    pub settle: BTreeMap<LimitName, Pointer>,
    /// A call that brings the same for less.
    pub cheaper: Option<Cheaper>,
}

/// A call that brings the same for less: advice of `ingest check`. `cheaper = { call = "…", with = "…", how = "…" }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cheaper {
    /// Which one.
    pub call: String,
    /// The parameter with which it does; `None`: always.
    pub with: Option<String>,
    /// What to know about it.
    pub how: Option<String>,
}

impl Call {
    /// Whether it goes ahead when the ledger cannot be reached, where calls of at most `cheap_max` units do.
    #[must_use]
    pub fn outage_policy(&self, cheap_max: Units) -> Outage {
        let by_cost = if self.cost.largest() <= cheap_max {
            Outage::Allow
        } else {
            Outage::Refuse
        };
        self.outage.unwrap_or(by_cost)
    }
}

impl Paging {
    /// How a page's size is asked for, where it is.
    #[must_use]
    pub const fn size(&self) -> Option<&PageSize> {
        match self {
            Self::None => None,
            Self::Offset { size, .. } => Some(size),
            Self::Token { size, .. }
            | Self::Link { size }
            | Self::NextUrl { size, .. }
            | Self::Number { size, .. } => size.as_ref(),
        }
    }

    /// Records on a full page, as far as the configuration tells; 1 where it does not.
    #[must_use]
    pub fn page_size(&self) -> u64 {
        self.size().map_or(1, |size| size.size)
    }
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Method {
    /// `GET`
    #[default]
    Get,
    /// `POST`, with a JSON body.
    Post,
}

/// Whether a call is asked only for what changed since it was last landed. `etag = "…"`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Etag {
    /// All of it, always: whether an unchanged answer costs is not known, or it does.
    #[default]
    Unused,
    /// `free`: requests carry the `ETag` of what is there, and the answer "not modified" costs nothing.
    Free,
}

/// How a call turns pages. `page = { kind = "…" }`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Paging {
    /// One page is all there is.
    #[default]
    None,
    /// `token`: the answer holds an opaque token for the next page.
    Token {
        /// The parameter that carries it.
        param: String,
        /// Where the answer holds it.
        next: Pointer,
        /// Where the parameter goes.
        place: Place,
        /// How a page's size is asked for.
        size: Option<PageSize>,
    },
    /// `link`: the header `Link: <…>; rel="next"`.
    Link {
        /// How a page's size is asked for.
        size: Option<PageSize>,
    },
    /// `next_url`: the answer holds the URL of the next page, on the same host.
    NextUrl {
        /// Where the answer holds it.
        next: Pointer,
        /// How a page's size is asked for.
        size: Option<PageSize>,
    },
    /// `offset`: how many records to pass over; ends at the total, or at a page that is not full.
    Offset {
        /// The parameter that carries it.
        param: String,
        /// Where the parameter goes.
        place: Place,
        /// How a page's size is asked for.
        size: PageSize,
        /// Where the answer holds the number of all records.
        total: Option<Pointer>,
    },
    /// `number`: a page's number; ends at a page that is not full.
    Number {
        /// The parameter that carries it.
        param: String,
        /// The first page's number.
        first: u64,
        /// Where the parameter goes.
        place: Place,
        /// How a page's size is asked for.
        size: Option<PageSize>,
    },
}

/// Where a parameter goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// Into the query.
    #[default]
    Query,
    /// Into the JSON body, at the top.
    Body,
}

/// How a page's size is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageSize {
    /// The parameter, where there is one.
    pub param: Option<String>,
    /// Records a page; at least 1.
    pub size: u64,
}

/// What is in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    /// Where the list is.
    pub at: Pointer,
    /// What its records are: records of one kind share ids and overwrite each other.
    pub kind: String,
    /// Where a record holds its id; several are joined by `/`.
    pub id: Vec<Pointer>,
    /// What the full-text index holds of a record.
    pub text: Vec<Pointer>,
    /// The columns of the kind's view, by name.
    pub columns: BTreeMap<String, Pointer>,
}
