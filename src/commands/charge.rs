//! `ingest charge`: one charge by hand or from a script, to the same ledger.

mod wait;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

#[cfg(feature = "serve")]
use super::environment::unknown;
use super::environment::{Environment, unknown_region};
use super::figures::{cost, count, instant, span};
use super::output::Message;
use super::refill::charging_ledger;
use super::{Error, output};
use crate::cli::{ChargeArgs, Global};
use crate::exit::Exit;
use crate::run::Signal;
use ingest_base::plain;
use ingest_config::{Call, Credential, Region};
use ingest_ledger::{Acquired, ChargeRequest, LedgerClient, Permit, Purpose, fresh_id};
use ingest_quota::{ChargeId, Cost, LimitName, Outage, Rejection, Timestamp, Units};
use wait::Waiting;

/// What became of a charge.
#[derive(Debug, Serialize)]
pub struct Charged {
    pub decision: Word,
    /// The id under which it was granted.
    pub id: Option<ChargeId>,
    units: Cost,
    pub remaining: BTreeMap<LimitName, Units>,
    pub retry_after_seconds: Option<f64>,
    retry_at: Option<Timestamp>,
    /// The same in words, with the reason where it was not granted.
    pub detail: String,
    /// How long it waited to fit; `None` where it was not to wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_seconds: Option<f64>,
    /// Which limit rejected it; `None` where none did.
    #[serde(skip)]
    rejection: Option<Rejection>,
    /// Whether it was charged before under that id, and so may have been used.
    #[serde(skip)]
    #[cfg_attr(
        not(feature = "serve"),
        expect(dead_code, reason = "the server reads it")
    )]
    pub repeated: bool,
    /// Why it was refused; `None` where it was not.
    #[cfg_attr(
        not(feature = "serve"),
        expect(dead_code, reason = "the server reads it")
    )]
    #[serde(skip)]
    pub refusal: Option<Refusal>,
}

/// Why a charge was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The id already holds another charge.
    OtherCharge,
    /// It is larger than its limit.
    Never,
    /// The ledger cannot be reached.
    Unavailable,
}

/// What the ledger said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    Granted,
    Rejected,
    Unmetered,
    Refused,
}

/// Charges one call, and says what the ledger said.
pub async fn charge(global: &Global, args: &ChargeArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let charging = Charging::new(&environment, args)?;
    let (charged, signal) = match args.wait {
        None => (charging.charge(&environment).await?, None),
        Some(most) => charging.charge_when_it_fits(&environment, most).await?,
    };
    let is_granted = matches!(charged.decision, Word::Granted | Word::Unmetered);
    let words = if is_granted {
        Message::Done
    } else {
        Message::Failure
    };
    output::report(global, &charged, |_| words(output::shown(&charged.detail)))?;
    Ok(match signal {
        Some(signal) if !is_granted => signal.into(),
        _ => charged.exit(),
    })
}

/// A charge by hand: of which call, how often, under which id.
pub struct Charging {
    credential: Arc<Credential>,
    purpose: Purpose,
    cost: Cost,
    outage: Outage,
    /// The id that makes it safe to repeat.
    id: ChargeId,
}

/// A charge of units, rather than of a call.
#[cfg(feature = "serve")]
pub struct UnitsArgs<'a> {
    pub credential: &'a str,
    /// By the names of the limits in the configuration, or in the ledger.
    pub cost: &'a Cost,
    pub region: Option<&'a str>,
    /// Its call in reports.
    pub purpose: &'a str,
    pub id: Option<&'a str>,
}

/// The most bytes of an id.
const LONGEST_ID: usize = 256;

/// An id as its user wrote it.
///
/// # Errors
/// It is too long, or has characters that nobody sees: two ids could then look like one.
pub fn id_of(text: &str) -> Result<ChargeId, Error> {
    if text.len() > LONGEST_ID {
        let what =
            format!("the id of a charge has more than {LONGEST_ID} bytes; use a shorter one");
        return Err(Error::Usage(what));
    }
    if text.contains(plain::is_hidden) {
        let what = "the id of a charge contains a control character or another one that is not visible; leave it out";
        return Err(Error::Usage(what.to_owned()));
    }
    Ok(ChargeId::new(text))
}

/// The id of a new charge: the one that the caller chose, or a fresh one.
fn new_id(chosen: Option<&str>) -> Result<ChargeId, Error> {
    let Some(text) = chosen else {
        return Ok(fresh_id());
    };
    let id = id_of(text)?;
    if id.is_made_again() {
        return Err(Error::Usage(format!(
            "the id `{id}` ends in `~` and a number, as do the ids of charges that are made again after a release; use \
             another one"
        )));
    }
    Ok(id)
}

