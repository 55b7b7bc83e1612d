//! What the ledger does not have yet: unmetered charges, true costs, and charges that nobody will ever send.

use std::time::Duration;

use rusqlite::{Connection, Row, params};
use rustix::process::{Pid, test_kill_process};

use super::merge::merge;
use super::rows::entry;
use super::{Journal, JournalError, charges};
use ingest_quota::{Account, ChargeId, Entry, Timestamp};

/// A charge that was requested longer ago than this is abandoned, whatever its process does (L22).
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// The number of charges that are read at once.
const BATCH: i64 = 200;

/// SQLite's word for no limit.
const ALL: i64 = -1;

/// A charge that the ledger does not have as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The charge.
    pub entry: Entry,
    /// Whether the ledger may not have it at all.
    pub absorb: bool,
    /// Whether its cost differs from what it was charged with.
    pub settle: bool,
    version: i64,
}

impl Journal {
    /// Returns what the ledger does not have yet, a bounded number at once. Charges that nobody will send any more become
    /// void here: a process that comes back to one finds it so, and charges again under a fresh id.
    pub async fn pending(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<Pending>, JournalError> {
        let account = account.name.clone();
        self.change(move |connection| {
            void_abandoned(connection, &account, now)?;
            pending(connection, &account, BATCH)
        })
        .await
    }

    /// Records that the ledger has these charges as they were when they were read.
    pub async fn mark_synced(
        &self,
        account: &Account,
        synced: &[Pending],
    ) -> Result<(), JournalError> {
        let (account, synced) = (account.name.clone(), synced.to_vec());
        self.write(move |tx| {
            let known =
                "update charge set known = 1 where account = ? and id = ? and state = 'sent'";
            // One that changed since it was read has another version, and is sent again as it is now.
            let told = "update charge set told = 1 where account = ? and id = ? and version = ?";
            for Pending { entry, version, .. } in &synced {
                let id = entry.id.as_str();
                tx.prepare_cached(known)?.execute([&account, id])?;
                tx.prepare_cached(told)?
                    .execute(params![account, id, version])?;
            }
            Ok(())
        })
        .await
    }

    /// Returns the charges that the ledger may lack. Changes nothing. One whose reply was lost may be recorded there.
    pub async fn unsynced(&self, account: &Account) -> Result<Vec<Entry>, JournalError> {
        let account = account.name.clone();
        let pending = self.look(move |connection| pending(connection, &account, ALL));
        let unsynced = pending.await?.into_iter().filter(|pending| pending.absorb);
        Ok(unsynced.map(|pending| pending.entry).collect())
    }

    /// Deletes what is older than two windows and not pending (L24), and merges what the ledger merges.
    pub async fn prune(&self, account: &Account, now: Timestamp) -> Result<(), JournalError> {
        let before = now - account.longest_window().saturating_mul(2);
        let account = account.clone();
        self.write(move |tx| {
            let delete =
                "delete from charge where account = ? and at < ? and told = 1 and state != 'asked'";
            tx.prepare_cached(delete)?
                .execute(params![account.name, before.micros()])?;
            merge(tx, &account, now)
        })
        .await
    }
}

fn void_abandoned(connection: &Connection, account: &str, now: Timestamp) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "select id, owner, asked_at from charge indexed by charge_open where account = ? and state = 'asked'",
    )?;
    let requested =
        statement.query_map([account], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let requested: Vec<(String, i32, i64)> = requested.collect::<rusqlite::Result<_>>()?;
    for (id, owner, requested_at) in requested {
        let age = now.since(Timestamp::from_micros(requested_at));
        // Its age counts too: the number of a process that ended may be that of another one by now.
        if age > ABANDONED_AFTER || !is_alive(owner) {
            charges::void(connection, account, &ChargeId::new(id))?;
        }
    }
    Ok(())
}

fn is_alive(process: i32) -> bool {
    // For a process of another user the call fails too, but with another error.
    Pid::from_raw(process).is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn pending(connection: &Connection, account: &str, most: i64) -> rusqlite::Result<Vec<Pending>> {
    let mut statement = connection.prepare_cached(
        "select id, at, cost, origin, state = 'sent' and not known, settled, version from charge indexed by charge_open
         where account = ? and told = 0 order by at limit ?",
    )?;
    let read = |row: &Row<'_>| {
        Ok(Pending {
            entry: entry(row)?,
            absorb: row.get(4)?,
            settle: row.get(5)?,
            version: row.get(6)?,
        })
    };
    statement.query_map(params![account, most], read)?.collect()
}
