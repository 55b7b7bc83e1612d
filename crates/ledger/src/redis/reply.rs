//! Parses the replies of the operations.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use redis::{FromRedisValue, Value};

use super::link::Sent;
use super::records::{self, LimitRecords, Unknown};
use crate::{Ack, Charge, ChargeReply, Granted, LedgerError, LedgerPosition, Report, repeats};
use ingest_quota::admission::{Claim, LimitState};
use ingest_quota::{Account, Cost, Decision, Grant, LimitName, Timestamp, Units};

/// The values of a reply, one after another.
pub struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    /// Reads the first word. Every operation may reply that the clocks are too far apart.
    pub fn new(value: Value) -> Result<(String, Self), LedgerError> {
        let values = match value {
            Value::BulkString(packed) => records::of_reply(&packed)?,
            other => Vec::from_redis_value(other).map_err(|error| broken(&error.to_string()))?,
        };
        let mut reply = Self(values.into_iter());
        let first = reply.read::<String>()?;
        if first == "skewed" {
            let micros = reply.read::<i64>()?.unsigned_abs();
            return Err(LedgerError::Skewed {
                skew: Duration::from_micros(micros),
            });
        }
        Ok((first, reply))
    }

    fn read<T: FromRedisValue>(&mut self) -> Result<T, LedgerError> {
        let value = self.more()?;
        value.ok_or_else(|| broken("the reply is too short"))
    }

    /// The next value; `None` behind the last.
    fn more<T: FromRedisValue>(&mut self) -> Result<Option<T>, LedgerError> {
        let value = self.0.next().map(T::from_redis_value);
        value
            .transpose()
            .map_err(|error| broken(&error.to_string()))
    }

    fn time(&mut self) -> Result<Timestamp, LedgerError> {
        self.read().map(Timestamp::from_micros)
    }

    fn units(&mut self) -> Result<Units, LedgerError> {
        self.read().map(Units::new)
    }

    fn position(&mut self) -> Result<LedgerPosition, LedgerError> {
        Ok(LedgerPosition {
            epoch: self.read()?,
            sequence: self.read()?,
            at: self.time()?,
        })
    }

    /// The position; the units used of each limit follow from the rest.
    fn report(&mut self) -> Result<Report, LedgerError> {
        Ok(Report {
            position: self.position()?,
            renewed: self.time()?,
            used: BTreeMap::new(),
        })
    }

    /// The name of a limit, by its field in the ledger; `None` behind the last.
    fn limit(&mut self) -> Result<Option<LimitName>, LedgerError> {
        let field = self.more::<String>()?;
        let name = |field: String| field.strip_prefix("limit:").map(str::to_owned);
        let name = field.map(|field| name(field).ok_or_else(|| broken("a limit has no name")));
        name.transpose()
    }

    /// The place of a limit in a charge, from 1 on; `None` behind the last.
    fn place(&mut self) -> Result<Option<usize>, LedgerError> {
        let place = self.more::<usize>()?;
        let place = place.map(|place| place.checked_sub(1).ok_or_else(|| broken("place 0")));
        place.transpose()
    }
}

/// A limit for which another machine's configuration differs.
pub struct Disagreement {
    pub limit: LimitName,
    pub theirs: String,
}

/// What follows from the reply to a charge.
pub enum Charged {
    Decided(ChargeReply, Vec<Disagreement>),
    /// It was rejected, and the reply does not reach the instant at which it fits.
    TooFar,
    /// The ledger knows the id by a charge of that time, which is so long ago that this one does not repeat it.
    Forgotten(Timestamp),
}

pub fn charge(Sent { value, repeated }: Sent, charge: &Charge<'_>) -> Result<Charged, LedgerError> {
    let (word, mut reply) = Reply::new(value)?;
    let decided = match word.as_str() {
        "granted" => return granted(&mut reply, charge),
        "repeated" => return known_id(&mut reply, charge),
        "rejected" => return rejected(&mut reply, charge, repeated),
        "lost" => ChargeReply::Lost,
        other => return Err(unexpected(other)),
    };
    Ok(Charged::Decided(decided, Vec::new()))
}

/// The position and the use of each limit, which both kinds of grant report.
fn grant(reply: &mut Reply, charge: &Charge<'_>) -> Result<Granted, LedgerError> {
    let position = reply.position()?;
    let (mut grant, mut used) = (Grant::default(), BTreeMap::new());
    for (name, limit) in charge.account.charged(charge.cost) {
        let units = reply.units()?;
        let remaining = limit.enforced().saturating_sub(units);
        grant.remaining.insert(name.clone(), remaining);
        used.insert(name.clone(), units);
    }
    Ok(Granted {
        grant,
        used,
        position,
    })
}

