//! A ledger in memory that begins as the real one stands, and goes on from there.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::ledger::{Charge, Ledger, LedgerError, Purpose};
use crate::quota::{
    Account, ChargeId, Closing, Cost, Decision, Entry, Floor, Grant, Limit, LimitName, LimitUsage,
    Rejection, Timestamp, Units,
};

/// How an account stands at the beginning of a play: what counts of each limit, and until when it is closed.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    /// Units by limit, oldest first.
    pub spent: BTreeMap<LimitName, Vec<(Timestamp, Units)>>,
    /// Until when a limit is closed.
    pub closed: BTreeMap<LimitName, Timestamp>,
}

/// A charge that was granted in a play.
#[derive(Debug, Clone)]
pub struct Granted {
    /// When.
    pub at: Timestamp,
    /// Whose.
    pub account: String,
    /// What it took.
    pub cost: Cost,
    /// What for.
    pub purpose: Purpose,
    id: ChargeId,
}

/// A charge that did not fit in a play.
#[derive(Debug, Clone)]
pub struct Refused {
    /// When.
    pub at: Timestamp,
    /// Whose.
    pub account: String,
    /// The limit that fits last.
    pub limit: LimitName,
    /// What for.
    pub purpose: Purpose,
    /// When it would fit.
    pub retry_at: Timestamp,
    /// Until when the limit is closed, if it is.
    pub closed_until: Option<Timestamp>,
    /// How much may count of what the play began with for it to fit; `None` where what the play granted is in the way.
    pub room: Option<Units>,
}

/// Whether the limits hold in a play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// They hold, each its own.
    Enforced,
    /// Everything fits: to learn what is asked for.
    Lifted,
}

/// The ledger of a play.
#[derive(Debug)]
pub struct PlayLedger {
    bounds: Bounds,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    shelves: HashMap<(String, LimitName), Shelf>,
    known: HashSet<ChargeId>,
    granted: Vec<Granted>,
    refused: Vec<Refused>,
}

/// One limit: its charges in order, each with the running total up to it.
#[derive(Debug, Clone, Default)]
struct Shelf {
    taken: Vec<(Timestamp, Units)>,
    /// The total with which the play began.
    opening: Units,
    closed_until: Option<Timestamp>,
}

impl PlayLedger {
    pub fn new(openings: &HashMap<String, Opening>, bounds: Bounds) -> Self {
        let mut state = State::default();
        for (account, opening) in openings {
            for (limit, spent) in &opening.spent {
                let shelf = state.shelf(account, limit);
                spent.iter().for_each(|(at, units)| shelf.take(*at, *units));
                shelf.opening = shelf.total();
            }
            for (limit, until) in &opening.closed {
                state.shelf(account, limit).closed_until = Some(*until);
            }
        }
        Self {
            bounds,
            state: Mutex::new(state),
        }
    }

    pub fn granted(&self) -> Vec<Granted> {
        self.state().granted.clone()
    }

    pub fn refused(&self) -> Vec<Refused> {
        self.state().refused.clone()
    }

    pub fn used(&self, account: &Account, at: Timestamp) -> Vec<(LimitName, Units)> {
        let mut state = self.state();
        let used = |(name, limit): (&LimitName, &Limit)| {
            (
                name.clone(),
                state.shelf(&account.name, name).used(limit, at),
            )
        };
        account.limits.iter().map(used).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit that fits last, of those that do not fit now.
    fn misfit(
        &self,
        state: &mut State,
        charge: Charge<'_>,
        now: Timestamp,
    ) -> Option<(LimitName, Timestamp)> {
        if self.bounds == Bounds::Lifted {
            return None;
        }
        let mut last: Option<(LimitName, Timestamp)> = None;
        for (name, limit) in charge.account.charged(charge.cost) {
            let shelf = state.shelf(&charge.account.name, name);
            let at = shelf.fits_from(limit, charge.cost.of(name), charge.leave.of(name), now);
            if at > now && last.as_ref().is_none_or(|(_, known)| at > *known) {
                last = Some((name.clone(), at));
            }
        }
        last
    }
}

impl State {
    fn shelf(&mut self, account: &str, limit: &str) -> &mut Shelf {
        self.shelves
            .entry((account.to_owned(), limit.to_owned()))
            .or_default()
    }

    fn grant(&mut self, charge: Charge<'_>, now: Timestamp) -> Grant {
        self.known.insert(charge.id.clone());
        for (limit, units) in charge.cost.iter() {
            self.shelf(&charge.account.name, limit).take(now, units);
        }
        self.granted.push(Granted {
            at: now,
            account: charge.account.name.clone(),
            cost: charge.cost.clone(),
            purpose: charge.purpose.clone(),
            id: charge.id.clone(),
        });
        Grant::default()
    }

