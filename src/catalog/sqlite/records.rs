//! Records for an export.

use rusqlite::{Connection, Row};

use super::columns;
use crate::catalog::{RecordsQuery, StoredRecord};

const RECORDS: &str = "select upstream, kind, id, first_seen, last_seen, body, gone_at from record
    where kind = ?1
        and (?2 is null or last_seen >= ?2)
        and (?3 is null or exists (
            select 1 from listing join pass on pass.id = listing.pass
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and pass.region = ?3))
        and (?4 is null or coalesce(changed_at, last_seen) >= ?4 or gone_at >= ?4)
    order by number";

/// A page is complete with this many records, or with bodies of this many bytes.
const PAGE_RECORDS: usize = 256;
const PAGE_BYTES: usize = 256 * 1024;

/// Passes the records on in pages, so that no catalog is too large for the memory. Stops when `each` returns `false`.
pub fn records(
    connection: &Connection,
    query: &RecordsQuery,
    each: impl Fn(Vec<StoredRecord>) -> bool,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(RECORDS)?;
    let since = query.since.map(columns::time);
    let changed_since = query.changed_since.map(columns::time);
    let filters = (&query.kind, since, &query.region, changed_since);
    let records = statement.query_map(filters, stored_record)?;
    let (mut page, mut bytes) = (Vec::new(), 0_usize);
    for record in records {
        let record = record?;
        bytes = bytes.saturating_add(record.body.len());
        page.push(record);
        if page.len() >= PAGE_RECORDS || bytes >= PAGE_BYTES {
            bytes = 0;
            if !each(std::mem::take(&mut page)) {
                return Ok(());
            }
        }
    }
    each(page);
    Ok(())
}

fn stored_record(row: &Row<'_>) -> rusqlite::Result<StoredRecord> {
    Ok(StoredRecord {
        upstream: row.get(0)?,
        kind: row.get(1)?,
        id: row.get(2)?,
        first_seen: columns::read_time(row, 3)?,
        last_seen: columns::read_time(row, 4)?,
        body: row.get(5)?,
        gone_at: columns::read_optional_time(row, 6)?,
    })
}
