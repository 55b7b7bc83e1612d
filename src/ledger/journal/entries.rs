//! Charges that the ledger has yet to hear of: unmetered ones, true costs, and what nobody will ever send.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use rustix::process::{Pid, test_kill_process};

use super::book::{contact, cost, drop_expired, json, units, valid_id, write};
use super::closings::Binding;
use super::{Journal, JournalError, closings};
use crate::ledger::Purpose;
use crate::quota::{Account, ChargeId, Cost, Entry, LimitName, Timestamp, Units};

/// A charge that is asked for longer than this is abandoned, whatever its process does.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);
/// So many charges are told at once.
const BATCH: u32 = 200;

/// What this machine may spend without the ledger.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// Units of one account within a window, over all processes.
    pub units: Units,
}

/// Whether a charge may go ahead without the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unmetered {
    /// It is written down under this id, as the probe of these closed limits, each with the interval of its last closing.
    Allowed(ChargeId, BTreeMap<LimitName, Duration>),
    /// It was written down before, at this cost.
    Repeated(ChargeId, Cost),
    /// The allowance does not hold it.
    Spent,
    /// The upstream said that this limit is spent.
    Closed(LimitName, Timestamp),
}

/// A charge that the ledger does not have as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    pub entry: Entry,
    /// Whether the ledger may not have it at all.
    pub absorb: bool,
    /// Whether its cost is another than it was charged with.
    pub settle: bool,
    version: i64,
}

impl Journal {
    /// Writes a charge down before it goes ahead without the ledger, if the allowance holds it. The file is brought to
    /// the disk itself.
    pub async fn unmetered(
        &self,
        account: &Account,
        id: &ChargeId,
        (cost, purpose): (&Cost, &Purpose),
        allowance: Allowance,
        now: Timestamp,
    ) -> Result<Unmetered, JournalError> {
        let (account, id, cost, purpose) =
            (account.clone(), id.clone(), cost.clone(), purpose.clone());
        self.with(move |connection| {
            connection.pragma_update(None, "synchronous", "full")?;
            let unmetered = unmetered(connection, &account, &id, (&cost, &purpose), allowance, now);
            connection.pragma_update(None, "synchronous", "normal")?;
            unmetered
        })
        .await
    }

    /// Units that went unmetered since `from`, over all processes.
    pub async fn unmetered_since(
        &self,
        account: &Account,
        from: Timestamp,
    ) -> Result<Units, JournalError> {
        let account = account.name.clone();
        self.with(move |connection| spent(connection, &account, from))
            .await
    }

    /// Writes down what a charge truly cost.
    pub async fn settle(
        &self,
        account: &Account,
        id: &ChargeId,
        cost: &Cost,
        now: Timestamp,
    ) -> Result<(), JournalError> {
        let (account, id, cost) = (account.name.clone(), id.clone(), json(cost));
        self.with(move |connection| {
            let insert = "insert into charge (account, id, at, cost, state, settled, told, asked_at, owner)
                 values (?1, ?2, ?3, ?4, 'sent', 1, 0, ?3, ?5)
                 on conflict do update set cost = excluded.cost, settled = 1, told = 0, version = version + 1,
                     state = case state when 'asked' then 'void' else state end";
            connection
                .prepare_cached(insert)?
                .execute(params![account, id.as_str(), now.micros(), cost, std::process::id()])
                .map(drop)
        })
        .await
    }

    /// Writes down charges made elsewhere, each once.
    pub async fn add(&self, account: &Account, entries: &[Entry]) -> Result<(), JournalError> {
        let (account, entries) = (account.name.clone(), entries.to_vec());
        self.with(move |connection| {
            let tx = write(connection)?;
            for Entry { id, at, cost } in &entries {
                let insert = "insert into charge (account, id, at, cost, state, settled, told, asked_at, owner)
                     values (?1, ?2, ?3, ?4, 'sent', 1, 0, ?3, ?5) on conflict do nothing";
                let values = params![account, id.as_str(), at.micros(), json(cost), std::process::id()];
                tx.prepare_cached(insert)?.execute(values)?;
            }
            tx.commit()
        })
        .await
    }

