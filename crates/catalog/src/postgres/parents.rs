//! The parents of records that were requested by id: the records that named those ids.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use super::sql::{Columns, Values, parameters, stored};
use super::{PostgresError, Transaction, lock_pass, recall};
use crate::copy::listing_again;
use crate::listings::{Children, parents_of};
use crate::{NamedIds, PassId, PendingQuery};

const NAMING: &str = "select listing.id from pass
    cross join lateral (select id, step, position from listing where listing.pass = pass.id
        and listing.upstream = $2 and listing.call = $3 and listing.kind = $4 offset 0) listing
    where pass.job = $1 and pass.finished_at is null
    order by pass.started_at, pass.id, listing.step, listing.position";
const CHILDREN: &str = "select position, id, requested, parent from listing
    where pass = $1 and step = $2 and requested is not null order by position";
const LAST_POSITION: &str =
    "select coalesce(max(position), 0) from listing where pass = $1 and step = $2";
const FIRST: &str =
    "update listing set parent = first.parent from unnest($3, $4) first (position, parent)
    where listing.pass = $1 and listing.step = $2 and listing.position = first.position";
static FURTHER: LazyLock<String> = LazyLock::new(|| {
    let rows = "from unnest($3, $4) with ordinality further (position, parent, place)
        join listing on listing.pass = $1 and listing.step = $2 and listing.position = further.position";
    format!(
        "{} {rows}",
        listing_again("$5 + further.place", "further.parent")
    )
});

/// Writes the parents of what a step of ids returned: one row for each. A further row is no further record, so the pass
/// counts none.
pub async fn link(
    tx: &Transaction<'_>,
    pass: PassId,
    step: i64,
    query: &PendingQuery,
) -> Result<(), PostgresError> {
    lock_pass(tx, pass).await?;
    let mut children = Children::default();
    for row in tx.query(CHILDREN, parameters![pass.0, step]).await? {
        let parent = row.optional_text(3)?.map(Arc::from);
        children.add(row.value(0)?, row.text(1)?, row.text(2)?, parent);
    }
    if children.is_empty() {
        return Ok(());
    }
    let named = named(tx, query).await?;
    let (first, further): (Vec<_>, Vec<_>) = children
        .missing(&parents_of(named))
        .into_iter()
        .partition(|row| row.is_first);
    let columns = |rows: Vec<crate::listings::ParentRow>| -> (Vec<i64>, Vec<Cow<'static, str>>) {
        let rows = rows.into_iter();
        rows.map(|row| (row.position, Cow::Owned(stored(&row.parent).into_owned())))
            .unzip()
    };
    let (positions, parents) = columns(first);
    tx.execute(FIRST, parameters![pass.0, step, positions, parents])
        .await?;
    let last = tx.query(LAST_POSITION, parameters![pass.0, step]).await?;
    let last: i64 = last.first().map_or(Ok(0), |row| row.value(0))?;
    let (positions, parents) = columns(further);
    tx.execute(
        &FURTHER,
        parameters![pass.0, step, positions, parents, last],
    )
    .await
}

/// What the records name that the open passes list, in the order in which they list them.
async fn named(tx: &Transaction<'_>, query: &PendingQuery) -> Result<Vec<NamedIds>, PostgresError> {
    let (job, upstream) = (stored(&query.job), stored(&query.upstream));
    let (call, kind) = (stored(&query.listed_by), stored(&query.listed_kind));
    let rows = tx
        .query(NAMING, parameters![job, upstream, call, kind])
        .await?;
    let ids = rows
        .iter()
        .map(|row| Ok::<_, PostgresError>(row.text(0)?.into()));
    let naming = query.naming(ids)?;
    recall::named_ids(tx, &naming, &query.at).await
}
