//! What the searches of both databases have in common: the records that pass a filter, and what is read of a hit.

use super::sql::{Row, StoreError, Tx, Value, values};
use super::{SearchHit, SearchQuery};
use ingest_quota::Timestamp;

const OF_KIND: &str = "select number from record
    where (upstream, kind) in (select upstream, kind from kind where kind = ?1) limit ?2";
const SEEN_SINCE: &str = "select number from record
    where upstream in (select upstream from kind) and last_seen >= ?1 limit ?2";
const OF_REGION: &str = "select distinct record.number from pass
    {join} listing on listing.pass = pass.id
    {join} record on record.upstream = listing.upstream and record.kind = listing.kind and record.id = listing.id
    where pass.region = ?1 limit ?2";
const FIRST_SEEN: &str = "select first_seen from record where number >= ?1 order by number limit 1";
pub const STATEMENTS: &[&str] = &[FIRST_SEEN];

/// The statements for the numbers of the records that pass one of a query's filters, of at most `most`.
pub fn by_filter(
    query: &SearchQuery,
    most: i64,
) -> impl Iterator<Item = (&'static str, Vec<Value<'_>>)> {
    let since = query.since.map(Value::from);
    let [region, kind] =
        [&query.region, &query.kind].map(|filter| filter.as_ref().map(Value::from));
    let filters = [(SEEN_SINCE, since), (OF_REGION, region), (OF_KIND, kind)];
    let filters = filters.into_iter();
    filters.filter_map(move |(sql, filter)| Some((sql, vec![filter?, most.into()])))
}

/// The numbers that a statement finds.
pub fn numbers(tx: &Tx<'_>, sql: &str, of: Vec<Value<'_>>) -> Result<Vec<i64>, StoreError> {
    let rows = tx.query(sql, of)?;
    rows.iter().map(|row| row.integer(0)).collect()
}

/// When the first record from this number on was first seen.
pub fn first_seen(tx: &Tx<'_>, number: i64) -> Result<Option<Timestamp>, StoreError> {
    let row = tx.first(FIRST_SEEN, values![number])?;
    row.map(|row| row.time(0)).transpose()
}

/// A hit without its excerpt: of a row with its upstream, kind, id, body, first and last sight, and since when it is gone.
pub fn hit(row: &Row) -> Result<SearchHit, StoreError> {
    let body = row.verbatim(3)?;
    Ok(SearchHit {
        upstream: row.text(0)?,
        kind: row.text(1)?,
        id: row.text(2)?,
        excerpt: String::new(),
        // A body that cannot be read is shown as it is.
        body: serde_json::from_str(body).unwrap_or_else(|_| body.into()),
        first_seen: row.time(4)?,
        last_seen: row.time(5)?,
        gone_at: row.optional_time(6)?,
    })
}
