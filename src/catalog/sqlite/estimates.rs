//! What calls are expected to cost whose answers tell it.

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction};

use crate::catalog::Estimate;
use crate::quota::Units;

const LEARN: &str = "insert into estimate (upstream, call, units) values (?1, ?2, ?3)
    on conflict do update set units = excluded.units";

pub fn estimates(connection: &Connection) -> rusqlite::Result<Vec<Estimate>> {
    let mut statement = connection.prepare_cached("select upstream, call, units from estimate")?;
    let rows = statement.query_map([], |row| {
        let units: BTreeMap<String, u64> =
            serde_json::from_str(&row.get::<_, String>(2)?).unwrap_or_default();
        let cost = units
            .into_iter()
            .map(|(limit, units)| (limit, Units::new(units)))
            .collect();
        Ok(Estimate {
            upstream: row.get(0)?,
            call: row.get(1)?,
            cost,
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
