//! Queries for reports: what was charged here and for what, and what became of a charge.

use std::sync::Arc;

use rusqlite::{Connection, Row, params};

use super::rows::found;
use super::{Journal, JournalError};
use crate::{Found, Origin, Purpose, Spent};
use ingest_quota::{Account, ChargeId, Cost, Timestamp};
use ingest_sqlite::Json;

impl Journal {
    /// Returns what this machine charged to an account since `from`, oldest first. About two windows are kept.
    pub async fn spent(
        &self,
        account: &Account,
        from: Timestamp,
    ) -> Result<Vec<Spent>, JournalError> {
        let account = account.name.clone();
        self.look(move |connection| spent(connection, &account, from))
            .await
    }

    /// Returns the units that went unmetered and that the ledger does not have yet.
    pub async fn unrepaid(&self, account: &Account) -> Result<Cost, JournalError> {
        let account = account.name.clone();
        self.look(move |connection| unrepaid(connection, &account))
            .await
    }

    /// Returns what became of the charge that was made here under `id`, or under one made from it.
    pub async fn find(&self, account: &Account, id: &ChargeId) -> Result<Found, JournalError> {
        let (account, id) = (account.name.clone(), id.clone());
        self.look(move |connection| found(connection, &account, &id))
            .await
    }
}

fn spent(connection: &Connection, account: &str, from: Timestamp) -> rusqlite::Result<Vec<Spent>> {
    let mut statement = connection.prepare_cached(
        "select at, cost, job, region, call, charges, origin from charge
         where account = ? and at >= ? and state = 'sent' order by at, id",
    )?;
    let charges = statement.query_map(params![account, from.micros()], charge)?;
    let charges = charges.collect::<rusqlite::Result<Vec<Charged>>>()?;
    let parts = charges
        .iter()
        .flat_map(|(at, cost, purpose, number, origin)| {
            cost.iter().map(|(limit, units)| Spent {
                at: *at,
                limit: limit.clone(),
                units,
                charges: u64::from(*number),
                purpose: Arc::clone(purpose),
                origin: *origin,
            })
        });
    Ok(parts.collect())
}

/// When, what, what for, the number of charges, and where they are from.
type Charged = (Timestamp, Cost, Arc<Purpose>, u32, Origin);

fn charge(row: &Row<'_>) -> rusqlite::Result<Charged> {
    let call = row.get::<_, Option<String>>(4)?.unwrap_or_default();
    let purpose = Purpose {
        job: row.get(2)?,
        region: row.get(3)?,
        call,
    };
    Ok((
        Timestamp::from_micros(row.get(0)?),
        row.get::<_, Json<Cost>>(1)?.0,
        purpose.into(),
        row.get(5)?,
        Origin::read(row.get_ref(6)?.as_str()?).unwrap_or_default(),
    ))
}

fn unrepaid(connection: &Connection, account: &str) -> rusqlite::Result<Cost> {
    let mut statement = connection.prepare_cached(
        "select cost from charge indexed by charge_open
         where account = ? and told = 0 and unmetered = 1 and state = 'sent' and not known",
    )?;
    let costs = statement.query_map([account], |row| row.get::<_, Json<Cost>>(0))?;
    let mut sum = Cost::none();
    for cost in costs {
        sum.add(&cost?.0);
    }
    Ok(sum)
}
