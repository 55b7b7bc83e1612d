//! Queries for reports: what was charged here and for what, and what became of a charge.

use std::sync::Arc;

use rusqlite::{Connection, params};

use super::rows::{found, sum};
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
    let mut rows = statement.query(params![account, from.micros()])?;
    let mut spent = Vec::new();
    while let Some(row) = rows.next()? {
        let Json(cost) = row.get::<_, Json<Cost>>(1)?;
        let purpose = Arc::new(Purpose {
            job: row.get(2)?,
            region: row.get(3)?,
            call: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
        });
        let (at, charges): (i64, u32) = (row.get(0)?, row.get(5)?);
        let origin = Origin::read(row.get_ref(6)?.as_str()?).unwrap_or_default();
        spent.extend(cost.iter().map(|(limit, units)| Spent {
            at: Timestamp::from_micros(at),
            limit: limit.clone(),
            units,
            charges: charges.into(),
            purpose: Arc::clone(&purpose),
            origin,
        }));
    }
    Ok(spent)
}

fn unrepaid(connection: &Connection, account: &str) -> rusqlite::Result<Cost> {
    let select = "select cost from charge indexed by charge_open
         where account = ? and told = 0 and unmetered = 1 and state = 'sent' and not known";
    sum(connection, select, [account])
}
