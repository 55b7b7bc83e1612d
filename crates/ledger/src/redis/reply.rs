//! What follows from the replies of the operations.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use redis::Value;

use super::link::Sent;
use super::packed::{broken, read, unpacked};
use super::records::{LimitRecords, Limited, Unknown, of_chunk};
use crate::{Ack, Charge, ChargeReply, Granted, LedgerError, LedgerPosition, Report, repeats};
use ingest_quota::admission::Claim;
use ingest_quota::{Account, Cost, Decision, Grant, LimitName, Timestamp, Units};

/// What follows from the reply to a charge.
pub enum Charged {
    /// The reply, and the limits that others charged by another rule, with that rule.
    Decided(ChargeReply, Vec<(LimitName, String)>),
    /// It was rejected, and the reply does not reach the instant at which it fits.
    TooFar,
    /// The ledger knows the id by a charge of that time, which is so long ago that this one does not repeat it.
    Forgotten(Timestamp),
}

/// Epoch, sequence and time.
type Position = (String, u64, i64);
/// The position, when the lives of the keys were renewed, and the ledger's clock.
type Told = (Position, i64, i64);

/// The word that a reply begins with, and the rest. Every operation may reply that the clocks are too far apart.
fn opened(sent: Sent) -> Result<(String, Value), LedgerError> {
    let mut values = match sent.value {
        Value::BulkString(packed) => unpacked(&packed)?,
        other => read(other)?,
    };
    if values.is_empty() {
        return Err(broken("it is empty"));
    }
    let rest = Value::Array(values.split_off(1));
    let word = read::<(String,)>(Value::Array(values))?.0;
    if word == "skewed" {
        let (micros,) = read(rest)?;
        let skew = Duration::from_micros(micros);
        return Err(LedgerError::Skewed { skew });
    }
    Ok((word, rest))
}

fn unexpected<T>(word: &str) -> Result<T, LedgerError> {
    Err(broken(&format!("it begins with `{word}`")))
}

fn position((epoch, sequence, at): Position) -> LedgerPosition {
    LedgerPosition {
        epoch,
        sequence,
        at: Timestamp::from_micros(at),
    }
}

/// The report without the units used of each limit, which follow from the records; and the ledger's clock.
fn report((at, renewed, clock): Told) -> (Report, Timestamp) {
    let report = Report {
        position: position(at),
        renewed: Timestamp::from_micros(renewed),
        used: BTreeMap::new(),
    };
    (report, Timestamp::from_micros(clock))
}

pub fn charge(sent: Sent, charge: &Charge<'_>) -> Result<Charged, LedgerError> {
    let repeated = sent.repeated;
    let (word, rest) = opened(sent)?;
    match word.as_str() {
        "granted" => granted(rest, charge),
        "repeated" => known_id(rest, charge),
        "rejected" => rejected(rest, charge, repeated),
        "lost" => Ok(Charged::Decided(ChargeReply::Lost, Vec::new())),
        other => unexpected(other),
    }
}

/// Limits, each with its value in a reply.
fn with_values<'a, T>(
    limits: impl Iterator<Item = Limited<'a>>,
    values: Vec<T>,
) -> Result<Vec<(Limited<'a>, T)>, LedgerError> {
    let limits: Vec<Limited<'a>> = limits.collect();
    match limits.len() == values.len() {
        true => Ok(limits.into_iter().zip(values).collect()),
        false => Err(broken("a value for each limit is missing")),
    }
}

/// What both kinds of grant report: where the ledger stands, and the units used of each limit.
fn grant(at: Position, used: Vec<u64>, charge: &Charge<'_>) -> Result<Granted, LedgerError> {
    let mut granted = Granted {
        grant: Grant::default(),
        used: BTreeMap::new(),
        position: position(at),
    };
    for ((name, limit), used) in with_values(charge.account.charged(charge.cost), used)? {
        let used = Units::new(used);
        let remaining = limit.enforced().saturating_sub(used);
        granted.grant.remaining.insert(name.clone(), remaining);
        granted.used.insert(name.clone(), used);
    }
    Ok(granted)
}

