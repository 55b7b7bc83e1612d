//! Machines that share a catalog charge an account in one ledger. The catalog records which.

use std::io::{self, Write};

use uuid::Uuid;

use crate::commands::Error;
use crate::commands::environment::Environment;
use ingest_base::bounded;
use ingest_base::private::Directory;
use ingest_catalog::postgres::{self, RecordedLedger};
use ingest_catalog::{Postgres, PostgresError};

/// The file with the identity of this machine's ledger file. Beside it, and not in it: a ledger that was deleted and filled again
/// from the catalog is the same one.
const IDENTITY: &str = "ledger.id";
/// The file with what the catalog said last, for commands that charge while it cannot be reached.
const CLAIMED: &str = "ledger.claimed";
/// What precedes the number of a ledger file.
const FILE: &str = "file ";

/// The ledger of this machine, as the catalog agreed to it.
pub struct Claimed {
    ledger: String,
    /// Accounts that the catalog records in this machine's file, which a shared ledger is about to replace.
    replaced: Vec<(String, String)>,
}

/// Records that this machine charges its accounts in its ledger.
///
/// # Errors
/// An account is charged in another ledger, or nothing is known of it while the catalog cannot be reached.
pub async fn claim(environment: &Environment) -> Result<Claimed, Error> {
    let ledger = identity(environment)?;
    let mut claimed = Claimed {
        ledger,
        replaced: Vec::new(),
    };
    let Some(database) = environment.database() else {
        return Ok(claimed);
    };
    let mut agreed = format!("{} {}", database.shown(), database.schema());
    for account in environment.accounts() {
        agreed += &format!("\n{} in {}", account.name, claimed.ledger);
    }
    let path = environment.state_dir.join(CLAIMED);
    match claim_all(environment, database, &mut claimed).await {
        Ok(()) => {}
        Err(Rejected::Another(why)) => return Err(Error::Refused(why)),
        Err(Rejected::Failed(error))
            if read(environment, CLAIMED).is_ok_and(|was| was == agreed) =>
        {
            tracing::warn!(
                "cannot ask the catalog in which ledger the accounts are charged: {error}"
            );
            return Ok(claimed);
        }
        Err(Rejected::Failed(error)) => return Err(database.error(error).into()),
    }
    Directory::open(&environment.state_dir)
        .and_then(|state| state.replace(CLAIMED, agreed.as_bytes()))
        .map_err(Error::io(format!("cannot write {}", path.display())))?;
    Ok(claimed)
}

impl Claimed {
    /// Records the shared ledger in place of this machine's file, whose charges it has by now.
    pub async fn finish(self, environment: &Environment) -> Result<(), Error> {
        let Some(database) = environment.database() else {
            return Ok(());
        };
        for (account, former) in &self.replaced {
            let replaced = postgres::replace_ledger(database, account, &self.ledger, former).await;
            replaced.map_err(|error| database.error(error))?;
        }
        Ok(())
    }
}

enum Rejected {
    /// An account is charged in another ledger.
    Another(String),
    /// The catalog cannot be asked.
    Failed(PostgresError),
}

async fn claim_all(
    environment: &Environment,
    database: &Postgres,
    claimed: &mut Claimed,
) -> Result<(), Rejected> {
    postgres::establish(database)
        .await
        .map_err(Rejected::Failed)?;
    for account in environment.accounts() {
        let name = &account.name;
        let recorded = postgres::record_ledger(database, name, &claimed.ledger).await;
        let recorded = recorded.map_err(Rejected::Failed)?;
        match replaces(environment, &recorded, &claimed.ledger) {
            Some(true) => claimed.replaced.push((name.clone(), recorded.ledger)),
            Some(false) => {
                let why = another(name, &recorded, &claimed.ledger, database);
                return Err(Rejected::Another(why));
            }
            None => {}
        }
    }
    Ok(())
}

/// Whether this machine's ledger may take the place of another one that is recorded; `None` where it is the recorded one.
fn replaces(environment: &Environment, recorded: &RecordedLedger, ledger: &str) -> Option<bool> {
    let is_own = own_file(environment).as_ref() == Some(&recorded.ledger);
    let is_shared = !environment.config.ledger.store.is_file();
    (recorded.ledger != ledger).then_some(is_own && is_shared)
}

/// Why an account cannot be charged in this machine's ledger, which a charge would refuse with. Records nothing.
///
/// # Errors
/// The catalog cannot be asked.
pub async fn charged_elsewhere(
    environment: &Environment,
    database: &Postgres,
) -> Result<Option<String>, PostgresError> {
    let store = &environment.config.ledger.store;
    // A file without an identity is a new one.
    let ledger = match store.redis() {
        Some(url) => url.identity(),
        None => own_file(environment).unwrap_or_else(|| FILE.to_owned()),
    };
    for account in environment.accounts() {
        let recorded = postgres::recorded_ledger(database, &account.name).await?;
        if let Some(recorded) = recorded
            && replaces(environment, &recorded, &ledger) == Some(false)
        {
            return Ok(Some(another(&account.name, &recorded, &ledger, database)));
        }
    }
    Ok(None)
}

/// Why an account cannot be charged here, with both ledgers and what to do.
fn another(account: &str, recorded: &RecordedLedger, own: &str, database: &Postgres) -> String {
    let (ledger, machine) = (&recorded.ledger, &recorded.machine);
    let there = match ledger.strip_prefix(FILE) {
        Some(_) => format!("the ledger file of {machine}"),
        None => ledger.clone(),
    };
    let here = match own.strip_prefix(FILE) {
        Some(_) => "the ledger file of this machine",
        None => own,
    };
    let remedy = match ledger.strip_prefix(FILE) {
        Some(_) => format!(
            "set ledger.url to the same Redis on every machine, first on {machine}, which takes its \
            charges along"
        ),
        None => format!("write ledger.url = \"{ledger}\""),
    };
    format!(
        "account {account} is charged in {there}, and this machine would charge it in {here}: its quota \
        would be spent twice; {remedy}. If that ledger is gone for good: delete from \
        {}.account_ledger where account = '{account}'",
        database.schema()
    )
}

/// The identity of the configured ledger.
fn identity(environment: &Environment) -> Result<String, Error> {
    if let Some(url) = environment.config.ledger.store.redis() {
        return Ok(url.identity());
    }
    // Without a shared catalog no other machine asks which file it is.
    if environment.database().is_none() {
        return Ok(FILE.to_owned());
    }
    if let Some(known) = own_file(environment) {
        return Ok(known);
    }
    let path = environment.state_dir.join(IDENTITY);
    let made = Uuid::now_v7().simple().to_string();
    let state = Directory::open(&environment.state_dir);
    let written = state.and_then(|state| state.append(IDENTITY)?.write_all(made.as_bytes()));
    written.map_err(Error::io(format!("cannot write {}", path.display())))?;
    // Read again: what is written is appended, so behind a file that was cut short, or beside another process, it is not this text
    // that later commands find.
    own_file(environment).ok_or_else(|| Error::Io {
        what: format!("cannot read {}", path.display()),
        source: io::ErrorKind::UnexpectedEof.into(),
    })
}

/// The text of a file of the state directory.
fn read(environment: &Environment, name: &str) -> io::Result<String> {
    Directory::open(&environment.state_dir)?.read(name, bounded::DOCUMENT)
}

/// The identity of this machine's ledger file; `None` if it never had one.
fn own_file(environment: &Environment) -> Option<String> {
    let known = read(environment, IDENTITY).ok()?;
    // Of a file that was cut short nothing counts.
    let known = known.get(..32)?;
    Some(format!("{FILE}{known}"))
}
