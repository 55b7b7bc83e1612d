//! The statements of the ledger, for one account.

use std::collections::{BTreeSet, HashSet};

use rusqlite::{Connection, Error, OptionalExtension, Params, Result, Row};

use super::super::Purpose;
use ingest_quota::admission::{
    ClosingState, FloorTotal, History, Totals, kept_from, remembered_from,
};
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Entry, Floor, LimitName, Origin, Timestamp, Units,
};

/// The place of a charge in the order of its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    pub at: Timestamp,
    pub n: i64,
}

/// How far an account is merged.
#[derive(Debug, Clone, Copy)]
pub struct MergeProgress {
    /// The first charge that later ones may be merged with.
    pub from: Timestamp,
    /// When to merge next.
    pub due: Timestamp,
}

/// The charge of an id.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    pub place: LogPosition,
    /// Whether it was absorbed, settled before it arrived, or released: its id is remembered while it may count.
    pub is_lasting: bool,
    pub is_released: bool,
}

/// The newest charge and floor of an account, and whether it has closings: read once for all limits of a charge.
#[derive(Debug, Clone, Copy)]
pub struct Newest {
    pub charge: Option<LogPosition>,
    /// The time of the newest floor.
    pub floor: Option<Timestamp>,
    /// Whether a limit may have a closing, over or not.
    pub has_closings: bool,
}

/// The rows of one account: each method is one statement, prepared once for the life of the connection.
#[derive(Clone, Copy)]
pub struct Rows<'c> {
    connection: &'c Connection,
    account: &'c str,
}

impl<'c> Rows<'c> {
    pub fn new(connection: &'c Connection, account: &'c str) -> Self {
        Self {
            connection,
            account,
        }
    }

    /// What the account's time follows from.
    pub fn newest(&self) -> Result<Newest> {
        let sql = "SELECT at, n, (SELECT max(at) FROM floor WHERE account = ?1),
                       EXISTS (SELECT 1 FROM closing WHERE account = ?1)
                   FROM charge WHERE account = ?1 ORDER BY at DESC, n DESC LIMIT 1";
        let newest = self.find(sql, (self.account,), |row| {
            Ok(Newest {
                charge: Some(place(row)?),
                floor: row.get::<_, Option<i64>>(2)?.map(Timestamp::from_micros),
                has_closings: row.get(3)?,
            })
        })?;
        newest.map_or_else(|| self.newest_of_uncharged(), Ok)
    }

    fn newest_of_uncharged(&self) -> Result<Newest> {
        let sql = "SELECT max(at) FROM floor WHERE account = ?1";
        let floor = self.one(sql, (self.account,), |row| row.get::<_, Option<i64>>(0))?;
        Ok(Newest {
            charge: None,
            floor: floor.map(Timestamp::from_micros),
            // Not looked up: `true` costs a statement for each limit, and is never wrong.
            has_closings: true,
        })
    }

    /// Returns the newest charge under `id` that is remembered. One without a call was absorbed, or settled before it
    /// arrived; one that stands for no charge was released: they are remembered while they may count. The statement names its index: SQLite would rather go through all charges of
    /// the account, newest first.
    pub fn known(&self, account: &Account, id: &ChargeId, now: Timestamp) -> Result<Option<Known>> {
        let sql = "SELECT at, n, call IS NULL OR charges = 0, charges = 0 FROM charge INDEXED BY charge_by_id
                   WHERE account = ?1 AND id = ?2 AND at > iif(call IS NULL OR charges = 0, ?4, ?3)
                   ORDER BY at DESC, n DESC LIMIT 1";
        let (remembered, kept) = (remembered_from(account, now), kept_from(account, now));
        let params = (
            self.account,
            id.as_str(),
            remembered.micros(),
            kept.micros(),
        );
        self.find(sql, params, |row| {
            Ok(Known {
                place: place(row)?,
                is_lasting: row.get(2)?,
                is_released: row.get(3)?,
            })
        })
    }

    /// Records that a charge was released: its row stands for none.
    pub fn release(&self, place: LogPosition) -> Result<()> {
        let sql = "UPDATE charge SET charges = 0 WHERE account = ?1 AND at = ?2 AND n = ?3";
        self.execute(sql, (self.account, place.at.micros(), place.n))
    }

