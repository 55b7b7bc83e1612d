//! A ledger in memory: what a simulation charges, and the plainest store that passes the ledger suite.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::{Charge, ChargeStatus, Ledger, LedgerError, LocalLedger, Spent};
use ingest_quota::admission::{
    Claim, ClosingState, FloorTotal, History, LimitState, Totals, kept_from, ledger_time,
    remembered_from,
};
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Decision, Entry, Floor, LimitName, LimitUsage, Origin,
    Timestamp, Units,
};

/// Added to the numbers of charges that are absorbed late. Larger than the number of charges at any instant, so they stay apart.
const LATE: u64 = 1 << 32;

/// Merging charges of which there are fewer ids is not worth its time.
const FEWEST_IDS: usize = 1_024;

/// A ledger that lives as long as its value.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    accounts: Mutex<HashMap<String, AccountHistory>>,
}

/// The charges of one account.
#[derive(Debug, Default)]
struct AccountHistory {
    /// How many charges were made at each instant.
    counts: BTreeMap<Timestamp, u64>,
    /// The newest charge of each id.
    ids: HashMap<ChargeId, KnownCharge>,
    limits: HashMap<LimitName, LimitHistory>,
    /// The number of ids at which charges whose ids are forgotten are merged next.
    merges_at: usize,
    /// Charges made before are merged; `None` before the first merge.
    merged_until: Option<Timestamp>,
    /// The number of charges that were absorbed for that time.
    late: u64,
}

/// The charge of an id.
#[derive(Debug, Clone, Copy)]
struct KnownCharge {
    position: Position,
    origin: Origin,
    /// Whether the id is remembered while the charge may count, since it can come again: it was absorbed, or settled
    /// before it arrived.
    lasting: bool,
}

/// The place of a charge in the order of its account: its time, and its number among the charges of that instant.
type Position = (Timestamp, u64);

/// The charges of one limit in order, each with the running total up to and with it.
#[derive(Debug, Default)]
struct LimitHistory {
    charges: Vec<Charged>,
    floors: Vec<Floor>,
    closing: Option<ClosingState>,
}

#[derive(Debug, Clone, Copy)]
struct Charged {
    position: Position,
    units: Units,
    total: Units,
    /// How many charges it stands for.
    charges: u64,
}

impl MemoryLedger {
    /// Records units that were charged before this ledger began, oldest first and without ids.
    pub fn preload(&self, account: &str, limit: &str, charges: &[(Timestamp, Units)]) {
        let mut accounts = self.accounts.lock();
        let history = accounts.entry(account.to_owned()).or_default();
        // The newest charge is the ledger's time (L4).
        if let Some((newest, _)) = charges.last() {
            history.counts.entry(*newest).or_default();
        }
        let limit = history.limit(limit);
        for (at, units) in charges {
            let total = limit.total_before(limit.charges.len()) + *units;
            limit.charges.push(Charged {
                position: (*at, 0),
                units: *units,
                total,
                charges: 1,
            });
        }
    }

    /// Closes a limit, as it was closed before this ledger began.
    pub fn preload_closing(&self, account: &str, limit: &str, until: Timestamp) {
        let mut accounts = self.accounts.lock();
        let history = accounts.entry(account.to_owned()).or_default();
        history.limit(limit).closing = Some(ClosingState {
            until,
            interval: None,
        });
    }

    /// The units of each limit of an account that count at `now`.
    pub fn used(&self, account: &Account, now: Timestamp) -> Vec<(LimitName, Units)> {
        self.at(account, now, |history, now| {
            let states = history.all_states(account, now);
            let used = |state: &LimitState<'_, _>| (state.name.clone(), state.used());
            states.iter().map(used).collect()
        })
    }

    /// Works on the history of an account at the ledger's time.
    fn at<T>(
        &self,
        account: &Account,
        caller: Timestamp,
        work: impl FnOnce(&mut AccountHistory, Timestamp) -> T,
    ) -> T {
        let mut accounts = self.accounts.lock();
        let history = accounts.entry(account.name.clone()).or_default();
        let now = history.time(caller);
        work(history, now)
    }
}

impl AccountHistory {
    fn time(&self, caller: Timestamp) -> Timestamp {
        let newest_charge = self.counts.keys().next_back().copied();
        let floors = self.limits.values().flat_map(|limit| &limit.floors);
        ledger_time(caller, newest_charge, floors.map(|floor| floor.at).max())
    }

    fn limit(&mut self, name: &str) -> &mut LimitHistory {
        self.limits.entry(name.to_owned()).or_default()
    }

