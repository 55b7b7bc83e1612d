//! `ingest reopen`: opens a limit that was closed because the upstream reported it exhausted, or by hand, or that is full of units
//! that it reported as used by others.

use serde_json::json;

use super::environment::Environment;
use super::figures::{counted, instant};
use super::output::Message;
use super::refill::charging_ledger;
use super::{Error, output};
use crate::cli::{Global, ReopenArgs};
use crate::exit::Exit;
use ingest_ledger::LedgerClient;
use ingest_quota::{Account, Timestamp, Units};

/// Opens the limit for all runs of all machines.
pub async fn reopen(global: &Global, args: &ReopenArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let account = &*environment.account_with(&args.account, &args.limit)?;
    environment.expect_ledger(global)?;
    let ledger = charging_ledger(&environment).await?;
    let usages = ledger.usage(account).await;
    let away = usages.as_ref().err().filter(|error| error.is_outage());
    let closed = usages.as_ref().is_ok_and(|limits| {
        limits
            .iter()
            .any(|limit| limit.limit == args.limit && limit.closed_until.is_some())
    });
    // If the ledger does not answer, the journal may hold a closing: it is removed all the same.
    ledger.reopen(account, &args.limit).await?;
    // A limit that is full of what responses reported grants nothing, open or not.
    let reported = ledger.forget_reported(account, &args.limit).await?;
    let closed = closed || reported > Units::ZERO;
    let full = full(&*ledger, account, &args.limit).await;
    let waits_until = ledger.waits_until(account, environment.clock.now()).await?;
    let report = json!({
        "account": account.name,
        "limit": args.limit,
        "reopened": closed,
        "used": full.as_ref().map(|full| full.used),
        "fits_at": full.as_ref().and_then(|full| full.fits_at),
        "waits_until": waits_until,
        "unreachable": away.map(ToString::to_string),
    });
    let name = format!("{}/{}", account.name, args.limit);
    output::report(global, &report, |_| match away {
        Some(why) => Message::Failure(format!(
            "{name} is open for unmetered charges of this machine alone: {why}. Run this again once the ledger answers."
        )),
        None => {
            let what = if closed {
                "is open again"
            } else {
                "was not closed"
            };
            let full = full.map(|full| full.shown());
            let waits = waits_until.map(|until| {
                let (account, until) = (&account.name, instant(until));
                format!(
                    ", but this machine charges nothing to {account} until {until}, which `reopen` does not end: the ledger lost \
                    data, and `ledger.after_loss` is \"wait\""
                )
            });
            let still = waits.or(full).unwrap_or_default();
            Message::Done(format!("{name} {what}{still}."))
        }
    })?;
    Ok(Exit::failed_if(away.is_some()))
}

/// A limit that grants nothing although it is open: its units are used, by charges or by what the upstream reported.
struct Full {
    used: Units,
    /// When one unit fits; `None` if the ledger cannot report it.
    fits_at: Option<Timestamp>,
}

impl Full {
    fn shown(&self) -> String {
        let used = counted(self.used.get(), "unit");
        let until = self
            .fits_at
            .map(|at| format!(", until {}", instant(at)))
            .unwrap_or_default();
        format!(
            ", but grants nothing: {used} are used, by charges and by what the upstream reported as used{until}"
        )
    }
}

/// Returns why an open limit grants no unit; `None` if it grants one, or the ledger does not answer.
async fn full(ledger: &dyn LedgerClient, account: &Account, limit: &str) -> Option<Full> {
    let usage = ledger.usage(account).await.ok()?;
    let usage = usage.into_iter().find(|usage| usage.limit == limit)?;
    if usage.remaining > Units::ZERO {
        return None;
    }
    let most = account
        .limits
        .get(limit)?
        .enforced()
        .saturating_sub(Units::new(1));
    let fits_at = ledger.falls_to(account, limit, most).await.ok().flatten();
    Some(Full {
        used: usage.used,
        fits_at,
    })
}
