//! The check with which a transaction that changes a pass begins: whether this process still holds the lease of its region.

use tokio_postgres::types::Type;

use super::connection::Transaction;
use super::error::PostgresError;
use super::lease::{job_of, region_of};
use super::passes::slice;
use super::sql::Columns;
use crate::catalog::{PassId, Resource, Term};
use crate::config::Region;

/// The lock makes the next holder wait for the end of the transaction: it changes the term, which is part of a unique key. A
/// renewal does not change the key, so it does not wait.
const CURRENT: &str = "select pg_current_xact_id()::text, (select true from lease
    where job = $1 and region = $2 and holder = $3 and term = $4 for key share)";
const OF_PASS: &str =
    "select pg_current_xact_id()::text, job, region, slice_from, slice_to from pass
    where id = $1";

/// Returns whether a term is current, and keeps it current until the transaction ends. Only `set local` may precede it: it
/// must not see an earlier state than what follows. No term: the lease cannot be lost.
///
/// # Errors
/// The statement failed.
pub async fn fence(
    transaction: &Transaction<'_>,
    term: Option<&Term>,
) -> Result<bool, PostgresError> {
    let Some(term) = term else { return Ok(true) };
    let (job, region) = (job_of(&term.resource), region_of(&term.resource));
    let rows = transaction
        .query(
            CURRENT,
            &[
                (&job, Type::TEXT),
                (&region, Type::TEXT),
                (&term.holder, Type::UUID),
                (&term.number, Type::INT8),
            ],
        )
        .await?;
    let Some(row) = rows.first() else {
        return Ok(false);
    };
    transaction.identify(row.try_get(0)?);
    Ok(row.try_get::<_, Option<bool>>(1)?.is_some())
}

/// Checks that this process still holds the lease of a pass's region, if it took one, until the transaction ends.
///
/// # Errors
/// There is no such pass, the lease is lost, or a statement failed.
pub async fn fence_pass(transaction: &Transaction<'_>, pass: PassId) -> Result<(), PostgresError> {
    let rows = transaction.query(OF_PASS, &[(&pass.0, Type::INT8)]).await?;
    let row = rows.first().ok_or(PostgresError::NoSuchPass(pass))?;
    transaction.identify(row.try_get(0)?);
    let region = Region::key_of(&row.text(2)?, slice(row, 3)?);
    let resource = Resource::region(&row.text(1)?, &region);
    let term = transaction.postgres().terms().of(&resource);
    match fence(transaction, term.as_ref()).await? {
        true => Ok(()),
        false => Err(PostgresError::LeaseLost(resource)),
    }
}
