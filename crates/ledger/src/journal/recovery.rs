//! After the ledger lost its data: what this machine sends it again.

use std::collections::{BTreeSet, HashMap};

use rusqlite::{Connection, OptionalExtension, params};

use super::position::{self, record_ledger};
use super::{Journal, JournalError, JournalTime, closings, rows};
use crate::{LedgerPosition, Seen};
use ingest_quota::admission::remembered_from;
use ingest_quota::{Account, ChargeId, Closing, Cost, Entry, Floor, LimitName, Timestamp};

/// Everything that this machine knows of a ledger that lost its data.
#[derive(Debug, Clone)]
pub struct Recovery {
    /// What it had seen of the ledger.
    pub seen: Seen,
    /// The ledger that it was in step with; `None` when none was recorded.
    pub ledger: Option<String>,
    /// Its charges of the window, the newest last.
    pub entries: Vec<Entry>,
    /// The use that the ledger had reported.
    pub floors: Vec<Floor>,
    /// The limits that the upstream reported exhausted.
    pub closings: Vec<(LimitName, Closing)>,
}

impl Journal {
    /// Records that the ledger lost the data of an epoch, and collects what to send again. From now on no grant of any
    /// process of this machine is good until `finish_recovery` (L37): what is collected is all that may have been sent.
    /// Returns `None` when that epoch is over: another task has sent all of it.
    pub async fn start_recovery(
        &self,
        account: &Account,
        epoch: &str,
        now: Timestamp,
    ) -> Result<Option<Recovery>, JournalError> {
        let (account, epoch) = (account.clone(), epoch.to_owned());
        self.write(move |tx| {
            let moment = JournalTime::new(&account, now);
            if position::stored(tx, &moment)?.seen.epoch != epoch {
                return Ok(None);
            }
            let start = "update contact set recovering = 1 where account = ?";
            tx.execute(start, [&account.name])?;
            collect(tx, &account, &moment).map(Some)
        })
        .await
    }

    /// Returns this machine's charges of the window; void ones are among them, at no cost.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn charges(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<Entry>, JournalError> {
        let moment = JournalTime::new(account, now);
        self.look(move |connection| own_charges(connection, &moment))
            .await
    }

    /// Returns the units of those charges that passes of the catalog record too: not what was charged by hand, nor what an
    /// upstream reported of another client.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn spent_by_passes(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Cost, JournalError> {
        let moment = JournalTime::new(account, now);
        self.look(move |connection| spent_by_passes(connection, &moment))
            .await
    }

    /// Records that everything was sent again, and the epoch in which. What another process has recorded before stays.
    /// What survived of a ledger that is not `intact` can hold a charge without its settlement: all settlements are sent
    /// once more (L44).
    pub async fn finish_recovery(
        &self,
        account: &Account,
        position: &LedgerPosition,
        intact: bool,
        wait_until: Option<Timestamp>,
    ) -> Result<(), JournalError> {
        // A settlement of an id that the ledger has forgotten would be counted beside its charge.
        let settled_from = remembered_from(account, position.at).micros();
        let (account, position) = (account.name.clone(), position.clone());
        let wait_until = wait_until.map_or(0, Timestamp::micros);
        let ledger = self.ledger.clone();
        self.write(move |tx| {
            let sequence = i64::try_from(position.sequence).unwrap_or(i64::MAX);
            let at = position.at.micros();
            tx.execute(
                "update contact set epoch = ?, sequence = ?, at = max(at, ?), recovering = 0,
                     wait_until = max(wait_until, ?)
                 where account = ? and recovering = 1",
                params![position.epoch, sequence, at, wait_until, account],
            )?;
            if !intact {
                tx.execute(
                    "update charge set told = 0, version = version + 1
                     where account = ? and settled and at > ?",
                    params![account, settled_from],
                )?;
            }
            record_ledger(tx, &account, ledger.as_deref())
        })
        .await
    }

    /// Returns the least use of each limit that this machine knows of, for a report on a ledger that lost its data.
    pub async fn recorded_use(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Cost, JournalError> {
        let account = account.clone();
        self.look(move |connection| recorded_use(connection, &account, now))
            .await
    }
}

