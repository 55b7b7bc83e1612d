//! What a process has seen of the ledger's file. A file that is gone, was replaced, or holds less than that would grant again
//! what this process was granted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;

use super::rows::LogPosition;
use ingest_sqlite::Files;

/// A ledger that no longer knows what this process was granted. Nothing more is granted, and it is no outage.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{}: the ledger that this process charges {how}; it grants nothing more, since it would grant again what it no longer \
    knows. Put the file back; or, if it is lost, end this process and start it again: a new ledger is charged with what the \
    catalog's passes spent, and what else was charged must be charged again with `ingest charge --times`",
    path.display()
)]
pub struct ForgottenLedger {
    path: PathBuf,
    how: Forgetting,
}

/// What happened to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
enum Forgetting {
    #[error("was deleted, or moved away with its directory")]
    Gone,
    #[error("was replaced by another file")]
    Replaced,
    #[error("lacks charges that this process made: it was emptied, or written over")]
    Emptied,
}

/// What a process has seen of the ledger's file. Shared by all that open it in one process.
#[derive(Debug, Clone, Default)]
pub struct Witness(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    /// The device and the inode of the file; `None` before it was opened.
    file: Option<(u64, u64)>,
    /// The newest charge that was granted, by account.
    newest: BTreeMap<String, LogPosition>,
}

impl Witness {
    /// Fails where the file is not the one that was opened first.
    ///
    /// # Errors
    /// When the file is gone, or was replaced.
    pub fn in_place(&self, path: &Path) -> Result<(), ForgottenLedger> {
        let how = match (self.0.lock().file, Files::beside(path).database()) {
            (None, _) => return Ok(()),
            (Some(seen), Some(found)) if seen == found => return Ok(()),
            (Some(_), Some(_)) => Forgetting::Replaced,
            (Some(_), None) => Forgetting::Gone,
        };
        Err(Self::forgotten(path, how))
    }

    /// Notes which file was opened.
    pub fn opened(&self, path: &Path) {
        let mut seen = self.0.lock();
        seen.file = seen.file.or_else(|| Files::beside(path).database());
    }

    /// Notes a charge that was granted.
    pub fn granted(&self, account: &str, place: LogPosition) {
        let mut seen = self.0.lock();
        match seen.newest.get_mut(account) {
            Some(newest) => *newest = place.max(*newest),
            None => drop(seen.newest.insert(account.to_owned(), place)),
        }
    }

    /// Whether an account's newest charge is older than one that was granted.
    pub fn misses(&self, account: &str, newest: Option<LogPosition>) -> bool {
        let seen = self.0.lock();
        seen.newest
            .get(account)
            .is_some_and(|seen| newest < Some(*seen))
    }

    /// The newest charge that was granted, by account.
    pub fn newest(&self) -> BTreeMap<String, LogPosition> {
        self.0.lock().newest.clone()
    }

    /// A file without charges that were granted.
    pub fn emptied(path: &Path) -> ForgottenLedger {
        Self::forgotten(path, Forgetting::Emptied)
    }

    fn forgotten(path: &Path, how: Forgetting) -> ForgottenLedger {
        let path = path.to_owned();
        ForgottenLedger { path, how }
    }
}
