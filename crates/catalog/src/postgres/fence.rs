//! The check with which a transaction that changes a pass begins: whether this process still holds the lease of its region.
//!
//! The lock of the lease's row makes the next holder wait for the end of the transaction: it changes the term, which is part of
//! a unique key. A renewal does not change the key, so it does not wait. The page that this process landed last under the term must be
//! there too: a standby that lagged has the lease and lacks pages.

use std::borrow::Cow;

use uuid::Uuid;

use super::error::PostgresError;
use super::lease::{job_of, region_of};
use crate::sql::{Query, Row, ServerTx, StoreError, Tx, Value, values};
use crate::{Landing, PassId, Resource, Term};
use ingest_config::Region;

/// The lease of a term, if this process holds it: `?1` to `?5`.
macro_rules! lease {
    () => {
        "select term from lease where job = ?1 and region = ?2 and holder = ?3::uuid and term = ?4
            and (?5 is null or exists (select 1 from checkpoint where landing = ?5)) for key share"
    };
}
const LEASE: &str = lease!();
// Both rows are read as they are once they are locked.
const LOCK: &str = concat!("select (", lease!(), ") from pass where id = ?6 for update");
const OF_PASS: &str = "select job, region, slice_from, slice_to from pass where id = ?1";

/// A pass that is to be locked until the transaction ends, for the holder of the lease of its region.
pub struct Fence {
    pass: PassId,
    /// The resource whose lease this process took to walk the pass, or the region of the pass.
    pub resource: Resource,
    /// `None` where this process did not take the lease.
    term: Option<Term>,
    last_landing: Option<Uuid>,
}

impl Fence {
    /// The fence of a pass.
    ///
    /// # Errors
    /// There is no such pass, or a statement failed.
    pub fn of(server: &ServerTx<'_>, pass: PassId) -> Result<Self, StoreError> {
        let terms = server.transaction().postgres().terms();
        let resource = match terms.walked_by(pass) {
            Some(resource) => resource,
            None => {
                let row = Tx::Server(server).first(OF_PASS, values![pass.0])?;
                let row = row.ok_or(StoreError::NoSuchPass(pass))?;
                let region = Region::key_of(&row.text(1)?, row.slice(2)?);
                Resource::region(&row.text(0)?, &region)
            }
        };
        let term = terms.of(&resource);
        Ok(Self {
            pass,
            resource,
            last_landing: term.as_ref().and_then(|term| terms.last_landing(term)),
            term,
        })
    }

    /// The statement that locks the pass. What the transaction reads behind it is no earlier state.
    pub fn lock(&self) -> Query<'static> {
        let mut of = key_of(self.term.as_ref(), self.last_landing);
        of.push(self.pass.0.into());
        Query::new(LOCK, of)
    }

    /// Fails unless the row of [`Self::lock`] says that the pass is there and the lease is held.
    pub fn check(&self, locked: &[Row]) -> Result<(), StoreError> {
        let row = locked.first().ok_or(StoreError::NoSuchPass(self.pass))?;
        match self.term.is_none() || row.optional_integer(0)?.is_some() {
            true => Ok(()),
            false => Err(PostgresError::LeaseLost(self.resource.clone()).into()),
        }
    }
}

/// The statement for whether this process still holds the lease under which a page was requested: a row if it does.
pub fn lease_of(tx: &Tx<'_>, landing: &Landing) -> Query<'static> {
    let (Tx::Server(server), Some(term)) = (tx, &landing.term) else {
        return Query::never();
    };
    let last = server.transaction().postgres().terms().last_landing(term);
    Query::new(LEASE, key_of(Some(term), last))
}

/// The values of [`LEASE`]; nulls without a term.
fn key_of(term: Option<&Term>, last_landing: Option<Uuid>) -> Vec<Value<'static>> {
    let text = |text: Option<String>| Value::Text(text.map(Cow::Owned));
    vec![
        text(term.map(|term| job_of(&term.resource))),
        text(term.map(|term| region_of(&term.resource))),
        text(term.map(|term| term.holder.to_string())),
        Value::Integer(term.map(|term| term.number)),
        text(last_landing.map(|landing| landing.to_string())),
    ]
}
