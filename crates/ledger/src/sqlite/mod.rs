//! The ledger of one machine: a SQLite file that any number of its processes share.
//!
//! A charge is one transaction, so decision and record cannot come apart. What was granted survives the death of any
//! process. A loss of power may take the charges since SQLite's last checkpoint (every few hundred charges, and when
//! the last process ends): waiting for the disk at each charge would make it a hundred times slower, and the headroom covers
//! such a loss.

mod afterwards;
mod charge;
mod charging;
mod client;
mod merge;
mod rows;
mod schema;
mod spent;
mod witness;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::Connection;

use self::charge::Charged;
use self::rows::{Newest, Rows};
pub use self::schema::KEEP;
use self::schema::SCHEMA;
use super::{Charge, Ledger, LedgerError, OpenLedgerError, Spent};
pub use charging::Charging;
pub use client::{LocalClient, Watch};
use ingest_base::apart::apart;
use ingest_quota::admission::{LimitState, kept_from, ledger_time};
use ingest_quota::{
    Account, ChargeId, Closing, Cost, Decision, Entry, Floor, LimitName, LimitUsage, Timestamp,
    Units,
};
use ingest_sqlite as sqlite;
use ingest_sqlite::{Database, Files, OpenError, Writing};
pub use witness::{ForgottenLedger, Witness};

/// A ledger that is this far ahead of its machine's clock is reported.
const NOTEWORTHY: Duration = Duration::from_secs(5 * 60);
const GRAVE: Duration = Duration::from_secs(60 * 60);

/// The ledger of one machine.
#[derive(Debug, Clone)]
pub struct SqliteLedger {
    database: Arc<Mutex<Database>>,
    path: PathBuf,
    witness: Witness,
}