    /// The place behind all charges made at `at`.
    pub fn place_at(&self, at: Timestamp) -> Result<LogPosition> {
        let sql = "SELECT coalesce(max(n) + 1, 0) FROM charge WHERE account = ?1 AND at = ?2";
        self.one(sql, (self.account, at.micros()), |row| {
            Ok(LogPosition { at, n: row.get(0)? })
        })
    }

    pub fn add_charge(
        &self,
        place: LogPosition,
        id: &ChargeId,
        (origin, purpose): (Origin, Option<&Purpose>),
    ) -> Result<()> {
        let sql = "INSERT INTO charge (account, at, n, id, job, region, call, origin)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let job = purpose.and_then(|purpose| purpose.job.as_deref());
        let region = purpose.and_then(|purpose| purpose.region.as_deref());
        let call = purpose.map(|purpose| purpose.call.as_str());
        self.execute(
            sql,
            (
                self.account,
                place.at.micros(),
                place.n,
                id.as_str(),
                job,
                region,
                call,
                origin.as_str(),
            ),
        )
    }

    /// Returns the units that a charge took of a limit; `None` when it did not name the limit.
    pub fn taken(&self, limit: &str, place: LogPosition) -> Result<Option<Units>> {
        let sql =
            "SELECT units FROM taken WHERE account = ?1 AND limit_name = ?2 AND at = ?3 AND n = ?4";
        self.find(
            sql,
            (self.account, limit, place.at.micros(), place.n),
            |row| units(row, 0),
        )
    }

    /// Returns what a charge took of the limits of an account; nothing when it was settled to nothing.
    pub fn held(&self, account: &Account, place: LogPosition) -> Result<Cost> {
        let mut held = Cost::none();
        for limit in self.limits_of(account, place)? {
            held.set(limit, self.taken(limit, place)?.unwrap_or(Units::ZERO));
        }
        Ok(held)
    }

