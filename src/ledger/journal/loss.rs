//! After the ledger lost its data: what this machine has to tell it again.

use rusqlite::{Connection, OptionalExtension, params};

use super::book::{contact, cost, note_ledger, write};
use super::{Journal, JournalError, closings, entries};
use crate::ledger::{LedgerPosition, Seen};
use crate::quota::{Account, ChargeId, Closing, Cost, Entry, Floor, LimitName, Timestamp, Units};

/// Everything that this machine knows of a ledger that lost its data.
#[derive(Debug, Clone)]
pub struct Recovery {
    /// What it had seen of it.
    pub seen: Seen,
    /// Which ledger that was; `None` where nobody noted it.
    pub ledger: Option<String>,
    /// Its charges of the window, the newest last.
    pub entries: Vec<Entry>,
    /// What the ledger had said.
    pub floors: Vec<Floor>,
    /// What the upstream had said.
    pub closings: Vec<(LimitName, Closing)>,
}

impl Journal {
    /// Notes that the ledger lost the data of an epoch, and gathers what to tell it. From now on no grant of any process
    /// of this machine is good until `finish_recovery`: what is gathered is all that may have been sent. Nothing where
    /// that epoch is over already: somebody has told all of it.
    pub async fn start_recovery(
        &self,
        account: &Account,
        epoch: &str,
        now: Timestamp,
    ) -> Result<Option<Recovery>, JournalError> {
        let (account, epoch) = (account.clone(), epoch.to_owned());
        self.with(move |connection| {
            let tx = write(connection)?;
            if contact(&tx, &account.name, now, account.longest_window())?
                .seen
                .epoch
                != epoch
            {
                return Ok(None);
            }
            tx.execute(
                "update contact set recovering = 1 where account = ?",
                [&account.name],
            )?;
            let recovery = gather(&tx, &account, now)?;
            tx.commit()?;
            Ok(Some(recovery))
        })
        .await
    }

    /// This machine's charges of the window, at no cost those that are void.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn charges(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Vec<Entry>, JournalError> {
        let account = account.clone();
        Ok(self
            .look(move |connection| own(connection, &account, now))
            .await?
            .unwrap_or_default())
    }

    /// What of those charges passes tell too: not what was charged by hand, nor what an upstream told of somebody else.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub async fn spent_by_passes(
        &self,
        account: &Account,
        now: Timestamp,
    ) -> Result<Cost, JournalError> {
        let (name, from) = (
            account.name.clone(),
            (now - account.longest_window()).micros(),
        );
        let spent = self.look(move |connection| {
            let mut statement = connection.prepare_cached(
                "select cost from charge where account = ? and at > ? and state != 'asked'
                     and (job is not null or call is null) and id not like 'told-%'",
            )?;
            let mut spent = Cost::none();
            for charged in
                statement.query_map(params![name, from], |row| row.get::<_, String>(0))?
            {
                spent.add(&cost(&charged?));
            }
            Ok(spent)
        });
        Ok(spent.await?.unwrap_or_default())
    }

    /// Notes that everything was sent again, and the epoch in which. Where another process has come to the same end
    /// before, its word stands. What survived of a ledger that is not `intact` can hold a charge without its settlement:
    /// all settlements are due once more (L44).
    pub async fn finish_recovery(
        &self,
        account: &Account,
        contact: &LedgerPosition,
        intact: bool,
        wait_until: Option<Timestamp>,
    ) -> Result<(), JournalError> {
        let (account, contact) = (account.name.clone(), contact.clone());
        let ledger = self.ledger.clone();
        self.with(move |connection| {
            let tx = write(connection)?;
            let sequence = i64::try_from(contact.sequence).unwrap_or(i64::MAX);
            let wait_until = wait_until.map_or(0, Timestamp::micros);
            tx.execute(
                "update contact set epoch = ?, sequence = ?, at = max(at, ?), recovering = 0,
                     wait_until = max(wait_until, ?)
                 where account = ? and recovering = 1",
                params![
                    contact.epoch,
                    sequence,
                    contact.at.micros(),
                    wait_until,
                    account
                ],
            )?;
            if !intact {
                tx.execute(
                    "update charge set told = 0, version = version + 1 where account = ? and settled",
                    [&account],
                )?;
            }
            note_ledger(&tx, &account, ledger.as_deref())?;
            tx.commit()
        })
        .await
    }

    /// What this machine knows to be used of a limit at least, for those who only look at a ledger that lost its data.
    pub async fn known_use(
        &self,
        account: &Account,
        limit: &str,
        now: Timestamp,
    ) -> Result<Units, JournalError> {
        let (account, limit) = (account.clone(), limit.to_owned());
        Ok(self
            .look(move |connection| known_use(connection, &account, &limit, now))
            .await?
            .unwrap_or_default())
    }
}

