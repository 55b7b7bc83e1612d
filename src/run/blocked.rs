//! What this run must not request: refusals that it has met, so that it does not pay to meet them again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::credentials::Credentials;
use super::outcome::StoppedBy;
use ingest_quota::{Account, Cost, Timestamp, Units};
use parking_lot::Mutex;

/// The rejections in a row of a credential that was accepted until it is taken for withdrawn.
const MOST_IN_A_ROW: u32 = 5;

/// The refusals of one run, shared by all its requests.
#[derive(Debug, Default)]
pub struct Blocked {
    /// What is known of the credentials, from earlier runs too.
    pub credentials: Credentials,
    state: Mutex<BlockedState>,
    /// How many pages wait for a catalog that does not answer.
    landings: AtomicUsize,
}

/// A page that waits for the catalog, until it is dropped.
pub struct WaitingLanding<'a>(&'a AtomicUsize);

impl Drop for WaitingLanding<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct BlockedState {
    stops: Vec<RefusedCharge>,
    denied: HashMap<String, String>,
    /// Of each credential that the upstream accepted in this run, the rejections since.
    accepted: HashMap<String, u32>,
    unreachable: HashMap<String, String>,
    slowed: HashMap<String, Timestamp>,
    held: HashMap<String, String>,
    unwritable: Option<String>,
}

#[derive(Debug)]
struct RefusedCharge {
    /// The units refused, `leave` included; `None` where the ledger has to be asked again.
    claim: Option<Units>,
    stopped_by: StoppedBy,
    at: Timestamp,
}

impl Blocked {
    /// Nothing was refused yet, and this is known of the credentials.
    #[must_use]
    pub fn knowing(credentials: Credentials) -> Self {
        Self {
            credentials,
            ..Self::default()
        }
    }

    /// Returns the refusal of an equal charge. When a different one fits, only the ledger can say.
    ///
    /// Without it, a region further back in the order could charge a unit that returned after a region before it had stopped.
    #[must_use]
    pub fn refusal(&self, account: &Account, cost: &Cost, leave: &Cost) -> Option<StoppedBy> {
        let answers = |refusal: &&RefusedCharge| {
            let limit = &refusal.stopped_by.limit;
            let units = cost.of(limit);
            refusal.stopped_by.account == account.name
                && units > Units::ZERO
                && refusal.claim == Some(units + leave.of(limit))
        };
        self.state
            .lock()
            .stops
            .iter()
            .find(answers)
            .map(|refusal| refusal.stopped_by.clone())
    }

    /// Records that a charge of `claim` units did not fit a limit.
    pub fn refuse(&self, claim: Units, stopped_by: StoppedBy, now: Timestamp) {
        self.state.lock().stops.push(RefusedCharge {
            claim: Some(claim),
            stopped_by,
            at: now,
        });
    }

    /// Records that the last refusal of a limit applies to another charge too, once for each call and claim: the pass that it was
    /// recorded for can go on with another credential, and the one of this charge then waits for it alone.
    pub fn repeat(&self, own: &StoppedBy) {
        let mut state = self.state.lock();
        let is_same = |one: &&RefusedCharge| {
            let one = &one.stopped_by;
            (&one.account, &one.limit, one.retry_at) == (&own.account, &own.limit, own.retry_at)
        };
        let is_known = |one: &&RefusedCharge| {
            let one = &one.stopped_by;
            (&one.call, &one.claim) == (&own.call, &own.claim)
        };
        let same: Vec<&RefusedCharge> = state.stops.iter().filter(is_same).collect();
        let Some(first) = same.first().filter(|_| !same.iter().any(is_known)) else {
            return;
        };
        let refusal = RefusedCharge {
            claim: first.claim,
            stopped_by: own.clone(),
            at: first.at,
        };
        state.stops.push(refusal);
    }

    /// Records that the upstream reported a limit exhausted. The ledger has closed it, and says when the next charge fits.
    pub fn exhausted(&self, stopped_by: StoppedBy, now: Timestamp) {
        self.state.lock().stops.push(RefusedCharge {
            claim: None,
            stopped_by,
            at: now,
        });
    }

