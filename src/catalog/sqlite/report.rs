//! What was done, and what is there: for a history, and to write records out.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row};

use super::moment;
use crate::catalog::{EachRecord, PassRecord, RecordsQuery, StoredRecord};
use crate::quota::{Timestamp, Units};

/// There are so few passes that none of their indexes would be quicker than to look at all.
const PASSES: &str = "select job, region, started_at, outcome, pages, records, requests, units, finished_at from pass
    where started_at >= ?1 order by started_at, id";
const RECORDS: &str = "select upstream, kind, id, first_seen, last_seen, body from record
    where kind = ?1
        and (?2 is null or last_seen >= ?2)
        and (?3 is null or exists (
            select 1 from listing join pass on pass.id = listing.pass
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and pass.region = ?3))
    order by number";

/// A `RecordsQuery` as it goes to another thread.
pub struct Query {
    kind: String,
    since: Option<String>,
    region: Option<String>,
}

impl Query {
    pub fn of(query: &RecordsQuery<'_>) -> Self {
        Self {
            kind: query.kind.to_owned(),
            since: query.since.map(moment::write),
            region: query.region.map(str::to_owned),
        }
    }
}

pub fn history(connection: &Connection, since: Timestamp) -> rusqlite::Result<Vec<PassRecord>> {
    let mut statement = connection.prepare_cached(PASSES)?;
    statement.query_map([moment::write(since)], pass)?.collect()
}

fn pass(row: &Row<'_>) -> rusqlite::Result<PassRecord> {
    let count = |column| {
        row.get(column)
            .map(|count: i64| u64::try_from(count).unwrap_or(0))
    };
    let units: BTreeMap<String, Units> =
        serde_json::from_str(&row.get::<_, String>(7)?).unwrap_or_default();
    Ok(PassRecord {
        job: row.get(0)?,
        region: row.get(1)?,
        started_at: moment::read(row, 2)?,
        outcome: row.get(3)?,
        pages: count(4)?,
        records: count(5)?,
        requests: count(6)?,
        units: units.into_iter().collect(),
        finished_at: row
            .get::<_, Option<String>>(8)?
            .map(|_| moment::read(row, 8))
            .transpose()?,
    })
}

/// One after the other, so that no catalog is too large for the memory.
pub fn records(
    connection: &Connection,
    query: &Query,
    mut each: EachRecord,
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(RECORDS)?;
    let mut rows = statement.query((&query.kind, &query.since, &query.region))?;
    while let Some(row) = rows.next()? {
        let record = StoredRecord {
            upstream: row.get(0)?,
            kind: row.get(1)?,
            id: row.get(2)?,
            first_seen: moment::read(row, 3)?,
            last_seen: moment::read(row, 4)?,
            body: row.get(5)?,
        };
        if each(record).is_break() {
            break;
        }
    }
    Ok(())
}