fn gather(
    connection: &Connection,
    account: &Account,
    now: Timestamp,
) -> rusqlite::Result<Recovery> {
    let seen = contact(connection, &account.name, now, account.longest_window())?.seen;
    let mut entries = own(connection, account, now)?;
    if let Some(newest) = entries
        .iter()
        .position(|entry| Some(&entry.id) == seen.newest.as_ref())
    {
        let newest = entries.remove(newest);
        entries.push(newest);
    }
    let floors = floors(connection, account, now)?;
    let closings = closings::holding(connection, &account.name, now)?;
    Ok(Recovery {
        seen,
        ledger: ledger(connection, &account.name)?,
        entries,
        floors,
        closings,
    })
}

fn ledger(connection: &Connection, account: &str) -> rusqlite::Result<Option<String>> {
    let select = "select ledger from contact where account = ?";
    let found = connection.query_row(select, [account], |row| row.get(0));
    Ok(found.optional()?.flatten())
}

/// This machine's charges of the window. Those that are void are among them, at no cost: they may still arrive.
fn own(connection: &Connection, account: &Account, now: Timestamp) -> rusqlite::Result<Vec<Entry>> {
    let mut statement = connection.prepare_cached(
        "select id, at, cost from charge where account = ? and at > ? and state != 'asked' order by at",
    )?;
    let from = (now - account.longest_window()).micros();
    let entries = statement.query_map(params![account.name, from], |row| {
        Ok(Entry {
            id: ChargeId::new(row.get::<_, String>(0)?),
            at: Timestamp::from_micros(row.get(1)?),
            cost: cost(&row.get::<_, String>(2)?),
        })
    })?;
    entries.collect()
}

fn floors(
    connection: &Connection,
    account: &Account,
    now: Timestamp,
) -> rusqlite::Result<Vec<Floor>> {
    let mut floors = Vec::new();
    for (name, limit) in &account.limits {
        if let Some((at, used)) = entries::said(connection, &account.name, name)?
            && limit.window().expiry(at) > now
        {
            floors.push(Floor {
                limit: name.clone(),
                at,
                used,
            });
        }
    }
    Ok(floors)
}

fn known_use(
    connection: &Connection,
    account: &Account,
    name: &str,
    now: Timestamp,
) -> rusqlite::Result<Units> {
    let Some(limit) = account.limits.get(name) else {
        return Ok(Units::ZERO);
    };
    let counted = |entry: &&Entry| limit.window().expiry(entry.at) > now;
    let own = own(connection, account, now)?;
    let sum: Units = own
        .iter()
        .filter(counted)
        .map(|entry| entry.cost.of(name))
        .sum();
    let floors = floors(connection, account, now)?;
    let floor = floors
        .iter()
        .filter(|floor| floor.limit == name)
        .map(|floor| {
            floor.used
                + own
                    .iter()
                    .filter(|entry| entry.at > floor.at)
                    .map(|entry| entry.cost.of(name))
                    .sum()
        });
    Ok(floor.fold(sum, Units::max))
}
