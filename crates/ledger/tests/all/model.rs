//! What a ledger does, said as plainly as it can be: lists, walked from end to end. Slow, and easy to see right. Every
//! other ledger answers as this one does.
//!
//! What the trait leaves open is settled here:
//! - A ledger's time is the latest of the caller's `now`, the newest entry of the account, and a microsecond after its
//!   newest floor. So time never runs backwards, and whatever is charged comes after every floor. What is absorbed from
//!   the future counts from that time.
//! - An id is known while a limit of the account counts its charge by itself, or for `SHORTEST_MEMORY` where limits count in
//!   parts; where it was absorbed, settled before it arrived or released, for `Account::longest_window`. A charge repeats it while
//!   that holds for a limit that it holds units of. Later the id names a new charge.
//! - A known id is granted whatever else holds; only then comes `Never`, for the first limit by name.
//! - Of several limits that fit last at the same instant, the first by name is told.
//! - Of two closings the later holds. One without a known reset lasts an hour; twice as long as the last, up to a day,
//!   where it comes when that is over, or about to be (within the minute that a probe closes). Of two settlings of one id the later told holds,
//!   and none holds after a release.
//! - An entry older than `longest_window` is not absorbed: it can count nowhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ingest_ledger::{Charge, Ledger, LedgerError};
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Decision, Entry, Floor, Grant, Limit, LimitName, LimitUsage,
    Rejection, Return, SHORTEST_MEMORY, Timestamp, Units,
};

use super::Store;
use super::books::entry;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const MINUTE: Duration = Duration::from_secs(60);
const MICROSECOND: Duration = Duration::from_micros(1);

#[derive(Clone, Default)]
pub(crate) struct Model(Arc<Mutex<BTreeMap<String, Pages>>>);

impl Model {
    pub(crate) async fn open() -> Self {
        Self::default()
    }

    fn with<T>(
        &self,
        account: &Account,
        act: impl FnOnce(&mut Pages) -> T,
    ) -> Result<T, LedgerError> {
        Ok(act(self
            .0
            .lock()
            .unwrap()
            .entry(account.name.clone())
            .or_default()))
    }
}

impl Store for Model {
    fn ledger(&self) -> Arc<dyn Ledger> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl Ledger for Model {
    async fn charge(&self, charge: Charge<'_>, now: Timestamp) -> Result<Decision, LedgerError> {
        self.with(charge.account, |pages| {
            pages.charge(charge, pages.time(now), now)
        })
    }

    async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.with(account, |pages| {
            pages.settle(account, id, cost, pages.time(now))
        })
    }

    async fn absorb(
        &self,
        account: &Account,
        entries: &[Entry],
        floors: &[Floor],
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.with(account, |pages| {
            pages.absorb(account, entries, floors, pages.time(now))
        })
    }

    async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.with(account, |pages| {
            pages.close(limit, closing, pages.time(now))
        })
    }

    async fn reopen(
        &self,
        account: &Account,
        limit: &str,
        _now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.with(account, |pages| pages.closings.remove(limit))
            .map(|_| ())
    }

    async fn usage(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<LimitUsage>, LedgerError> {
        self.with(account, |pages| {
            let now = pages.time(now);
            account
                .limits
                .iter()
                .map(|(name, limit)| pages.usage(name, limit, now))
                .collect()
        })
    }
}

/// The books of one account.
#[derive(Default)]
struct Pages {
    entries: Vec<Entry>,
    /// The ids and times of the entries that came without a decision.
    lasting: Vec<(ChargeId, Timestamp)>,
    /// Those of the entries that were released.
    released: Vec<(ChargeId, Timestamp)>,
    floors: Vec<Floor>,
    closings: BTreeMap<LimitName, Closed>,
}

#[derive(Clone, Copy)]
struct Closed {
    until: Timestamp,
    /// How long the last closing lasted, where its reset is unknown.
    interval: Option<Duration>,
}

/// What one charge asks of one limit.
struct Asked<'a> {
    name: &'a LimitName,
    limit: &'a Limit,
    units: Units,
    leave: Units,
}

impl Pages {
    fn time(&self, now: Timestamp) -> Timestamp {
        let entries = self.entries.iter().map(|entry| entry.at);
        let floors = self.floors.iter().map(|floor| floor.at + MICROSECOND);
        entries.chain(floors).fold(now, Timestamp::max)
    }

    fn lasts(&self, entry: &Entry) -> bool {
        let named = (entry.id.clone(), entry.at);
        self.lasting.contains(&named) || self.released.contains(&named)
    }

    /// The newest known entry of an id.
    fn known(&self, account: &Account, id: &ChargeId, now: Timestamp) -> Option<usize> {
        let is_known = |entry: &Entry| match self.lasts(entry) {
            true => entry.at + account.longest_window() > now,
            false => {
                let mut limits = account.limits.values();
                limits.any(|limit| remembers(limit, entry, now))
            }
        };
        let known = (0..self.entries.len()).filter(|place| {
            let entry = &self.entries[*place];
            entry.id == *id && is_known(entry)
        });
        known.max_by_key(|place| self.entries[*place].at)
    }