    /// Returns the limits of an account that a charge can have taken from: of limits of values, which can be thousands, those
    /// that it took from.
    pub fn limits_of<'a>(
        &self,
        account: &'a Account,
        place: LogPosition,
    ) -> Result<BTreeSet<&'a LimitName>> {
        let sql = "SELECT limit_name FROM taken
                   WHERE account = ?1 AND at = ?2 AND n = ?3 AND instr(limit_name, '/') > 0";
        let mut statement = self.connection.prepare_cached(sql)?;
        let params = (self.account, place.at.micros(), place.n);
        let of_values = statement.query_map(params, |row| row.get::<_, LimitName>(0))?;
        let of_values = of_values.collect::<Result<Vec<_>>>()?;
        let of_values = of_values
            .iter()
            .filter_map(|name| account.limits.get_key_value(name))
            .map(|(name, _)| name);
        let others = account.limits.keys().filter(|name| !name.contains('/'));
        Ok(others.chain(of_values).collect())
    }

    /// Records what a charge took of a limit.
    pub fn take(&self, limit: &str, place: LogPosition, units: Units, total: i64) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO taken (account, limit_name, at, n, units, total)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        self.execute(
            sql,
            (
                self.account,
                limit,
                place.at.micros(),
                place.n,
                signed(units.counted())?,
                total,
            ),
        )
    }

    /// Adds what a charge took of a limit to what another did.
    pub fn move_taken(&self, limit: &str, from: LogPosition, to: LogPosition) -> Result<()> {
        let Some(units) = self.taken(limit, from)? else {
            return Ok(());
        };
        let all = self.taken(limit, to)?.unwrap_or_default() + units;
        self.take(limit, to, all, 0)?;
        let sql = "DELETE FROM taken WHERE account = ?1 AND limit_name = ?2 AND at = ?3 AND n = ?4";
        self.execute(sql, (self.account, limit, from.at.micros(), from.n))
    }

    /// Lets the row of a charge stand for another too, whose row is deleted.
    pub fn merge_charge(&self, from: LogPosition, to: LogPosition) -> Result<()> {
        let sql = "UPDATE charge SET charges = charges + (
                       SELECT charges FROM charge WHERE account = ?1 AND at = ?2 AND n = ?3)
                   WHERE account = ?1 AND at = ?4 AND n = ?5";
        let (at, last) = (from.at.micros(), to.at.micros());
        self.execute(sql, (self.account, at, from.n, last, to.n))?;
        let sql = "DELETE FROM charge WHERE account = ?1 AND at = ?2 AND n = ?3";
        self.execute(sql, (self.account, at, from.n))
    }

    /// How far the account is merged; `None` before the first time.
    pub fn merge_progress(&self) -> Result<Option<MergeProgress>> {
        let sql = "SELECT merged_from, due FROM merged WHERE account = ?1";
        self.find(sql, (self.account,), |row| {
            Ok(MergeProgress {
                from: instant(row, 0)?,
                due: instant(row, 1)?,
            })
        })
    }

    pub fn set_merge_progress(&self, progress: MergeProgress) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO merged (account, merged_from, due) VALUES (?1, ?2, ?3)";
        let (from, due) = (progress.from.micros(), progress.due.micros());
        self.execute(sql, (self.account, from, due))
    }

    /// Returns the first charges from `from` to `until` that a decision of this ledger recorded, in order.
    pub fn merging<T>(
        &self,
        from: Timestamp,
        until: Timestamp,
        most: usize,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<(LogPosition, T)>> {
        let sql = "SELECT at, n, job, region, call FROM charge
                   WHERE account = ?1 AND at >= ?2 AND at <= ?3 AND call IS NOT NULL AND charges > 0
                   ORDER BY at, n LIMIT ?4";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.places(
            sql,
            (self.account, from.micros(), until.micros(), most),
            read,
        )
    }

    /// The times of the floors from `from` on, of any limit.
    pub fn floors_since(&self, from: Timestamp) -> Result<Vec<Timestamp>> {
        let sql = "SELECT at FROM floor WHERE account = ?1 AND at >= ?2";
        let mut statement = self.connection.prepare_cached(sql)?;
        let floors = statement.query_map((self.account, from.micros()), |row| instant(row, 0))?;
        floors.collect()
    }

    /// Sums a limit's running total up again, from `at` to `until`. Costs as much as there are rows between them.
    pub fn total_again(&self, limit: &str, at: Timestamp, until: Timestamp) -> Result<()> {
        let sql = "UPDATE taken SET total = again.total FROM (
                SELECT at, n, sum(units) OVER (ORDER BY at, n ROWS UNBOUNDED PRECEDING) + coalesce((
                    SELECT total FROM taken WHERE account = ?1 AND limit_name = ?2 AND at < ?3
                    ORDER BY at DESC, n DESC LIMIT 1), 0) AS total
                FROM taken WHERE account = ?1 AND limit_name = ?2 AND at >= ?3 AND at <= ?4
            ) AS again
            WHERE taken.account = ?1 AND taken.limit_name = ?2 AND taken.at = again.at AND taken.n = again.n";
        self.execute(sql, (self.account, limit, at.micros(), until.micros()))
    }

    pub fn close(&self, limit: &str, closing: ClosingState) -> Result<()> {
        let sql =
            "INSERT OR REPLACE INTO closing (account, limit_name, until, probing, probe_interval)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let (until, interval) = (closing.until.micros(), closing.interval_micros());
        self.execute(
            sql,
            (self.account, limit, until, interval.is_some(), interval),
        )
    }

    /// Returns the closings that hold at `now`, or whose end is found out by a probe.
    pub fn closings(&self, now: Timestamp) -> Result<Vec<(LimitName, Closing)>> {
        let sql = "SELECT until, probing, probe_interval, limit_name FROM closing
                   WHERE account = ?1 AND (until > ?2 OR probing)";
        let mut statement = self.connection.prepare_cached(sql)?;
        let closings = statement.query_map((self.account, now.micros()), |row| {
            Ok((row.get(3)?, closing(row)?.into()))
        })?;
        closings.collect()
    }

    pub fn reopen(&self, limit: &str) -> Result<()> {
        self.execute(
            "DELETE FROM closing WHERE account = ?1 AND limit_name = ?2",
            (self.account, limit),
        )
    }

    pub fn add_floor(&self, floor: &Floor) -> Result<()> {
        let sql = "INSERT INTO floor (account, limit_name, at, used) VALUES (?1, ?2, ?3, ?4)
                   ON CONFLICT DO UPDATE SET used = max(used, excluded.used)";
        self.execute(
            sql,
            (
                self.account,
                &floor.limit,
                floor.at.micros(),
                signed(floor.used)?,
            ),
        )
    }

    /// Returns what each charge since `from` took of a limit, in order, without those that took nothing.
    pub fn taken_from(&self, limit: &str, from: Timestamp) -> Result<Vec<(LogPosition, Units)>> {
        let sql = "SELECT at, n, units FROM taken
                   WHERE account = ?1 AND limit_name = ?2 AND at >= ?3 AND units > 0 ORDER BY at, n";
        let mut statement = self.connection.prepare_cached(sql)?;
        let taken = statement.query_map((self.account, limit, from.micros()), |row| {
            Ok((place(row)?, units(row, 2)?))
        })?;
        taken.collect()
    }

    /// Returns the charges since `from`, in order, with what `read` makes of the columns from 2 on: job, region, call, the number
    /// of charges, and the origin.
    pub fn charged<T>(
        &self,
        from: Timestamp,
        read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<(LogPosition, T)>> {
        let sql = "SELECT at, n, job, region, call, charges, origin FROM charge
                   WHERE account = ?1 AND at >= ?2 ORDER BY at, n";
        self.places(sql, (self.account, from.micros()), read)
    }

    fn places<T>(
        &self,
        sql: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T>,
    ) -> Result<Vec<(LogPosition, T)>> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let charged = statement.query_map(params, |row| Ok((place(row)?, read(row)?)))?;
        charged.collect()
    }

    /// Returns the charges later than `after` that took anything, in order.
    pub fn entries(&self, after: Timestamp) -> Result<Vec<Entry>> {
        // In this direction: no index finds what a charge took without the names of the limits.
        let sql = "SELECT charge.at, charge.id, taken.limit_name, taken.units, charge.origin FROM taken
                   CROSS JOIN charge ON charge.account = taken.account AND charge.at = taken.at AND charge.n = taken.n
                   WHERE taken.account = ?1 AND taken.at > ?2 AND taken.units > 0 ORDER BY charge.at, charge.n";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut taken = statement.query((self.account, after.micros()))?;
        let mut entries: Vec<Entry> = Vec::new();
        while let Some(row) = taken.next()? {
            let (at, id) = (
                Timestamp::from_micros(row.get(0)?),
                ChargeId::new(row.get::<_, String>(1)?),
            );
            let took = Cost::from_iter([(row.get(2)?, units(row, 3)?)]);
            match entries
                .last_mut()
                .filter(|last| (last.at, &last.id) == (at, &id))
            {
                Some(last) => last.cost.add(&took),
                None => entries.push(Entry {
                    origin: origin(row, 4)?,
                    id,
                    at,
                    cost: took,
                }),
            }
        }
        // Of several charges under one id, the last has the name: the others are of a time that is over (L11).
        let mut names = HashSet::new();
        for entry in entries.iter_mut().rev() {
            if !names.insert(entry.id.clone()) {
                entry.id = ChargeId::own(format_args!("{} {}", entry.id, entry.at));
            }
        }
        Ok(entries)
    }

    /// The history of one limit.
    pub const fn limit(self, limit: &'c str, newest: Newest) -> LimitRows<'c> {
        LimitRows {
            rows: self,
            limit,
            newest,
        }
    }

    fn find<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.connection
            .prepare_cached(sql)?
            .query_row(params, read)
            .optional()
    }

    fn one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T>,
    ) -> Result<T> {
        self.connection.prepare_cached(sql)?.query_row(params, read)
    }

    fn execute(&self, sql: &str, params: impl Params) -> Result<()> {
        self.connection
            .prepare_cached(sql)?
            .execute(params)
            .map(drop)
    }
}

