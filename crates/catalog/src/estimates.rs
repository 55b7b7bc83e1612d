//! What calls are expected to cost, and what their lists showed.

use super::sql::values;
use super::{CallFacts, Catalog, CatalogError, CatalogReader, Estimate, rows};

const ALL: &str = "select upstream, call, units from estimate order by upstream, call";
const LEARN: &str = "insert into estimate (upstream, call, units) values (?1, ?2, ?3)
    on conflict (upstream, call) do update set units = excluded.units";
const ALL_FACTS: &str = "select upstream, call, facts from call_facts order by upstream, call";
const STORE_FACTS: &str = "insert into call_facts (upstream, call, facts) values (?1, ?2, ?3)
    on conflict (upstream, call) do update set facts = excluded.facts";

impl CatalogReader {
    /// Returns the expected costs of the calls whose answers report a cost.
    pub async fn estimates(&self) -> Result<Vec<Estimate>, CatalogError> {
        self.read_few(|tx| {
            let rows = tx.query(ALL, values![])?;
            rows.iter().map(rows::estimate).collect()
        })
        .await
    }

    /// Returns what the lists of each call showed.
    pub async fn call_facts(&self) -> Result<Vec<CallFacts>, CatalogError> {
        self.read_few(|tx| {
            let rows = tx.query(ALL_FACTS, values![])?;
            rows.iter().map(rows::call_facts).collect()
        })
        .await
    }
}

impl Catalog {
    /// Stores what a call is expected to cost from now on.
    pub async fn learn(
        &self,
        Estimate {
            upstream,
            call,
            cost,
        }: Estimate,
    ) -> Result<(), CatalogError> {
        let units = serde_json::json!(cost).to_string();
        self.write(move |tx| tx.later(LEARN, values![&upstream, &call, &units]))
            .await
    }

    /// Stores what the lists of a call showed.
    pub async fn store_call_facts(&self, facts: CallFacts) -> Result<(), CatalogError> {
        self.write(move |tx| {
            tx.later(
                STORE_FACTS,
                values![&facts.upstream, &facts.call, &facts.facts],
            )
        })
        .await
    }
}
