//! What a reply holds of the log: records of a limit, as `quota::admission` reads them.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;

use super::packed::{read, unpacked};
use crate::LedgerError;
use ingest_quota::admission::{ClosingState, FloorTotal, History, LimitState, Totals};
use ingest_quota::{Limit, LimitName, Timestamp, Units};

/// A limit, and its name in the account.
pub type Limited<'a> = (&'a LimitName, &'a Limit);

/// One limit, with records from the beginning of its window on.
#[derive(Debug)]
pub struct LimitRecords<'a> {
    name: &'a LimitName,
    limit: &'a Limit,
    /// The ledger's time.
    now: Timestamp,
    /// By which records name it; zero where nothing is stored of it.
    pub number: u64,
    /// The units of all its records in the window.
    total: Units,
    /// The records, oldest first: time, and the units up to and with it. Where only some are known, `total` is more.
    charges: Vec<(Timestamp, Units)>,
    /// Floors: time, units used, and the units that were charged since then.
    floors: Vec<(i64, u64, u64)>,
    closing: Option<ClosingState>,
}

/// The records that are known end before the one in question.
#[derive(Debug)]
pub struct Unknown;

/// A limit as it is stored: number, rule, total, front, ahead, whether these are all, closed until, probing, floors.
type Stored = (
    u64,
    Value,
    u64,
    Value,
    Vec<u8>,
    Value,
    i64,
    Option<u64>,
    Option<Vec<(i64, u64, u64)>>,
);

impl<'a> LimitRecords<'a> {
    /// A limit of which nothing is stored.
    pub const fn new((name, limit): Limited<'a>, now: Timestamp) -> Self {
        Self {
            name,
            limit,
            now,
            number: 0,
            total: Units::ZERO,
            charges: Vec::new(),
            floors: Vec::new(),
            closing: None,
        }
    }

    /// Adds what is stored, with the records that the total counts first.
    pub fn with(mut self, stored: &[u8]) -> Result<Self, LedgerError> {
        if stored.is_empty() {
            return Ok(self);
        }
        let (number, _, total, _, ahead, _, closed, interval, floors): Stored =
            read(Value::Array(unpacked(stored)?))?;
        (self.number, self.total) = (number, Units::new(total));
        self.floors = floors.unwrap_or_default();
        let until = Timestamp::from_micros(closed);
        let interval = interval.map(Duration::from_micros);
        let is_closing = closed > 0 || interval.is_some();
        self.closing = is_closing.then_some(ClosingState { until, interval });
        for (at, units) in read::<Vec<(i64, u64)>>(Value::Array(unpacked(&ahead)?))? {
            self.push(Timestamp::from_micros(at), Units::new(units));
        }
        Ok(self)
    }

    /// What they say at the ledger's time.
    pub fn state(&self) -> Result<LimitState<'_, &Self>, Unknown> {
        LimitState::read(self.name, self.limit, self, self.now)
    }

    /// The first instant that its window counts.
    pub fn from(&self) -> Timestamp {
        self.limit.window().counted_from(self.now)
    }

    fn counted(&self) -> Units {
        self.charges.last().map_or(Units::ZERO, |(_, sum)| *sum)
    }

    /// Adds a later record, which follows the last one that is known.
    pub fn push(&mut self, at: Timestamp, units: Units) {
        self.charges.push((at, self.counted() + units));
    }

    /// Adds those records of a chunk that are later than the last one that is known; these units were charged before them.
    pub fn push_chunk(&mut self, mut before: Units, chunk: &[Record]) {
        let (known, from) = (self.charges.last().map(|(at, _)| *at), self.from());
        for (at, taken) in chunk {
            let units = taken.get(&self.number);
            if let Some(units) = units.filter(|_| Some(*at) > known && *at >= from) {
                before += *units;
                self.charges.push((*at, before));
            }
        }
    }

    /// Forgets the records that are known: the log will be read.
    pub fn clear(&mut self) {
        self.charges.clear();
    }

    /// Takes the records that are known for all there are.
    pub fn complete(&mut self) {
        self.total = self.counted();
    }

    /// Holds the total, whatever records there are: a part of the keys was lost.
    pub fn hold(&mut self) {
        self.floors.push((self.now.micros(), self.total.get(), 0));
    }
}

impl History for &LimitRecords<'_> {
    type Error = Unknown;

    fn totals(&self, from: Timestamp) -> Result<Totals, Unknown> {
        let known = self.charges.partition_point(|(at, _)| *at < from);
        let before = known.checked_sub(1).and_then(|last| self.charges.get(last));
        Ok(Totals {
            all: self.total,
            before: before.map_or(Units::ZERO, |(_, sum)| *sum),
        })
    }

    fn reached(&self, total: Units, _: Timestamp) -> Result<Timestamp, Unknown> {
        let place = self.charges.partition_point(|(_, sum)| *sum < total);
        self.charges.get(place).map(|(at, _)| *at).ok_or(Unknown)
    }

    fn floors(&self, from: Timestamp) -> Result<Vec<FloorTotal>, Unknown> {
        let floors = self.floors.iter().map(|(at, used, after)| FloorTotal {
            at: Timestamp::from_micros(*at),
            used: Units::new(*used) + Units::new(*after).saturating_sub(self.total),
            total: self.total.saturating_sub(Units::new(*after)),
        });
        Ok(floors.filter(|floor| floor.at >= from).collect())
    }

    fn closing(&self) -> Result<Option<ClosingState>, Unknown> {
        Ok(self.closing)
    }
}

/// One record of the log: its time, and its units by the numbers of the limits.
pub type Record = (Timestamp, HashMap<u64, Units>);

/// The records of a chunk.
pub fn of_chunk(chunk: &[u8]) -> Result<Vec<Record>, LedgerError> {
    let mut values = unpacked(chunk)?;
    values.drain(..values.len().min(3));
    let records: Vec<(i64, Value, Value, Value)> = read(Value::Array(values))?;
    let record = |(at, _, taken, _)| {
        let taken: HashMap<u64, u64> = match taken {
            // Lua writes a table of the numbers from 1 on as an array.
            Value::Array(of_each) => (1..)
                .zip(read::<Vec<u64>>(Value::Array(of_each))?)
                .collect(),
            other => read(other)?,
        };
        let units = taken.into_iter();
        let units = units.map(|(number, units)| (number, Units::new(units)));
        Ok((Timestamp::from_micros(at), units.collect()))
    };
    records.into_iter().map(record).collect()
}
