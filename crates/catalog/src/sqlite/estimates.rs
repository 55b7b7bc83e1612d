use rusqlite::{Connection, Transaction};

use crate::{CallFacts, Estimate, rows};

const LEARN: &str = "insert into estimate (upstream, call, units) values (?1, ?2, ?3)
    on conflict do update set units = excluded.units";
const STORE_FACTS: &str = "insert into call_facts (upstream, call, facts) values (?1, ?2, ?3)
    on conflict do update set facts = excluded.facts";

pub fn estimates(connection: &Connection) -> rusqlite::Result<Vec<Estimate>> {
    let mut statement = connection.prepare_cached("select upstream, call, units from estimate")?;
    let rows = statement.query_map([], |row| rows::estimate(row))?;
    rows.collect()
}

pub fn learn(tx: &Transaction<'_>, estimate: &Estimate) -> rusqlite::Result<()> {
    let units = serde_json::json!(estimate.cost).to_string();
    tx.prepare_cached(LEARN)?
        .execute((&estimate.upstream, &estimate.call, units))
        .map(drop)
}

pub fn call_facts(connection: &Connection) -> rusqlite::Result<Vec<CallFacts>> {
    let mut statement =
        connection.prepare_cached("select upstream, call, facts from call_facts")?;
    let rows = statement.query_map([], |row| rows::call_facts(row))?;
    rows.collect()
}

pub fn store_facts(tx: &Transaction<'_>, facts: &CallFacts) -> rusqlite::Result<()> {
    tx.prepare_cached(STORE_FACTS)?
        .execute((&facts.upstream, &facts.call, &facts.facts))
        .map(drop)
}
