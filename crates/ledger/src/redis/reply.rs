//! Parses the replies of the scripts.

use std::str::FromStr;
use std::time::Duration;

use redis::{FromRedisValue, Value};

use super::Caller;
use super::inspect::Probe;
use super::link::Sent;
use crate::{Ack, ChargeReply, Granted, LedgerError, LedgerPosition, Report, UsageReply};
use ingest_quota::{
    Account, Cost, Grant, Limit, LimitName, LimitUsage, Rejection, Return, Timestamp, Units,
};

/// The words of a reply, one after another.
pub struct Reply(std::vec::IntoIter<String>);

impl Reply {
    /// Reads the first word. Every script may reply that the clocks are too far apart.
    pub fn new(value: Value) -> Result<(String, Self), LedgerError> {
        let words =
            Vec::<String>::from_redis_value(value).map_err(|error| broken(&error.to_string()))?;
        let mut reply = Self(words.into_iter());
        let first = reply.word()?;
        if first == "skewed" {
            let micros = reply.number::<i64>()?.unsigned_abs();
            return Err(LedgerError::Skewed {
                skew: Duration::from_micros(micros),
            });
        }
        Ok((first, reply))
    }

    fn word(&mut self) -> Result<String, LedgerError> {
        self.0
            .next()
            .ok_or_else(|| broken("the reply is too short"))
    }

    fn number<T: FromStr>(&mut self) -> Result<T, LedgerError> {
        let word = self.word()?;
        word.parse()
            .map_err(|_| broken(&format!("`{word}` is not a number")))
    }

    fn time(&mut self) -> Result<Timestamp, LedgerError> {
        self.number().map(Timestamp::from_micros)
    }

    /// A number; `None` for an empty word.
    fn perhaps<T: FromStr>(&mut self) -> Result<Option<T>, LedgerError> {
        let word = self.word()?;
        let number = (!word.is_empty()).then(|| word.parse()).transpose();
        number.map_err(|_| broken(&format!("`{word}` is not a number")))
    }

    fn ledger_position(&mut self) -> Result<LedgerPosition, LedgerError> {
        Ok(LedgerPosition {
            epoch: self.word()?,
            sequence: self.number()?,
            at: self.time()?,
        })
    }

    /// The position; the units used of each limit follow.
    fn report(&mut self) -> Result<Report, LedgerError> {
        Ok(Report {
            position: self.ledger_position()?,
            renewed: self.time()?,
            used: std::collections::BTreeMap::new(),
        })
    }
}

/// A limit for which another machine's configuration differs.
pub struct Disagreement {
    pub limit: LimitName,
    pub theirs: String,
}

pub fn charge(
    Sent { value, repeated }: Sent,
    caller: Caller<'_>,
    cost: &Cost,
) -> Result<(ChargeReply, Vec<Disagreement>), LedgerError> {
    let (word, mut reply) = Reply::new(value)?;
    let account = caller.sent;
    match word.as_str() {
        "granted" => granted(&mut reply, caller, cost, true),
        "repeated" => granted(&mut reply, caller, cost, false),
        "rejected" => Ok((rejected(&mut reply, account, cost, repeated)?, Vec::new())),
        "never" => {
            let (limit, _) = nth(account, reply.number()?)?;
            Ok((
                ChargeReply::Never {
                    limit,
                    most: Units::new(reply.number()?),
                },
                Vec::new(),
            ))
        }
        "lost" => Ok((ChargeReply::Lost, Vec::new())),
        other => Err(unexpected(other)),
    }
}

fn granted(
    reply: &mut Reply,
    caller: Caller<'_>,
    cost: &Cost,
    fresh: bool,
) -> Result<(ChargeReply, Vec<Disagreement>), LedgerError> {
    let position = reply.ledger_position()?;
    let mut grant = Grant {
        repeated: !fresh,
        ..Grant::default()
    };
    let mut used = std::collections::BTreeMap::new();
    for (name, limit) in caller.sent.charged(cost) {
        let units = Units::new(reply.number()?);
        used.insert(name.clone(), units);
        grant
            .remaining
            .insert(name.clone(), limit.enforced().saturating_sub(units));
    }
    let disagreements = remarks(reply, caller, cost, &mut grant)?;
    // The id is that of a charge that was settled to nothing: it names none any more (L12).
    if grant.held.as_ref().is_some_and(Cost::is_none) && !caller.sent.taken(cost).is_none() {
        return Ok((ChargeReply::TakenBack, Vec::new()));
    }
    let granted = Granted {
        grant,
        used,
        position,
    };
    Ok((ChargeReply::Granted(granted), disagreements))
}

/// Reads what else there is to say of a grant.
fn remarks(
    reply: &mut Reply,
    Caller { account, sent, .. }: Caller<'_>,
    cost: &Cost,
    grant: &mut Grant,
) -> Result<Vec<Disagreement>, LedgerError> {
    let mut disagreements = Vec::new();
    while let Some(word) = reply.0.next() {
        if word == "holds_other" {
            let (limit, units) = (reply.word()?, Units::new(reply.number()?));
            // One that this configuration does not know is none of its business.
            if account.limits.contains_key(&limit) {
                let held = grant.held.get_or_insert_with(|| sent.taken(cost));
                held.set(&limit, units);
            }
            continue;
        }
        let (limit, _) = nth(sent, reply.number()?)?;
        match word.as_str() {
            "probes" => {
                let interval = Duration::from_micros(reply.number()?);
                grant.probing.insert(limit, interval);
            }
            "holds" => {
                let held = grant.held.get_or_insert_with(|| sent.taken(cost));
                held.set(&limit, Units::new(reply.number()?));
            }
            "differs" => disagreements.push(Disagreement {
                limit,
                theirs: reply.word()?,
            }),
            other => return Err(broken(&format!("unknown remark `{other}`"))),
        }
    }
    Ok(disagreements)
}