    /// Returns all refusals, with the time from `now` until each charge fits.
    #[must_use]
    pub fn stops(&self, now: Timestamp) -> Vec<StoppedBy> {
        let state = self.state.lock();
        let stop = |RefusedCharge { stopped_by, at, .. }: &RefusedCharge| {
            let retry_after = stopped_by.retry_after.saturating_sub(now.since(*at));
            StoppedBy {
                retry_after,
                ..stopped_by.clone()
            }
        };
        state.stops.iter().map(stop).collect()
    }

    /// Returns why the upstream rejected a credential; `None` where it did not.
    #[must_use]
    pub fn denial(&self, credential: &str) -> Option<String> {
        self.state.lock().denied.get(credential).cloned()
    }

    /// Records that the upstream rejected a credential.
    pub fn deny(&self, credential: &str, why: &str) {
        self.state
            .lock()
            .denied
            .insert(credential.to_owned(), why.to_owned());
    }

    /// Records that the upstream accepted a credential.
    pub fn accept(&self, credential: &str) {
        self.state.lock().accepted.insert(credential.to_owned(), 0);
    }

    /// Whether the upstream accepted a credential in this run.
    #[must_use]
    pub fn was_accepted(&self, credential: &str) -> bool {
        self.state.lock().accepted.contains_key(credential)
    }

    /// Counts a rejection, and returns whether its cause is the request: the upstream accepted the credential before in this run, and did
    /// not reject several requests in a row since, as it does once the credential is withdrawn.
    #[must_use]
    pub fn is_of_request(&self, credential: &str) -> bool {
        let mut state = self.state.lock();
        let Some(rejections) = state.accepted.get_mut(credential) else {
            return false;
        };
        *rejections += 1;
        *rejections <= MOST_IN_A_ROW
    }

    /// Returns why an upstream cannot be reached, once all attempts of a request failed to connect. Repeating them for each region
    /// would keep a machine without a network busy for minutes.
    #[must_use]
    pub fn out_of_reach(&self, upstream: &str) -> Option<String> {
        self.state.lock().unreachable.get(upstream).cloned()
    }

    /// Records that no connection to an upstream can be made.
    pub fn unreachable(&self, upstream: &str, why: &str) {
        self.state
            .lock()
            .unreachable
            .insert(upstream.to_owned(), why.to_owned());
    }

    /// Returns until when the requests of an account pause because the upstream asked it to slow down.
    #[must_use]
    pub fn slowed_until(&self, account: &str) -> Option<Timestamp> {
        self.state.lock().slowed.get(account).copied()
    }

    /// Makes every request of an account pause.
    pub fn slow_down(&self, account: &str, until: Timestamp) {
        let mut state = self.state.lock();
        let slowed = state.slowed.entry(account.to_owned()).or_insert(until);
        *slowed = until.max(*slowed);
    }

    /// Returns why no more requests of an account are sent: the upstream asked it to slow down, and a pause did not help or would
    /// be too long.
    #[must_use]
    pub fn held(&self, account: &str) -> Option<String> {
        self.state.lock().held.get(account).cloned()
    }

    /// Records that no more requests of an account are sent.
    pub fn hold(&self, account: &str, why: &str) {
        self.state
            .lock()
            .held
            .entry(account.to_owned())
            .or_insert_with(|| why.to_owned());
    }

    /// Records that a page waits for the catalog, for as long as the guard lives.
    pub fn wait_to_land(&self) -> WaitingLanding<'_> {
        self.landings.fetch_add(1, Ordering::Relaxed);
        WaitingLanding(&self.landings)
    }

    /// Whether a page waits for the catalog.
    #[must_use]
    pub fn waits_to_land(&self) -> bool {
        self.landings.load(Ordering::Relaxed) > 0
    }

    /// Returns why pages cannot be landed, once one could not: a page that would be lost is not paid for.
    #[must_use]
    pub fn unwritable(&self) -> Option<String> {
        self.state.lock().unwritable.clone()
    }

    /// Records that a page could not be landed.
    pub fn cannot_land(&self, why: &str) {
        self.state
            .lock()
            .unwritable
            .get_or_insert_with(|| why.to_owned());
    }
}
