//! `ingest release`: returns the units of a charge.

use std::sync::Arc;

use serde_json::json;

use super::charge::id_of;
use super::environment::Environment;
use super::names::{account_named, named};
use super::output::Message;
use super::refill::charging_ledger;
use super::{Error, output};
use crate::cli::{Global, ReleaseArgs};
use crate::exit::Exit;
use ingest_base::plain;
use ingest_ledger::{Found, LedgerClient};
use ingest_quota::{Account, ChargeId, Cost};

/// A charge that was corrected to its true cost.
pub struct Correction {
    pub account: String,
    /// Not where another machine made it and the ledger cannot be asked for it: it is corrected at the next contact.
    pub is_known: bool,
    /// Whether it counts no longer, as before.
    #[cfg_attr(
        not(feature = "serve"),
        expect(dead_code, reason = "the server reads it")
    )]
    pub was_released: bool,
}

/// Releases the charge, in the account that has the id.
pub async fn release(global: &Global, args: &ReleaseArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let accounts = environment.accounts();
    let id = id_of(&args.id)?;
    environment.expect_ledger(global)?;
    let ledger = charging_ledger(&environment).await?;
    let account = args.account.as_deref();
    let correction = correct(&*ledger, (&accounts, account), &id, &Cost::none()).await?;
    // One that was released before is found so, and a repeated release succeeds.
    let Correction {
        account, is_known, ..
    } = correction;
    let report = json!({ "id": id, "account": account, "released": is_known });
    output::report(global, &report, |_| match is_known {
        true => Message::Done(format!("Released: {id} no longer counts in {account}.")),
        false => Message::Failure(format!(
            "Recorded: this machine did not make the charge {id}, and the ledger cannot be asked for it now. If {account} has it, \
            this machine's next contact with the ledger releases it; until then it counts."
        )),
    })?;
    Ok(Exit::failed_if(!is_known))
}

/// Corrects a charge to its true cost, to nothing without units: in the named account, or in the only one of these that has the id.
///
/// # Errors
/// No account or several have the id, or the account has no such limit.
pub async fn correct(
    ledger: &dyn LedgerClient,
    (accounts, chosen): (&[Arc<Account>], Option<&str>),
    id: &ChargeId,
    units: &Cost,
) -> Result<Correction, Error> {
    let (account, located) = locate(ledger, accounts, chosen, id).await?;
    for limit in units.limits() {
        named("limit", &account.limits, limit)?;
    }
    // Found again with the correction: another process may have released it meanwhile, and a release is final.
    let found = match &located {
        Found::Counting(charge) => ledger.correct(&account, charge, units).await?,
        Found::CannotTell => ledger.correct(&account, id, units).await?,
        Found::TakenBack | Found::Unknown => Found::TakenBack,
    };
    Ok(Correction {
        account: account.name.clone(),
        is_known: located != Found::CannotTell,
        was_released: matches!(found, Found::TakenBack | Found::Unknown),
    })
}

/// Returns the account of a charge, the named one or the only one of these that has the id, and what became of it, which is not
/// `Unknown`.
async fn locate(
    ledger: &dyn LedgerClient,
    accounts: &[Arc<Account>],
    account: Option<&str>,
    id: &ChargeId,
) -> Result<(Arc<Account>, Found), Error> {
    let Some(name) = account else {
        return find(ledger, accounts, id).await;
    };
    let account = account_named(accounts, name)?;
    match ledger.find(&account, id).await? {
        Found::Unknown => Err(unknown_charge(&format!("account {name} has no"), id)),
        found => Ok((account, found)),
    }
}

/// Returns the account that has the id, and what became of the charge. Of two that have it, none is taken. Where a shared ledger cannot
/// be asked for a charge of another machine, an account is taken only if there is no other.
async fn find(
    ledger: &dyn LedgerClient,
    accounts: &[Arc<Account>],
    id: &ChargeId,
) -> Result<(Arc<Account>, Found), Error> {
    let (mut known, mut in_doubt) = (Vec::new(), false);
    for account in accounts {
        match ledger.find(account, id).await? {
            Found::Unknown => {}
            Found::CannotTell => in_doubt = true,
            found => known.push((Arc::clone(account), found)),
        }
    }
    let names: Vec<&str> = known.iter().map(|(account, _)| &*account.name).collect();
    if names.len() > 1 {
        let (id, names) = (plain::one_line(id.as_str()), names.join(" and "));
        return Err(Error::Usage(format!(
            "{names} have a charge `{id}`; add --account, or over HTTP `credential`"
        )));
    }
    match (known.pop(), in_doubt, accounts) {
        (Some(known), _, _) => Ok(known),
        (None, true, [only]) => Ok((Arc::clone(only), Found::CannotTell)),
        (None, true, _) => Err(Error::Usage(format!(
            "`{id}` was not charged from this machine, and the ledger cannot be asked for it now; add --account, or over \
            HTTP `credential`"
        ))),
        (None, false, _) => Err(unknown_charge("no account has", id)),
    }
}

fn unknown_charge(who: &str, id: &ChargeId) -> Error {
    let id = plain::one_line(id.as_str());
    Error::Refused(format!("{who} charge `{id}` in its window"))
}
