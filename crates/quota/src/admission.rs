//! The admission rule: what counts against a limit, whether a charge fits, and when it will.
//!
//! A store only supplies the history of its limits; the decision is made here, for every ledger of this program. Redis grants
//! in Lua what fits, which the ledger suite holds equal; what does not fit is decided here.

use std::time::Duration;

use super::{
    Account, Closing, Cost, Decision, Grant, Limit, LimitName, LimitUsage, Rejection, Return,
    Timestamp, Units,
};

/// What a store remembers of one limit: its charges in the order in which they count, each with the running total of
/// units up to and with it. The units between two instants are the difference of two totals, so no query depends on the
/// number of charges between them.
pub trait History {
    /// Why the store cannot be read.
    type Error;

    /// The running totals of all charges, and of those made before `from`.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn totals(&self, from: Timestamp) -> Result<Totals, Self::Error>;

    /// The time of the charge that brought the running total to `total` or beyond. It was made at `from` or later, and
    /// `total` is at most that of all charges.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn reached(&self, total: Units, from: Timestamp) -> Result<Timestamp, Self::Error>;

    /// The floors set at `from` or later.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn floors(&self, from: Timestamp) -> Result<Vec<FloorTotal>, Self::Error>;

    /// The closing of the limit, over or not; `None` where it was never closed, or was reopened.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn closing(&self) -> Result<Option<ClosingState>, Self::Error>;
}

/// Running totals of a limit, in units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Of all charges.
    pub all: Units,
    /// Of the charges before the instant in question.
    pub before: Units,
}

/// A floor beside the running total at its time: since then, the ledger holds at least `used` plus what was charged
/// later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloorTotal {
    /// When the lost ledger reported it.
    pub at: Timestamp,
    /// The units it reported as used.
    pub used: Units,
    /// The running total of the charges up to and with `at`, in units.
    pub total: Units,
}

/// A closing as a ledger stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosingState {
    /// When it ends.
    pub until: Timestamp,
    /// How long the last closing lasted, where the reset is unknown: the first charge granted after `until` is a probe.
    /// `None` where the reset is known.
    pub interval: Option<Duration>,
}

/// The time of a ledger: the latest of the caller's clock, the newest charge of the account, and the instant after its
/// newest floor. So a clock that was set back returns no unit, and whatever is charged comes after every floor.
#[must_use]
pub fn ledger_time(
    caller: Timestamp,
    newest_charge: Option<Timestamp>,
    newest_floor: Option<Timestamp>,
) -> Timestamp {
    let after_floor = newest_floor.map(|at| at + Duration::from_micros(1));
    caller
        .max(newest_charge.unwrap_or(caller))
        .max(after_floor.unwrap_or(caller))
}

/// Charges made later than this may count.
#[must_use]
pub fn kept_from(account: &Account, now: Timestamp) -> Timestamp {
    now - account.longest_window()
}

/// Charges made later than this are remembered under their ids (L11): while a limit of the account counts them by itself, or
/// for [`SHORTEST_MEMORY`](super::SHORTEST_MEMORY) where all that count them count in parts. Those that came without a decision
/// of this ledger (absorbed, or settled before they arrived) are remembered while they may count: they can come again at any
/// time.
#[must_use]
pub fn remembered_from(account: &Account, now: Timestamp) -> Timestamp {
    forgotten_by(account.of_each_window(), now)
}

/// The same for these limits.
#[must_use]
pub fn forgotten_by<'a>(limits: impl IntoIterator<Item = &'a Limit>, now: Timestamp) -> Timestamp {
    let last_forgotten = |limit: &Limit| match limit.window().parts() {
        None => limit.window().counted_from(now) - Duration::from_micros(1),
        Some(_) => now - limit.memory_of_parts(),
    };
    limits.into_iter().map(last_forgotten).min().unwrap_or(now)
}

/// What one request would charge.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Whose limits.
    pub account: &'a Account,
    /// The units of each limit.
    pub cost: &'a Cost,
    /// The units that must stay free beside them.
    pub leave: &'a Cost,
}

