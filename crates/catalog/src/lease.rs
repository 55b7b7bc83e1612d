use std::fmt::{self, Debug};

use async_trait::async_trait;
use rustix::system::uname;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::CatalogError;
use ingest_base::clock::Deadline;
use ingest_quota::Timestamp;

/// What at most one run works on at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Resource {
    /// A region of a job, or `*` for the job's batches.
    Region { job: String, region: String },
    /// The ids of a kind of an upstream's records, whichever job requests them. Its holder knows that no other run fetches
    /// the ids that the catalog calls missing.
    Ids {
        upstream: String,
        /// The kind of record.
        kind: String,
    },
    /// The deletion of records that an upstream's `keep` no longer keeps.
    Retention { upstream: String },
    /// The rebuilding of what is derived from records.
    Repair,
}

impl Resource {
    #[must_use]
    pub fn region(job: &str, region: &str) -> Self {
        Self::Region {
            job: job.to_owned(),
            region: region.to_owned(),
        }
    }

    /// The ids of a kind of an upstream's records.
    #[must_use]
    pub fn ids(upstream: &str, kind: &str) -> Self {
        Self::Ids {
            upstream: upstream.to_owned(),
            kind: kind.to_owned(),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Region { job, region } => write!(f, "{job} {region}"),
            Self::Ids { upstream, kind } => write!(f, "the {kind} ids of {upstream}"),
            Self::Retention { upstream } => write!(f, "the old records of {upstream}"),
            Self::Repair => f.write_str("the repair of the catalog"),
        }
    }
}

/// The process that holds a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The machine's name.
    pub machine: String,
    /// The process id on that machine.
    pub process: u32,
    /// When it took the resource; `None` if that is not known.
    pub since: Option<Timestamp>,
    /// When its lease expires unless it is renewed; `None` if it ends with the process.
    pub until: Option<Timestamp>,
}

impl Holder {
    #[must_use]
    pub fn this_process() -> Self {
        Self {
            machine: uname().nodename().to_string_lossy().into_owned(),
            process: std::process::id(),
            since: None,
            until: None,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.process, self.machine)?;
        let since = |since| write!(f, ", since {since}");
        self.since.map_or(Ok(()), since)
    }
}

/// A resource, and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    pub resource: Resource,
    /// The process that holds it.
    pub holder: Holder,
}

/// One term of a lease that can expire: a resource, its holder, and how often the resource was taken before. A store of such
/// leases changes a pass only for the current term.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    pub resource: Resource,
    /// The process that holds it, by a random number.
    pub holder: Uuid,
    /// The number of the term, which only rises.
    pub number: i64,
}

/// A resource that this process holds. Dropping it releases the resource.
#[derive(Debug)]
pub struct Lease {
    _guard: Box<dyn Debug + Send + Sync>,
}

impl Lease {
    /// A lease that ends when `guard` is dropped.
    pub fn new(guard: impl Debug + Send + Sync + 'static) -> Self {
        Self {
            _guard: Box::new(guard),
        }
    }
}

/// The result of taking a lease.
#[derive(Debug)]
pub enum Taken {
    /// This process holds the resource. Its previous holder may have just changed it, so the caller reads its state again.
    Granted(Lease),
    /// Another run holds it; `None` if its name is not known.
    Held(Option<Holder>),
}

/// Grants resources to one run at a time. What is written here is that of leases that end with the process alone.
///
/// A store whose leases can expire renews them in a task of its own, numbers the terms of each resource, and begins each
/// transaction that changes a pass by checking that its own term is the current one. A holder that lost its lease can then
/// change no cursor, even before it notices the loss in [`check`](Self::check).
#[async_trait]
pub trait Leases: Send + Sync {
    /// Takes a resource if no other run holds it, in this process or another.
    async fn take(&self, resource: &Resource) -> Result<Taken, CatalogError>;

    /// Returns the term under which this process holds a resource; `None` if it does not, or if its leases cannot be lost.
    fn term(&self, _resource: &Resource) -> Option<Term> {
        None
    }

    /// Fails if this process may have lost a resource that it took: it must then neither charge nor send. Called before each
    /// request, so an implementation answers from memory.
    fn check(&self, _resource: &Resource) -> Result<(), CatalogError> {
        Ok(())
    }

    /// Returns until when this process may send what it does under the lease of a resource that it took; `None` if the lease
    /// cannot be lost.
    fn trusted_until(&self, _resource: &Resource) -> Option<Deadline> {
        None
    }

    /// Releases what is left, before the process ends. Leases that end with the process need nothing.
    async fn close(&self) {}
}
