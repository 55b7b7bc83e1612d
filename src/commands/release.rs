//! `ingest release`: gives back what a charge took.

use std::sync::Arc;

use super::environment::{Environment, unknown};
use super::{Error, output};
use crate::cli::{Format, Global, ReleaseArgs};
use crate::exit::Exit;
use crate::ledger::{Meter, Mode};
use crate::quota::{Account, ChargeId, Cost};

/// Gives it back, in the account that knows the id.
pub(super) async fn release(global: &Global, args: &ReleaseArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let accounts = environment.accounts();
    let id = ChargeId::new(&args.id);
    environment.create_state_dir()?;
    let meter = environment.meter(Mode::ReadWrite)?;
    let account = match &args.account {
        Some(name) => named(&accounts, name)?,
        None => match find(&meter, &accounts, &id).await? {
            Some(account) => account,
            None => return Err(Error::Refused(format!("no account knows a charge `{id}` that still counts"))),
        },
    };
    meter.settle(&account, &id, &Cost::none()).await?;
    match global.format {
        Format::Json => output::json(&serde_json::json!({ "id": id, "account": account.name, "released": true }))?,
        Format::Text if global.quiet => {}
        Format::Text => output::text_line(&format!("Released: {id} no longer counts in {}.", account.name))?,
    }
    Ok(Exit::Success)
}

fn named(accounts: &[Arc<Account>], name: &str) -> Result<Arc<Account>, Error> {
    let known = accounts.iter().map(|account| &*account.name);
    let found = accounts.iter().find(|account| account.name == name).cloned();
    found.ok_or_else(|| Error::Usage(unknown("account", name, known)))
}

/// The account that knows the id. A ledger that cannot look one up is told only where there is no doubt.
async fn find(meter: &Meter, accounts: &[Arc<Account>], id: &ChargeId) -> Result<Option<Arc<Account>>, Error> {
    for account in accounts {
        match meter.knows(account, id).await? {
            Some(true) => return Ok(Some(Arc::clone(account))),
            Some(false) => {}
            None if accounts.len() == 1 => return Ok(Some(Arc::clone(account))),
            None => {
                return Err(Error::Usage(
                    "this ledger cannot look an id up: say which --account was charged".to_owned(),
                ));
            }
        }
    }
    Ok(None)
}
