//! Limits that the upstream reported exhausted (table `closing`). They bind unmetered calls too (L30), and are sent again
//! after a loss (L38).

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::{Journal, JournalError, JournalTime};
use crate::Granted;
use ingest_quota::admission::ClosingState;
use ingest_quota::{Account, Closing, Cost, LimitName, Timestamp};

/// A closing that the ledger does not have yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingClosing {
    pub limit: LimitName,
    /// `None` when the limit was reopened.
    pub closing: Option<Closing>,
    /// Of a reopening: until when this machine knew the limit to be closed; `None` where it knew of no closing.
    pub opens: Option<Timestamp>,
    version: i64,
}

impl PendingClosing {
    /// Until when the limit is closed; `None` when it was reopened.
    pub const fn closed_until(&self) -> Option<Timestamp> {
        match self.closing {
            Some(Closing::Until(until) | Closing::Copied { until, .. }) => Some(until),
            // A journal holds no closing without its end.
            Some(Closing::Probing) | None => None,
        }
    }
}

impl Journal {
    /// Records that a limit is closed; of two closings the later holds.
    pub async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
        now: Timestamp,
    ) -> Result<(), JournalError> {
        let (account, limit) = (account.name.clone(), limit.to_owned());
        self.write(move |tx| {
            let existing = closed(tx, &account, &limit)?;
            let state = closing.over(existing, now);
            match existing == Some(state) {
                true => Ok(()),
                false => store(tx, &account, &limit, state, InLedger::No),
            }
        })
        .await
    }

    /// Records that a limit was reopened, and until when it was known to be closed: a closing that ends later is a newer one,
    /// which holds (L18). A ledger that comes back from before a `reopen` is closed again all the same: after
    /// a loss machines send what is closed, not what was reopened, since nobody can tell which of the two is newer.
    pub async fn reopen(&self, account: &Account, limit: &str) -> Result<(), JournalError> {
        let (account, limit) = (account.name.clone(), limit.to_owned());
        self.write(move |tx| {
            let upsert = "insert into closing (account, limit_name, probing, told) values (?, ?, 0, 0)
                 on conflict do update set until = null, probing = 0, probe_interval = null, told = 0, version = version + 1,
                     opens = case when until is not null then until when not told then opens end";
            tx.prepare_cached(upsert)?.execute([account, limit]).map(drop)
        })
        .await
    }

    /// Records a closing that the ledger reported, unless this machine has a newer one pending. The ledger reports until
    /// when the limit is closed, not whether a probe follows.
    pub async fn learn(
        &self,
        account: &Account,
        limit: &str,
        until: Timestamp,
    ) -> Result<(), JournalError> {
        let (account, limit) = (account.name.clone(), limit.to_owned());
        self.write(move |tx| {
            let insert = "insert into closing (account, limit_name, until, probing, told) values (?, ?, ?, 0, 1)
                 on conflict do update set until = excluded.until, version = version + 1
                 where told and (until is null or excluded.until > until)";
            tx.prepare_cached(insert)?.execute(params![account, limit, until.micros()]).map(drop)
        })
        .await
    }

    /// Returns the closings that hold at `now`, or whose end is found out by a probe.
    pub async fn closings(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<(LimitName, Closing)>, JournalError> {
        let account = account.name.clone();
        self.look(move |connection| holding(connection, &account, now))
            .await
    }

    /// Forgets a closing that another ledger has from now on. This one keeps what it has heard of it.
    pub async fn forget_closing(&self, account: &Account, limit: &str) -> Result<(), JournalError> {
        let (account, limit) = (account.name.clone(), limit.to_owned());
        self.write(move |tx| {
            let delete = "delete from closing where account = ? and limit_name = ?";
            tx.prepare_cached(delete)?
                .execute([account, limit])
                .map(drop)
        })
        .await
    }

    /// Returns the closings that the ledger does not have yet.
    pub async fn pending_closings(
        &self,
        account: &Account,
    ) -> Result<Vec<PendingClosing>, JournalError> {
        let account = account.name.clone();
        self.look(move |connection| {
            let select = "select limit_name, version, until, probing, probe_interval, opens from closing where account = ? and told = 0";
            connection.prepare_cached(select)?.query_map([&account], read)?.collect()
        })
        .await
    }

    /// Records that the ledger has a closing as it was when it was read.
    pub async fn mark_closing_synced(
        &self,
        account: &Account,
        synced: &PendingClosing,
    ) -> Result<(), JournalError> {
        let (account, synced) = (account.name.clone(), synced.clone());
        self.write(move |tx| {
            let update =
                "update closing set told = 1 where account = ? and limit_name = ? and version = ?";
            tx.prepare_cached(update)?
                .execute(params![account, synced.limit, synced.version])
                .map(drop)
        })
        .await
    }
}

/// Returns all closings that still hold.
pub fn holding(
    connection: &Connection,
    account: &str,
    now: Timestamp,
) -> rusqlite::Result<Vec<(LimitName, Closing)>> {
    let select = "select limit_name, version, until, probing, probe_interval, opens from closing where account = ? and (until > ? or probing)";
    let mut statement = connection.prepare_cached(select)?;
    let closings = statement.query_map(params![account, now.micros()], read)?;
    let closings = closings.collect::<rusqlite::Result<Vec<PendingClosing>>>()?;
    let holding = |one: PendingClosing| Some((one.limit, one.closing?));
    Ok(closings.into_iter().filter_map(holding).collect())
}