    fn release(&mut self, id: &ChargeId) {
        let Some(index) = self.granted.iter().rposition(|granted| granted.id == *id) else {
            return;
        };
        let granted = self.granted.remove(index);
        for (limit, units) in granted.cost.iter() {
            self.shelf(&granted.account, limit)
                .give_back(granted.at, units);
        }
    }
}

impl Shelf {
    fn take(&mut self, at: Timestamp, units: Units) {
        self.taken.push((at, self.total() + units));
    }

    fn give_back(&mut self, at: Timestamp, units: Units) {
        for (_, total) in self.taken.iter_mut().filter(|(taken, _)| *taken >= at) {
            *total = total.less(units);
        }
    }

    /// What the play granted, in units.
    fn granted(&self) -> Units {
        self.total().less(self.opening)
    }

    fn total(&self) -> Units {
        self.taken.last().map_or(Units::ZERO, |(_, total)| *total)
    }

    /// The running total of what no longer counts at `now`.
    fn gone(&self, limit: &Limit, now: Timestamp) -> Units {
        let from = limit.window().counted_from(now);
        let gone = self.taken.partition_point(|(at, _)| *at < from);
        gone.checked_sub(1)
            .and_then(|last| self.taken.get(last))
            .map_or(Units::ZERO, |(_, total)| *total)
    }

    fn used(&self, limit: &Limit, now: Timestamp) -> Units {
        self.total().less(self.gone(limit, now))
    }

    fn closed(&self, now: Timestamp) -> Option<Timestamp> {
        self.closed_until.filter(|until| *until > now)
    }

    /// The first instant, now or later, at which `units` fit beside `leave`.
    fn fits_from(&self, limit: &Limit, units: Units, leave: Units, now: Timestamp) -> Timestamp {
        let open = self.closed(now).unwrap_or(now);
        let gone = self.gone(limit, now);
        let used = self.total().less(gone);
        if limit.fits(used, units, leave) {
            return open;
        }
        let needed = gone + (used + units + leave).less(limit.enforced());
        let last_to_go = self.taken.partition_point(|(_, total)| *total < needed);
        let expiry = self
            .taken
            .get(last_to_go)
            .map_or(open, |(at, _)| limit.window().expiry(*at));
        open.max(expiry)
    }
}

#[async_trait]
impl Ledger for PlayLedger {
    async fn charge(&self, charge: Charge<'_>, now: Timestamp) -> Result<Decision, LedgerError> {
        let mut state = self.state();
        if state.known.contains(charge.id) {
            return Ok(Decision::Granted(Grant::default()));
        }
        let Some((limit, retry_at)) = self.misfit(&mut state, charge, now) else {
            return Ok(Decision::Granted(state.grant(charge, now)));
        };
        let rule = charge.account.limits.get(&limit);
        let shelf = state.shelf(&charge.account.name, &limit);
        let used = rule.map_or(Units::ZERO, |rule| shelf.used(rule, now));
        let closed_until = shelf.closed(now);
        let remaining = rule
            .filter(|_| closed_until.is_none())
            .map_or(Units::ZERO, |rule| rule.enforced().less(used));
        let claim = charge.cost.of(&limit) + charge.leave.of(&limit) + shelf.granted();
        state.refused.push(Refused {
            at: now,
            account: charge.account.name.clone(),
            limit: limit.clone(),
            purpose: charge.purpose.clone(),
            retry_at,
            closed_until,
            room: rule
                .map(Limit::enforced)
                .filter(|enforced| *enforced >= claim)
                .map(|enforced| enforced.less(claim)),
        });
        Ok(Decision::Rejected(Rejection {
            limit,
            used,
            remaining,
            retry_after: retry_at.since(now),
            retry_at,
        }))
    }

    async fn settle(
        &self,
        _: &Account,
        id: &ChargeId,
        _: &Cost,
        _: Timestamp,
    ) -> Result<(), LedgerError> {
        self.state().release(id);
        Ok(())
    }

    async fn absorb(
        &self,
        _: &Account,
        _: &[Entry],
        _: &[Floor],
        _: Timestamp,
    ) -> Result<(), LedgerError> {
        Ok(())
    }

    async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.state().shelf(&account.name, limit).closed_until = Some(closing.ends(now));
        Ok(())
    }

    async fn reopen(
        &self,
        account: &Account,
        limit: &str,
        _: Timestamp,
    ) -> Result<(), LedgerError> {
        self.state().shelf(&account.name, limit).closed_until = None;
        Ok(())
    }

    async fn usage(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<LimitUsage>, LedgerError> {
        let mut state = self.state();
        let usage = |(name, limit): (&LimitName, &Limit)| {
            let shelf = state.shelf(&account.name, name);
            let used = shelf.used(limit, now);
            let left = if shelf.closed(now).is_some() {
                Units::ZERO
            } else {
                limit.enforced().less(used)
            };
            LimitUsage {
                limit: name.clone(),
                used,
                remaining: if self.bounds == Bounds::Lifted {
                    Units::new(u64::MAX)
                } else {
                    left
                },
                closed_until: shelf.closed(now),
                since_reset: None,
                returns: Vec::new(),
            }
        };
        Ok(account.limits.iter().map(usage).collect())
    }
}
