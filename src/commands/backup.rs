//! `ingest backup`: a consistent copy of the state directory's files, also during a run.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::environment::{CATALOG_FILE, Environment};
use super::output::Message;
use super::{Error, output};
use crate::cli::{BackupArgs, Global};
use crate::exit::Exit;
use ingest_base::apart::apart;
use ingest_base::private;
use ingest_ledger::{JOURNAL_FILE, LEDGER_FILE};
use ingest_quota::Timestamp;
use ingest_sqlite as sqlite;

/// In the order in which they are copied. A page is charged before it is landed, so a ledger and a journal that are copied
/// after the catalog hold every charge that the catalog's pages took: what they spent is never granted again.
const FILES: [(&str, &str); 3] = [
    (CATALOG_FILE, "catalog"),
    (LEDGER_FILE, "ledger"),
    (JOURNAL_FILE, "journal"),
];

/// A copied file, until all are.
const PART: &str = "part";

/// Copies all existing files into the directory, or none.
pub async fn backup(global: &Global, args: &BackupArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let files = files(&environment.state_dir)?;
    prepare(&args.directory)?;
    let made_at = environment.clock.now();
    let copied = copy_all(&environment.state_dir, &args.directory, &files, made_at).await;
    if copied.is_err() {
        remove_parts(&args.directory, &files);
    }
    copied?;
    let report = json!({ "directory": args.directory, "files": files, "made_at": made_at });
    output::report(global, &report, |_| {
        let (files, directory) = (files.join(", "), args.directory.display());
        Message::Done(format!("Copied {files} to {directory}."))
    })?;
    Ok(Exit::Success)
}

/// Returns the existing files.
fn files(state_dir: &Path) -> Result<Vec<&'static str>, Error> {
    let mut files = Vec::new();
    for (file, name) in FILES {
        if sqlite::is_there(&state_dir.join(file), name)? {
            files.push(file);
        }
    }
    if files.is_empty() {
        let state_dir = state_dir.display();
        return Err(Error::Refused(format!(
            "{state_dir}: no file to back up; set --state-dir"
        )));
    }
    Ok(files)
}

/// Files of two backups are never mixed: a ledger that is older than its catalog would grant spent units again.
fn prepare(directory: &Path) -> Result<(), Error> {
    let what = || format!("cannot use {}", directory.display());
    private::create_dir(directory).map_err(Error::io(what()))?;
    let mut found = fs::read_dir(directory).map_err(Error::io(what()))?;
    match found.next() {
        None => Ok(()),
        Some(_) => Err(Error::Refused(format!(
            "{}: the directory is not empty; name a new one for each backup",
            directory.display()
        ))),
    }
}

async fn copy_all(
    state_dir: &Path,
    directory: &Path,
    files: &[&'static str],
    made_at: Timestamp,
) -> Result<(), Error> {
    for file in files {
        copy(state_dir.join(file), part(directory, file), made_at).await?;
    }
    // From the last: a directory with a catalog has the ledger that belongs to it.
    for file in files.iter().rev() {
        let to = directory.join(file);
        fs::rename(part(directory, file), &to)
            .map_err(Error::io(format!("cannot write {}", to.display())))?;
    }
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(Error::io(format!("cannot write {}", directory.display())))
}

async fn copy(from: PathBuf, to: PathBuf, made_at: Timestamp) -> Result<(), Error> {
    let failed = {
        let (from, to) = (from.display().to_string(), to.display().to_string());
        move |why: String| Error::Refused(format!("cannot copy {from} to {to}: {why}"))
    };
    let copying = move || -> Result<(), String> {
        let explain = |error: io::Error| error.to_string();
        // Empty and first, for its owner alone: SQLite makes a file that others may read.
        private::create_file(&to).map_err(explain)?;
        sqlite::copy(&from, &to, made_at.micros()).map_err(|error| sqlite::explain(&error))?;
        File::open(&to)
            .and_then(|file| file.sync_all())
            .map_err(explain)
    };
    match apart(copying).await {
        Ok(copied) => copied.map_err(failed),
        Err(error) => Err(failed(error.to_string())),
    }
}

fn part(directory: &Path, file: &str) -> PathBuf {
    directory.join(format!("{file}.{PART}"))
}

fn remove_parts(directory: &Path, files: &[&str]) {
    for file in files {
        let _ = fs::remove_file(part(directory, file));
    }
}
