//! What a pass cost and brought, in this run.

use crate::quota::{Cost, Units};

/// What a pass cost and brought, in this run.
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

    /// Takes back an attempt that provably was not sent.
    pub fn release(&mut self, cost: &Cost, metered: bool) {
        self.requests -= 1;
        self.unlanded_requests = self.unlanded_requests.saturating_sub(1);
        self.units.take(cost);
        self.unlanded_units.take(cost);
        if !metered {
            self.unmetered = self.unmetered.saturating_sub(cost.largest());
        }
    }

    /// Counts a landed page.
    pub fn land(&mut self, records: u64, skipped: u64) {
        self.pages += 1;
        self.records += records;
        self.skipped += skipped;
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