fn granted(reply: &mut Reply, charge: &Charge<'_>) -> Result<Charged, LedgerError> {
    let mut granted = grant(reply, charge)?;
    let mut disagreements = Vec::new();
    while let Some(remark) = reply.more::<String>()? {
        let charged = reply
            .place()?
            .map(|place| charge.account.charged(charge.cost).nth(place));
        let (limit, _) = charged.flatten().ok_or_else(|| broken("unknown limit"))?;
        match remark.as_str() {
            "probes" => {
                let interval = Duration::from_micros(reply.read()?);
                granted.grant.probing.insert(limit.clone(), interval);
            }
            "differs" => disagreements.push(Disagreement {
                limit: limit.clone(),
                theirs: reply.read()?,
            }),
            other => return Err(broken(&format!("unknown remark `{other}`"))),
        }
    }
    Ok(Charged::Decided(
        ChargeReply::Granted(granted),
        disagreements,
    ))
}

/// An id that is remembered (L11) is granted again, unless it was settled to nothing (L12).
fn known_id(reply: &mut Reply, charge: &Charge<'_>) -> Result<Charged, LedgerError> {
    let is_lasting = reply.read::<String>()? == "1";
    let now = reply.time()?;
    let mut granted = grant(reply, charge)?;
    let mut held = Cost::none();
    while let Some(limit) = reply.limit()? {
        let units = reply.units()?;
        // One that this configuration does not know is none of its business.
        if charge.account.limits.contains_key(&limit) {
            held.set(&limit, units);
        }
    }
    let made = granted.position.at;
    if !is_lasting && !repeats(charge.account, &held, made, now) {
        return Ok(Charged::Forgotten(made));
    }
    let claimed = charge.account.taken(charge.cost);
    let repeated = if held.is_none() && !claimed.is_none() {
        ChargeReply::TakenBack
    } else {
        granted.grant.repeated = true;
        granted.grant.held = (held != claimed).then_some(held);
        ChargeReply::Granted(granted)
    };
    Ok(Charged::Decided(repeated, Vec::new()))
}

fn rejected(
    reply: &mut Reply,
    charge: &Charge<'_>,
    repeated: bool,
) -> Result<Charged, LedgerError> {
    let report = reply.report()?;
    let clock = reply.time()?;
    let mut limits = Vec::new();
    for (name, _) in charge.account.charged(charge.cost) {
        let stored = LimitRecords::stored(&reply.read::<Vec<u8>>()?)?;
        let mut known = stored.ok_or_else(|| broken("a limit is not stored"))?;
        known.push_ahead()?;
        limits.push((name, known));
    }
    while let Some(place) = reply.place()? {
        let before = reply.units()?;
        let chunk = records::of_chunk(&reply.read::<Vec<u8>>()?)?;
        let (name, known) = limits
            .get_mut(place)
            .ok_or_else(|| broken("unknown limit"))?;
        let limit = charge.account.limits.get(*name);
        let from = limit.map(|limit| limit.window().counted_from(report.position.at));
        let records = chunk.iter().filter(|record| Some(record.at) >= from);
        known.push_piece(before, records);
    }
    decide(charge, &limits, report, clock, repeated)
}

/// Decides on a charge that the ledger did not grant, by the records of its limits.
pub fn decide(
    charge: &Charge<'_>,
    records: &[(&LimitName, LimitRecords)],
    mut report: Report,
    clock: Timestamp,
    repeated: bool,
) -> Result<Charged, LedgerError> {
    let now = report.position.at;
    let states = records.iter().filter_map(|(name, known)| {
        let (name, limit) = charge.account.limits.get_key_value(*name)?;
        Some(LimitState::read(name, limit, known, now))
    });
    let Ok(states) = states.collect::<Result<Vec<_>, Unknown>>() else {
        return Ok(Charged::TooFar);
    };
    let claim = Claim {
        account: charge.account,
        cost: charge.cost,
        leave: charge.leave,
    };
    let decided = match claim.decide(&states, clock) {
        Ok(Decision::Rejected(rejection)) => {
            let used = states
                .iter()
                .map(|state| (state.name.clone(), state.used()));
            report.used = used.collect();
            ChargeReply::Rejected {
                rejection,
                report,
                repeated,
            }
        }
        Ok(Decision::Never { limit, most }) => ChargeReply::Never { limit, most },
        // What was read is newer than the rejection, or does not reach far enough: only the ledger grants.
        Ok(Decision::Granted(_) | Decision::TakenBack) | Err(Unknown) => {
            return Ok(Charged::TooFar);
        }
    };
    Ok(Charged::Decided(decided, Vec::new()))
}

