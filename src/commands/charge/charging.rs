//! What is charged by hand: of which call, how often, under which id.

use std::sync::Arc;
use std::time::Duration;

use super::report::{ChargeReport, report};
use super::wait::Waiting;
use crate::commands::Error;
use crate::commands::environment::Environment;
#[cfg(feature = "serve")]
use crate::commands::names::unknown;
use crate::commands::names::unknown_region;
use crate::commands::refill::charging_ledger;
use crate::run::Signal;
use ingest_base::plain;
use ingest_config::{Call, Credential, Region, outage_by_cost};
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

/// What a caller asks to charge.
pub struct ChargeOrder<'a> {
    pub credential: &'a str,
    pub what: OrderedCost<'a>,
    /// The region of the requests, for limits with a scope.
    pub region: Option<&'a str>,
    /// The id that the caller chose.
    pub id: Option<&'a str>,
}

/// A call or units.
pub enum OrderedCost<'a> {
    /// A call, and how many requests of it.
    Calls(&'a str, u64),
    /// Units, by the names of the limits in the configuration or in the ledger.
    #[cfg(feature = "serve")]
    Units(&'a Cost),
}

/// The call of a charge of units, in reports.
#[cfg(feature = "serve")]
const OF_UNITS: &str = "charge";

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
    /// Finds the credential, the call and the limits in the configuration.
    pub fn new(environment: &Environment, order: &ChargeOrder<'_>) -> Result<Self, Error> {
        let credential = Arc::clone(environment.credential(order.credential)?);
        let region = region(environment, order.region)?;
        let in_ledger = |what: &str, cost: &Cost| {
            let cost = credential.in_ledger(cost, &region);
            cost.map_err(|why| without_region(what, order.region, why))
        };
        let (call, cost, outage) = match order.what {
            OrderedCost::Calls(name, times) => {
                let call = environment.call(&credential, name)?;
                expect_limits(&credential, call)?;
                let cost = in_ledger(name, &call.cost.times(times))?;
                (name, cost, call.outage)
            }
            #[cfg(feature = "serve")]
            OrderedCost::Units(units) => {
                let cost = in_ledger("the cost", units)?;
                expect_units(&credential, &cost)?;
                (OF_UNITS, cost, None)
            }
        };
        // Many cheap calls can be one large charge. It goes ahead in an outage only where the call's own `outage` says so.
        let by_cost = || outage_by_cost(&cost, environment.config.ledger.cheap_max);
        Ok(Self {
            outage: outage.unwrap_or_else(by_cost),
            purpose: by_hand(call),
            id: new_id(order.id)?,
            cost,
            credential,
        })
    }

    /// Charges the ledger of the configuration, and waits for the charge to fit for at most as long as `wait` says. Returns the
    /// signal that ended the wait too.
    pub(super) async fn charge(
        &self,
        environment: &Environment,
        wait: Option<Duration>,
    ) -> Result<(ChargeReport, Option<Signal>), Error> {
        let ledger = charging_ledger(environment).await?;
        let waiting = wait.map(Waiting::new);
        let mut charged = self.charge_in(&*ledger).await?;
        let Some(mut waiting) = waiting else {
            return Ok((charged, None));
        };
        while waiting.until_it_fits(&charged).await? {
            charged = self.charge_in(&*ledger).await?;
        }
        waiting.tell(&mut charged);
        Ok((charged, waiting.signal()))
    }

    /// Charges this ledger.
    pub async fn charge_in(&self, ledger: &dyn LedgerClient) -> Result<ChargeReport, Error> {
        let ask = ChargeRequest {
            account: &self.credential.account,
            id: Some(&self.id),
            cost: &self.cost,
            // Only jobs have `leave`: it keeps units for what is charged by hand, among others.
            leave: &Cost::none(),
            outage: self.outage,
            purpose: &self.purpose,
        };
        Ok(report(&ledger.acquire(ask).await?, &self.cost))
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

/// Rejects a call that charges a limit which the credential lacks.
fn expect_limits(credential: &Credential, call: &Call) -> Result<(), Error> {
    let mut limits = call.cost.limits();
    match limits.find(|limit| !credential.limits.contains_key(*limit)) {
        None => Ok(()),
        Some(lacking) => Err(Error::Usage(format!(
            "{} charges the limit `{lacking}`, which credential `{}` does not define; add it to \
            [credentials.{}.limits]",
            call.name, credential.name, credential.name
        ))),
    }
}

/// Rejects units of a limit that the account lacks, and none at all.
#[cfg(feature = "serve")]
fn expect_units(credential: &Credential, cost: &Cost) -> Result<(), Error> {
    let mut limits = cost.limits();
    match limits.find(|limit| !credential.account.limits.contains_key(*limit)) {
        Some(lacking) => {
            let known = credential.limits.keys().map(String::as_str);
            Err(unknown("limit", lacking, known))
        }
        None if cost.is_none() => Err(Error::Usage("a charge needs at least one unit".to_owned())),
        None => Ok(()),
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
