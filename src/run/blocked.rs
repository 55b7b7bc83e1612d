//! What this run has been told and need not ask again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::outcome::StoppedBy;
use crate::quota::{Account, Cost, Timestamp, Units};

/// The refusals of one run, shared by everything that walks.
#[derive(Debug, Default)]
pub struct Blocked {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    stops: Vec<Refusal>,
    denied: HashMap<String, String>,
    unreachable: HashMap<String, String>,
    slowed: HashMap<String, Timestamp>,
    held: HashMap<String, String>,
    unwritable: Option<String>,
}

#[derive(Debug)]
struct Refusal {
    /// What was refused, in units, with what had to be left; `None` where the ledger knows better.
    claim: Option<Units>,
    stopped_by: StoppedBy,
    at: Timestamp,
}

impl Blocked {
    /// The refusal that already answers this charge: a limit that had no room for as much. When more than that fits, only
    /// the ledger can tell.
    ///
    /// Without it a region further back in the order could take a unit that returned after a region before it stopped.
    #[must_use]
    pub fn refusal(&self, account: &Account, cost: &Cost, leave: &Cost) -> Option<StoppedBy> {
        let answers = |refusal: &&Refusal| {
            let limit = &refusal.stopped_by.limit;
            let asked = cost.of(limit);
            refusal.stopped_by.account == account.name
                && asked > Units::ZERO
                && refusal.claim == Some(asked + leave.of(limit))
        };
        self.state()
            .stops
            .iter()
            .find(answers)
            .map(|refusal| refusal.stopped_by.clone())
    }

    /// Remembers that a limit had no room for `claim` units.
    pub fn refuse(&self, claim: Units, stopped_by: StoppedBy, now: Timestamp) {
        self.state().stops.push(Refusal {
            claim: Some(claim),
            stopped_by,
            at: now,
        });
    }

    /// Remembers that the upstream called a limit spent. The ledger has closed it, and tells whoever asks next when exactly
    /// that fits.
    pub fn spent(&self, stopped_by: StoppedBy, now: Timestamp) {
        self.state().stops.push(Refusal {
            claim: None,
            stopped_by,
            at: now,
        });
    }

    /// All refusals, and how long it is from `now` until each charge fits by what was known then.
    #[must_use]
    pub fn stops(&self, now: Timestamp) -> Vec<StoppedBy> {
        let state = self.state();
        let stop = |Refusal { stopped_by, at, .. }: &Refusal| {
            let retry_after = stopped_by.retry_after.saturating_sub(now.since(*at));
            StoppedBy {
                retry_after,
                ..stopped_by.clone()
            }
        };
        state.stops.iter().map(stop).collect()
    }

    /// Why the upstream does not take this credential, once it said so.
    #[must_use]
    pub fn denial(&self, credential: &str) -> Option<String> {
        self.state().denied.get(credential).cloned()
    }

    /// Remembers that the upstream does not take a credential.
    pub fn deny(&self, credential: &str, why: &str) {
        self.state()
            .denied
            .insert(credential.to_owned(), why.to_owned());
    }

    /// Why an upstream cannot be reached, once all attempts of a request said so: to wait out as many for each region would
    /// keep a machine without a network busy for minutes.
    #[must_use]
    pub fn out_of_reach(&self, upstream: &str) -> Option<String> {
        self.state().unreachable.get(upstream).cloned()
    }

    /// Remembers that no connection to an upstream can be made.
    pub fn unreachable(&self, upstream: &str, why: &str) {
        self.state()
            .unreachable
            .insert(upstream.to_owned(), why.to_owned());
    }

    /// Until when every request of an account has to pause, since the upstream said to slow down.
    #[must_use]
    pub fn slowed_until(&self, account: &str) -> Option<Timestamp> {
        self.state().slowed.get(account).copied()
    }

    /// Makes every request of an account pause.
    pub fn slow_down(&self, account: &str, until: Timestamp) {
        let mut state = self.state();
        let slowed = state.slowed.entry(account.to_owned()).or_insert(until);
        *slowed = until.max(*slowed);
    }

    /// Why no more requests of an account are made, once the upstream asked it to slow down and pausing did not help, or
    /// would take too long.
    #[must_use]
    pub fn held(&self, account: &str) -> Option<String> {
        self.state().held.get(account).cloned()
    }

    /// Remembers that no more requests of an account are to be made.
    pub fn hold(&self, account: &str, why: &str) {
        self.state()
            .held
            .entry(account.to_owned())
            .or_insert_with(|| why.to_owned());
    }

    /// Why no page can be landed, once one could not: what cannot be kept is not paid for.
    #[must_use]
    pub fn unwritable(&self) -> Option<String> {
        self.state().unwritable.clone()
    }

    /// Remembers that a page could not be landed.
    pub fn cannot_land(&self, why: &str) {
        self.state()
            .unwritable
            .get_or_insert_with(|| why.to_owned());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
