//! Opens the ledger that the configuration names, and the journal beside a shared one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::redis::RedisLedger;
use super::{
    ClientError, ForgottenLedger, Journal, JournalError, Ledger, LedgerClient, LedgerError,
    LocalClient, Policy, ReadOnlyClient, SharedClient, SqliteLedger, Witness,
};
use ingest_base::clock::Clock;
use ingest_config::{LedgerConfig, LedgerStore, RedisUrl};
use ingest_quota::{Account, Entry};
use ingest_sqlite::OpenError;

/// The file of this machine's ledger, in the state directory.
pub const LEDGER_FILE: &str = "ledger.db";

/// The file of this machine's journal, there.
pub const JOURNAL_FILE: &str = "journal.db";

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

/// Opens the ledger that `config` names for charging, unless it is a file that no longer knows what `witness` saw. A shared
/// ledger notices that by itself.
///
/// # Errors
/// As [`open`]; and when the file is gone, was replaced or emptied.
pub fn open_seen(
    config: &LedgerConfig,
    state_dir: &Path,
    witness: &Witness,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn LedgerClient>, OpenLedgerError> {
    match &config.store {
        LedgerStore::Sqlite => {
            let ledger = SqliteLedger::open_seen(&state_dir.join(LEDGER_FILE), witness)?;
            Ok(Arc::new(LocalClient::new(Arc::new(ledger), clock)))
        }
        LedgerStore::Redis(_) => open(config, state_dir, Mode::ReadWrite, clock),
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
    match &config.store {
        LedgerStore::Sqlite => open_sqlite(&state_dir.join(LEDGER_FILE), mode, clock),
        LedgerStore::Redis(url) => {
            open_shared(config, url, &state_dir.join(JOURNAL_FILE), mode, clock)
        }
    }
}

/// Opens a copy in memory of the ledger that `config` names, with these charges added. Nothing is written, neither to the
/// ledger nor on this machine.
///
/// # Errors
/// As [`open`].
pub async fn open_with(
    charges: &[(Arc<Account>, Vec<Entry>)],
    config: &LedgerConfig,
    state_dir: &Path,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn LedgerClient>, OpenLedgerError> {
    match &config.store {
        LedgerStore::Sqlite => {
            let ledger = SqliteLedger::open_read_only(&state_dir.join(LEDGER_FILE))?;
            let copy = ledger.in_memory().await?;
            for (account, entries) in charges {
                copy.absorb(account, entries, &[], clock.now()).await?;
            }
            Ok(Arc::new(LocalClient::new(Arc::new(copy), clock)))
        }
        LedgerStore::Redis(url) => {
            let journal = Journal::open_read_only(&state_dir.join(JOURNAL_FILE))?;
            let copy = journal.in_memory().await?;
            for (account, entries) in charges {
                // In a journal they are charges that the ledger does not have yet, which a report adds to its use.
                copy.add(account, entries).await?;
            }
            let ledger = Arc::new(RedisLedger::configured(url, config)?);
            Ok(Arc::new(ReadOnlyClient::new(ledger, copy, clock)))
        }
    }
}

fn open_sqlite(
    path: &Path,
    mode: Mode,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn LedgerClient>, OpenLedgerError> {
    let ledger = match mode {
        Mode::ReadWrite => SqliteLedger::open(path)?,
        Mode::ReadOnly => SqliteLedger::open_read_only(path)?,
    };
    Ok(Arc::new(LocalClient::new(Arc::new(ledger), clock)))
}

fn open_shared(
    config: &LedgerConfig,
    url: &RedisUrl,
    journal: &Path,
    mode: Mode,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn LedgerClient>, OpenLedgerError> {
    let ledger = Arc::new(RedisLedger::configured(url, config)?);
    Ok(match mode {
        Mode::ReadWrite => {
            let journal = Journal::open(journal)?.of_ledger(url.identity());
            Arc::new(SharedClient::new(
                ledger,
                journal,
                Policy::from(config),
                clock,
            ))
        }
        Mode::ReadOnly => {
            let journal = Journal::open_read_only(journal)?;
            Arc::new(ReadOnlyClient::new(ledger, journal, clock))
        }
    })
}