    /// Takes the position behind all charges made at `at`.
    fn next_position(&mut self, at: Timestamp) -> Position {
        if self.merged_until.is_some_and(|until| at < until) {
            // Charges of that time are no longer counted by instant.
            self.late += 1;
            return (at, LATE + self.late);
        }
        let count = self.counts.entry(at).or_default();
        *count += 1;
        (at, *count)
    }

    fn remembered(&self, account: &Account, id: &ChargeId, now: Timestamp) -> Option<Position> {
        let known = *self.ids.get(id)?;
        let from = match known.lasting {
            true => kept_from(account, now),
            false => remembered_from(account, now),
        };
        (known.position.0 > from).then_some(known.position)
    }

    fn held(&self, account: &Account, position: Position) -> Cost {
        let held = |name: &LimitName| {
            let units = self.limits.get(name)?.units_of(position)?;
            Some((name.clone(), units))
        };
        account.limits.keys().filter_map(held).collect()
    }

    fn states<'a>(
        &'a self,
        account: &'a Account,
        cost: &'a Cost,
        now: Timestamp,
    ) -> Vec<LimitState<'a, &'a LimitHistory>> {
        let state = |(name, limit)| {
            let Ok(state) = LimitState::read(name, limit, self.history(name), now);
            state
        };
        account.charged(cost).map(state).collect()
    }

    fn all_states<'a>(
        &'a self,
        account: &'a Account,
        now: Timestamp,
    ) -> Vec<LimitState<'a, &'a LimitHistory>> {
        let state = |(name, limit)| {
            let Ok(state) = LimitState::read(name, limit, self.history(name), now);
            state
        };
        account.limits.iter().map(state).collect()
    }

    fn history(&self, limit: &str) -> &LimitHistory {
        static EMPTY: LimitHistory = LimitHistory::EMPTY;
        self.limits.get(limit).unwrap_or(&EMPTY)
    }

    fn charge(&mut self, charge: Charge<'_>, now: Timestamp, caller: Timestamp) -> Decision {
        let claim = Claim {
            account: charge.account,
            cost: charge.cost,
            leave: charge.leave,
        };
        let limits = self.states(charge.account, charge.cost, now);
        if let Some(position) = self.remembered(charge.account, charge.id, now) {
            return claim.decide_repeated(&limits, self.held(charge.account, position));
        }
        let Ok(decision) = claim.decide(&limits, caller);
        if let Decision::Granted(grant) = &decision {
            for (limit, interval) in &grant.probing {
                self.limit(limit).closing = Some(ClosingState::after_probe(*interval, now));
            }
            let position = self.place(charge.id, now, Origin::Charged, false);
            self.record(charge.account, position, charge.cost);
            self.merge(charge.account, now);
        }
        decision
    }

    fn status(&self, account: &Account, id: &ChargeId, now: Timestamp) -> ChargeStatus {
        match self.remembered(account, id, now) {
            None => ChargeStatus::Unknown,
            Some(position) if self.held(account, position).is_none() => ChargeStatus::TakenBack,
            Some(_) => ChargeStatus::Counts,
        }
    }

    /// Takes a position for a charge of an id.
    fn place(&mut self, id: &ChargeId, at: Timestamp, origin: Origin, lasting: bool) -> Position {
        let position = self.next_position(at);
        let known = KnownCharge {
            position,
            origin,
            lasting,
        };
        self.ids.insert(id.clone(), known);
        position
    }

    fn record(&mut self, account: &Account, position: Position, cost: &Cost) {
        for (name, _) in account.charged(cost) {
            self.limit(name).charge(position, cost.of(name));
        }
    }

    /// Merges the charges whose ids are forgotten, where the account forgets ids of charges that count. Once for each
    /// doubling of the ids, so that a charge costs the same however many there are.
    fn merge(&mut self, account: &Account, now: Timestamp) {
        if !account.forgets_ids() || self.ids.len() < self.merges_at {
            return;
        }
        let (forgotten, kept) = (remembered_from(account, now), kept_from(account, now));
        self.ids
            .retain(|_, known| known.position.0 > if known.lasting { kept } else { forgotten });
        let lasting = self.ids.values().filter(|known| known.lasting);
        let lasting: BTreeSet<Position> = lasting.map(|known| known.position).collect();
        for limit in self.limits.values_mut() {
            limit.merge(|earlier, later| {
                later.0 <= forgotten
                    && !lasting.contains(&earlier)
                    && !lasting.contains(&later)
                    && account.merges(earlier.0, later.0, now)
            });
        }
        self.counts = self.counts.split_off(&forgotten);
        self.merged_until = Some(forgotten);
        self.merges_at = 2 * self.ids.len() + FEWEST_IDS;
    }

    fn settle(&mut self, account: &Account, id: &ChargeId, cost: &Cost, now: Timestamp) {
        let position = self
            .remembered(account, id, now)
            // A true cost can arrive before its charge, which must not count beside it then.
            .unwrap_or_else(|| self.place(id, now, Origin::CarriedOver, true));
        for name in account.limits.keys() {
            let charged = self
                .limits
                .get(name)
                .and_then(|limit| limit.units_of(position));
            if charged.unwrap_or_default() != cost.of(name).counted() {
                self.limit(name).charge(position, cost.of(name));
            }
        }
    }

    fn absorb(&mut self, account: &Account, entry: &Entry, now: Timestamp) {
        // The newest charge is the ledger's time: one from a clock that is ahead would carry it along.
        let at = entry.at.min(now);
        let counts = at > kept_from(account, now);
        if counts && self.remembered(account, &entry.id, now).is_none() {
            let position = self.place(&entry.id, at, entry.origin, true);
            self.record(account, position, &entry.cost);
        }
    }
}

