//! `ingest close`: closes a limit by hand, as its upstream's report does.

use std::time::Duration;

use serde::Serialize;

use super::environment::Environment;
use super::figures::{instant, span};
use super::output::Message;
use super::refill::charging_ledger;
use super::{Error, output};
use crate::cli::{CloseArgs, Global};
use crate::exit::Exit;
use crate::when::Until;
use ingest_ledger::{ClientError, LedgerClient};
use ingest_quota::{Account, Closing, Timestamp};

/// The longest closing. A later instant is a slip, and would hold the keys of a Redis as long.
const LONGEST: Duration = Duration::from_secs(10 * 366 * 24 * 60 * 60);

/// The result of `close`.
#[derive(Debug, Serialize)]
struct Closed<'a> {
    account: &'a str,
    limit: &'a str,
    /// Later than what was asked for, where the limit was closed for longer.
    closed_until: Timestamp,
    /// Why the ledger has not recorded it yet; `None` where it has.
    unreachable: Option<String>,
}

/// Closes the limit for all runs of all machines.
pub async fn close(global: &Global, args: &CloseArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let account = &*environment.account_with(&args.account, &args.limit)?;
    let now = environment.clock.now();
    let until = ahead(args.until, now)?;
    // The ledger can be new: whatever spends the quota elsewhere is there before the first run.
    let ledger = charging_ledger(&environment).await?;
    let closing = Closing::Until(until);
    ledger.close(account, &args.limit, closing).await?;
    let closed = Closed::read(&*ledger, (account, &args.limit), until).await?;
    output::report(global, &closed, |_| closed.in_words(until, now))?;
    // Other machines go on charging it until the ledger has recorded it.
    Ok(Exit::failed_if(closed.unreachable.is_some()))
}

/// The instant that is meant, which is ahead.
fn ahead(until: Until, now: Timestamp) -> Result<Timestamp, Error> {
    let at = until.at(now);
    let why = if at <= now {
        "is not in the future; `ingest reopen` opens a limit"
    } else if at > now + LONGEST {
        "is more than 10 years ahead; name an earlier instant"
    } else {
        return Ok(at);
    };
    Err(Error::Usage(format!("--until: {} {why}", instant(at))))
}

impl<'a> Closed<'a> {
    /// Reads what holds now: of two closings the later.
    async fn read(
        ledger: &dyn LedgerClient,
        (account, limit): (&'a Account, &'a str),
        until: Timestamp,
    ) -> Result<Self, Error> {
        let (closed_until, unreachable) = match ledger.usage_of(account, limit).await {
            Ok(usage) => (usage.and_then(|usage| usage.closed_until), None),
            Err(error) if error.is_outage() => (None, Some(why(&error))),
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            account: &account.name,
            limit,
            closed_until: closed_until.unwrap_or(until),
            unreachable,
        })
    }

    fn in_words(&self, asked: Timestamp, now: Timestamp) -> Message {
        let Self { account, limit, .. } = self;
        let until = instant(self.closed_until);
        let holds = span(self.closed_until.since(now));
        if let Some(why) = &self.unreachable {
            return Message::Failure(format!(
                "{account}/{limit} is closed until {until} for unmetered charges of this machine alone: {why}. The next \
                 command here that reaches the ledger closes it for all."
            ));
        }
        let longer = match self.closed_until > asked {
            true => " It was closed for longer than asked.",
            false => "",
        };
        Message::Done(format!(
            "{account}/{limit} is closed until {until} (for {holds}); `ingest reopen {account} {limit}` opens it \
             earlier.{longer}"
        ))
    }
}

fn why(error: &ClientError) -> String {
    let said = error.to_string();
    said.trim_end_matches('.').to_owned()
}