impl SqliteLedger {
    /// Opens the ledger in `path`; creates or upgrades the file as needed.
    ///
    /// # Errors
    /// When the file cannot be opened, is damaged, or was written by a later release.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Ok(Self::over(path, sqlite::open(path, SCHEMA)?))
    }

    /// Opens the ledger in `path`, unless this process has charged it before and it no longer knows that.
    ///
    /// # Errors
    /// As [`Self::open`]; and when the file is gone, was replaced or emptied since `witness` saw it.
    pub fn open_seen(path: &Path, witness: &Witness) -> Result<Self, OpenLedgerError> {
        witness.in_place(path)?;
        let ledger = Self {
            witness: witness.clone(),
            ..Self::open(path)?
        };
        // Behind the opening, which creates a file that is gone.
        witness.in_place(path)?;
        witness.opened(path);
        // Before the file is read: what others are granted meanwhile is newer than what is read.
        for (account, granted) in witness.newest() {
            let newest = ledger.database.lock().read(|connection| {
                Rows::new(connection, &account)
                    .newest()
                    .map(|newest| newest.charge)
            });
            if newest.map_err(|error| broken(&error))? < Some(granted) {
                return Err(Witness::emptied(path).into());
            }
        }
        Ok(ledger)
    }

    /// Opens the ledger in `path` for reading, and writes nothing to the disk. When there is no file yet, it
    /// is an empty ledger.
    ///
    /// # Errors
    /// When the file cannot be opened, is damaged, or has another version than this release.
    pub fn open_read_only(path: &Path) -> Result<Self, OpenError> {
        let database = match sqlite::open_read_only(path, SCHEMA)? {
            Some(database) => database,
            None => sqlite::open_empty(SCHEMA)?,
        };
        Ok(Self::over(path, database))
    }

    /// Returns an empty ledger in memory, which lives as long as its value.
    ///
    /// # Errors
    /// When SQLite has no memory for it.
    pub fn empty() -> Result<Self, LedgerError> {
        let path = Path::new(":memory:");
        let empty = sqlite::in_memory(SCHEMA);
        let empty = empty.map_err(|error| LedgerError::Broken(error.to_string()))?;
        Ok(Self::over(path, empty))
    }

    /// Returns a copy of the ledger in memory.
    ///
    /// # Errors
    /// When the file fails.
    pub async fn in_memory(&self) -> Result<Self, LedgerError> {
        let copy = self.apart(Database::in_memory).await?;
        Ok(Self::over(&self.path, copy))
    }

    /// Returns the first instant, now or later, at which no more than `most` units of a limit count if nothing is charged;
    /// `None` for a limit that the account lacks. Writes nothing.
    ///
    /// # Errors
    /// When the file fails.
    pub async fn falls_to(
        &self,
        account: &Account,
        limit: &str,
        most: Units,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, LedgerError> {
        let name = limit.to_owned();
        self.read_account(account, now, move |rows, account, moment| {
            let Some(limit) = account.limits.get(&name) else {
                return Ok(None);
            };
            let history = rows.limit(&name, moment.newest);
            let state = LimitState::read(&name, limit, history, moment.now)?;
            state.falls_to(most).map(Some)
        })
        .await
    }

    /// Returns what was charged since `from`, limit by limit, oldest first. Writes nothing.
    ///
    /// # Errors
    /// When the file fails.
    pub async fn spent(
        &self,
        account: &Account,
        from: Timestamp,
    ) -> Result<Vec<Spent>, LedgerError> {
        let account = account.clone();
        self.read(move |connection| {
            spent::spent(Rows::new(connection, &account.name), &account, from)
        })
        .await
    }

    /// Returns the charges that can count now, with their ids, without those that took nothing. Writes nothing.
    ///
    /// # Errors
    /// When the file fails.
    pub async fn entries(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<Entry>, LedgerError> {
        self.read_account(account, now, |rows, account, moment| {
            rows.entries(kept_from(account, moment.now))
        })
        .await
    }

    /// Returns the closings that hold at `now`, or whose end is found out by a probe. Writes nothing.
    ///
    /// # Errors
    /// When the file fails.
    pub async fn closings(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<(LimitName, Closing)>, LedgerError> {
        self.read_account(account, now, |rows, _, moment| rows.closings(moment.now))
            .await
    }

    /// Counts charges of a limit, of which this ledger counts nothing yet: by their times and units alone, so that none of them can
    /// be repeated or corrected. For the beginning of a simulation, in a small part of the time that `absorb` takes.
    ///
    /// # Errors
    /// When the file fails.
    pub async fn fill(
        &self,
        account: &Account,
        limit: &str,
        mut charges: Vec<(Timestamp, Units)>,
    ) -> Result<(), LedgerError> {
        charges.sort_by_key(|(at, _)| *at);
        let (account, limit) = (account.name.clone(), limit.to_owned());
        self.write(move |connection| {
            afterwards::fill(Rows::new(connection, &account), &limit, &charges)
        })
        .await
    }

    fn over(path: &Path, database: Database) -> Self {
        Self {
            database: Arc::new(Mutex::new(database)),
            path: path.to_owned(),
            witness: Witness::default(),
        }
    }

    /// What became of a charge. One that was granted is noted: a file without it has forgotten it.
    fn noted(&self, account: &str, charged: Charged) -> Result<Decision, LedgerError> {
        match charged {
            Charged::Decided(decision, None) => Ok(decision),
            Charged::Decided(decision, Some(place)) => {
                self.witness.granted(account, place);
                Ok(decision)
            }
            Charged::Forgotten => Err(Witness::emptied(&self.path).into()),
        }
    }

    /// Reads one state of an account, at its time.
    async fn read_account<T: Send + 'static>(
        &self,
        account: &Account,
        now: Timestamp,
        act: impl Fn(Rows<'_>, &Account, Moment) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let account = account.clone();
        self.read_few(move |connection| {
            let rows = Rows::new(connection, &account.name);
            act(rows, &account, Moment::read(rows, now)?)
        })
        .await
    }

    /// Writes to an account, at its time, all or nothing.
    async fn write_account<T: Send + 'static>(
        &self,
        account: &Account,
        now: Timestamp,
        act: impl Fn(Rows<'_>, &Account, Moment) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let account = account.clone();
        self.write(move |connection| {
            let rows = Rows::new(connection, &account.name);
            act(rows, &account, Moment::read(rows, now)?)
        })
        .await
    }

    /// Reads from one state of the ledger.
    async fn read<T: Send + 'static>(
        &self,
        act: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.apart(move |database| database.read(act)).await
    }

    /// Reads a few rows: on this thread when nothing else uses the file, as [`Self::write`] does.
    async fn read_few<T: Send + 'static>(
        &self,
        act: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let read = self
            .database
            .try_lock()
            .map(|database| database.read_at_once(&act));
        match read.transpose() {
            Ok(Some(Some(read))) => Ok(read),
            Ok(Some(None) | None) => self.read(act).await,
            Err(error) => Err(broken(&error)),
        }
    }

    /// Writes all or nothing. On this thread when no other process holds the lock: that is faster than waking another thread.
    async fn write<T: Send + 'static>(
        &self,
        act: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        match self.write_at_once(&act)? {
            Some(written) => Ok(written),
            None => self.write_apart(act).await,
        }
    }

    /// Writes on this thread; `None` when that would have to wait.
    fn write_at_once<T>(
        &self,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, LedgerError> {
        // Another task of this process has the file: to wait here would stop the others on this thread.
        let Some(database) = self.database.try_lock() else {
            return Ok(None);
        };
        let begun = Writing::begin_at_once(&database);
        let begun = begun.map_err(|error| broken(&database.confirmed(error)))?;
        let Some(transaction) = begun else {
            return Ok(None);
        };
        let done = done(transaction, act, database.files());
        // Behind the commit: a file that was replaced before it has taken the charge with it.
        let done = done.and_then(|done| database.in_place().map(|()| Some(done)));
        done.map_err(|error| broken(&database.confirmed(error)))
    }

    async fn write_apart<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        self.apart(move |database| {
            let files = database.files().cloned();
            let written = database
                .change(|connection| done(Writing::begin(connection)?, act, files.as_ref()));
            written.map_err(|error| database.confirmed(error))
        })
        .await
    }

    /// Runs on a thread that may wait for other processes.
    async fn apart<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Database) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, LedgerError> {
        let database = Arc::clone(&self.database);
        let work = move || act(&mut database.lock());
        match apart(work).await {
            Ok(done) => done.map_err(|error| broken(&error)),
            Err(error) => Err(LedgerError::Broken(format!(
                "a ledger operation was interrupted: {error}"
            ))),
        }
    }
}