#[derive(Clone, Copy)]
pub struct LimitRows<'c> {
    rows: Rows<'c>,
    limit: &'c str,
    newest: Newest,
}

impl History for LimitRows<'_> {
    type Error = Error;

    fn totals(&self, from: Timestamp) -> Result<Totals> {
        let sql = "SELECT
            coalesce((SELECT total FROM taken WHERE account = ?1 AND limit_name = ?2
                      ORDER BY at DESC, n DESC LIMIT 1), 0),
            coalesce((SELECT total FROM taken WHERE account = ?1 AND limit_name = ?2 AND at < ?3
                      ORDER BY at DESC, n DESC LIMIT 1), 0)";
        let params = (self.rows.account, self.limit, from.micros());
        self.rows.one(sql, params, |row| {
            Ok(Totals {
                all: units(row, 0)?,
                before: units(row, 1)?,
            })
        })
    }

    /// Narrows the time in which that charge was made, in turns by the units and by halves. An index by the total would find
    /// it at once, and takes an eighth of each charge.
    fn reached(&self, total: Units, from: Timestamp) -> Result<Timestamp> {
        let total = signed(total)?;
        let at = from.micros() - 1;
        let (before, _) = self.beside(at)?;
        let (mut low, (mut high, _)) = (Mark { at, ..before }, self.beside(i64::MAX)?);
        let mut by_units = true;
        // The total is less at `low`, and no less at `high`, the time of a charge.
        while low.at + 1 < high.at {
            let guess = if by_units {
                low.towards(high, total)
            } else {
                low.at + (high.at - low.at) / 2
            };
            by_units = !by_units;
            let (last, next) = self.beside(guess)?;
            if last.total >= total {
                high = last;
            } else {
                // The total stays until the next charge.
                let at = next.unwrap_or(high.at) - 1;
                low = Mark { at, ..last };
            }
        }
        Ok(Timestamp::from_micros(high.at))
    }

    fn floors(&self, from: Timestamp) -> Result<Vec<FloorTotal>> {
        if self.newest.floor.is_none_or(|newest| newest < from) {
            return Ok(Vec::new());
        }
        let sql = "SELECT at, used, coalesce((
                SELECT total FROM taken WHERE account = ?1 AND limit_name = ?2 AND taken.at <= floor.at
                ORDER BY at DESC, n DESC LIMIT 1), 0)
            FROM floor WHERE account = ?1 AND limit_name = ?2 AND at >= ?3";
        let params = (self.rows.account, self.limit, from.micros());
        let mut statement = self.rows.connection.prepare_cached(sql)?;
        let floors = statement.query_map(params, |row| {
            Ok(FloorTotal {
                at: instant(row, 0)?,
                used: units(row, 1)?,
                total: units(row, 2)?,
            })
        })?;
        floors.collect()
    }

    fn closing(&self) -> Result<Option<ClosingState>> {
        if !self.newest.has_closings {
            return Ok(None);
        }
        let sql = "SELECT until, probing, probe_interval FROM closing WHERE account = ?1 AND limit_name = ?2";
        self.rows
            .find(sql, (self.rows.account, self.limit), closing)
    }
}

