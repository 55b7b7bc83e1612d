//! The units that the accounts of a run have left, and whether they cover what its regions are expected to charge.

use std::collections::HashMap;
use std::sync::Arc;

use super::context::Context;
use super::report::accounts;
use ingest_config::{Credential, Job};
use ingest_ledger::Available;
use ingest_quota::{Cost, LimitUsage, Timestamp, Units};

/// The remaining units by account; without the accounts whose units cannot be read.
pub struct Remaining {
    accounts: HashMap<String, Available>,
    now: Timestamp,
}

impl Remaining {
    /// Reads them for these jobs.
    pub async fn read(context: &Context, jobs: &[Arc<Job>]) -> Self {
        let mut remaining = HashMap::new();
        for account in accounts(jobs.iter().flat_map(|job| job.credentials())) {
            if let Ok(available) = context.ledger.available(&account).await {
                remaining.insert(account.name.clone(), available);
            }
        }
        Self {
            accounts: remaining,
            now: context.clock.now(),
        }
    }

    /// Whether a run always waits for a limit, by its name in the ledger. One that is closed for longer than its `wait` stops
    /// requests.
    fn paces(&self, job: &Job, limit: &str) -> bool {
        let credential = &job.credential;
        let Some(Available::Metered(usages)) = self.accounts.get(&credential.account.name) else {
            return false;
        };
        let closed_until = LimitUsage::find(usages, limit).and_then(|usage| usage.closed_until);
        let closed = closed_until.map(|until| until.since(self.now));
        credential.is_paced_by(limit) && closed <= Some(credential.wait(limit))
    }

    /// Whether a run waits for every limit of a job, so that all of its regions can walk together.
    pub fn only_pace(&self, job: &Job) -> bool {
        let Some(Available::Metered(usages)) = self.accounts.get(&job.credential.account.name)
        else {
            return false;
        };
        let mut charged = job.steps.iter().flat_map(|step| step.call.cost.limits());
        let mut closed = usages.iter().filter(|usage| usage.closed_until.is_some());
        charged.all(|limit| job.credential.is_paced_by(limit))
            && closed.all(|usage| self.paces(job, &usage.limit))
    }

    /// Whether these costs fit together. Each job leaves its `leave` of what all of them charge, or another job would use it
    /// up while the first one walks. Units that cannot be read cover nothing.
    pub fn cover(&self, costs: &[(Arc<Job>, Cost)]) -> bool {
        let mut totals: HashMap<&str, Cost> = HashMap::new();
        for (job, cost) in costs {
            let account = job.credential.account.name.as_str();
            totals.entry(account).or_default().add(cost);
        }
        let fits = |(job, cost): &(Arc<Job>, Cost)| {
            let account = job.credential.account.name.as_str();
            let total = totals.get(account).cloned().unwrap_or_default();
            // Its requests are charged wherever units are left, so those of all its credentials count.
            if !job.fallbacks.is_empty() {
                let mut limits = cost.limits();
                return limits.all(|limit| {
                    total.of(limit) <= self.of_all(job, limit) || self.paces(job, limit)
                });
            }
            match self.accounts.get(account) {
                Some(Available::Metered(usages)) => cost.limits().all(|limit| {
                    let usage = LimitUsage::find(usages, limit);
                    let remaining = usage.map(|usage| usage.remaining).unwrap_or_default();
                    let leave = job.leave.of(&job.credential);
                    let leave = leave.of(job.credential.configured_name(limit));
                    total.of(limit) + leave <= remaining || self.paces(job, limit)
                }),
                Some(Available::Unmetered(units)) => total.largest() <= *units,
                None => false,
            }
        };
        costs.iter().all(fits)
    }

    /// Returns the units of a limit that all credentials of a job have left for it together.
    fn of_all(&self, job: &Job, limit: &str) -> Units {
        let limit = job.credential.configured_name(limit);
        let remaining =
            |credential: &Arc<Credential>| match self.accounts.get(&credential.account.name) {
                Some(Available::Metered(usages)) => {
                    let is_same =
                        |usage: &&LimitUsage| credential.configured_name(&usage.limit) == limit;
                    let remaining = usages.iter().filter(is_same).map(|usage| usage.remaining);
                    remaining
                        .min()
                        .unwrap_or_default()
                        .saturating_sub(job.leave.of(credential).of(limit))
                }
                Some(Available::Unmetered(units)) => *units,
                None => Units::ZERO,
            };
        job.credentials().map(remaining).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use ingest_config::Config;

    /// Whether what one account has left covers what these jobs charge of it, in units. The second one leaves 3.
    fn covers(left: Option<Available>, costs: &[u64]) -> bool {
        let text = "
            [upstreams.a]
            base_url = 'https://a.example.com'
            calls.list = { path = 'list', cost = 1, records = { kind = 'row', id = '/id' } }
            [credentials.a]
            upstream = 'a'
            limits.daily = { quota = 100, window = '24h' }
            [jobs.first]
            credential = 'a'
            steps = [{ call = 'list' }]
            [jobs.second]
            credential = 'a'
            leave = 3
            steps = [{ call = 'list' }]";
        let config = Config::parse(text, Path::new("quotas.toml"), &[]).unwrap();
        let charge = |(job, units): (&Arc<Job>, &u64)| {
            let cost = Cost::from_iter([("daily".to_owned(), Units::new(*units))]);
            (Arc::clone(job), cost)
        };
        let costs: Vec<(Arc<Job>, Cost)> = config.jobs.iter().zip(costs).map(charge).collect();
        let account = config.jobs[0].credential.account.name.clone();
        let remaining = Remaining {
            accounts: left.map(|left| (account, left)).into_iter().collect(),
            now: Timestamp::from_micros(0),
        };
        remaining.cover(&costs)
    }

    fn metered(remaining: u64) -> Option<Available> {
        Some(Available::Metered(vec![LimitUsage {
            limit: "daily".to_owned(),
            used: Units::new(100 - remaining),
            remaining: Units::new(remaining),
            closed_until: None,
            since_reset: None,
            returns: Vec::new(),
        }]))
    }

    #[test]
    fn costs_fit_together_beside_what_each_job_leaves() {
        assert!(covers(metered(10), &[10]));
        assert!(!covers(metered(10), &[11]));
        assert!(covers(metered(10), &[4, 3]), "the second one leaves 3");
        assert!(!covers(metered(10), &[4, 4]));
    }

    #[test]
    fn units_that_cannot_be_read_cover_nothing_and_an_outage_only_its_allowance() {
        assert!(!covers(None, &[0]));
        let unmetered = || Some(Available::Unmetered(Units::new(2)));
        assert!(covers(unmetered(), &[1, 1]));
        assert!(!covers(unmetered(), &[2, 1]));
    }
}