impl LimitHistory {
    const EMPTY: Self = Self {
        charges: Vec::new(),
        floors: Vec::new(),
        closing: None,
    };

    fn units_of(&self, position: Position) -> Option<Units> {
        let index = self.index_of(position).ok()?;
        self.charges.get(index).map(|charged| charged.units)
    }

    fn index_of(&self, position: Position) -> Result<usize, usize> {
        self.charges
            .binary_search_by_key(&position, |charged| charged.position)
    }

    /// Sets the units of the charge at a position, and the totals behind it.
    fn charge(&mut self, position: Position, units: Units) {
        let units = units.counted();
        let charged = Charged {
            position,
            units,
            total: Units::ZERO,
            charges: 1,
        };
        let first = self.index_of(position).unwrap_or_else(|first| {
            self.charges.insert(first, charged);
            first
        });
        if let Some(existing) = self.charges.get_mut(first) {
            *existing = charged;
        }
        let mut total = self.total_before(first);
        for charged in self.charges.iter_mut().skip(first) {
            total += charged.units;
            charged.total = total;
        }
    }

    /// Records neighbours as one charge, at the later position, where `merges` permits it and no floor divides them.
    fn merge(&mut self, merges: impl Fn(Position, Position) -> bool) {
        let floors = &self.floors;
        self.charges.dedup_by(|later, earlier| {
            let (from, to) = (earlier.position, later.position);
            let divided = floors
                .iter()
                .any(|floor| from.0 <= floor.at && floor.at < to.0);
            let merged = !divided && merges(from, to);
            if merged {
                *earlier = Charged {
                    units: earlier.units + later.units,
                    charges: earlier.charges + later.charges,
                    ..*later
                };
            }
            merged
        });
    }

    /// Returns the charges since `from`, oldest first.
    fn spent<'a>(
        &'a self,
        name: &'a LimitName,
        from: Timestamp,
    ) -> impl Iterator<Item = Spent> + 'a {
        let charges = self
            .charges
            .iter()
            .filter(move |charged| charged.position.0 >= from && charged.units > Units::ZERO);
        charges.map(|charged| Spent {
            at: charged.position.0,
            limit: name.clone(),
            units: charged.units,
            charges: charged.charges,
            purpose: Arc::default(),
            origin: Origin::default(),
        })
    }

    /// The running total of the charges before an index, in units.
    fn total_before(&self, index: usize) -> Units {
        let last = index.checked_sub(1).and_then(|last| self.charges.get(last));
        last.map_or(Units::ZERO, |charged| charged.total)
    }
}

impl History for &LimitHistory {
    type Error = Infallible;

    fn totals(&self, from: Timestamp) -> Result<Totals, Infallible> {
        let before = self
            .charges
            .partition_point(|charged| charged.position.0 < from);
        Ok(Totals {
            all: self.total_before(self.charges.len()),
            before: self.total_before(before),
        })
    }

    fn reached(&self, total: Units, _: Timestamp) -> Result<Timestamp, Infallible> {
        let first = self
            .charges
            .partition_point(|charged| charged.total < total);
        let charged = self.charges.get(first).or(self.charges.last());
        Ok(charged.map_or(Timestamp::from_micros(0), |charged| charged.position.0))
    }

    fn floors(&self, from: Timestamp) -> Result<Vec<FloorTotal>, Infallible> {
        let floors = self.floors.iter().filter(|floor| floor.at >= from);
        let with_total = |floor: &Floor| {
            let charged = self
                .charges
                .partition_point(|charged| charged.position.0 <= floor.at);
            FloorTotal {
                at: floor.at,
                used: floor.used,
                total: self.total_before(charged),
            }
        };
        Ok(floors.map(with_total).collect())
    }

