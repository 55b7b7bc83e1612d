use rusqlite::{Connection, Transaction};

use super::columns;
use crate::Estimate;

const LEARN: &str = "insert into estimate (upstream, call, units) values (?1, ?2, ?3)
    on conflict do update set units = excluded.units";

pub fn estimates(connection: &Connection) -> rusqlite::Result<Vec<Estimate>> {
    let mut statement = connection.prepare_cached("select upstream, call, units from estimate")?;
    let rows = statement.query_map([], |row| {
        Ok(Estimate {
            upstream: row.get(0)?,
            call: row.get(1)?,
            cost: columns::read_cost(row, 2)?,
        })
    })?;
    rows.collect()
}

pub fn learn(tx: &Transaction<'_>, estimate: &Estimate) -> rusqlite::Result<()> {
    let units = serde_json::json!(estimate.cost).to_string();
    tx.prepare_cached(LEARN)?
        .execute((&estimate.upstream, &estimate.call, units))
        .map(drop)
}