/// Acts, and commits unless the log was deleted or replaced: one that was deleted alone is written into the ledger's file when
/// the process ends, so a charge in it would count though its request was never sent. The ledger's own file is compared
/// once, behind the commit.
fn done<T>(
    transaction: Writing<'_>,
    act: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    files: Option<&Files>,
) -> rusqlite::Result<T> {
    let answer = act(&transaction)?;
    files.map_or(Ok(()), Files::log_in_place)?;
    transaction.commit().map(|()| answer)
}

fn broken(error: &rusqlite::Error) -> LedgerError {
    LedgerError::Broken(format!("the ledger failed: {}", sqlite::explain(error)))
}

/// The ledger's time, and the place of the next charge in it.
#[derive(Debug, Clone, Copy)]
struct Moment {
    /// The caller's clock.
    callers: Timestamp,
    /// The caller's clock, or the latest time of the account: a clock that was set back returns no unit (L4).
    now: Timestamp,
    /// The number of charges made at this microsecond.
    n: i64,
    newest: Newest,
}

impl Moment {
    fn read(rows: Rows<'_>, callers: Timestamp) -> rusqlite::Result<Self> {
        let newest = rows.newest()?;
        let charged_at = newest.charge.map(|charge| charge.at);
        charged_at
            .iter()
            .for_each(|at| say_ahead(at.since(callers)));
        let now = ledger_time(callers, charged_at, newest.floor);
        let at_once = newest.charge.filter(|charge| charge.at == now);
        Ok(Self {
            callers,
            now,
            n: at_once.map_or(0, |charge| charge.n.saturating_add(1)),
            newest,
        })
    }
}

/// Reports once that this machine's clock was set back: until it has caught up, no unit returns.
fn say_ahead(ahead: Duration) {
    static SAID: Once = Once::new();
    if ahead > NOTEWORTHY {
        SAID.call_once(|| {
            let said = format!(
                "the ledger's newest charge is {} ahead of this machine's clock, which was ahead \
                then or is behind now; no unit returns until the clock has caught up; \
                synchronize it (chrony, systemd-timesyncd). If the clock is right now, move \
                ledger.db away: the next run creates it and charges it with what the catalog's \
                passes spent",
                humantime::format_duration(Duration::from_secs(ahead.as_secs()))
            );
            // Work that stops for this long is a failure, although no run fails.
            if ahead > GRAVE {
                tracing::error!("{said}")
            } else {
                tracing::warn!("{said}")
            }
        });
    }
}

#[async_trait]
impl Ledger for SqliteLedger {
    async fn charge(&self, charge: Charge<'_>, now: Timestamp) -> Result<Decision, LedgerError> {
        let charged = self
            .write_at_once(|connection| charge::charge(connection, &self.witness, charge, now))?;
        if let Some(charged) = charged {
            return self.noted(&charge.account.name, charged);
        }
        // Copied only where the charge has to wait, since another thread needs what it owns.
        let (account, id, purpose) = (
            charge.account.clone(),
            charge.id.clone(),
            charge.purpose.clone(),
        );
        let (cost, leave) = (charge.cost.clone(), charge.leave.clone());
        let witness = self.witness.clone();
        let charged = self.write_apart(move |connection| {
            let charge = Charge {
                account: &account,
                id: &id,
                cost: &cost,
                leave: &leave,
                purpose: &purpose,
            };
            charge::charge(connection, &witness, charge, now)
        });
        self.noted(&charge.account.name, charged.await?)
    }

    async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        let (id, cost) = (id.clone(), cost.clone());
        self.write_account(account, now, move |rows, account, moment| {
            afterwards::settle(rows, account, &id, &cost, moment.now)
        })
        .await
    }

    async fn absorb(
        &self,
        account: &Account,
        entries: &[Entry],
        floors: &[Floor],
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        let (entries, floors) = (entries.to_vec(), floors.to_vec());
        self.write_account(account, now, move |rows, account, moment| {
            afterwards::absorb(rows, account, &entries, &floors, moment.now)
        })
        .await
    }

    async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        let limit = limit.to_owned();
        self.write_account(account, now, move |rows, _, moment| {
            afterwards::close(rows, &limit, closing, moment)
        })
        .await
    }

    async fn reopen(
        &self,
        account: &Account,
        limit: &str,
        now: Timestamp,
    ) -> Result<(), LedgerError> {
        let limit = limit.to_owned();
        self.write_account(account, now, move |rows, _, _| rows.reopen(&limit))
            .await
    }

    async fn usage(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<LimitUsage>, LedgerError> {
        self.read_account(account, now, |rows, account, moment| {
            let limits = account.limits.iter().map(|(name, limit)| {
                let history = rows.limit(name, moment.newest);
                LimitState::read(name, limit, history, moment.now)?.usage()
            });
            limits.collect()
        })
        .await
    }
}