pub enum Updated {
    Acknowledged(Ack),
    /// Nothing was written: the charge took from these limits too, which were not sent.
    TakesFrom(Vec<LimitName>),
}

pub fn updated(Sent { value, .. }: Sent) -> Result<Updated, LedgerError> {
    let (word, mut reply) = Reply::new(value)?;
    let ack = match word.as_str() {
        "settled" | "closed" => Ack::Recorded {
            position: reply.position()?,
            intact: true,
        },
        "absorbed" => Ack::Recorded {
            position: reply.position()?,
            intact: reply.read::<String>()? == "1",
        },
        "lost" => Ack::Lost,
        "others" => {
            let mut names = Vec::new();
            while let Some(name) = reply.limit()? {
                names.push(name);
            }
            return Ok(Updated::TakesFrom(names));
        }
        other => return Err(unexpected(other)),
    };
    Ok(Updated::Acknowledged(ack))
}

/// What the ledger holds: the first part of it, or one that follows.
pub struct Holdings {
    /// Why it is not the ledger that this machine has seen; empty where it is.
    loss: String,
    pub report: Report,
    pub clock: Timestamp,
    /// Where the log goes on; `None` where this is the last part.
    pub next: Option<Timestamp>,
    /// By name; without those that the ledger does not know.
    limits: HashMap<LimitName, LimitRecords>,
    pub recorded: Vec<bool>,
    pieces: Vec<Vec<u8>>,
}

pub fn usage(
    Sent { value, .. }: Sent,
    names: &[&LimitName],
    ids: usize,
) -> Result<Holdings, LedgerError> {
    let (word, mut reply) = Reply::new(value)?;
    if word != "usage" {
        return Err(unexpected(&word));
    }
    let loss = reply.read()?;
    let report = reply.report()?;
    let (clock, next) = (reply.time()?, reply.read()?);
    let mut limits = HashMap::new();
    for name in names {
        let stored = LimitRecords::stored(&reply.read::<Vec<u8>>()?)?;
        limits.extend(stored.map(|known| ((*name).clone(), known)));
    }
    let recorded = (0..ids).map(|_| Ok(reply.read::<String>()? == "1"));
    let recorded = recorded.collect::<Result<Vec<bool>, LedgerError>>()?;
    let mut pieces = Vec::new();
    while let Some(piece) = reply.more()? {
        pieces.push(piece);
    }
    Ok(Holdings {
        loss,
        report,
        clock,
        next: (next > 0).then(|| Timestamp::from_micros(next)),
        limits,
        recorded,
        pieces,
    })
}

impl Holdings {
    pub fn is_lost(&self) -> bool {
        !self.loss.is_empty()
    }

    /// Adds the part that follows.
    pub fn extend(&mut self, more: Self) {
        self.pieces.extend(more.pieces);
        self.next = more.next;
    }

    /// The records of each limit of the account, and its name.
    pub fn records(
        mut self,
        account: &Account,
    ) -> Result<Vec<(&LimitName, LimitRecords)>, LedgerError> {
        let now = self.report.position.at;
        if self.loss == "torn" {
            // What the total stands for is in no record any more.
            for known in self.limits.values_mut() {
                known.hold(now);
            }
        }
        let mut by_number: HashMap<u64, (Timestamp, &mut LimitRecords)> = HashMap::new();
        for (name, known) in &mut self.limits {
            if let Some(limit) = account.limits.get(name) {
                let from = limit.window().counted_from(now);
                by_number.insert(known.number, (from, known));
            }
        }
        for piece in &self.pieces {
            // What was charged after the first part was read is not in its floors.
            for record in records::of_chunk(piece)?.iter().filter(|one| one.at <= now) {
                for (number, units) in &record.units {
                    match by_number.get_mut(number) {
                        Some((from, known)) if record.at >= *from => known.push(record.at, *units),
                        Some(_) | None => {}
                    }
                }
            }
        }
        let limits = account.limits.keys().map(|name| {
            let mut known = self.limits.remove(name).unwrap_or_default();
            known.complete();
            (name, known)
        });
        Ok(limits.collect())
    }
}

fn unexpected(word: &str) -> LedgerError {
    broken(&format!("the reply starts with `{word}`"))
}

pub fn broken(what: &str) -> LedgerError {
    LedgerError::Broken(format!("cannot read the reply of the ledger: {what}"))
}