impl Claim<'_> {
    /// Decides on an id that the ledger does not remember. `caller` is the caller's own clock, from which its waiting
    /// counts.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn decide<H: History>(
        &self,
        limits: &[LimitState<'_, H>],
        caller: Timestamp,
    ) -> Result<Decision, H::Error> {
        // First: of a charge that even an empty limit cannot hold, nothing says when it fits.
        if let Some((limit, most)) = self.account.never_holds(self.cost, self.leave) {
            return Ok(Decision::Never { limit, most });
        }
        Ok(match self.fits_last(limits)? {
            Some((last, retry_at)) => Decision::Rejected(last.rejection(retry_at, caller)),
            None => Decision::Granted(self.grant(limits)),
        })
    }

    /// Decides on an id that the ledger remembers with a charge of `held`: it is granted again and counted once. An id
    /// that was settled to nothing names no charge any more.
    #[must_use]
    pub fn decide_repeated<H: History>(
        &self,
        limits: &[LimitState<'_, H>],
        held: Cost,
    ) -> Decision {
        // A charge that takes from no limit holds nothing either, and was never taken back.
        if held.is_none() && !limits.is_empty() {
            return Decision::TakenBack;
        }
        Decision::Granted(Grant {
            remaining: remaining(limits, |_| Units::ZERO),
            repeated: true,
            held: (held != self.account.taken(self.cost)).then_some(held),
            probing: std::collections::BTreeMap::new(),
        })
    }

    fn grant<H: History>(&self, limits: &[LimitState<'_, H>]) -> Grant {
        let probed = |limit: &LimitState<'_, H>| Some((limit.name.clone(), limit.probed_after()?));
        Grant {
            remaining: remaining(limits, |limit| self.cost.of(limit)),
            probing: limits.iter().filter_map(probed).collect(),
            ..Grant::default()
        }
    }

    /// The limit that fits last, the first by name of several, and when; `None` when all fit now.
    fn fits_last<'l, 'a, H: History>(
        &self,
        limits: &'l [LimitState<'a, H>],
    ) -> Result<Option<(&'l LimitState<'a, H>, Timestamp)>, H::Error> {
        let mut last = None;
        for limit in limits {
            let fits_at = limit.fits_at(self.cost.of(limit.name), self.leave.of(limit.name))?;
            // Not `>=`: of limits that fit at the same instant, every ledger and the scripts name the same one.
            if fits_at > last.map_or(limit.now, |(_, at)| at) {
                last = Some((limit, fits_at));
            }
        }
        Ok(last)
    }
}

fn remaining<H: History>(
    limits: &[LimitState<'_, H>],
    charged: impl Fn(&str) -> Units,
) -> std::collections::BTreeMap<LimitName, Units> {
    let left = |state: &LimitState<'_, H>| {
        let used = state.used() + charged(state.name);
        (
            state.name.clone(),
            state.limit.enforced().saturating_sub(used),
        )
    };
    limits.iter().map(left).collect()
}

/// One limit at an instant of its ledger's time.
#[derive(Debug)]
pub struct LimitState<'a, H> {
    /// Its name within the account.
    pub name: &'a LimitName,
    limit: &'a Limit,
    history: H,
    totals: Totals,
    floors: Vec<FloorTotal>,
    closing: Option<ClosingState>,
    now: Timestamp,
}

impl<'a, H: History> LimitState<'a, H> {
    /// Reads a limit at `now`, the ledger's time.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn read(
        name: &'a LimitName,
        limit: &'a Limit,
        history: H,
        now: Timestamp,
    ) -> Result<Self, H::Error> {
        let from = limit.window().counted_from(now);
        let (totals, floors) = (history.totals(from)?, history.floors(from)?);
        let closing = history.closing()?;
        Ok(Self {
            name,
            limit,
            history,
            totals,
            floors,
            closing,
            now,
        })
    }

    /// The running total of all charges, in units.
    pub const fn total(&self) -> Units {
        self.totals.all
    }

    /// The units that count now, floors included.
    pub fn used(&self) -> Units {
        let floors = self.floors.iter().map(|floor| self.used_over(floor));
        // The greatest and not the sum: each is a lower bound of what the same ledger held.
        floors.fold(self.counted(), Units::max)
    }

    /// The units that a charge without `leave` can still get; zero while the limit is closed.
    pub fn remaining(&self) -> Units {
        match self.closed_until() {
            Some(_) => Units::ZERO,
            None => self.limit.enforced().saturating_sub(self.used()),
        }
    }

    /// When the closing ends; `None` while the limit is open.
    pub fn closed_until(&self) -> Option<Timestamp> {
        let until = self.closing?.until;
        (until > self.now).then_some(until)
    }

    /// How long the last closing lasted, where a charge granted now is a probe; `None` where it is not.
    pub fn probed_after(&self) -> Option<Duration> {
        self.closing?.interval
    }

    /// The first instant, now or later, at which `units` fit beside `leave` if nothing else is charged. Together they are
    /// no more than the limit can hold.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn fits_at(&self, units: Units, leave: Units) -> Result<Timestamp, H::Error> {
        let falls_at = self.falls_to(self.limit.enforced().saturating_sub(units + leave))?;
        Ok(falls_at.max(self.closed_until().unwrap_or(falls_at)))
    }

    /// The first instant, now or later, at which no more than `most` units count if nothing is charged.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn falls_to(&self, most: Units) -> Result<Timestamp, H::Error> {
        let window = self.limit.window();
        let above = self
            .floors
            .iter()
            .filter(|floor| self.used_over(floor) > most);
        // A floor returns as a whole: nobody knows at which instants the lost ledger had charged its units.
        let floors_end = above
            .map(|floor| window.expiry(floor.at))
            .fold(self.now, Timestamp::max);
        if self.counted() <= most {
            return Ok(floors_end);
        }
        let excess = self.counted().saturating_sub(most);
        let from = window.counted_from(self.now);
        let last_to_expire = self.history.reached(self.totals.before + excess, from)?;
        Ok(floors_end.max(window.expiry(last_to_expire)))
    }

    /// The limit as a report shows it.
    ///
    /// # Errors
    /// When the history cannot be read.
    pub fn usage(&self) -> Result<LimitUsage, H::Error> {
        Ok(LimitUsage {
            limit: self.name.clone(),
            used: self.used(),
            remaining: self.remaining(),
            closed_until: self.closed_until(),
            since_reset: self.since_reset()?,
            returns: self.returns()?,
        })
    }

    fn since_reset(&self) -> Result<Option<Units>, H::Error> {
        let Some(reset) = self.limit.window().last_reset(self.now) else {
            return Ok(None);
        };
        let totals = self.history.totals(reset)?;
        Ok(Some(totals.all.saturating_sub(totals.before)))
    }

    fn returns(&self) -> Result<Vec<Return>, H::Error> {
        let mut used = self.used();
        let mut returns = Vec::new();
        for end in self.limit.window().slices(self.now) {
            let still_used = self.used_at(end)?;
            if still_used < used {
                returns.push(Return {
                    at: self.falls_to(still_used)?,
                    units: used.saturating_sub(still_used),
                });
            }
            used = still_used;
        }
        Ok(returns)
    }

    /// The units that will count at a later instant if nothing is charged.
    fn used_at(&self, later: Timestamp) -> Result<Units, H::Error> {
        let from = self.limit.window().counted_from(later);
        let totals = self.history.totals(from)?;
        let floors = self.floors.iter().filter(|floor| floor.at >= from);
        Ok(floors
            .map(|floor| self.used_over(floor))
            .fold(totals.all.saturating_sub(totals.before), Units::max))
    }

    fn counted(&self) -> Units {
        self.totals.all.saturating_sub(self.totals.before)
    }

    fn used_over(&self, floor: &FloorTotal) -> Units {
        floor.used + self.totals.all.saturating_sub(floor.total)
    }

    fn rejection(&self, retry_at: Timestamp, caller: Timestamp) -> Rejection {
        Rejection {
            limit: self.name.clone(),
            used: self.used(),
            remaining: self.remaining(),
            retry_after: retry_at.since(caller),
            retry_at,
            closed_until: self.closed_until(),
        }
    }
}

