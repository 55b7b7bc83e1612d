//! Who charges the ledger file of this machine now. A ledger that is new while others still charge the one that was there
//! before it cannot know what they spend: it is filled once they have ended, as they do at their next charge.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

use crate::{LedgerClient, OpenLedgerError};
use ingest_base::clock::Monotonic;
use ingest_base::private::Directory;

/// How long other processes can take to end: a request and the pauses before it.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// The lock of a process that charges.
#[derive(Debug)]
pub struct Charging {
    file: File,
    path: PathBuf,
}

impl Charging {
    /// Notes that this process charges. Waits while another one fills a new ledger.
    pub async fn begin(state_dir: &Path) -> Result<Self, OpenLedgerError> {
        let path = state_dir.join("locks").join("charging.lock");
        let opened = Directory::open(state_dir)
            .and_then(|state| state.create_below("locks")?.append("charging.lock"));
        let charging = Self {
            file: opened.map_err(|error| cannot_lock(&path, error))?,
            path,
        };
        charging.share().await?;
        Ok(charging)
    }

    /// Waits until nobody else charges, or the ledger is no longer empty; says whether this process is alone. If so,
    /// nobody else begins to charge before `share`.
    pub async fn alone_while_empty(
        &self,
        ledger: &dyn LedgerClient,
    ) -> Result<bool, OpenLedgerError> {
        let began = Monotonic::now();
        let mut said = false;
        // No lock is taken in place of another one while others may want the same.
        self.file.unlock().map_err(|error| self.failed(error))?;
        loop {
            // Tried again and again: a lock that blocks has no deadline, and does not see that the ledger was filled.
            match self.file.try_lock() {
                // Asked again: who had the lock may have filled it.
                Ok(()) => return Ok(ledger.is_empty().await?),
                Err(TryLockError::Error(error)) => return Err(self.failed(error)),
                Err(TryLockError::WouldBlock) if !ledger.is_empty().await? => {
                    return Ok(false);
                }
                Err(TryLockError::WouldBlock) => {}
            }
            if began.elapsed() > PATIENCE {
                return Err(OpenLedgerError::StillUsed);
            }
            if !said && began.elapsed() > Duration::from_secs(1) {
                tracing::warn!(
                    "ledger.db is new while another run is in progress; waiting for that run to \
                    end, to count what it spends"
                );
                said = true;
            }
            sleep(PAUSE).await;
        }
    }

    /// Lets others charge too.
    pub async fn share(&self) -> Result<(), OpenLedgerError> {
        let began = Monotonic::now();
        loop {
            match self.file.try_lock_shared() {
                Ok(()) => return Ok(()),
                Err(TryLockError::Error(error)) => return Err(self.failed(error)),
                Err(TryLockError::WouldBlock) if began.elapsed() > PATIENCE => {
                    return Err(OpenLedgerError::StillUsed);
                }
                Err(TryLockError::WouldBlock) => sleep(PAUSE).await,
            }
        }
    }

    fn failed(&self, source: io::Error) -> OpenLedgerError {
        cannot_lock(&self.path, source)
    }
}

fn cannot_lock(path: &Path, source: io::Error) -> OpenLedgerError {
    let path = path.to_owned();
    OpenLedgerError::Lock { path, source }
}
