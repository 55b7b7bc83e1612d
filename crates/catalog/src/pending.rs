//! The ids that are still to be fetched. They are computed from the listings, so nothing is lost when a run stops.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::recall::{last_fetched, named_by};
use super::sql::{Row, StoreError, Tx, values};
use super::{PassId, PassScope, PendingId, PendingQuery, RecordIds, values};
use ingest_base::plain::plain;
use ingest_quota::Timestamp;

/// The records of the lists of some passes.
macro_rules! listed_by {
    ($passes:literal, $order:literal) => {
        concat!(
            "select pass.id, pass.started_at, pass.finished_at is null,
        (select number from record
            where upstream = listing.upstream and kind = listing.kind and id = listing.id)
    from pass {join} listing on listing.pass = pass.id
    where ",
            $passes,
            " and listing.upstream = ?2 and listing.call = ?3 and listing.kind = ?4
    order by ",
            $order,
            "listing.step, listing.position"
        )
    };
}

const LISTED_BY_OPEN: &str = listed_by!(
    "pass.job = ?1 and pass.finished_at is null",
    "pass.started_at, pass.id, "
);
/// The same for one pass, by its id.
const LISTED_BY_PASS: &str = listed_by!("pass.id = ?1", "");
pub const STATEMENTS: &[&str] = &[LISTED_BY_OPEN, LISTED_BY_PASS];

/// A record that a pass lists.
struct ListedRecord {
    pass: PassId,
    began: Timestamp,
    unfinished: bool,
    number: i64,
}

/// Ids to fetch, in the order of the passes and their listings.
pub fn pending_ids(tx: &Tx<'_>, query: &PendingQuery) -> Result<Vec<PendingId>, StoreError> {
    // Several regions list mostly the same records, which name the same ids: each is looked up once.
    let listed = listed_records(tx, query)?;
    let numbers: BTreeSet<i64> = listed.iter().map(|listed| listed.number).collect();
    let named = named_by(tx, &numbers.into_iter().collect::<Vec<_>>(), &query.at)?;
    let ids: HashSet<&Arc<str>> = named.values().flatten().collect();
    let ids = RecordIds::new(&query.upstream, &query.kind, ids);
    let fetched: HashMap<Arc<str>, Timestamp> = last_fetched(tx, &ids)?.into_iter().collect();
    let mut seen = HashSet::new();
    let mut pending = Vec::new();
    for listed in &listed {
        for id in named.get(&listed.number).into_iter().flatten() {
            if !seen.insert((listed.pass, id)) {
                continue;
            }
            if !tx.takes_id(id) {
                warn_too_long(id, query);
            } else if !is_fresh(fetched.get(id), listed, query) {
                pending.push(PendingId {
                    id: id.to_string(),
                    pass: listed.pass,
                    began: listed.began,
                });
            }
        }
    }
    Ok(pending)
}

fn warn_too_long(id: &str, query: &PendingQuery) {
    tracing::warn!(
        job = query.job,
        "an id that {} names is not requested, since it is too long for PostgreSQL's indexes: {} bytes, {:.60}...",
        query.listed_by,
        id.len(),
        plain(id)
    );
}

/// Whether an id was fetched recently, or after the unfinished pass that names it started.
fn is_fresh(fetched: Option<&Timestamp>, listed: &ListedRecord, query: &PendingQuery) -> bool {
    fetched.is_some_and(|at| {
        let in_this_pass = listed.unfinished && *at >= listed.began;
        in_this_pass || *at >= values::clamped(query.fresh_since)
    })
}

fn listed_records(tx: &Tx<'_>, query: &PendingQuery) -> Result<Vec<ListedRecord>, StoreError> {
    let PendingQuery {
        upstream,
        listed_by,
        listed_kind,
        ..
    } = query;
    let rows = match &query.scope {
        PassScope::Open => {
            let of = values![&query.job, upstream, listed_by, listed_kind];
            tx.query(LISTED_BY_OPEN, of)?
        }
        PassScope::Passes(passes) => {
            let queries = passes.iter().map(|pass| {
                let of = values![pass.0, upstream, listed_by, listed_kind];
                super::sql::Query::new(LISTED_BY_PASS, of)
            });
            let found = tx.ask_all(&queries.collect::<Vec<_>>())?;
            found.into_iter().flatten().collect()
        }
    };
    let listed = rows.iter().map(listed_record);
    listed.filter_map(Result::transpose).collect()
}

/// `None` for a record that was deleted.
fn listed_record(row: &Row) -> Result<Option<ListedRecord>, StoreError> {
    let Some(number) = row.optional_integer(3)? else {
        return Ok(None);
    };
    Ok(Some(ListedRecord {
        pass: PassId(row.integer(0)?),
        began: row.time(1)?,
        unfinished: row.truth(2)?,
        number,
    }))
}