impl Closing {
    /// The closing that holds when this one comes on top of `existing` at `now`: the later end wins.
    #[must_use]
    pub fn over(self, existing: Option<ClosingState>, now: Timestamp) -> ClosingState {
        let closing = self.state(existing, now);
        match existing {
            Some(longer) if longer.until >= closing.until => longer,
            _ => closing,
        }
    }

    fn state(self, existing: Option<ClosingState>, now: Timestamp) -> ClosingState {
        let last = existing.and_then(|existing| existing.interval);
        let (until, interval) = match self {
            // A known reset ends the doubling: the next closing without one lasts as long as a first one.
            Self::Until(until) => (until, None),
            Self::Probing => {
                let interval = existing.map_or(Self::FIRST_INTERVAL, |state| state.next(now));
                (now + interval, Some(interval))
            }
            // The other store may have had fewer probes declined than this one.
            Self::Copied { until, interval } => (
                until,
                Some(last.map_or(interval, |last| last.max(interval))),
            ),
        };
        ClosingState { until, interval }
    }
}

/// A closing as another store holds it.
impl From<ClosingState> for Closing {
    fn from(ClosingState { until, interval }: ClosingState) -> Self {
        match interval {
            Some(interval) => Self::Copied { until, interval },
            None => Self::Until(until),
        }
    }
}

impl ClosingState {
    /// A closing as a file holds it: an earlier release stored no interval, which is then taken for an hour.
    #[must_use]
    pub fn stored(until: Timestamp, probing: bool, interval_micros: Option<i64>) -> Self {
        let interval = interval_micros
            .and_then(|micros| u64::try_from(micros).ok())
            .map_or(Closing::FIRST_INTERVAL, Duration::from_micros);
        Self {
            until,
            interval: probing.then_some(interval),
        }
    }

    /// The interval in microseconds, as a file holds it.
    #[must_use]
    pub fn interval_micros(self) -> Option<i64> {
        let interval = self.interval?.as_micros();
        Some(i64::try_from(interval).unwrap_or(i64::MAX))
    }

    /// What a granted probe leaves: closed for a minute, until the upstream has answered it.
    #[must_use]
    pub fn after_probe(interval: Duration, now: Timestamp) -> Self {
        Self {
            until: (now + Closing::PROBE_TAKES),
            interval: Some(interval),
        }
    }

    /// How long a closing without a known reset lasts that comes on top of this one. Twice as long as the last where a
    /// probe was declined. Where this one goes on for more than a probe takes, no probe was granted: the request was
    /// sent before the limit was closed, and its refusal is the same as the last.
    fn next(self, now: Timestamp) -> Duration {
        match self.interval {
            None => Closing::FIRST_INTERVAL,
            Some(last) if self.until > now + Closing::PROBE_TAKES => last,
            Some(last) => (last * 2).min(Closing::LONGEST_INTERVAL),
        }
    }
}
