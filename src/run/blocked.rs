//! What this run must not request: refusals that it has met, so that it does not pay to meet them again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::credentials::Credentials;
use super::outcome::{Claim, ClosedBy, StoppedBy};
use ingest_quota::{Account, Timestamp, Units};
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
    /// Why what is blocked is.
    why: HashMap<Subject, String>,
    /// Of each credential that the upstream accepted in this run, the rejections since.
    accepted: HashMap<String, u32>,
    /// Until when the requests of accounts pause.
    slowed: HashMap<String, Timestamp>,
}

/// What a run uses no more once it failed, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The upstream rejected the credential.
    Credential(String),
    /// All attempts of a request failed to connect to the upstream. Repeating them for each region would keep a machine without a
    /// network busy for minutes.
    Upstream(String),
    /// The upstream asked the account to slow down, and a pause did not help or would be too long.
    Account(String),
    /// A page could not be landed in the catalog: one that would be lost is not paid for.
    Catalog,
}

#[derive(Debug)]
struct RefusedCharge {
    /// The units refused, `leave` included; `None` where the ledger has to be asked again.
    units: Option<Units>,
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

    /// Returns the refusal of an equal charge, as that of `call` and its claim. When a different one fits, only the ledger can say.
    ///
    /// Without it, a region further back in the order could charge a unit that returned after a region before it had stopped. It is
    /// recorded once for each call and claim: the pass that it was recorded for can go on with another credential, and the one of
    /// this charge then waits for it alone.
    #[must_use]
    pub fn refusal(&self, account: &Account, call: &str, claim: Claim) -> Option<StoppedBy> {
        let mut state = self.state.lock();
        let stops = &mut state.stops;
        let first = stops.iter().find(|refused| {
            let (limit, units) = (&refused.stopped_by.limit, refused.units);
            let cost = claim.cost.of(limit);
            let is_equal = cost > Units::ZERO && units == Some(cost + claim.leave.of(limit));
            refused.stopped_by.account == account.name && is_equal
        })?;
        let own = RefusedCharge {
            stopped_by: StoppedBy {
                call: call.to_owned(),
                units: claim.cost.of(&first.stopped_by.limit),
                claim,
                ..first.stopped_by.clone()
            },
            ..*first
        };
        let stopped_by = own.stopped_by.clone();
        if !stops.iter().any(|one| one.stopped_by == stopped_by) {
            stops.push(own);
        }
        Some(stopped_by)
    }

    /// Records that a charge of so many units, `leave` included, did not fit a limit; `None`: the upstream reported the limit
    /// exhausted. The ledger has closed it then, and says when the next charge fits.
    pub fn refuse(&self, units: Option<Units>, stopped_by: StoppedBy, at: Timestamp) {
        self.state.lock().stops.push(RefusedCharge {
            units,
            stopped_by,
            at,
        });
    }

    /// Returns who closed a limit.
    #[must_use]
    pub fn closed_by(&self, account: &Account, limit: &str) -> ClosedBy {
        let state = self.state.lock();
        let mut closed = state.stops.iter().map(|refused| &refused.stopped_by);
        let closed = closed.find(|one| {
            one.closed_by != ClosedBy::Others && one.account == account.name && one.limit == limit
        });
        closed.map_or(ClosedBy::Others, |one| one.closed_by)
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

    /// Returns why something is used no more; `None` while it is.
    #[must_use]
    pub fn why(&self, subject: &Subject) -> Option<String> {
        self.state.lock().why.get(subject).cloned()
    }

    /// Records that something is used no more. The first reason counts.
    pub fn block(&self, subject: Subject, why: &str) {
        let mut state = self.state.lock();
        let known = state.why.entry(subject);
        known.or_insert_with(|| why.to_owned());
    }
}
