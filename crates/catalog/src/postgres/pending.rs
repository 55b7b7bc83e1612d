//! The ids that are still to be fetched. They are computed from the listings, so nothing is lost when a run stops.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use tokio_postgres::Row;

use super::recall::{self, LastFetched};
use super::sql::{Columns, Values, parameters, stored, takes_id};
use super::{PostgresError, Transaction};
use crate::{PassId, PassScope, PendingId, PendingQuery};
use ingest_base::plain::plain;
use ingest_quota::Timestamp;

/// The records of the lists of some passes. `offset 0` keeps the lookups in this order: without statistics, as in a new catalog, the
/// planner expects a few rows of each table, and compares all records with all passes.
macro_rules! listed_by {
    ($passes:literal, $condition:literal, $order:literal) => {
        concat!(
            "select pass.id, pass.started_at, pass.finished_at is null, record.number
    from ",
            $passes,
            "
    cross join lateral (select upstream, kind, id, step, position from listing where listing.pass = pass.id
        and listing.upstream = $2 and listing.call = $3 and listing.kind = $4 offset 0) listing
    cross join lateral (select number from record where record.upstream = listing.upstream
        and record.kind = listing.kind and record.id = listing.id offset 0) record
    where ",
            $condition,
            "
    order by ",
            $order,
            ", listing.step, listing.position"
        )
    };
}

const LISTED_BY_OPEN: &str = listed_by!(
    "pass",
    "pass.job = $1 and pass.finished_at is null",
    "pass.started_at, pass.id"
);
const LISTED_BY_PASSES: &str = listed_by!(
    "unnest($1) with ordinality named (pass, place) join pass on pass.id = named.pass",
    "true",
    "named.place"
);

/// A record that a pass lists.
struct ListedRecord {
    pass: PassId,
    began: Timestamp,
    unfinished: bool,
    number: i64,
}

/// Ids to fetch, in the order of the passes and their listings.
pub async fn pending_ids(
    tx: &Transaction<'_>,
    query: &PendingQuery,
) -> Result<Vec<PendingId>, PostgresError> {
    let listed = listed_records(tx, query).await?;
    let numbers: BTreeSet<i64> = listed.iter().map(|listed| listed.number).collect();
    let named = recall::named_by(tx, numbers.into_iter().collect(), &query.at).await?;
    let ids: HashSet<&Arc<str>> = named.values().flatten().collect();
    let ids: Vec<&str> = ids.into_iter().map(|id| &**id).collect();
    let fetched = LastFetched::read(tx, &query.upstream, &query.kind, &ids).await?;
    let mut seen = HashSet::new();
    let mut pending = Vec::new();
    for listed in &listed {
        for id in named.get(&listed.number).into_iter().flatten() {
            if !seen.insert((listed.pass, Arc::clone(id))) {
                continue;
            }
            if !takes_id(id) {
                warn_too_long(id, query);
            } else if !is_fresh(&fetched, id, listed, query) {
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
fn is_fresh(fetched: &LastFetched, id: &str, listed: &ListedRecord, query: &PendingQuery) -> bool {
    fetched.at(id).is_some_and(|at| {
        let in_this_pass = listed.unfinished && at >= listed.began;
        in_this_pass || at >= crate::values::clamped(query.fresh_since)
    })
}

async fn listed_records(
    tx: &Transaction<'_>,
    query: &PendingQuery,
) -> Result<Vec<ListedRecord>, PostgresError> {
    let upstream = stored(&query.upstream);
    let (call, kind) = (stored(&query.listed_by), stored(&query.listed_kind));
    let rows = match &query.scope {
        PassScope::Open => {
            tx.query(
                LISTED_BY_OPEN,
                parameters![stored(&query.job), upstream, call, kind],
            )
            .await?
        }
        PassScope::Passes(passes) => {
            let passes: Vec<i64> = passes.iter().map(|pass| pass.0).collect();
            tx.query(LISTED_BY_PASSES, parameters![passes, upstream, call, kind])
                .await?
        }
    };
    let listed = |row: &Row| {
        Ok(ListedRecord {
            pass: PassId(row.value(0)?),
            began: row.time(1)?,
            unfinished: row.value(2)?,
            number: row.value(3)?,
        })
    };
    rows.iter().map(listed).collect()
}
