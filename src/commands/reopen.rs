//! `ingest reopen`: takes back that the upstream called a limit spent.

use super::environment::{Environment, unknown};
use super::{Error, output};
use crate::cli::{Format, Global, ReopenArgs};
use crate::exit::Exit;
use crate::ledger::Mode;

/// Opens the limit again, for every run of every machine.
pub async fn reopen(global: &Global, args: &ReopenArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let accounts = || {
        environment
            .config
            .credentials
            .values()
            .map(|credential| &credential.account)
    };
    let account = accounts()
        .find(|account| account.name == args.account)
        .ok_or_else(|| {
            Error::Usage(unknown(
                "account",
                &args.account,
                accounts().map(|account| &*account.name),
            ))
        })?;
    if !account.limits.contains_key(&args.limit) {
        return Err(Error::Usage(unknown(
            "limit",
            &args.limit,
            account.limits.keys().map(String::as_str),
        )));
    }
    environment.create_state_dir()?;
    let meter = environment.meter(Mode::ReadWrite)?;
    // Where the ledger does not answer, the journal may hold a closing: it is reopened all the same.
    let closed = meter.usage(account).await.map_or(true, |limits| {
        limits
            .iter()
            .any(|limit| limit.limit == args.limit && limit.closed_until.is_some())
    });
    meter.reopen(account, &args.limit).await?;
    match global.format {
        Format::Json => output::json(
            &serde_json::json!({ "account": account.name, "limit": args.limit, "reopened": closed }),
        )?,
        Format::Text if global.quiet => {}
        Format::Text => {
            let what = if closed {
                "is open again"
            } else {
                "was not closed"
            };
            output::text_line(&format!("{}/{} {what}.", account.name, args.limit))?;
        }
    }
    Ok(Exit::Success)
}