fn granted(reply: Value, charge: &Charge<'_>) -> Result<Charged, LedgerError> {
    type Remarked = (String, u64, i64, Vec<u64>, Vec<(String, usize, Value)>);
    let (epoch, sequence, at, used, remarks): Remarked = read(reply)?;
    let mut granted = grant((epoch, sequence, at), used, charge)?;
    let mut disagreements = Vec::new();
    for (word, place, value) in remarks {
        let mut limits = charge.account.charged(charge.cost);
        let (limit, _) = limits.nth(place).ok_or_else(|| broken("unknown limit"))?;
        if word == "probes" {
            let interval = Duration::from_micros(read(value)?);
            granted.grant.probing.insert(limit.clone(), interval);
        } else {
            disagreements.push((limit.clone(), read(value)?));
        }
    }
    let granted = ChargeReply::Granted(granted);
    Ok(Charged::Decided(granted, disagreements))
}

/// An id that is remembered (L11) is granted again, unless it was settled to nothing (L12).
fn known_id(reply: Value, charge: &Charge<'_>) -> Result<Charged, LedgerError> {
    type Known = (Position, Vec<u64>, Vec<(String, u64)>, bool, i64);
    let (at, used, taken, lasts, now): Known = read(reply)?;
    let mut granted = grant(at, used, charge)?;
    let mut held = Cost::none();
    for (field, units) in taken {
        let limit = name_of(&field)?;
        // One that this configuration does not know is none of its business.
        if charge.account.limits.contains_key(&limit) {
            held.set(&limit, Units::new(units));
        }
    }
    let (made, now) = (granted.position.at, Timestamp::from_micros(now));
    if !lasts && !repeats(charge.account, &held, made, now) {
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

fn rejected(reply: Value, charge: &Charge<'_>, repeated: bool) -> Result<Charged, LedgerError> {
    type Rejected = (Told, Vec<Vec<u8>>, Vec<(usize, u64, Vec<u8>)>);
    let (told, stored, chunks): Rejected = read(reply)?;
    let (report, clock) = report(told);
    let limits = with_values(charge.account.charged(charge.cost), stored)?.into_iter();
    let limits =
        limits.map(|(limit, stored)| LimitRecords::new(limit, report.position.at).with(&stored));
    let mut limits = limits.collect::<Result<Vec<_>, _>>()?;
    for (place, before, chunk) in chunks {
        let limit = limits
            .get_mut(place)
            .ok_or_else(|| broken("unknown limit"))?;
        limit.push_chunk(Units::new(before), &of_chunk(&chunk)?);
    }
    Ok(decide(charge, &limits, (report, clock), repeated))
}

/// Decides on a charge that the ledger did not grant, by the records of its limits, what it reported, and its clock.
pub fn decide(
    charge: &Charge<'_>,
    limits: &[LimitRecords<'_>],
    (mut report, clock): (Report, Timestamp),
    repeated: bool,
) -> Charged {
    let states = limits.iter().map(LimitRecords::state);
    let Ok(states) = states.collect::<Result<Vec<_>, Unknown>>() else {
        return Charged::TooFar;
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
                .map(|limit| (limit.name.clone(), limit.used()));
            report.used = used.collect();
            ChargeReply::Rejected {
                rejection,
                report,
                repeated,
            }
        }
        Ok(Decision::Never { limit, most }) => ChargeReply::Never { limit, most },
        // What was read is newer than the rejection, or does not reach far enough: only the ledger grants.
        Ok(Decision::Granted(_) | Decision::TakenBack) | Err(Unknown) => return Charged::TooFar,
    };
    Charged::Decided(decided, Vec::new())
}

pub enum Updated {
    Acknowledged(Ack),
    /// Nothing was written: the charge took from these limits too, which were not sent.
    TakesFrom(Vec<LimitName>),
}

pub fn updated(sent: Sent) -> Result<Updated, LedgerError> {
    let (word, rest) = opened(sent)?;
    let ack = match word.as_str() {
        "recorded" => {
            let (epoch, sequence, at, intact) = read(rest)?;
            let position = position((epoch, sequence, at));
            Ack::Recorded { position, intact }
        }
        "lost" => Ack::Lost,
        "others" => {
            let fields = read::<Vec<String>>(rest)?;
            let names = fields.iter().map(|field| name_of(field));
            return names.collect::<Result<_, _>>().map(Updated::TakesFrom);
        }
        other => return unexpected(other),
    };
    Ok(Updated::Acknowledged(ack))
}

/// The name of a limit, by its field in the ledger.
fn name_of(field: &str) -> Result<LimitName, LedgerError> {
    let name = field.strip_prefix("limit:").map(str::to_owned);
    name.ok_or_else(|| broken("a limit has no name"))
}

/// What the ledger holds of the limits of an account.
pub struct Holdings<'a> {
    /// Whether it is not the ledger that this machine has seen.
    pub lost: bool,
    pub report: Report,
    pub clock: Timestamp,
    pub limits: Vec<LimitRecords<'a>>,
    /// Of each requested id, whether it is recorded.
    pub recorded: Vec<bool>,
    /// Where the log goes on; `None` where all of it was read.
    pub next: Option<Timestamp>,
}

/// What is reported; why it is not the ledger that was seen; the rest of the log from an instant on, or zero; stored limits; whether
/// ids are recorded; pieces of the log.
type Usage = (Told, String, i64, Vec<Vec<u8>>, Vec<bool>, Vec<Vec<u8>>);

fn usage(sent: Sent) -> Result<Usage, LedgerError> {
    match opened(sent)? {
        (word, rest) if word == "usage" => read(rest),
        (other, _) => unexpected(&other),
    }
}

impl<'a> Holdings<'a> {
    /// Reads a reply that names every limit of the account.
    pub fn read(sent: Sent, account: &'a Account) -> Result<Self, LedgerError> {
        let (told, loss, next, stored, recorded, pieces) = usage(sent)?;
        let (report, clock) = report(told);
        let limits = with_values(account.limits.iter(), stored)?.into_iter();
        let limits = limits.map(|(limit, stored)| {
            let mut limit = LimitRecords::new(limit, report.position.at).with(&stored)?;
            if loss == "torn" {
                // What the total stands for is in no record any more.
                limit.hold();
            }
            limit.clear();
            Ok(limit)
        });
        let mut holdings = Self {
            limits: limits.collect::<Result<_, LedgerError>>()?,
            lost: !loss.is_empty(),
            report,
            clock,
            recorded,
            next: None,
        };
        holdings.push(next, pieces)?;
        Ok(holdings)
    }

    /// Reads on.
    pub fn read_on(&mut self, sent: Sent) -> Result<(), LedgerError> {
        let (_, _, next, _, _, pieces) = usage(sent)?;
        self.push(next, pieces)
    }

    fn push(&mut self, next: i64, pieces: Vec<Vec<u8>>) -> Result<(), LedgerError> {
        let limits = self.limits.iter_mut();
        let limits = limits.map(|limit| (limit.number, (limit.from(), limit)));
        let mut limits: HashMap<u64, (Timestamp, &mut LimitRecords<'_>)> = limits.collect();
        // What was charged after the first part was read is not in its floors.
        let now = self.report.position.at;
        for piece in pieces {
            for (at, taken) in of_chunk(&piece)?.into_iter().filter(|(at, _)| *at <= now) {
                for (number, units) in taken {
                    match limits.get_mut(&number) {
                        Some((from, limit)) if at >= *from => limit.push(at, units),
                        Some(_) | None => {}
                    }
                }
            }
        }
        self.limits.iter_mut().for_each(LimitRecords::complete);
        self.next = (next > 0).then(|| Timestamp::from_micros(next));
        Ok(())
    }
}