fn rejected(
    reply: &mut Reply,
    account: &Account,
    cost: &Cost,
    repeated: bool,
) -> Result<ChargeReply, LedgerError> {
    let clock = reply.time()?;
    let (limit, _) = nth(account, reply.number()?)?;
    let used = Units::new(reply.number()?);
    let remaining = Units::new(reply.number()?);
    let retry_at = reply.time()?;
    let closed_until = reply.perhaps()?.map(Timestamp::from_micros);
    let rejection = Rejection {
        limit,
        used,
        remaining,
        retry_after: retry_at.since(clock),
        retry_at,
    };
    let mut report = reply.report()?;
    for (name, _) in account.charged(cost) {
        report
            .used
            .insert(name.clone(), Units::new(reply.number()?));
    }
    Ok(ChargeReply::Rejected {
        rejection,
        closed_until,
        report,
        repeated,
    })
}

pub enum UpdateReply {
    Acknowledged(Ack),
    /// Nothing was written: the charge took from these limits too, which were not sent.
    TakesFrom(Vec<LimitName>),
}

pub fn updated(Sent { value, .. }: Sent) -> Result<UpdateReply, LedgerError> {
    let (word, mut reply) = Reply::new(value)?;
    let ack = match word.as_str() {
        "settled" | "closed" => Ack::Recorded {
            position: reply.ledger_position()?,
            intact: true,
        },
        "absorbed" => Ack::Recorded {
            position: reply.ledger_position()?,
            intact: reply.word()? == "1",
        },
        "lost" => Ack::Lost,
        "others" => return Ok(UpdateReply::TakesFrom(reply.0.collect())),
        other => return Err(unexpected(other)),
    };
    Ok(UpdateReply::Acknowledged(ack))
}

pub fn usage(Sent { value, .. }: Sent, account: &Account) -> Result<UsageReply, LedgerError> {
    let (word, mut reply) = Reply::new(value)?;
    if word != "usage" {
        return Err(unexpected(&word));
    }
    let lost = !reply.word()?.is_empty();
    let mut report = reply.report()?;
    let limits: Vec<LimitUsage> = account
        .limits
        .keys()
        .map(|name| limit_usage(&mut reply, name))
        .collect::<Result<_, _>>()?;
    for usage in &limits {
        report.used.insert(usage.limit.clone(), usage.used);
    }
    Ok(UsageReply {
        limits,
        report,
        lost,
        recorded: reply.0.map(|word| word == "1").collect(),
    })
}

fn limit_usage(reply: &mut Reply, name: &LimitName) -> Result<LimitUsage, LedgerError> {
    Ok(LimitUsage {
        limit: name.clone(),
        used: Units::new(reply.number()?),
        remaining: Units::new(reply.number()?),
        closed_until: reply.perhaps()?.map(Timestamp::from_micros),
        since_reset: reply.perhaps()?.map(Units::new),
        returns: returns(reply)?,
    })
}

fn returns(reply: &mut Reply) -> Result<Vec<Return>, LedgerError> {
    let count: usize = reply.number()?;
    (0..count)
        .map(|_| {
            Ok(Return {
                at: reply.time()?,
                units: Units::new(reply.number()?),
            })
        })
        .collect()
}

/// The instant at which a limit's use has fallen.
pub fn falls(Sent { value, .. }: Sent) -> Result<Timestamp, LedgerError> {
    let (word, mut reply) = Reply::new(value)?;
    match word.as_str() {
        "falls" => reply.time(),
        other => Err(unexpected(other)),
    }
}

/// What was corrected, in words.
pub fn mended(Sent { value, .. }: Sent) -> Result<Vec<String>, LedgerError> {
    let (word, reply) = Reply::new(value)?;
    match word.as_str() {
        "checked" => Ok(reply.0.collect()),
        "lost" => Ok(Vec::new()),
        other => Err(unexpected(other)),
    }
}

pub fn probe(Sent { value, .. }: Sent) -> Result<Probe, LedgerError> {
    let (word, mut reply) = Reply::new(value)?;
    if word != "probed" {
        return Err(unexpected(&word));
    }
    let policy = reply.word()?;
    let is_appended = reply.word()? == "1";
    let time = reply.time()?;
    let mut failures = std::collections::BTreeMap::new();
    while let Some(command) = reply.0.next() {
        failures.entry(command).or_insert(reply.word()?);
    }
    Ok(Probe {
        policy,
        is_appended,
        time,
        failures,
    })
}

/// A limit by the number that the scripts give it.
fn nth(account: &Account, number: usize) -> Result<(LimitName, Limit), LedgerError> {
    let limit = number
        .checked_sub(1)
        .and_then(|place| account.limits.iter().nth(place));
    limit
        .map(|(name, limit)| (name.clone(), *limit))
        .ok_or_else(|| broken(&format!("unknown limit {number}")))
}

fn unexpected(word: &str) -> LedgerError {
    broken(&format!("the reply starts with `{word}`"))
}

fn broken(what: &str) -> LedgerError {
    LedgerError::Broken(format!("cannot read the reply of a ledger script: {what}"))
}
