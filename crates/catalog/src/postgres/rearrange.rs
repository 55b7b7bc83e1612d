//! Steps of an unfinished pass that have another index now, or are no longer in the job.

use super::passes::forget_step;
use super::sql::parameters;
use super::{PostgresError, Transaction, lock_pass};
use crate::values::integer;
use crate::{PassId, Rearrangement};

const FORGET_RESTART: &str = "delete from restart where pass = $1 and step = $2";
const FORGET_BATCHES: &str = "delete from batch where pass = $1 and step = $2";
/// No step has an index below zero: there, none is in the way of another.
const SET_ASIDE: [&str; 4] = [
    "update listing set step = -1 - $3 where pass = $1 and step = $2",
    "update batch set step = -1 - $3 where pass = $1 and step = $2",
    "update checkpoint set step = -1 - $3 where pass = $1 and step = $2",
    "update restart set step = -1 - $3 where pass = $1 and step = $2",
];
const PUT_BACK: [&str; 4] = [
    "update listing set step = -1 - step where pass = $1 and step < 0",
    "update batch set step = -1 - step where pass = $1 and step < 0",
    "update checkpoint set step = -1 - step where pass = $1 and step < 0",
    "update restart set step = -1 - step where pass = $1 and step < 0",
];

/// Fits a pass to the steps that its job has now.
pub async fn rearrange(
    tx: &Transaction<'_>,
    pass: PassId,
    change: &Rearrangement,
) -> Result<(), PostgresError> {
    let region = lock_pass(tx, pass).await?;
    tx.postgres().terms().set_last_landing(&region, None);
    for step in &change.dropped {
        let step = integer(*step as u64);
        forget_step(tx, pass, step).await?;
        tx.execute(FORGET_RESTART, parameters![pass.0, step])
            .await?;
        tx.execute(FORGET_BATCHES, parameters![pass.0, step])
            .await?;
    }
    for (from, to) in &change.moved {
        let (from, to) = (integer(*from as u64), integer(*to as u64));
        for sql in SET_ASIDE {
            tx.execute(sql, parameters![pass.0, from, to]).await?;
        }
    }
    for sql in PUT_BACK {
        tx.execute(sql, parameters![pass.0]).await?;
    }
    Ok(())
}