/// Whether the ledger has a closing as it is stored here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InLedger {
    Yes,
    No,
}

/// Stores the closing of a limit.
fn store(
    connection: &Connection,
    account: &str,
    limit: &str,
    state: ClosingState,
    in_ledger: InLedger,
) -> rusqlite::Result<()> {
    let upsert = "insert into closing (account, limit_name, until, probing, probe_interval, told) values (?, ?, ?, ?, ?, ?)
         on conflict do update set until = excluded.until, probing = excluded.probing,
             probe_interval = excluded.probe_interval, opens = null, told = excluded.told, version = version + 1";
    let (until, interval) = (state.until.micros(), state.interval_micros());
    let told = in_ledger == InLedger::Yes;
    connection
        .prepare_cached(upsert)?
        .execute(params![
            account,
            limit,
            until,
            interval.is_some(),
            interval,
            told
        ])
        .map(drop)
}

/// Applies a grant. A limit that the ledger grants is open, so a closing that it reported before is over. One that this
/// grant probes stays closed until the upstream has answered.
pub fn apply_grant(
    tx: &Transaction<'_>,
    moment: &JournalTime,
    granted: &Granted,
) -> rusqlite::Result<()> {
    let account = &moment.account;
    let mut statement = tx.prepare_cached(
        "update closing set until = null, probing = 0, probe_interval = null, version = version + 1
         where account = ? and limit_name = ? and told = 1 and until is not null",
    )?;
    for limit in granted.used.keys() {
        match granted.grant.probing.get(limit) {
            None => statement.execute([account, limit]).map(drop)?,
            Some(_) if is_pending(tx, account, limit)? => {}
            Some(interval) => {
                let state = ClosingState::after_probe(*interval, moment.now);
                store(tx, account, limit, state, InLedger::Yes)?;
            }
        }
    }
    Ok(())
}

/// Whether the ledger does not have a closing or reopening of this machine yet: that is newer than what it reported.
fn is_pending(tx: &Transaction<'_>, account: &str, limit: &str) -> rusqlite::Result<bool> {
    let select = "select 1 from closing where account = ? and limit_name = ? and told = 0";
    tx.prepare_cached(select)?.exists([account, limit])
}

/// How closings bind an unmetered charge.
pub enum Binding {
    /// It may go ahead, and probes these limits, each with the interval of its last closing.
    Open(BTreeMap<LimitName, Duration>),
    /// This limit is closed until then.
    Closed(LimitName, Timestamp),
}

/// Returns the limit that keeps an unmetered charge from going ahead. A limit whose reset is unknown grants a probe after
/// its interval (L19).
pub fn binding(
    tx: &Transaction<'_>,
    account: &Account,
    cost: &Cost,
    now: Timestamp,
) -> rusqlite::Result<Binding> {
    let mut probing = BTreeMap::new();
    for (limit, _) in account.charged(cost) {
        match closed(tx, &account.name, limit)? {
            Some(state) if state.until > now => {
                return Ok(Binding::Closed(limit.clone(), state.until));
            }
            state => probing.extend(state.and_then(|state| Some((limit.clone(), state.interval?)))),
        }
    }
    Ok(Binding::Open(probing))
}

/// Closes again, for a minute, the limits that an unmetered charge probes (L19).
pub fn close_for_probes(
    tx: &Transaction<'_>,
    account: &Account,
    probing: &BTreeMap<LimitName, Duration>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let update = "update closing set until = ?, probe_interval = ?, version = version + 1 where account = ? and limit_name = ?";
    for (limit, interval) in probing {
        let state = ClosingState::after_probe(*interval, now);
        let (until, interval) = (state.until.micros(), state.interval_micros());
        tx.prepare_cached(update)?
            .execute(params![until, interval, account.name, limit])?;
    }
    Ok(())
}

fn closed(
    connection: &Connection,
    account: &str,
    limit: &str,
) -> rusqlite::Result<Option<ClosingState>> {
    let select =
        "select until, probing, probe_interval from closing where account = ? and limit_name = ?";
    let mut statement = connection.prepare_cached(select)?;
    let state = statement.query_row([account, limit], |row| state(row, 0));
    state.optional().map(Option::flatten)
}

fn read(row: &Row<'_>) -> rusqlite::Result<PendingClosing> {
    let opens = row.get::<_, Option<i64>>(5)?;
    Ok(PendingClosing {
        limit: row.get(0)?,
        closing: state(row, 2)?.map(Closing::from),
        opens: opens.map(Timestamp::from_micros),
        version: row.get(1)?,
    })
}

/// Reads the closing from three columns from `first` on; `None` when the limit was reopened.
fn state(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<ClosingState>> {
    let until = row
        .get::<_, Option<i64>>(first)?
        .map(Timestamp::from_micros);
    let (probing, interval) = (row.get(first + 1)?, row.get(first + 2)?);
    Ok(until.map(|until| ClosingState::stored(until, probing, interval)))
}
