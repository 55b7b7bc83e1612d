use std::fmt::{self, Debug};

use async_trait::async_trait;
use rustix::system::uname;

use super::CatalogError;
use ingest_base::clock::Deadline;
use ingest_quota::Timestamp;

/// What at most one run works on at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    pub fn region(job: &str, region: &str) -> Self {
        Self::Region {
            job: job.to_owned(),
            region: region.to_owned(),
        }
    }

    /// The ids of a kind of an upstream's records.
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

/// Grants resources to one run at a time, so that no work is done twice. That no run writes to a pass that another one walks is held
/// by the pass itself.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Takes a resource if no other run holds it, in this process or another.
    async fn take(&self, resource: &Resource) -> Result<Taken, CatalogError>;

    /// Returns until when this process may charge and send what it does under the lease of a resource that it took; `None` if the
    /// lease cannot be lost. Called before each request, so an implementation answers from memory.
    fn trusted_until(&self, _resource: &Resource) -> Option<Deadline> {
        None
    }

    /// Releases what is left, before the process ends. Leases that end with the process need nothing.
    async fn close(&self) {}
}