impl Charging {
    /// Finds the credential and the call in the configuration.
    pub fn new(environment: &Environment, args: &ChargeArgs) -> Result<Self, Error> {
        let (credential, call) = find(environment, &args.credential, &args.call)?;
        let id = new_id(args.id.as_deref())?;
        let region = region(environment, args.region.as_deref())?;
        let cost = credential.in_ledger(&call.cost.times(args.times), &region);
        let cost = cost.map_err(|why| without_region(&call.name, args.region.as_deref(), why))?;
        let cheap_max = environment.config.ledger.cheap_max;
        let single = call.outage_policy(cheap_max);
        // `--times` can make many cheap calls one large charge. It goes ahead in an outage only where the call's own `outage` says so.
        let as_single = cost.largest() <= cheap_max || call.outage.is_some();
        Ok(Self {
            outage: if as_single { single } else { Outage::Refuse },
            purpose: by_hand(&call.name),
            credential,
            cost,
            id,
        })
    }

    /// Finds the credential and the limits in the configuration.
    #[cfg(feature = "serve")]
    pub fn of_units(environment: &Environment, args: &UnitsArgs<'_>) -> Result<Self, Error> {
        let credential = Arc::clone(environment.credential(args.credential)?);
        let region = region(environment, args.region)?;
        let units = in_ledger(&credential, args.cost, &region)
            .map_err(|why| without_region("the cost", args.region, why))?;
        if let Some(lacking) = units
            .limits()
            .find(|limit| !credential.account.limits.contains_key(*limit))
        {
            let known = credential.limits.keys().map(String::as_str);
            return Err(unknown("limit", lacking, known));
        }
        if units.is_none() {
            return Err(Error::Usage("a charge needs at least one unit".to_owned()));
        }
        let is_cheap = units.largest() <= environment.config.ledger.cheap_max;
        Ok(Self {
            outage: if is_cheap {
                Outage::Allow
            } else {
                Outage::Refuse
            },
            purpose: by_hand(args.purpose),
            cost: units,
            id: new_id(args.id)?,
            credential,
        })
    }

    /// The account of the charge.
    #[cfg(feature = "serve")]
    pub fn account(&self) -> &Arc<ingest_quota::Account> {
        &self.credential.account
    }

    /// Charges the ledger of the configuration.
    pub async fn charge(&self, environment: &Environment) -> Result<Charged, Error> {
        environment.create_state_dir()?;
        self.charge_in(&*charging_ledger(environment).await?).await
    }

    /// Charges it, and waits at most this long for it to fit. Returns the signal that ended the wait too.
    async fn charge_when_it_fits(
        &self,
        environment: &Environment,
        most: Duration,
    ) -> Result<(Charged, Option<Signal>), Error> {
        environment.create_state_dir()?;
        let ledger = charging_ledger(environment).await?;
        let mut waiting = Waiting::new(most);
        let mut charged = self.charge_in(&*ledger).await?;
        while waiting.until_it_fits(&charged).await? {
            charged = self.charge_in(&*ledger).await?;
        }
        waiting.tell(&mut charged);
        Ok((charged, waiting.signal()))
    }

    pub async fn charge_in(&self, ledger: &dyn LedgerClient) -> Result<Charged, Error> {
        let ask = ChargeRequest {
            account: &self.credential.account,
            id: Some(&self.id),
            cost: &self.cost,
            // Only jobs have `leave`: it keeps units for what is charged by hand, among others.
            leave: &Cost::none(),
            outage: self.outage,
            purpose: &self.purpose,
        };
        Ok(charged(&ledger.acquire(ask).await?, &self.cost))
    }
}

impl Charged {
    /// What the process tells its caller.
    pub const fn exit(&self) -> Exit {
        match self.decision {
            Word::Granted | Word::Unmetered => Exit::Success,
            Word::Rejected => Exit::Stopped,
            Word::Refused => Exit::Failed,
        }
    }
}

/// The named region; the shared one, which has no values, where none is named.
fn region(environment: &Environment, code: Option<&str>) -> Result<Arc<Region>, Error> {
    let Some(code) = code else {
        return Ok(Arc::new(Region::shared()));
    };
    let regions = &environment.config.regions;
    let found = regions.iter().find(|region| region.code == code);
    found
        .cloned()
        .ok_or_else(|| unknown_region(&environment.config, code))
}

/// Why a cost has no name of a limit in the ledger.
fn without_region(what: &str, region: Option<&str>, why: String) -> Error {
    Error::Usage(match region {
        Some(_) => why,
        None => format!(
            "{what} charges a limit with a scope; name a region with --region, or over HTTP `region`"
        ),
    })
}

