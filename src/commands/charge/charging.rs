//! What is charged by hand: of which call, how often, under which id.

use std::sync::Arc;
use std::time::Duration;

use super::charged::{Charged, charged};
use super::wait::Waiting;
use crate::cli::ChargeArgs;
use crate::commands::Error;
use crate::commands::environment::Environment;
#[cfg(feature = "serve")]
use crate::commands::names::unknown;
use crate::commands::names::unknown_region;
use crate::commands::refill::charging_ledger;
use crate::run::Signal;
use ingest_base::plain;
use ingest_config::{Call, Credential, Region};
use ingest_ledger::{ChargeRequest, LedgerClient, Purpose, fresh_id};
use ingest_quota::{ChargeId, Cost, Outage};

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
    pub(super) async fn charge_when_it_fits(
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
