//! The check with which a transaction that changes a pass begins: whether this process still holds the lease of its region.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::connection::Transaction;
use super::error::PostgresError;
use super::lease::{Terms, job_of, region_of};
use super::sql::{Values, parameters, restored};
use crate::sql::{Query, Tx, Value, values};
use crate::{Landing, PassId, Resource, Term};
use ingest_config::{Region, Slice};

const OF_PASS: &str = "select job, region, slice_from, slice_to from pass where id = $1";
// The lock of the lease's row makes the next holder wait for the end of the transaction: it changes the term, which is part of
// a unique key. A renewal does not change the key, so it does not wait. Both rows are read as they are once they are locked.
const LOCK: &str = "select pg_current_xact_id()::text, (select true from lease
        where job = $2 and region = $3 and holder = $4 and term = $5
            and ($6 is null or exists (select 1 from checkpoint where landing = $6)) for key share)
    from pass where id = $1 for update";

/// The columns of the row that says whether a term is current; null where the lease cannot be lost.
pub struct LeaseKey<'t> {
    pub job: Option<Cow<'t, str>>,
    pub region: Option<Cow<'t, str>>,
    pub holder: Option<Uuid>,
    pub term: Option<i64>,
    /// The page that this process landed last under the term: a standby that lagged has the lease and lacks pages.
    pub landing: Option<Cow<'t, str>>,
}

impl LeaseKey<'_> {
    pub fn new(terms: &Terms, term: Option<&Term>) -> Self {
        Self {
            job: term.map(|term| job_of(&term.resource).into()),
            region: term.map(|term| region_of(&term.resource).into()),
            holder: term.map(|term| term.holder),
            term: term.map(|term| term.number),
            landing: term
                .and_then(|term| terms.last_landing(term))
                .map(|landing| landing.to_string().into()),
        }
    }
}

/// Locks a pass until the transaction ends, and checks that this process still holds the lease of its region, if it took one. What
/// the transaction reads next is no earlier state. Returns the region.
///
/// # Errors
/// There is no such pass, the lease is lost, or a statement failed.
pub async fn lock_pass(tx: &Transaction<'_>, pass: PassId) -> Result<Resource, PostgresError> {
    let terms = tx.postgres().terms();
    let resource = walked(tx, pass).await?;
    let term = terms.of(&resource);
    let key = LeaseKey::new(terms, term.as_ref());
    let rows = tx
        .query(
            LOCK,
            parameters![
                pass.0,
                key.job,
                key.region,
                key.holder,
                key.term,
                key.landing
            ],
        )
        .await?;
    let row = rows.first().ok_or(PostgresError::NoSuchPass(pass))?;
    tx.identify(row.value(0)?);
    match term.is_none() || row.value::<Option<bool>>(1)?.is_some() {
        true => Ok(resource),
        false => Err(PostgresError::LeaseLost(resource)),
    }
}

/// The resource whose lease this process took to walk a pass, or the region of the pass.
///
/// # Errors
/// There is no such pass, or a statement failed.
pub async fn walked(tx: &Transaction<'_>, pass: PassId) -> Result<Resource, PostgresError> {
    match tx.postgres().terms().walked_by(pass) {
        Some(resource) => Ok(resource),
        None => resource_of(tx, pass).await,
    }
}

async fn resource_of(tx: &Transaction<'_>, pass: PassId) -> Result<Resource, PostgresError> {
    let rows = tx.query(OF_PASS, parameters![pass.0]).await?;
    let row = rows.first().ok_or(PostgresError::NoSuchPass(pass))?;
    let edges: (Option<DateTime<Utc>>, Option<DateTime<Utc>>) = (row.value(2)?, row.value(3)?);
    let slice = edges.0.zip(edges.1).map(|(from, to)| Slice {
        from: from.into(),
        to: to.into(),
    });
    let region = Region::key_of(&restored(row.value(1)?), slice);
    Ok(Resource::region(&restored(row.value(0)?), &region))
}

/// The statement for whether this process still holds the lease under which a page was requested: a row if it does. The lock of the
/// lease's row makes the next holder wait for the end of the transaction.
pub fn lease_of<'q>(tx: &Tx<'_>, landing: &'q Landing) -> Query<'q> {
    const LEASE: &str = "select term from lease
        where job = ?1 and region = ?2 and holder = ?3::uuid and term = ?4
            and (?5 is null or exists (select 1 from checkpoint where landing = ?5)) for key share";
    let (Tx::Server(server), Some(term)) = (tx, &landing.term) else {
        return Query::new(LEASE, Vec::new()).when(false);
    };
    let last = server.transaction().postgres().terms().last_landing(term);
    let of = values![
        job_of(&term.resource),
        region_of(&term.resource),
        term.holder.to_string(),
        term.number,
        last.map(|landing| landing.to_string())
            .map_or(Value::Text(None), Value::from)
    ];
    Query::new(LEASE, of)
}
