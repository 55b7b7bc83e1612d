//! What calls are expected to cost, and what their lists showed.

use super::sql::{StoreError, Tx, values};
use super::{CallFacts, Estimate, rows};

const ALL: &str = "select upstream, call, units from estimate order by upstream, call";
const LEARN: &str = "insert into estimate (upstream, call, units) values (?1, ?2, ?3)
    on conflict (upstream, call) do update set units = excluded.units";
const ALL_FACTS: &str = "select upstream, call, facts from call_facts order by upstream, call";
const STORE_FACTS: &str = "insert into call_facts (upstream, call, facts) values (?1, ?2, ?3)
    on conflict (upstream, call) do update set facts = excluded.facts";

pub fn estimates(tx: &Tx<'_>) -> Result<Vec<Estimate>, StoreError> {
    let rows = tx.query(ALL, values![])?;
    rows.iter().map(rows::estimate).collect()
}

pub fn learn(tx: &Tx<'_>, estimate: &Estimate) -> Result<(), StoreError> {
    let units = serde_json::json!(estimate.cost).to_string();
    tx.later(LEARN, values![&estimate.upstream, &estimate.call, units])
}

pub fn call_facts(tx: &Tx<'_>) -> Result<Vec<CallFacts>, StoreError> {
    let rows = tx.query(ALL_FACTS, values![])?;
    rows.iter().map(rows::call_facts).collect()
}

pub fn store_facts(tx: &Tx<'_>, facts: &CallFacts) -> Result<(), StoreError> {
    let values = values![&facts.upstream, &facts.call, &facts.facts];
    tx.later(STORE_FACTS, values)
}
