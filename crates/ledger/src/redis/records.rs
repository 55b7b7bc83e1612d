//! What a reply holds of the log: records of a limit, as `quota::admission` reads them.

use std::collections::HashMap;

use rmpv::Value;

use super::reply::broken;
use crate::LedgerError;
use ingest_quota::admission::{ClosingState, FloorTotal, History, Totals};
use ingest_quota::{Timestamp, Units};

/// One limit, with records from the beginning of its window on.
#[derive(Debug, Default)]
pub struct LimitRecords {
    /// By which records name it.
    pub number: u64,
    /// Times and units of the records that the total counts first, as far as they are stored.
    ahead: Vec<Value>,
    /// The units of all its records in the window.
    total: Units,
    /// The records, oldest first: time, and the units up to and with it. Where only some are known, `total` is more.
    charges: Vec<(Timestamp, Units)>,
    floors: Vec<StoredFloor>,
    closing: Option<ClosingState>,
}

#[derive(Debug, Clone, Copy)]
struct StoredFloor {
    at: Timestamp,
    used: Units,
    /// The units charged since then.
    after: Units,
}

/// The records that are known end before the one in question.
#[derive(Debug)]
pub struct Unknown;

impl LimitRecords {
    /// A limit as it is stored, without records as yet; `None` where nothing is stored.
    pub fn stored(packed: &[u8]) -> Result<Option<Self>, LedgerError> {
        let values = unpacked(packed)?;
        let [number, _, total, _, ahead, _, closed, interval, floors] = values.as_slice() else {
            return match values.is_empty() {
                true => Ok(None),
                false => Err(broken("a limit has nine values")),
            };
        };
        let interval = interval.as_u64().map(std::time::Duration::from_micros);
        let until = time(closed)?;
        let is_closing = until > Timestamp::from_micros(0) || interval.is_some();
        Ok(Some(Self {
            number: number.as_u64().unwrap_or_default(),
            total: units(total)?,
            ahead: unpacked(ahead.as_slice().unwrap_or_default())?,
            charges: Vec::new(),
            floors: in_threes(floors)?,
            closing: is_closing.then_some(ClosingState { until, interval }),
        }))
    }

    /// Adds the records that the total counts first.
    pub fn push_ahead(&mut self) -> Result<(), LedgerError> {
        for record in std::mem::take(&mut self.ahead).chunks(2) {
            let [at, taken] = record else {
                return Err(broken("a record ahead has two values"));
            };
            self.push(time(at)?, units(taken)?);
        }
        Ok(())
    }

    /// Adds a later record, which follows the last one that is known.
    pub fn push(&mut self, at: Timestamp, units: Units) {
        let before = self.charges.last().map_or(Units::ZERO, |(_, sum)| *sum);
        self.charges.push((at, before + units));
    }

    /// Adds those records of a chunk that are later than the last one that is known; these units were charged before them.
    pub fn push_piece<'r>(&mut self, mut before: Units, records: impl Iterator<Item = &'r Record>) {
        let known = self.charges.last().map(|(at, _)| *at);
        for record in records.filter(|record| Some(record.at) > known) {
            if let Some(units) = record.units.get(&self.number) {
                before += *units;
                self.charges.push((record.at, before));
            }
        }
    }

    /// Takes the records that are known for all there are.
    pub fn complete(&mut self) {
        self.total = self.charges.last().map_or(Units::ZERO, |(_, sum)| *sum);
    }

    /// Holds the total, whatever records there are: a part of the keys was lost.
    pub fn hold(&mut self, at: Timestamp) {
        let (used, after) = (self.total, Units::ZERO);
        self.floors.push(StoredFloor { at, used, after });
    }
}

impl History for &LimitRecords {
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
        let floors = self.floors.iter().filter(|floor| floor.at >= from);
        let with_total = |floor: &StoredFloor| FloorTotal {
            at: floor.at,
            used: floor.used + floor.after.saturating_sub(self.total),
            total: self.total.saturating_sub(floor.after),
        };
        Ok(floors.map(with_total).collect())
    }

    fn closing(&self) -> Result<Option<ClosingState>, Unknown> {
        Ok(self.closing)
    }
}

fn in_threes(floors: &Value) -> Result<Vec<StoredFloor>, LedgerError> {
    let values = floors.as_array().map_or(&[][..], Vec::as_slice);
    let floor = |values: &[Value]| match values {
        [at, used, after] => Ok(StoredFloor {
            at: time(at)?,
            used: units(used)?,
            after: units(after)?,
        }),
        _ => Err(broken("a floor has three values")),
    };
    values.chunks(3).map(floor).collect()
}

/// One record of the log.
pub struct Record {
    pub at: Timestamp,
    /// Its units by the numbers of the limits.
    pub units: HashMap<u64, Units>,
}

/// The records of a chunk.
pub fn of_chunk(chunk: &[u8]) -> Result<Vec<Record>, LedgerError> {
    let values = unpacked(chunk)?;
    let records = values.get(3..).unwrap_or_default();
    records.chunks(4).map(record).collect()
}

fn record(values: &[Value]) -> Result<Record, LedgerError> {
    let [at, _, taken, _] = values else {
        return Err(broken("a record has four values"));
    };
    let of_map =
        |(number, taken): &(Value, Value)| Ok((number.as_u64().unwrap_or_default(), units(taken)?));
    let taken: Result<HashMap<u64, Units>, LedgerError> = match taken {
        // Lua writes a table of the numbers from 1 on as an array.
        Value::Array(of_each) => (1..)
            .zip(of_each)
            .map(|(number, taken)| Ok((number, units(taken)?)))
            .collect(),
        Value::Map(of_each) => of_each.iter().map(of_map).collect(),
        other => return Err(broken(&format!("{other} is no table of units"))),
    };
    Ok(Record {
        at: time(at)?,
        units: taken?,
    })
}

/// The values of a text in MessagePack, one after another.
fn unpacked(mut packed: &[u8]) -> Result<Vec<Value>, LedgerError> {
    let mut values = Vec::new();
    while !packed.is_empty() {
        let value = rmpv::decode::read_value(&mut packed);
        values.push(value.map_err(|error| broken(&error.to_string()))?);
    }
    Ok(values)
}

/// The values of a packed reply, as those of any other.
pub fn of_reply(packed: &[u8]) -> Result<Vec<redis::Value>, LedgerError> {
    let plain = |value: &Value| match value.as_i64() {
        Some(number) => redis::Value::Int(number),
        None => redis::Value::BulkString(value.as_slice().unwrap_or_default().to_vec()),
    };
    Ok(unpacked(packed)?.iter().map(plain).collect())
}

fn units(value: &Value) -> Result<Units, LedgerError> {
    let units = value.as_u64().map(Units::new);
    units.ok_or_else(|| broken(&format!("{value} is no number of units")))
}

fn time(value: &Value) -> Result<Timestamp, LedgerError> {
    let at = value.as_i64().map(Timestamp::from_micros);
    at.ok_or_else(|| broken(&format!("{value} is no instant")))
}