impl LimitRows<'_> {
    /// The last charge at an instant or before it, and when the first one after it was made.
    fn beside(&self, at: i64) -> Result<(Mark, Option<i64>)> {
        let sql = "SELECT last.at, last.total, (
                SELECT at FROM taken WHERE account = ?1 AND limit_name = ?2 AND at > ?3 ORDER BY at, n LIMIT 1)
            FROM (SELECT 1) LEFT JOIN (
                SELECT at, total FROM taken WHERE account = ?1 AND limit_name = ?2 AND at <= ?3
                ORDER BY at DESC, n DESC LIMIT 1) AS last";
        let params = (self.rows.account, self.limit, at);
        self.rows.one(sql, params, |row| {
            let last = Mark {
                at: row.get::<_, Option<i64>>(0)?.unwrap_or(i64::MIN),
                total: row.get::<_, Option<i64>>(1)?.unwrap_or(0),
            };
            Ok((last, row.get(2)?))
        })
    }
}

/// An instant in microseconds, and the running total of a limit at it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: i64,
    total: i64,
}

impl Mark {
    /// When a total would be reached if units were charged evenly from here to `high`; between the two.
    fn towards(self, high: Self, total: i64) -> i64 {
        let share = (total - self.total) as f64 / (high.total - self.total) as f64;
        let guess = self.at + ((high.at - self.at) as f64 * share) as i64;
        guess.clamp(self.at + 1, high.at - 1)
    }
}

fn closing(row: &Row<'_>) -> Result<ClosingState> {
    let until = instant(row, 0)?;
    Ok(ClosingState::stored(until, row.get(1)?, row.get(2)?))
}

fn place(row: &Row<'_>) -> Result<LogPosition> {
    Ok(LogPosition {
        at: instant(row, 0)?,
        n: row.get(1)?,
    })
}

/// Reads where a charge is from. What no release wrote was charged.
pub fn origin(row: &Row<'_>, column: usize) -> Result<Origin> {
    Ok(Origin::read(row.get_ref(column)?.as_str()?).unwrap_or_default())
}

fn instant(row: &Row<'_>, column: usize) -> Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

fn units(row: &Row<'_>, column: usize) -> Result<Units> {
    row.get::<_, i64>(column)
        .map(|units| Units::new(u64::try_from(units).unwrap_or(0)))
}

/// Converts units to SQLite's integer. Fails for more than 63 bits.
pub fn signed(units: Units) -> Result<i64> {
    i64::try_from(units.get()).map_err(|error| Error::ToSqlConversionFailure(error.into()))
}
