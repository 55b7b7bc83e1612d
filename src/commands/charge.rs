//! `ingest charge`: one charge by hand or from a script, to the same ledger.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::environment::{Environment, unknown};
use super::refill::charging_ledger;
use super::table::{cost, count, instant, span};
use super::{Error, output};
use crate::cli::{ChargeArgs, Format, Global};
use crate::config::{Call, Credential, Region};
use crate::exit::Exit;
use crate::ledger::{Acquired, ChargeRequest, Permit, Purpose, fresh_id};
use crate::quota::{ChargeId, Cost, Grant, LimitName, Outage, Rejection, Timestamp, Units};

/// What became of a charge.
#[derive(Debug, Serialize)]
pub struct Charged {
    pub decision: Word,
    /// Under which it was granted.
    pub id: Option<ChargeId>,
    units: Cost,
    remaining: BTreeMap<LimitName, Units>,
    retry_after_seconds: Option<f64>,
    retry_at: Option<Timestamp>,
    /// The same in words, why not included.
    pub detail: String,
    /// Whether it was charged before under that id, and so may have been used.
    #[serde(skip)]
    pub repeated: bool,
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
    let charging = Charging::of(&environment, args)?;
    let charged = charging.charge(&environment).await?;
    match global.format {
        Format::Json => output::json(&charged)?,
        Format::Text
            if global.quiet && matches!(charged.decision, Word::Granted | Word::Unmetered) => {}
        Format::Text => output::failure_line(global, &output::shown(&charged.detail))?,
    }
    Ok(charged.exit())
}

/// A charge by hand: of which call, how often, under which id.
pub struct Charging {
    credential: Arc<Credential>,
    call: Arc<Call>,
    cost: Cost,
    /// The id that makes it safe to repeat.
    id: ChargeId,
}

impl Charging {
    /// Finds the credential and the call in the configuration.
    pub fn of(environment: &Environment, args: &ChargeArgs) -> Result<Self, Error> {
        let (credential, call) = find(environment, &args.credential, &args.call)?;
        let id = args.id.as_deref().map_or_else(fresh_id, ChargeId::new);
        let region = region(environment, args.region.as_deref())?;
        let cost = credential.in_ledger(&call.cost.times(args.times), &region);
        let named = |why: String| match &args.region {
            Some(_) => Error::Usage(why),
            None => Error::Usage(format!(
                "{} charges a limit with a scope: name a region with --region",
                call.name
            )),
        };
        Ok(Self {
            cost: cost.map_err(named)?,
            credential,
            call,
            id,
        })
    }

    /// Puts it to the ledger.
    pub async fn charge(&self, environment: &Environment) -> Result<Charged, Error> {
        environment.create_state_dir()?;
        let single = self.call.outage_policy(environment.config.ledger.cheap_max);
        let cheap = self.cost.largest() <= environment.config.ledger.cheap_max;
        let ask = ChargeRequest {
            account: &self.credential.account,
            id: Some(&self.id),
            cost: &self.cost,
            leave: &Cost::none(),
            outage: if cheap || self.call.outage.is_some() {
                single
            } else {
                Outage::Refuse
            },
            purpose: &Purpose {
                job: None,
                region: None,
                call: self.call.name.clone(),
            },
        };
        let verdict = charging_ledger(environment).await?.acquire(ask).await?;
        Ok(charged(&verdict, &self.cost))
    }

    /// Gives back what was granted under an id.
    pub async fn release(&self, environment: &Environment, id: &ChargeId) -> Result<(), Error> {
        let ledger = charging_ledger(environment).await?;
        Ok(ledger
            .settle(&self.credential.account, id, &Cost::none())
            .await?)
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
    let known = regions.iter().map(|region| region.code.as_str());
    let found = regions.iter().find(|region| region.code == code);
    found
        .cloned()
        .ok_or_else(|| Error::Usage(unknown("region", code, known)))
}

fn find(
    environment: &Environment,
    credential: &str,
    call: &str,
) -> Result<(Arc<Credential>, Arc<Call>), Error> {
    let credentials = &environment.config.credentials;
    let known = credentials.keys().map(String::as_str);
    let credential = credentials
        .get(credential)
        .ok_or_else(|| Error::Usage(unknown("credential", credential, known)))?;
    let calls = &credential.upstream.calls;
    let known = calls.keys().map(String::as_str);
    let call = calls
        .get(call)
        .ok_or_else(|| Error::Usage(unknown("call", call, known)))?;
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

fn charged(verdict: &Acquired, units: &Cost) -> Charged {
    let charged = Charged {
        decision: Word::Refused,
        id: None,
        units: units.clone(),
        remaining: BTreeMap::new(),
        retry_after_seconds: None,
        retry_at: None,
        detail: String::new(),
        repeated: false,
    };
    match verdict {
        Acquired::Permitted(Permit {
            id,
            grant: Grant {
                held: Some(held), ..
            },
            ..
        }) => Charged {
            detail: format!(
                "Refused: id `{id}` already holds a charge of {}; use a new id for {}",
                cost(held),
                cost(units)
            ),
            ..charged
        },
        Acquired::Permitted(permit) => Charged {
            decision: if permit.metered {
                Word::Granted
            } else {
                Word::Unmetered
            },
            id: Some(permit.id.clone()),
            remaining: permit.grant.remaining.clone(),
            repeated: permit.grant.repeated,
            detail: permitted(permit.metered, units, &permit.grant.remaining, &permit.id),
            ..charged
        },
        Acquired::Rejected(rejection) => Charged {
            decision: Word::Rejected,
            remaining: BTreeMap::from([(rejection.limit.clone(), rejection.remaining)]),
            retry_after_seconds: Some(rejection.retry_after.as_secs_f64()),
            retry_at: Some(rejection.retry_at),
            detail: rejected(units, rejection),
            ..charged
        },
        Acquired::Never { limit, most } => Charged {
            detail: format!(
                "Refused: the charge needs {}, and {limit} never grants more than {most}",
                cost(units)
            ),
            ..charged
        },
        Acquired::Refused(why) => Charged {
            detail: format!("Refused: {why}"),
            ..charged
        },
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
    format!(
        "Rejected: needs {}; {} {} remaining; retry in {} ({})",
        cost(units),
        count(rejection.remaining.get()),
        rejection.limit,
        span(rejection.retry_after),
        instant(rejection.retry_at)
    )
}