/// The units by the names of their limits in the ledger. A name in the ledger stays.
#[cfg(feature = "serve")]
pub fn in_ledger(credential: &Credential, units: &Cost, region: &Region) -> Result<Cost, String> {
    let mut sum = Cost::none();
    for (limit, units) in units.iter() {
        let limit = credential.ledger_name(limit, region)?;
        // A request can name one limit by both names.
        sum.add(&Cost::from_iter([(limit, units)]));
    }
    Ok(sum)
}

fn find(
    environment: &Environment,
    credential: &str,
    call: &str,
) -> Result<(Arc<Credential>, Arc<Call>), Error> {
    let credential = environment.credential(credential)?;
    let call = environment.call(credential, call)?;
    match call
        .cost
        .limits()
        .find(|limit| !credential.limits.contains_key(*limit))
    {
        None => Ok((Arc::clone(credential), Arc::clone(call))),
        Some(lacking) => Err(Error::Usage(format!(
            "{} charges the limit `{lacking}`, which credential `{}` does not define; add it to \
            [credentials.{}.limits]",
            call.name, credential.name, credential.name
        ))),
    }
}

/// The purpose of a charge that no job makes.
fn by_hand(call: &str) -> Purpose {
    Purpose {
        job: None,
        region: None,
        call: call.to_owned(),
    }
}

fn charged(verdict: &Acquired, units: &Cost) -> Charged {
    match verdict {
        Acquired::Permitted(permit) => match &permit.grant.held {
            Some(held) => {
                let (id, held, units_wanted) = (&permit.id, cost(held), cost(units));
                let why = format!(
                    "id `{id}` already holds a charge of {held}; use a new id for {units_wanted}"
                );
                Charged::refused(units, Refusal::OtherCharge, &why)
            }
            None => Charged::permitted(units, permit),
        },
        Acquired::Rejected(rejection) => Charged {
            remaining: BTreeMap::from([(rejection.limit.clone(), rejection.remaining)]),
            retry_after_seconds: Some(rejection.retry_after.as_secs_f64()),
            retry_at: Some(rejection.retry_at),
            rejection: Some(rejection.clone()),
            ..Charged::new(units, Word::Rejected, rejected(units, rejection))
        },
        Acquired::Never { limit, most } => {
            let why = format!(
                "the charge needs {}, and {limit} never grants more than {most}",
                cost(units)
            );
            Charged::refused(units, Refusal::Never, &why)
        }
        Acquired::Refused(why) => Charged::refused(units, Refusal::Unavailable, why),
    }
}

impl Charged {
    fn new(units: &Cost, decision: Word, detail: String) -> Self {
        Self {
            decision,
            id: None,
            units: units.clone(),
            remaining: BTreeMap::new(),
            retry_after_seconds: None,
            retry_at: None,
            detail,
            waited_seconds: None,
            rejection: None,
            repeated: false,
            refusal: None,
        }
    }

    fn permitted(units: &Cost, permit: &Permit) -> Self {
        let decision = match permit.metered {
            true => Word::Granted,
            false => Word::Unmetered,
        };
        let remaining = &permit.grant.remaining;
        let detail = permitted(permit.metered, units, remaining, &permit.id);
        Self {
            id: Some(permit.id.clone()),
            remaining: remaining.clone(),
            repeated: permit.grant.repeated,
            ..Self::new(units, decision, detail)
        }
    }

    fn refused(units: &Cost, refusal: Refusal, why: &str) -> Self {
        Self {
            refusal: Some(refusal),
            ..Self::new(units, Word::Refused, format!("Refused: {why}"))
        }
    }
}

fn permitted(
    metered: bool,
    units: &Cost,
    remaining: &BTreeMap<LimitName, Units>,
    id: &ChargeId,
) -> String {
    let left: Vec<String> = remaining
        .iter()
        .map(|(limit, units)| format!("{} {limit}", count(units.get())))
        .collect();
    if metered {
        format!(
            "Granted: {}; remaining: {}; id {id}",
            cost(units),
            left.join(", ")
        )
    } else {
        format!(
            "Unmetered: {}; the ledger cannot be reached and will be charged later; id {id}",
            cost(units)
        )
    }
}

fn rejected(units: &Cost, rejection: &Rejection) -> String {
    let closed = rejection.closed_until.map(|until| {
        let until = instant(until);
        format!("{} is closed until {until}", rejection.limit)
    });
    let remaining = || {
        let remaining = count(rejection.remaining.get());
        format!("{remaining} {} remaining", rejection.limit)
    };
    format!(
        "Rejected: needs {}; {}; retry in {} ({})",
        cost(units),
        closed.unwrap_or_else(remaining),
        span(rejection.retry_after),
        instant(rejection.retry_at)
    )
}