fn collect(
    connection: &Connection,
    account: &Account,
    moment: &JournalTime,
) -> rusqlite::Result<Recovery> {
    let seen = position::stored(connection, moment)?.seen;
    let floors = floors(connection, account, moment.now)?;
    let mut entries = own_charges(connection, moment)?;
    // What the floors contain already is left out: the ledger may have it merged, under no id that this machine knows
    // (L38).
    let granted = granted_long_ago(connection, moment)?;
    let reported = by_limit(&floors);
    entries.retain(|entry| !(granted.contains(&entry.id) && is_covered(entry, &reported)));
    // A stable sort that puts the newest charge last.
    entries.sort_by_key(|entry| Some(&entry.id) == seen.newest.as_ref());
    Ok(Recovery {
        seen,
        ledger: ledger(connection, &account.name)?,
        entries,
        floors,
        closings: closings::holding(connection, &account.name, moment.now)?,
    })
}

fn ledger(connection: &Connection, account: &str) -> rusqlite::Result<Option<String>> {
    let select = "select ledger from contact where account = ?";
    let found = connection.query_row(select, [account], |row| row.get(0));
    Ok(found.optional()?.flatten())
}

/// This machine's charges of the window. Void ones are among them, at no cost, since they may still arrive.
fn own_charges(connection: &Connection, moment: &JournalTime) -> rusqlite::Result<Vec<Entry>> {
    let mut statement = connection.prepare_cached(
        // What was only requested is left out: its grant is void (L37), and it is charged again.
        "select id, at, cost, origin from charge where account = ? and at > ? and state != 'asked' order by at",
    )?;
    let from = (moment.now - moment.window).micros();
    statement
        .query_map(params![moment.account, from], rows::entry)?
        .collect()
}

/// Ids of granted charges that the ledger may have merged with others while they count: one that survived would be counted
/// again. None where the ledger remembers the ids of all charges that count.
fn granted_long_ago(
    connection: &Connection,
    moment: &JournalTime,
) -> rusqlite::Result<BTreeSet<ChargeId>> {
    let mut statement = connection.prepare_cached(
        "select id from charge where account = ? and at > ? and at <= ? and state = 'sent' and known and not unmetered
             and call is not null",
    )?;
    let from = (moment.now - moment.window).micros();
    let until = (moment.now - moment.remembered).micros();
    let ids = statement.query_map(params![moment.account, from, until], |row| {
        row.get::<_, String>(0)
    })?;
    ids.map(|id| Ok(ChargeId::new(id?))).collect()
}

/// Whether what the ledger reported later contains a charge.
fn is_covered(entry: &Entry, reported: &HashMap<&str, &Floor>) -> bool {
    entry.cost.limits().all(|limit| {
        let floor = reported.get(limit.as_str());
        floor.is_some_and(|floor| floor.at >= entry.at)
    })
}

fn spent_by_passes(connection: &Connection, moment: &JournalTime) -> rusqlite::Result<Cost> {
    let select = "select cost from charge where account = ? and at > ? and state != 'asked'
             and (job is not null or call is null) and origin != 'reported'";
    let from = (moment.now - moment.window).micros();
    rows::sum(connection, select, params![moment.account, from])
}

fn floors(
    connection: &Connection,
    account: &Account,
    now: Timestamp,
) -> rusqlite::Result<Vec<Floor>> {
    let mut floors = Vec::new();
    for (name, limit) in &account.limits {
        let reported = position::last_reported(connection, &account.name, name)?;
        // A floor whose time has left the window holds nothing any more (L40).
        let counting = reported.filter(|(at, _)| limit.window().expiry(*at) > now);
        floors.extend(counting.map(|(at, used)| Floor {
            limit: name.clone(),
            at,
            used,
        }));
    }
    Ok(floors)
}

fn recorded_use(
    connection: &Connection,
    account: &Account,
    now: Timestamp,
) -> rusqlite::Result<Cost> {
    let floors = floors(connection, account, now)?;
    let floors = by_limit(&floors);
    let (mut used, mut above) = (Cost::none(), Cost::none());
    for entry in own_charges(connection, &JournalTime::new(account, now))? {
        for (name, units) in entry.cost.iter() {
            let limit = account.limits.get(name);
            if limit.is_some_and(|limit| limit.window().expiry(entry.at) > now) {
                used.set(name, used.of(name) + units);
            }
            let floor = floors.get(name.as_str());
            if floor.is_some_and(|floor| entry.at > floor.at) {
                above.set(name, above.of(name) + units);
            }
        }
    }
    for (name, floor) in floors {
        used.set(name, used.of(name).max(floor.used + above.of(name)));
    }
    Ok(used)
}

/// The floors by the name of their limit: a journal has one of each.
fn by_limit(floors: &[Floor]) -> HashMap<&str, &Floor> {
    let floors = floors.iter();
    floors.map(|floor| (floor.limit.as_str(), floor)).collect()
}
