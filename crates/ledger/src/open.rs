//! Opens the ledger that the configuration names, and the journal beside a shared one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::redis::RedisLedger;
use super::refill::Missing;
use super::{
    ClientError, ForgottenLedger, Journal, JournalError, Ledger, LedgerClient, LedgerError,
    LocalClient, Policy, ReadOnlyClient, SharedClient, SqliteLedger,
};
use ingest_base::clock::Clock;
use ingest_config::{LedgerConfig, LedgerStore};
use ingest_quota::Account;
use ingest_sqlite::OpenError;

/// The file of this machine's ledger, in the state directory.
pub const LEDGER_FILE: &str = "ledger.db";

/// The file of this machine's journal, there.
pub const JOURNAL_FILE: &str = "journal.db";

/// The file in the state directory that a ledger has there.
#[must_use]
pub const fn file_of(store: &LedgerStore) -> &'static str {
    match store {
        LedgerStore::Sqlite => LEDGER_FILE,
        LedgerStore::Redis(_) => JOURNAL_FILE,
    }
}

/// What a ledger is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// For charging.
    ReadWrite,
    /// For reading: nothing is written, neither to the ledger nor on this machine.
    ReadOnly,
}

/// Why a ledger cannot be opened.
#[derive(Debug, Error)]
pub enum OpenLedgerError {
    /// The file of this machine's ledger.
    #[error(transparent)]
    File(#[from] OpenError),
    /// The journal of this machine.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The ledger itself: the URL of a shared one, or what a file has forgotten.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The lock of the processes that charge a file.
    #[error("cannot lock {}: {source}", path.display())]
    Lock {
        /// The file of the lock.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The ledger failed while it was filled.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A new file cannot be filled: others still charge the one that was there before it.
    #[error(
        "ledger.db is new while another run still charges the previous file; nothing was requested; run again when that run \
         has ended"
    )]
    StillUsed,
}

impl From<ForgottenLedger> for OpenLedgerError {
    fn from(forgotten: ForgottenLedger) -> Self {
        Self::Ledger(forgotten.into())
    }
}

/// Opens the ledger that `config` names: `ledger.db` in the state directory, or a shared one with `journal.db` there. A
/// shared ledger is connected to at the first operation.
///
/// # Errors
/// When a file in the state directory cannot be opened, or the URL is not one of Redis.
pub fn open(
    config: &LedgerConfig,
    state_dir: &Path,
    mode: Mode,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn LedgerClient>, OpenLedgerError> {
    let url = match &config.store {
        LedgerStore::Sqlite => {
            let ledger = open_file(&state_dir.join(LEDGER_FILE), mode)?;
            return Ok(Arc::new(LocalClient::new(ledger, clock)));
        }
        LedgerStore::Redis(url) => url,
    };
    let ledger = Arc::new(RedisLedger::new(url, config)?);
    let journal = open_journal(&state_dir.join(JOURNAL_FILE), mode)?;
    Ok(match mode {
        Mode::ReadWrite => {
            let journal = journal.of_ledger(url.identity());
            let policy = Policy::from(config);
            Arc::new(SharedClient::new(ledger, journal, policy, clock))
        }
        Mode::ReadOnly => {
            let journal = journal.under(config.after_loss);
            Arc::new(ReadOnlyClient::new(ledger, journal, clock))
        }
    })
}

/// Opens the file of a ledger.
pub(super) fn open_file(path: &Path, mode: Mode) -> Result<SqliteLedger, OpenError> {
    match mode {
        Mode::ReadWrite => SqliteLedger::open(path),
        Mode::ReadOnly => SqliteLedger::open_read_only(path),
    }
}

/// Opens the file of a journal.
pub(super) fn open_journal(path: &Path, mode: Mode) -> Result<Journal, JournalError> {
    match mode {
        Mode::ReadWrite => Journal::open(path),
        Mode::ReadOnly => Journal::open_read_only(path),
    }
}

/// Opens a copy in memory of the ledger that `config` names, with what it lacks. Nothing is written, neither to the ledger nor on
/// this machine.
///
/// # Errors
/// As [`open`].
pub(super) async fn open_with(
    lacking: &[(Arc<Account>, Missing)],
    config: &LedgerConfig,
    state_dir: &Path,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn LedgerClient>, OpenLedgerError> {
    match &config.store {
        LedgerStore::Sqlite => {
            let ledger = SqliteLedger::open_read_only(&state_dir.join(LEDGER_FILE))?;
            let copy = ledger.in_memory().await?;
            let now = clock.now();
            for (account, missing) in lacking {
                copy.absorb(account, &missing.charges(), &[], now).await?;
                for (limit, closing) in &missing.closings {
                    copy.close(account, limit, *closing, now).await?;
                }
            }
            Ok(Arc::new(LocalClient::new(copy, clock)))
        }
        LedgerStore::Redis(url) => {
            let journal = Journal::open_read_only(&state_dir.join(JOURNAL_FILE))?;
            let copy = journal.in_memory().await?.under(config.after_loss);
            for (account, missing) in lacking {
                // In a journal it is what the ledger does not have yet, which a report adds to its use.
                copy.add(account, &missing.charges()).await?;
                for (limit, closing) in &missing.closings {
                    copy.close(account, limit, *closing, clock.now()).await?;
                }
            }
            let ledger = Arc::new(RedisLedger::new(url, config)?);
            Ok(Arc::new(ReadOnlyClient::new(ledger, copy, clock)))
        }
    }
}
