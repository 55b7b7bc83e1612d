use super::sql::{Columns, parameters, plain, stored};
use super::{PostgresError, Transaction};
use crate::{Estimate, values};

const ALL: &str = "select upstream, call, units from estimate order by upstream, call";
const LEARN: &str = "insert into estimate (upstream, call, units) values ($1, $2, $3)
    on conflict (upstream, call) do update set units = excluded.units";

pub async fn estimates(tx: &Transaction<'_>) -> Result<Vec<Estimate>, PostgresError> {
    let rows = tx.query(ALL, &[]).await?;
    let estimate = |row: &tokio_postgres::Row| {
        Ok(Estimate {
            upstream: row.text(0)?,
            call: row.text(1)?,
            cost: values::cost(row.value(2)?)
                .map_err(|error| PostgresError::Unusable(format!("an estimate: {error}")))?,
        })
    };
    rows.iter().map(estimate).collect()
}

pub async fn learn(tx: &Transaction<'_>, estimate: &Estimate) -> Result<(), PostgresError> {
    let units = serde_json::json!(estimate.cost).to_string();
    let (upstream, call) = (stored(&estimate.upstream), stored(&estimate.call));
    tx.execute(LEARN, parameters![upstream, call, plain(&units)])
        .await
        .map(drop)
}
