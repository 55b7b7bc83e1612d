//! Limits that the upstream called spent: they bind unmetered calls too, and are told again after a loss.

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};

use super::{Granted, Journal, JournalError};
use crate::quota::{Account, Closing, Cost, LimitName, Timestamp};

/// A closing that the ledger has not heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingClosing {
    pub limit: LimitName,
    /// `None` where it was taken back.
    pub closing: Option<Closing>,
    version: i64,
}

impl Journal {
    /// Writes down that a limit is closed; of two closings the later holds.
    pub async fn close(
        &self,
        account: &Account,
        limit: &str,
        closing: Closing,
        now: Timestamp,
    ) -> Result<(), JournalError> {
        self.write_closing(
            account,
            limit,
            Some(closing.ends(now)),
            closing == Closing::Probing,
            false,
        )
        .await
    }

    /// Writes down that a closing was taken back.
    pub async fn reopen(&self, account: &Account, limit: &str) -> Result<(), JournalError> {
        self.write_closing(account, limit, None, false, false).await
    }

    /// Writes down a closing that the ledger told; what this machine has yet to tell of the limit is newer.
    pub async fn learn(
        &self,
        account: &Account,
        limit: &str,
        until: Timestamp,
    ) -> Result<(), JournalError> {
        self.write_closing(account, limit, Some(until), false, true)
            .await
    }

    async fn write_closing(
        &self,
        account: &Account,
        limit: &str,
        until: Option<Timestamp>,
        probing: bool,
        told: bool,
    ) -> Result<(), JournalError> {
        let (account, limit) = (account.name.clone(), limit.to_owned());
        self.with(move |connection| {
            // The ledger tells until when, not whether one may try then.
            let insert = "insert into closing (account, limit_name, until, probing, told) values (?, ?, ?, ?, ?)
                 on conflict do update set until = excluded.until, told = excluded.told, version = version + 1,
                     probing = case when excluded.told then probing else excluded.probing end
                 where (told or not excluded.told) and (excluded.until is null or until is null or excluded.until > until)";
            let until = until.map(Timestamp::micros);
            connection.prepare_cached(insert)?.execute(params![account, limit, until, probing, told]).map(drop)
        })
        .await
    }

    /// What the ledger has yet to be told of closings.
    pub async fn pending_closings(
        &self,
        account: &Account,
    ) -> Result<Vec<PendingClosing>, JournalError> {
        let account = account.name.clone();
        self.with(move |connection| {
            let select = "select limit_name, until, probing, version from closing where account = ? and told = 0";
            connection.prepare_cached(select)?.query_map([&account], read)?.collect()
        })
        .await
    }

    /// Notes that the ledger has heard of a closing as it was when it was read.
    pub async fn closing_told(
        &self,
        account: &Account,
        told: &PendingClosing,
    ) -> Result<(), JournalError> {
        let (account, told) = (account.name.clone(), told.clone());
        self.with(move |connection| {
            let update =
                "update closing set told = 1 where account = ? and limit_name = ? and version = ?";
            connection
                .prepare_cached(update)?
                .execute(params![account, told.limit, told.version])
                .map(drop)
        })
        .await
    }
}

/// All closings that still hold, to be told again after a loss.
pub fn holding(
    connection: &Connection,
    account: &str,
    now: Timestamp,
) -> rusqlite::Result<Vec<(LimitName, Closing)>> {
    let select = "select limit_name, until, probing, version from closing where account = ? and (until > ? or probing)";
    let mut statement = connection.prepare_cached(select)?;
    let closings = statement.query_map(params![account, now.micros()], read)?;
    closings
        .filter_map(|pending| {
            pending
                .map(|pending| pending.closing.map(|closing| (pending.limit, closing)))
                .transpose()
        })
        .collect()
}

/// A limit that the ledger grants is open: what it had told before is over, but for one that this grant tries.
pub fn granted(tx: &Transaction<'_>, account: &str, granted: &Granted) -> rusqlite::Result<()> {
    let mut statement = tx.prepare_cached(
        "update closing set until = null, probing = 0, version = version + 1
         where account = ? and limit_name = ? and told = 1 and until is not null",
    )?;
    for limit in granted
        .used
        .keys()
        .filter(|limit| !granted.tries.contains(limit))
    {
        statement.execute([account, limit])?;
    }
    Ok(())
}

/// The limit that keeps an unmetered charge from going ahead. One whose reset is unknown lets one charge try after its
/// hour, and is closed again for a minute.
pub fn binding(
    tx: &Transaction<'_>,
    account: &Account,
    cost: &Cost,
    now: Timestamp,
) -> rusqlite::Result<Option<(LimitName, Timestamp)>> {
    let mut tries = Vec::new();
    for (limit, _) in account.charged(cost) {
        match closed(tx, &account.name, limit)? {
            Some((until, _)) if until > now => return Ok(Some((limit.clone(), until))),
            Some((_, true)) => tries.push(limit),
            _ => {}
        }
    }
    for limit in tries {
        let update = "update closing set until = ?, version = version + 1 where account = ? and limit_name = ?";
        tx.prepare_cached(update)?.execute(params![
            now.after(Closing::PROBE_EVERY).micros(),
            account.name,
            limit
        ])?;
    }
    Ok(None)
}

fn closed(
    tx: &Transaction<'_>,
    account: &str,
    limit: &str,
) -> rusqlite::Result<Option<(Timestamp, bool)>> {
    let select = "select until, probing from closing where account = ? and limit_name = ? and until is not null";
    let mut statement = tx.prepare_cached(select)?;
    statement
        .query_row([account, limit], |row| {
            Ok((Timestamp::from_micros(row.get(0)?), row.get(1)?))
        })
        .optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<PendingClosing> {
    let until = row.get::<_, Option<i64>>(1)?.map(Timestamp::from_micros);
    let probing: bool = row.get(2)?;
    let closing = until.map(|until| {
        if probing {
            Closing::Probing
        } else {
            Closing::Until(until)
        }
    });
    Ok(PendingClosing {
        limit: row.get(0)?,
        closing,
        version: row.get(3)?,
    })
}
