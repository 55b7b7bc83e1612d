//! Records for an export, in pages, and by name.

use super::sql::{parameters, stored, time};
use super::{PostgresError, Transaction};
use crate::rows::stored_record;
use crate::{RecordsPage, RecordsQuery, StoredRecord};

macro_rules! declare {
    ($of_region:literal) => {
        concat!(
            "declare records no scroll cursor for
    select upstream, kind, id, first_seen, last_seen, body, gone_at, number from record
    where kind = $1
        and ($2 is null or last_seen >= $2)",
            $of_region,
            "
        and ($4 is null or coalesce(changed_at, last_seen) >= $4 or gone_at >= $4)
        and number > $5
    order by number"
        )
    };
}
const DECLARE: &str = declare!("");
// A statement of its own: in `$3 is null or exists (…)` the server would look for each record of the catalog in the listings,
// where it can begin with the few that a region lists.
const DECLARE_OF_REGION: &str = declare!(
    "
        and exists (select 1 from listing join pass on pass.id = listing.pass
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and pass.region = $3)"
);
const RECORD: &str =
    "select upstream, kind, id, first_seen, last_seen, body, gone_at, number from record
    where upstream = $1 and kind = $2 and id = $3";

/// A page of an export has this many records, or bodies of about this many bytes.
const PAGE_RECORDS: usize = 256;
const PAGE_BYTES: usize = 256 * 1024;
/// A page that is requested by itself is complete with bodies of this many bytes.
const LONGEST_PAGE: usize = 4 * 1024 * 1024;

/// Reads the records of a query in pages, so that no catalog is too large for the memory.
pub struct Records {
    /// The size of the next page.
    next: usize,
    is_done: bool,
}

impl Records {
    /// The records behind a position.
    pub async fn open(
        tx: &Transaction<'_>,
        query: &RecordsQuery,
        after: Option<i64>,
    ) -> Result<Self, PostgresError> {
        let region = query.region.as_deref().map(stored);
        let (since, changed_since) = (query.since.map(time), query.changed_since.map(time));
        let (kind, after) = (stored(&query.kind), after.unwrap_or(i64::MIN));
        let declare = match region {
            Some(_) => DECLARE_OF_REGION,
            None => DECLARE,
        };
        tx.execute(
            declare,
            parameters![kind, since, region, changed_since, after],
        )
        .await?;
        Ok(Self {
            // Few at first, since the length of bodies is not known yet.
            next: 8,
            is_done: false,
        })
    }

    /// The next page; `None` after the last one.
    pub async fn next(
        &mut self,
        tx: &Transaction<'_>,
    ) -> Result<Option<Vec<StoredRecord>>, PostgresError> {
        if self.is_done {
            return Ok(None);
        }
        let fetch = format!("fetch forward {} from records", self.next);
        let rows = tx.query(&fetch, &[]).await?;
        self.is_done = rows.len() < self.next;
        let page: Vec<StoredRecord> = rows.iter().map(stored_record).collect::<Result<_, _>>()?;
        let bytes: usize = page.iter().map(|record| record.body.len()).sum();
        let fitting = PAGE_BYTES.saturating_mul(page.len()) / bytes.max(1);
        self.next = fitting.clamp(1, PAGE_RECORDS);
        Ok(Some(page))
    }
}

/// Returns at most `most` records behind a position.
pub async fn page(
    tx: &Transaction<'_>,
    query: &RecordsQuery,
    after: Option<i64>,
    most: u32,
) -> Result<RecordsPage, PostgresError> {
    let mut records = Records::open(tx, query, after).await?;
    let (mut page, mut bytes) = (RecordsPage::default(), 0_usize);
    while let Some(some) = records.next(tx).await? {
        for record in some {
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
pub async fn record(
    tx: &Transaction<'_>,
    upstream: &str,
    kind: &str,
    id: &str,
) -> Result<Option<StoredRecord>, PostgresError> {
    let rows = tx
        .query(
            RECORD,
            parameters![stored(upstream), stored(kind), stored(id)],
        )
        .await?;
    rows.first().map(stored_record).transpose()
}