    /// What the entry holds that a charge under an id repeats.
    fn repeated(&self, account: &Account, id: &ChargeId, now: Timestamp) -> Option<Cost> {
        let entry = &self.entries[self.known(account, id, now)?];
        let held = of_account(account, &entry.cost);
        let is_remembered = account
            .charged(&held)
            .any(|(_, limit)| remembers(limit, entry, now));
        (self.lasts(entry) || held.is_none() || is_remembered).then_some(held)
    }

    fn charge(&mut self, charge: Charge<'_>, now: Timestamp, callers: Timestamp) -> Decision {
        let asked: Vec<Asked<'_>> = charge
            .account
            .charged(charge.cost)
            .map(|(name, limit)| Asked {
                name,
                limit,
                units: charge.cost.of(name),
                leave: charge.leave.of(name),
            })
            .collect();
        if let Some(held) = self.repeated(charge.account, charge.id, now) {
            let wanted = of_account(charge.account, charge.cost);
            let grant = Grant {
                repeated: true,
                held: (held != wanted).then_some(held.clone()),
                ..self.grant(&asked, now)
            };
            return if held.is_none() && !asked.is_empty() {
                Decision::TakenBack
            } else {
                Decision::Granted(grant)
            };
        }
        if let Some(never) = asked
            .iter()
            .find(|asked| asked.units + asked.leave > asked.limit.enforced())
        {
            return Decision::Never {
                limit: never.name.clone(),
                most: never.limit.enforced().saturating_sub(never.leave),
            };
        }
        match self.fits_last(&asked, now) {
            Some((last, retry_at)) => {
                Decision::Rejected(self.rejection(last, retry_at, now, callers))
            }
            None => {
                let probing = self.probe(&asked, now);
                let cost = asked
                    .iter()
                    .map(|asked| (asked.name.clone(), asked.units))
                    .collect();
                self.entries.push(entry(charge.id, now, cost));
                Decision::Granted(Grant {
                    probing,
                    ..self.grant(&asked, now)
                })
            }
        }
    }

    fn grant(&self, asked: &[Asked<'_>], now: Timestamp) -> Grant {
        let left = |asked: &Asked<'_>| {
            asked
                .limit
                .enforced()
                .saturating_sub(self.used(asked.name, asked.limit, now))
        };
        Grant {
            remaining: asked
                .iter()
                .map(|asked| (asked.name.clone(), left(asked)))
                .collect(),
            ..Grant::default()
        }
    }

    fn rejection(
        &self,
        last: &Asked<'_>,
        retry_at: Timestamp,
        now: Timestamp,
        callers: Timestamp,
    ) -> Rejection {
        let usage = self.usage(last.name, last.limit, now);
        Rejection {
            limit: usage.limit,
            used: usage.used,
            remaining: usage.remaining,
            retry_after: retry_at.since(callers),
            retry_at,
            closed_until: usage.closed_until,
        }
    }

