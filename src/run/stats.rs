//! What a run counts: the charges in flight, and what each pass cost.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::stop_reason::{NotLanded, StopReason};
use crate::review::Findings;
use ingest_config::Upstream;
use ingest_quota::{Cost, Units};

/// What the requests in flight were charged, by account. The remaining units that a response reports may not include them.
#[derive(Debug, Default)]
pub struct InFlight {
    /// Held while the ledger is lowered to a reported figure: two responses at once would both subtract the same units.
    pub lowering: tokio::sync::Mutex<()>,
    charged: Mutex<HashMap<String, Cost>>,
    /// The slots for requests, by upstream; only of upstreams with `max_concurrency`.
    slots: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// Leave to have one request in flight; `None` where the upstream bounds none.
pub type Slot = Option<OwnedSemaphorePermit>;

impl InFlight {
    /// Waits until the upstream's `max_concurrency` permits one more request.
    pub async fn slot(&self, upstream: &Upstream) -> Slot {
        let most = upstream.max_concurrency?;
        let most = usize::try_from(most).unwrap_or(Semaphore::MAX_PERMITS);
        let slots = {
            let mut slots = self.slots.lock();
            let new = || Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
            Arc::clone(slots.entry(upstream.name.clone()).or_insert_with(new))
        };
        slots.acquire_owned().await.ok()
    }

    /// Counts a request as in flight until the guard is dropped.
    pub fn add<'a>(&'a self, account: &'a str, cost: &'a Cost) -> InFlightGuard<'a> {
        let mut charged = self.charged.lock();
        charged.entry(account.to_owned()).or_default().add(cost);
        InFlightGuard {
            in_flight: self,
            account,
            cost,
        }
    }

    /// Returns what the requests in flight were charged of a limit, in units.
    pub fn charged(&self, account: &str, limit: &str) -> Units {
        let charged = self.charged.lock();
        charged
            .get(account)
            .map_or(Units::ZERO, |cost| cost.of(limit))
    }
}

/// A request in flight.
pub struct InFlightGuard<'a> {
    in_flight: &'a InFlight,
    account: &'a str,
    cost: &'a Cost,
}

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        if let Some(cost) = self.in_flight.charged.lock().get_mut(self.account) {
            cost.take(self.cost);
        }
    }
}

/// What a pass cost and contained, in this run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassStats {
    /// Pages landed.
    pub pages: u64,
    /// Records landed.
    pub records: u64,
    /// Records left out because they have no id.
    pub skipped: u64,
    /// Requests made, failed ones included.
    pub requests: u64,
    /// Units charged.
    pub units: Cost,
    /// Units spent while the ledger could not be reached; of a charge of several limits its largest component, as the
    /// allowance counts them.
    pub unmetered: Units,
    /// Requests since the last landing.
    pub unlanded_requests: u64,
    /// Units charged since the last landing.
    pub unlanded_units: Cost,
    /// What its pages show of mistakes in the configuration.
    pub findings: Findings,
    /// The credentials that the upstream rejected while the job has others, and its messages.
    pub denied: BTreeMap<String, String>,
}

impl PassStats {
    /// Counts an attempt that is about to be sent.
    pub fn charge(&mut self, cost: &Cost, metered: bool) {
        self.requests += 1;
        self.unlanded_requests += 1;
        self.units.add(cost);
        self.unlanded_units.add(cost);
        if !metered {
            self.unmetered += cost.largest();
        }
    }

    /// Corrects what an attempt was charged to what it truly cost.
    pub fn settle(&mut self, charged: &Cost, truth: &Cost, metered: bool) {
        for units in [&mut self.units, &mut self.unlanded_units] {
            units.take(charged);
            units.add(truth);
        }
        if !metered {
            self.unmetered = self.unmetered.saturating_sub(charged.largest()) + truth.largest();
        }
    }

    /// Removes an attempt that provably was not sent.
    pub fn release(&mut self, cost: &Cost, metered: bool) {
        self.requests -= 1;
        self.unlanded_requests = self.unlanded_requests.saturating_sub(1);
        self.units.take(cost);
        self.unlanded_units.take(cost);
        if !metered {
            self.unmetered = self.unmetered.saturating_sub(cost.largest());
        }
    }

    /// Records that the upstream rejected a credential of several.
    pub fn deny(&mut self, credential: &str, why: &str) {
        let is_new = self
            .denied
            .insert(credential.to_owned(), why.to_owned())
            .is_none();
        if is_new {
            tracing::warn!(
                credential,
                "the upstream rejected the credential: {why}; trying the next one"
            );
        }
    }

    /// Counts a landed page.
    pub fn land(&mut self, records: u64, skipped: u64) {
        self.pages += 1;
        self.records += records;
        self.skipped += skipped;
        self.forget_unlanded();
    }

    /// Leaves the requests for a page that is kept to the run that lands it. Returns why this one stops.
    pub fn keep(&mut self, page: NotLanded) -> StopReason {
        if page.is_kept {
            self.forget_unlanded();
        }
        StopReason::Failed(page.why)
    }

    fn forget_unlanded(&mut self) {
        self.unlanded_requests = 0;
        self.unlanded_units = Cost::none();
    }

    /// Adds the stats of others.
    pub fn add(&mut self, other: &Self) {
        self.pages += other.pages;
        self.records += other.records;
        self.skipped += other.skipped;
        self.requests += other.requests;
        self.units.add(&other.units);
        self.unmetered += other.unmetered;
        self.unlanded_requests += other.unlanded_requests;
        self.unlanded_units.add(&other.unlanded_units);
        self.findings.add(&other.findings);
        self.denied.extend(other.denied.clone());
    }
}

/// Units by limit, as the log shows them: `daily=100 search=1`.
pub fn logged(cost: &Cost) -> String {
    let parts: Vec<String> = cost
        .iter()
        .map(|(limit, units)| format!("{limit}={units}"))
        .collect();
    parts.join(" ")
}
