//! Records for an export, in pages, and by name.

use rusqlite::{Connection, OptionalExtension};

use super::columns;
use crate::rows::stored_record;
use crate::{RecordsPage, RecordsQuery, StoredRecord};

const RECORDS: &str = "select upstream, kind, id, first_seen, last_seen, body, gone_at, number from record
    where kind = ?1
        and (?2 is null or last_seen >= ?2)
        and (?3 is null or exists (
            select 1 from listing join pass on pass.id = listing.pass
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and pass.region = ?3))
        and (?4 is null or coalesce(changed_at, last_seen) >= ?4 or gone_at >= ?4)
        and number > ?5
    order by number";
const RECORD: &str =
    "select upstream, kind, id, first_seen, last_seen, body, gone_at, number from record
    where upstream = ?1 and kind = ?2 and id = ?3";
/// The statements whose cost must not grow with the catalog.
pub const STATEMENTS: &[&str] = &[RECORD];

/// A page is complete with this many records, or with bodies of this many bytes.
const PAGE_RECORDS: usize = 256;
const PAGE_BYTES: usize = 256 * 1024;
/// A page that is requested by itself is complete with bodies of this many bytes.
const LONGEST_PAGE: usize = 4 * 1024 * 1024;

/// Passes the records on in pages, so that no catalog is too large for the memory. Stops when `each` returns `false`.
pub fn records(
    connection: &Connection,
    query: &RecordsQuery,
    each: impl Fn(Vec<StoredRecord>) -> bool,
) -> rusqlite::Result<()> {
    let (mut page, mut bytes) = (Vec::new(), 0_usize);
    let mut is_wanted = true;
    for_each(connection, query, None, |record| {
        bytes = bytes.saturating_add(record.body.len());
        page.push(record);
        if page.len() >= PAGE_RECORDS || bytes >= PAGE_BYTES {
            bytes = 0;
            is_wanted = each(std::mem::take(&mut page));
        }
        is_wanted
    })?;
    if is_wanted {
        each(page);
    }
    Ok(())
}

/// Returns at most `most` records behind a position.
pub fn page(
    connection: &Connection,
    query: &RecordsQuery,
    after: Option<i64>,
    most: u32,
) -> rusqlite::Result<RecordsPage> {
    let mut page = RecordsPage::default();
    let mut bytes = 0_usize;
    for_each(connection, query, after, |record| {
        page.more = page.records.len() >= most as usize || bytes >= LONGEST_PAGE;
        if !page.more {
            bytes = bytes.saturating_add(record.body.len());
            page.records.push(record);
        }
        !page.more
    })?;
    Ok(page)
}

/// Returns the record of an upstream, a kind and an id.
pub fn record(
    connection: &Connection,
    name: &[String; 3],
) -> rusqlite::Result<Option<StoredRecord>> {
    connection
        .prepare_cached(RECORD)?
        .query_row(name.each_ref(), |row| stored_record(row))
        .optional()
}

/// Passes each record behind a position on, until `each` returns `false`.
fn for_each(
    connection: &Connection,
    query: &RecordsQuery,
    after: Option<i64>,
    mut each: impl FnMut(StoredRecord) -> bool,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(RECORDS)?;
    let since = query.since.map(columns::time);
    let changed_since = query.changed_since.map(columns::time);
    let after = after.unwrap_or(i64::MIN);
    let filters = (&query.kind, since, &query.region, changed_since, after);
    for record in statement.query_map(filters, |row| stored_record(row))? {
        if !each(record?) {
            break;
        }
    }
    Ok(())
}
