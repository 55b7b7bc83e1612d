//! Steps of an unfinished pass that have another index now, or are no longer in the job.

use rusqlite::{Connection, Transaction};

use super::StoreError;
use super::passes::{forget_step, must_exist};
use crate::values::integer;
use crate::{PassId, Rearrangement};

const FORGET_RESTART: &str = "delete from restart where pass = ?1 and step = ?2";
const FORGET_BATCHES: &str = "delete from batch where pass = ?1 and step = ?2";
/// No step has an index below zero: there, none is in the way of another.
const SET_ASIDE: [&str; 4] = [
    "update checkpoint set step = -1 - ?3 where pass = ?1 and step = ?2",
    "update listing set step = -1 - ?3 where pass = ?1 and step = ?2",
    "update restart set step = -1 - ?3 where pass = ?1 and step = ?2",
    "update batch set step = -1 - ?3 where pass = ?1 and step = ?2",
];
const PUT_BACK: [&str; 4] = [
    "update checkpoint set step = -1 - step where pass = ?1 and step < 0",
    "update listing set step = -1 - step where pass = ?1 and step < 0",
    "update restart set step = -1 - step where pass = ?1 and step < 0",
    "update batch set step = -1 - step where pass = ?1 and step < 0",
];

/// Fits a pass to the steps that its job has now.
pub fn rearrange(
    tx: &Transaction<'_>,
    pass: PassId,
    change: &Rearrangement,
) -> Result<(), StoreError> {
    must_exist(tx, pass)?;
    for step in &change.dropped {
        let step = integer(*step as u64);
        forget_step(tx, pass, step)?;
        tx.execute(FORGET_RESTART, (pass.0, step))?;
        tx.execute(FORGET_BATCHES, (pass.0, step))?;
    }
    for (from, to) in &change.moved {
        set_aside(tx, pass, integer(*from as u64), integer(*to as u64))?;
    }
    PUT_BACK
        .iter()
        .try_for_each(|sql| tx.execute(sql, [pass.0]).map(drop))?;
    Ok(())
}

fn set_aside(connection: &Connection, pass: PassId, from: i64, to: i64) -> rusqlite::Result<()> {
    SET_ASIDE
        .iter()
        .try_for_each(|sql| connection.execute(sql, (pass.0, from, to)).map(drop))
}