    /// What the ledger has yet to be told, a bounded number at once. Charges that nobody will send any more become void
    /// here: a process that comes back to one finds it so, and charges anew.
    pub async fn pending(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<Pending>, JournalError> {
        let account = account.name.clone();
        self.with(move |connection| {
            void_abandoned(connection, &account, now)?;
            pending(connection, &account, i64::from(BATCH))
        })
        .await
    }

    /// Notes that the ledger has these charges as they were when they were read.
    pub async fn told(&self, account: &Account, told: &[Pending]) -> Result<(), JournalError> {
        let account = account.name.clone();
        let told: Vec<_> = told
            .iter()
            .map(|pending| (pending.entry.id.clone(), pending.version))
            .collect();
        self.with(move |connection| {
            let tx = write(connection)?;
            for (id, version) in &told {
                tx.prepare_cached(
                    "update charge set known = 1 where account = ? and id = ? and state = 'sent'",
                )?
                .execute(params![account, id.as_str()])?;
                tx.prepare_cached(
                    "update charge set told = 1 where account = ? and id = ? and version = ?",
                )?
                .execute(params![account, id.as_str(), version])?;
            }
            tx.commit()
        })
        .await
    }

    /// Charges that the ledger may lack, for those who only look: one whose answer was lost may be recorded there.
    pub async fn untold(&self, account: &Account) -> Result<Vec<Entry>, JournalError> {
        let account = account.name.clone();
        const ALL: i64 = -1;
        let pending = self
            .look(move |connection| pending(connection, &account, ALL))
            .await?
            .unwrap_or_default();
        let untold = pending.into_iter().filter(|pending| pending.absorb);
        Ok(untold.map(|pending| pending.entry).collect())
    }

    /// Drops what is older than two windows and told.
    pub async fn prune(&self, account: &Account, now: Timestamp) -> Result<(), JournalError> {
        let (before, account) = (
            now - account.longest_window().saturating_mul(2),
            account.name.clone(),
        );
        self.with(move |connection| {
            let delete =
                "delete from charge where account = ? and at < ? and told = 1 and state != 'asked'";
            connection
                .prepare_cached(delete)?
                .execute(params![account, before.micros()])
                .map(drop)
        })
        .await
    }
}

fn unmetered(
    connection: &mut Connection,
    account: &Account,
    id: &ChargeId,
    (cost, purpose): (&Cost, &Purpose),
    allowance: Allowance,
    now: Timestamp,
) -> rusqlite::Result<Unmetered> {
    let tx = write(connection)?;
    drop_expired(&tx, &account.name, id, now, account.longest_window())?;
    let id = valid_id(&tx, &account.name, id)?;
    if let Some(held) = sent(&tx, &account.name, &id)? {
        return Ok(Unmetered::Repeated(id, held));
    }
    let probing = match closings::binding(&tx, account, cost, now)? {
        Binding::Open(probing) => probing,
        Binding::Closed(limit, until) => return Ok(Unmetered::Closed(limit, until)),
    };
    let from = now - account.longest_window();
    if spent(&tx, &account.name, from)? + cost.largest() > allowance.units {
        return Ok(Unmetered::Spent);
    }
    let contact = contact(&tx, &account.name, now, account.longest_window())?;
    let at = (now + contact.ahead).max(contact.at);
    record(&tx, &account.name, &id, (cost, purpose), at)?;
    tx.commit()?;
    Ok(Unmetered::Allowed(id, probing))
}

/// What an id that may have been sent was charged.
fn sent(tx: &Transaction<'_>, account: &str, id: &ChargeId) -> rusqlite::Result<Option<Cost>> {
    let mut statement = tx.prepare_cached(
        "select cost from charge where account = ? and id = ? and state = 'sent'",
    )?;
    statement
        .query_row(params![account, id.as_str()], |row| {
            Ok(cost(&row.get::<_, String>(0)?))
        })
        .optional()
}

/// What went unmetered since `from`: of a charge of several limits, its largest component.
fn spent(connection: &Connection, account: &str, from: Timestamp) -> rusqlite::Result<Units> {
    let mut statement = connection
        .prepare_cached("select cost from charge where account = ? and unmetered = 1 and at > ?")?;
    let costs = statement.query_map(params![account, from.micros()], |row| {
        row.get::<_, String>(0)
    })?;
    costs.map(|json| Ok(cost(&json?).largest())).sum()
}

/// A time by the ledger's clock, where that was ahead of ours, and not before we last heard of it: so that no unit is
/// forgotten too early.
fn record(
    tx: &Transaction<'_>,
    account: &str,
    id: &ChargeId,
    (cost, purpose): (&Cost, &Purpose),
    at: Timestamp,
) -> rusqlite::Result<()> {
    let Purpose { job, region, call } = purpose;
    tx.prepare_cached(
        "insert into charge (account, id, at, cost, state, unmetered, told, asked_at, owner, job, region, call)
         values (?1, ?2, ?3, ?4, 'sent', 1, 0, ?3, ?5, ?6, ?7, ?8)
         on conflict do update set at = excluded.at, cost = excluded.cost, state = 'sent', unmetered = 1, told = 0,
             version = version + 1",
    )?
    .execute(params![account, id.as_str(), at.micros(), json(cost), std::process::id(), job, region, call])
    .map(drop)
}

fn void_abandoned(
    connection: &mut Connection,
    account: &str,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(
        "select id, owner, asked_at from charge where account = ? and state = 'asked'",
    )?;
    let asked =
        statement.query_map([account], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let asked: Vec<(String, i32, i64)> = asked.collect::<rusqlite::Result<_>>()?;
    drop(statement);
    for (id, owner, asked_at) in asked {
        if now.since(Timestamp::from_micros(asked_at)) > ABANDONED_AFTER || !is_alive(owner) {
            super::book::void(connection, account, &ChargeId::new(id))?;
        }
    }
    Ok(())
}

fn is_alive(process: i32) -> bool {
    // A process of another user answers too: with an error that says so.
    Pid::from_raw(process).is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

fn pending(connection: &Connection, account: &str, most: i64) -> rusqlite::Result<Vec<Pending>> {
    let mut statement = connection.prepare_cached(
        "select id, at, cost, state = 'sent' and not known, settled, version from charge
         where account = ? and told = 0 order by at limit ?",
    )?;
    statement
        .query_map(params![account, most], read_pending)?
        .collect()
}

fn read_pending(row: &Row<'_>) -> rusqlite::Result<Pending> {
    let entry = Entry {
        id: ChargeId::new(row.get::<_, String>(0)?),
        at: Timestamp::from_micros(row.get(1)?),
        cost: cost(&row.get::<_, String>(2)?),
    };
    Ok(Pending {
        entry,
        absorb: row.get(3)?,
        settle: row.get(4)?,
        version: row.get(5)?,
    })
}

/// What the ledger had said last of a limit.
pub fn said(
    connection: &Connection,
    account: &str,
    limit: &str,
) -> rusqlite::Result<Option<(Timestamp, Units)>> {
    let mut statement = connection
        .prepare_cached("select at, used from said where account = ? and limit_name = ?")?;
    statement
        .query_row([account, limit], |row| {
            Ok((Timestamp::from_micros(row.get(0)?), units(row.get(1)?)))
        })
        .optional()
}
