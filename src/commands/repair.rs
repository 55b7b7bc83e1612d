//! `ingest repair`: checks the files of the state directory completely, and rebuilds what can be derived from the rest. It
//! never changes a record, a charge or a cursor.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde_json::json;

use super::environment::{CATALOG_FILE, Environment};
use super::figures::counted;
use super::lost_catalog::NoCatalog;
use super::output::Message;
use super::progress::Working;
use super::refill::{recorded_ledger, restored};
use super::{Error, output};
use crate::cli::Global;
use crate::exit::Exit;
use ingest_base::apart::apart;
use ingest_catalog::{Catalog, Postgres, Resource, Taken};
use ingest_ledger::{JOURNAL_FILE, Journal, JournalError, LEDGER_FILE, SqliteLedger, file_of};
use ingest_sqlite as sqlite;
use ingest_sqlite::{Integrity, OpenError};

/// The files that can exist, and what they contain.
const FILES: [(&str, &str); 3] = [
    (LEDGER_FILE, "ledger"),
    (CATALOG_FILE, "catalog"),
    (JOURNAL_FILE, "journal"),
];

/// The result for one file.
#[derive(Debug, Serialize)]
struct Repaired {
    file: String,
    outcome: Outcome,
    detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Whole,
    Mended,
    Damaged,
}

/// Repairs the existing files, and reports what it did.
pub async fn repair(global: &Global) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    environment.expect_state_dir(global)?;
    let working = Working::on(global, "checking the files", "file");
    let mut repaired = Vec::new();
    for (file, name) in FILES {
        let path = environment.state_dir.join(file);
        let (outcome, mut detail) = match lost(&environment, file).await {
            Some(lost) => (Outcome::Damaged, lost),
            None if !sqlite::is_there(&path, name)? => continue,
            None => mended(&path).await?,
        };
        if file == file_of(&environment.config.ledger.store)
            && outcome != Outcome::Damaged
            && let Ok(ledger) = recorded_ledger(&environment)
            && let Some(restored) = restored(&environment, &*ledger).await
        {
            detail = format!("{detail}; {restored}");
        }
        repaired.push(Repaired {
            file: path.display().to_string(),
            outcome,
            detail,
        });
        working.count(1);
    }
    if let Some(database) = environment.database() {
        repaired.push(shared(&environment, database).await?);
    }
    drop(working);
    let are_whole = repaired.iter().all(|file| file.outcome == Outcome::Whole);
    output::report(global, &json!({ "files": repaired }), |_| {
        let text = in_words(&repaired, &environment.state_dir);
        match are_whole {
            true => Message::Done(text),
            // What was mended is printed with `-q` too, although the exit code is that of success.
            false => Message::Failure(text),
        }
    })?;
    let damaged = repaired.iter().any(|file| file.outcome == Outcome::Damaged);
    Ok(Exit::failed_if(damaged))
}

/// Says that the catalog is lost; `None` where it is not, and of other files.
async fn lost(environment: &Environment, file: &str) -> Option<String> {
    let no_catalog = NoCatalog::find(environment).filter(|_| file == CATALOG_FILE)?;
    let ledger = recorded_ledger(environment).ok()?;
    no_catalog.lost(environment, &*ledger).await
}

/// Mends a file, and returns what became of it.
async fn mended(path: &Path) -> Result<(Outcome, String), Error> {
    let shown = path.display().to_string();
    if let Some(why) = foreign(path) {
        return Ok((Outcome::Damaged, output::without_path(&why, &shown)));
    }
    let file = path.to_owned();
    let looked = apart(move || sqlite::mend(&file)).await;
    let looked = looked.map_err(|error| Error::io("cannot repair")(io::Error::other(error)))?;
    let (outcome, detail) = match looked {
        Ok(Integrity::Whole) => (Outcome::Whole, "is intact".to_owned()),
        Ok(Integrity::Mended) => (
            Outcome::Mended,
            "its indices did not match its tables and were rebuilt".to_owned(),
        ),
        Ok(Integrity::Damaged(complaints)) => (Outcome::Damaged, damaged(&complaints.join("; "))),
        Err(error) => (Outcome::Damaged, sqlite::explain(&error)),
    };
    if outcome == Outcome::Damaged || !path.ends_with(CATALOG_FILE) {
        return Ok((outcome, detail));
    }
    Ok(match rebuilt(path).await {
        Ok(done) => (outcome, format!("{detail}; {done}")),
        Err(error) => {
            let why = output::without_path(&error.to_string(), &shown);
            (Outcome::Damaged, why)
        }
    })
}

/// Repairs the catalog that machines share. The server keeps its tables and their indices intact itself.
async fn shared(environment: &Environment, database: &Postgres) -> Result<Repaired, Error> {
    let catalog = Catalog::connect(database.clone()).await?;
    let leases = environment.leases()?;
    let lease = match leases.take(&Resource::Repair).await? {
        Taken::Granted(lease) => lease,
        Taken::Held(holder) => {
            let holder =
                holder.map_or_else(|| "another process".to_owned(), |holder| holder.to_string());
            return Err(Error::Refused(format!(
                "{} is being repaired by {holder}",
                database.shown()
            )));
        }
    };
    let indexed = catalog.rebuild_text().await?;
    drop(lease);
    leases.close().await;
    Ok(Repaired {
        file: database.shown().to_owned(),
        outcome: Outcome::Whole,
        detail: format!("is intact; {}", rebuilt_from(indexed)),
    })
}

/// Returns why this release must not repair a file: another version can have other indices. Writes nothing.
fn foreign(path: &Path) -> Option<String> {
    // What is damaged is not refused here: it is what a repair is for.
    if path.ends_with(LEDGER_FILE) {
        return match SqliteLedger::open_read_only(path) {
            Err(foreign @ OpenError::Foreign { .. }) => Some(foreign.to_string()),
            _ => None,
        };
    }
    if path.ends_with(JOURNAL_FILE)
        && let Err(JournalError::Foreign(why)) = Journal::open_read_only(path)
    {
        return Some(why);
    }
    None
}

fn damaged(complaints: &str) -> String {
    format!(
        "is damaged: {complaints}; restore it from a backup, or recover what can be read: sqlite3 \
        FILE .recover"
    )
}

async fn rebuilt(path: &Path) -> Result<String, Error> {
    let indexed = Catalog::open(path)?.rebuild_text().await?;
    Ok(rebuilt_from(indexed))
}

fn rebuilt_from(indexed: u64) -> String {
    format!(
        "its full-text index was rebuilt from {}",
        counted(indexed, "record")
    )
}

fn in_words(repaired: &[Repaired], state_dir: &Path) -> String {
    if repaired.is_empty() {
        return format!("{}: no file to repair", state_dir.display());
    }
    repaired
        .iter()
        .map(|file| format!("{}: {}", file.file, output::shown(&file.detail)))
        .collect::<Vec<_>>()
        .join("\n")
}
