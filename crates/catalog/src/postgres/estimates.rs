use super::sql::{as_is, parameters, stored};
use super::{PostgresError, Transaction};
use crate::{CallFacts, Estimate, rows};

const ALL: &str = "select upstream, call, units from estimate order by upstream, call";
const LEARN: &str = "insert into estimate (upstream, call, units) values ($1, $2, $3)
    on conflict (upstream, call) do update set units = excluded.units";

const ALL_FACTS: &str = "select upstream, call, facts from call_facts order by upstream, call";
const STORE_FACTS: &str = "insert into call_facts (upstream, call, facts) values ($1, $2, $3)
    on conflict (upstream, call) do update set facts = excluded.facts";

pub async fn call_facts(tx: &Transaction<'_>) -> Result<Vec<CallFacts>, PostgresError> {
    let rows = tx.query(ALL_FACTS, &[]).await?;
    rows.iter().map(rows::call_facts).collect()
}

pub async fn store_facts(tx: &Transaction<'_>, facts: &CallFacts) -> Result<(), PostgresError> {
    let (upstream, call) = (stored(&facts.upstream), stored(&facts.call));
    tx.execute(
        STORE_FACTS,
        parameters![upstream, call, stored(&facts.facts)],
    )
    .await
}

pub async fn estimates(tx: &Transaction<'_>) -> Result<Vec<Estimate>, PostgresError> {
    let rows = tx.query(ALL, &[]).await?;
    rows.iter().map(rows::estimate).collect()
}

pub async fn learn(tx: &Transaction<'_>, estimate: &Estimate) -> Result<(), PostgresError> {
    let units = serde_json::json!(estimate.cost).to_string();
    let (upstream, call) = (stored(&estimate.upstream), stored(&estimate.call));
    tx.execute(LEARN, parameters![upstream, call, as_is(&units)])
        .await
}
