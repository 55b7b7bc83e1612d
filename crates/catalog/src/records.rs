//! Records for an export, in pages, and by name.

use super::rows::stored_record;
use super::sql::{Row, StoreError, Tx, values};
use super::{RecordsPage, RecordsQuery, StoredRecord};

macro_rules! records {
    ($of_region:literal) => {
        concat!(
            "select upstream, kind, id, first_seen, last_seen, body, gone_at, number from record
    where kind = ?1
        and (?2 is null or last_seen >= ?2)
        and (?3 is null or coalesce(changed_at, last_seen) >= ?3 or gone_at >= ?3)
        and number > ?4",
            $of_region,
            " order by number limit ?5"
        )
    };
}
const RECORDS: &str = records!("");
// A statement of its own: in `?6 is null or exists (…)` PostgreSQL would look for each record of the catalog in the listings,
// where it can begin with the few that a region lists.
const OF_REGION: &str = records!(
    "
        and exists (select 1 from listing join pass on pass.id = listing.pass
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and pass.region = ?6)"
);
const RECORD: &str =
    "select upstream, kind, id, first_seen, last_seen, body, gone_at, number from record
    where upstream = ?1 and kind = ?2 and id = ?3";
const NEWEST: &str = "select max(number) from record";
/// The least number of a page that is not committed; null where there is none.
const NUMBERING: &str = "select min(objid::bigint) * 1024 from pg_locks
    where locktype = 'advisory' and objsubid = 2 and classid = hashtext(current_schema())::oid
        and database = (select oid from pg_database where datname = current_database())";
/// The statements whose cost must not grow with the catalog.
pub const STATEMENTS: &[&str] = &[RECORD];

/// A page of an export has this many records, or bodies of about this many bytes.
const PAGE_RECORDS: usize = 256;
const PAGE_BYTES: usize = 256 * 1024;
/// A page that is requested by itself is complete with bodies of this many bytes.
const LONGEST_PAGE: usize = 4 * 1024 * 1024;

/// Reads the records of a query in pages, so that no catalog is too large for the memory.
pub struct Records<'q> {
    query: &'q RecordsQuery,
    after: i64,
    /// The size of the next page.
    next: usize,
    is_done: bool,
}

impl<'q> Records<'q> {
    /// The records behind a position.
    pub fn after(query: &'q RecordsQuery, position: Option<i64>) -> Self {
        Self {
            query,
            after: position.unwrap_or(i64::MIN),
            // Few at first, since the length of bodies is not known yet.
            next: 8,
            is_done: false,
        }
    }

    /// The next page; `None` after the last one.
    pub fn next(&mut self, tx: &Tx<'_>) -> Result<Option<Vec<StoredRecord>>, StoreError> {
        if self.is_done {
            return Ok(None);
        }
        let RecordsQuery {
            kind,
            region,
            since,
            changed_since,
        } = self.query;
        let mut of = values![kind, *since, *changed_since, self.after, self.next];
        let sql = match region {
            None => RECORDS,
            Some(region) => {
                of.push(region.into());
                OF_REGION
            }
        };
        let rows = tx.query(sql, of)?;
        self.is_done = rows.len() < self.next;
        let page: Vec<StoredRecord> = rows.iter().map(stored_record).collect::<Result<_, _>>()?;
        self.after = page.last().map_or(self.after, |record| record.position);
        let bytes: usize = page.iter().map(|record| record.body.len()).sum();
        let fitting = PAGE_BYTES.saturating_mul(page.len()) / bytes.max(1);
        self.next = fitting.clamp(1, PAGE_RECORDS);
        Ok(Some(page))
    }
}

/// Returns the position up to which every record is committed, so that none appears there later. A page has to be read in another
/// transaction behind this one. In a file only one transaction writes at a time.
pub fn settled(tx: &Tx<'_>) -> Result<i64, StoreError> {
    if let Tx::File(_) = tx {
        return Ok(i64::MAX);
    }
    // In this order: who begins to take numbers between the two takes later ones than the newest.
    let newest = tx.one(NEWEST, values![], Row::optional_integer)?;
    let numbering = tx.one(NUMBERING, values![], Row::optional_integer)?;
    Ok(newest.unwrap_or(0).min(numbering.unwrap_or(i64::MAX)))
}

/// Returns at most `most` records behind a position, and none behind `settled`.
pub fn page(
    tx: &Tx<'_>,
    query: &RecordsQuery,
    after: Option<i64>,
    (most, settled): (u32, i64),
) -> Result<RecordsPage, StoreError> {
    let mut records = Records::after(query, after);
    let (mut page, mut bytes) = (RecordsPage::default(), 0_usize);
    while let Some(some) = records.next(tx)? {
        for record in some {
            if record.position > settled {
                return Ok(page);
            }
            if page.records.len() >= most as usize || bytes >= LONGEST_PAGE {
                page.more = true;
                return Ok(page);
            }
            bytes = bytes.saturating_add(record.body.len());
            page.records.push(record);
        }
    }
    Ok(page)
}

/// Returns the record of an upstream, a kind and an id.
pub fn record(
    tx: &Tx<'_>,
    upstream: &str,
    kind: &str,
    id: &str,
) -> Result<Option<StoredRecord>, StoreError> {
    let row = tx.first(RECORD, values![upstream, kind, id])?;
    row.as_ref().map(stored_record).transpose()
}