    fn closing(&self) -> Result<Option<ClosingState>, Infallible> {
        Ok(self.closing)
    }
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn charge(&self, charge: Charge<'_>, now: Timestamp) -> Result<Decision, LedgerError> {
        Ok(self.at(charge.account, now, |history, time| {
            history.charge(charge, time, now)
        }))
    }

    async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.at(account, now, |history, now| {
            history.settle(account, id, cost, now);
        });
        Ok(())
    }

    async fn absorb(
        &self,
        account: &Account,
        entries: &[Entry],
        floors: &[Floor],
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.at(account, now, |history, now| {
            for entry in entries {
                history.absorb(account, entry, now);
            }
            for floor in floors {
                let at = floor.at.min(now);
                history.limit(&floor.limit).floors.push(Floor {
                    at,
                    ..floor.clone()
                });
            }
        });
        Ok(())
    }

    async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.at(account, now, |history, now| {
            let limit = history.limit(limit);
            limit.closing = Some(closing.over(limit.closing, now));
        });
        Ok(())
    }

    async fn reopen(
        &self,
        account: &Account,
        limit: &str,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        self.at(account, now, |history, _| {
            history.limit(limit).closing = None
        });
        Ok(())
    }

    async fn usage(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<LimitUsage>, LedgerError> {
        Ok(self.at(account, now, |history, now| {
            let states = history.all_states(account, now);
            let usage = |state: &LimitState<'_, _>| {
                let Ok(usage) = state.usage();
                usage
            };
            states.iter().map(usage).collect()
        }))
    }
}

#[async_trait]
impl LocalLedger for MemoryLedger {
    async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, LedgerError> {
        Ok(self.at(account, now, |history, now| {
            let (name, limit) = account.limits.get_key_value(limit)?;
            let Ok(state) = LimitState::read(name, limit, history.history(name), now);
            let Ok(at) = state.falls_to(most);
            Some(at)
        }))
    }

    /// The purposes of charges are not kept.
    async fn spent(&self, account: &Account, from: Timestamp) -> Result<Vec<Spent>, LedgerError> {
        let accounts = self.accounts.lock();
        let Some(history) = accounts.get(&account.name) else {
            return Ok(Vec::new());
        };
        let limits = account
            .limits
            .keys()
            .map(|name| (name, history.history(name)));
        let spent = limits.flat_map(|(name, limit)| limit.spent(name, from));
        let mut spent: Vec<Spent> = spent.collect();
        spent.sort_by_key(|spent| spent.at);
        Ok(spent)
    }

    async fn is_empty(&self) -> Result<bool, LedgerError> {
        let is_empty = |history: &AccountHistory| history.counts.is_empty();
        Ok(self.accounts.lock().values().all(is_empty))
    }

    async fn entries(&self, account: &Account, now: Timestamp) -> Result<Vec<Entry>, LedgerError> {
        Ok(self.at(account, now, |history, now| {
            let from = kept_from(account, now);
            let kept = history.ids.iter();
            let kept = kept.filter(|(_, known)| known.position.0 > from);
            let entries = kept.filter_map(|(id, known)| {
                let cost = history.held(account, known.position);
                let (id, at) = (id.clone(), known.position.0);
                (!cost.is_none()).then_some(Entry {
                    origin: known.origin,
                    id,
                    at,
                    cost,
                })
            });
            entries.collect()
        }))
    }

    async fn newest_charge(&self, account: &Account) -> Result<Option<Timestamp>, LedgerError> {
        let accounts = self.accounts.lock();
        let newest = |history: &AccountHistory| history.counts.keys().next_back().copied();
        Ok(accounts.get(&account.name).and_then(newest))
    }

    async fn restored_from(&self) -> Result<Option<Timestamp>, LedgerError> {
        Ok(None)
    }

    async fn correct(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
        now: Timestamp,
    ) -> Result<ChargeStatus, LedgerError> {
        Ok(self.at(account, now, |history, now| {
            let status = history.status(account, id, now);
            if status == ChargeStatus::Counts {
                history.settle(account, id, cost, now);
            }
            status
        }))
    }

    async fn look_up(
        &self,
        account: &Account,
        id: &ChargeId,
        now: Timestamp,
    ) -> Result<ChargeStatus, LedgerError> {
        Ok(self.at(account, now, |history, now| {
            history.status(account, id, now)
        }))
    }
}