    /// The limit that fits last, unless all fit now.
    fn fits_last<'a, 'b>(
        &self,
        asked: &'a [Asked<'b>],
        now: Timestamp,
    ) -> Option<(&'a Asked<'b>, Timestamp)> {
        let fits = asked
            .iter()
            .map(|asked| (asked, self.fits_from(asked, now)));
        fits.rev()
            .max_by_key(|(_, fits_from)| *fits_from)
            .filter(|(_, fits_from)| *fits_from > now)
    }

    /// The first instant from `now` on at which the charge fits: things only change when something runs out.
    fn fits_from(&self, asked: &Asked<'_>, now: Timestamp) -> Timestamp {
        let window = asked.limit.window();
        let mut instants = vec![now];
        instants.extend(self.entries.iter().map(|entry| window.expiry(entry.at)));
        instants.extend(self.floors.iter().map(|floor| window.expiry(floor.at)));
        instants.extend(self.closings.get(asked.name).map(|closed| closed.until));
        first(instants, now, |instant| self.fits(asked, instant))
    }

    fn fits(&self, asked: &Asked<'_>, now: Timestamp) -> bool {
        let used = self.used(asked.name, asked.limit, now);
        self.closed_until(asked.name, now).is_none()
            && asked.limit.fits(used, asked.units, asked.leave)
    }

    fn used(&self, name: &str, limit: &Limit, now: Timestamp) -> Units {
        let counts = |at: Timestamp| limit.window().expiry(at) > now;
        let counted = self.sum(name, counts);
        let floors = self
            .floors
            .iter()
            .filter(|floor| floor.limit == name && counts(floor.at));
        floors
            .map(|floor| floor.used + self.sum(name, |at| at > floor.at))
            .fold(counted, Units::max)
    }

    fn sum(&self, name: &str, which: impl Fn(Timestamp) -> bool) -> Units {
        self.entries
            .iter()
            .filter(|entry| which(entry.at))
            .map(|entry| entry.cost.of(name))
            .sum()
    }

    fn closed_until(&self, name: &str, now: Timestamp) -> Option<Timestamp> {
        self.closings
            .get(name)
            .map(|closed| closed.until)
            .filter(|until| *until > now)
    }

    /// Closes again, for a minute, whatever this charge may try.
    fn probe(&mut self, asked: &[Asked<'_>], now: Timestamp) -> BTreeMap<LimitName, Duration> {
        let mut probing = BTreeMap::new();
        for asked in asked {
            if let Some(closed) = self.closings.get_mut(asked.name)
                && let Some(interval) = closed.interval
            {
                closed.until = now + MINUTE;
                probing.insert(asked.name.clone(), interval);
            }
        }
        probing
    }

    fn settle(&mut self, account: &Account, id: &ChargeId, cost: &Cost, now: Timestamp) {
        let place = self.known(account, id, now).unwrap_or_else(|| {
            self.lasting.push((id.clone(), now));
            self.entries.push(entry(id, now, cost.counted()));
            self.entries.len() - 1
        });
        let named = (id.clone(), self.entries[place].at);
        if !self.released.contains(&named) {
            self.entries[place].cost = cost.counted();
        }
        if cost.is_none() {
            self.released.push(named);
        }
    }

    fn absorb(&mut self, account: &Account, entries: &[Entry], floors: &[Floor], now: Timestamp) {
        for entry in entries {
            let forgotten = entry.at + account.longest_window() <= now;
            if !forgotten && self.known(account, &entry.id, now).is_none() {
                let at = entry.at.min(now);
                self.lasting.push((entry.id.clone(), at));
                if entry.cost.is_none() {
                    self.released.push((entry.id.clone(), at));
                }
                self.entries.push(Entry {
                    at,
                    cost: entry.cost.counted(),
                    ..entry.clone()
                });
            }
        }
        self.floors.extend(floors.iter().map(|floor| Floor {
            at: floor.at.min(now),
            ..floor.clone()
        }));
    }

    fn close(&mut self, limit: &str, closing: Closing, now: Timestamp) {
        let held = self.closings.get(limit);
        let last = held.and_then(|held| held.interval);
        let probed = held.is_some_and(|held| held.until <= now + MINUTE);
        let (until, interval) = match (closing, last) {
            (Closing::Until(until), _) => (until, None),
            (Closing::Probing, None) => (now + HOUR, Some(HOUR)),
            (Closing::Probing, Some(last)) => {
                let interval = if probed { DAY.min(2 * last) } else { last };
                (now + interval, Some(interval))
            }
            (Closing::Copied { until, interval }, last) => (until, last.max(Some(interval))),
        };
        let closed = Closed { until, interval };
        let held = self.closings.entry(limit.to_owned()).or_insert(closed);
        if closed.until > held.until {
            *held = closed;
        }
    }

    fn usage(&self, name: &LimitName, limit: &Limit, now: Timestamp) -> LimitUsage {
        let used = self.used(name, limit, now);
        let closed_until = self.closed_until(name, now);
        LimitUsage {
            limit: name.clone(),
            used,
            remaining: if closed_until.is_some() {
                Units::ZERO
            } else {
                limit.enforced().saturating_sub(used)
            },
            closed_until,
            since_reset: limit
                .window()
                .last_reset(now)
                .map(|reset| self.sum(name, |at| at >= reset)),
            returns: self.returns(name, limit, now),
        }
    }

    /// What counts now and no longer at the end of each slice, told at the first instant at which that is so.
    fn returns(&self, name: &str, limit: &Limit, now: Timestamp) -> Vec<Return> {
        let mut left = self.used(name, limit, now);
        let mut returns = Vec::new();
        for end in limit.window().slices(now) {
            let still = self.used(name, limit, end);
            if still < left {
                returns.push(Return {
                    at: self.falls_to(name, limit, still, now),
                    units: left.saturating_sub(still),
                });
            }
            left = still;
        }
        returns
    }

    fn falls_to(&self, name: &str, limit: &Limit, most: Units, now: Timestamp) -> Timestamp {
        let ended = |at: Timestamp| limit.window().expiry(at);
        let entries = self.entries.iter().map(|entry| ended(entry.at));
        let instants = entries
            .chain(self.floors.iter().map(|floor| ended(floor.at)))
            .collect();
        first(instants, now, |instant| {
            self.used(name, limit, instant) <= most
        })
    }
}

fn of_account(account: &Account, cost: &Cost) -> Cost {
    let charged = account.charged(cost);
    charged
        .map(|(name, _)| (name.clone(), cost.of(name)))
        .collect()
}

/// Whether a limit remembers the id of an entry that it counts.
fn remembers(limit: &Limit, entry: &Entry, now: Timestamp) -> bool {
    match limit.window().parts() {
        None => limit.window().expiry(entry.at) > now,
        Some(_) => entry.at + limit.span().min(SHORTEST_MEMORY) > now,
    }
}

/// The first instant from `now` on at which something holds that goes on holding while nobody charges.
fn first(
    mut instants: Vec<Timestamp>,
    now: Timestamp,
    holds: impl Fn(Timestamp) -> bool,
) -> Timestamp {
    instants.retain(|instant| *instant >= now);
    instants.sort();
    instants[instants.partition_point(|instant| !holds(*instant))]
}
