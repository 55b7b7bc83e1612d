//! What earlier passes listed, the ids that it names, and when those were fetched.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row};

use super::{path, pending};
use crate::listings::Listings;
use crate::places::ids_in;
use crate::{Listed, NamedIds, PassId, RecordIds, StepListing};
use ingest_config::IdPlace;
use ingest_quota::Timestamp;

const LISTING: &str = "select step, call, kind, id, requested is not null from listing where pass = ?1 order by step, position";
const PART: &str = "select body -> ?4 from record where upstream = ?1 and kind = ?2 and id = ?3";
pub const STATEMENTS: &[&str] = &[LISTING, PART];

pub fn listings(connection: &Connection, passes: &[PassId]) -> rusqlite::Result<Listed> {
    let listed = passes
        .iter()
        .map(|pass| Ok((*pass, listing(connection, *pass)?)));
    listed.collect()
}

fn listing(connection: &Connection, pass: PassId) -> rusqlite::Result<Vec<StepListing>> {
    let mut statement = connection.prepare_cached(LISTING)?;
    let mut rows = statement.query([pass.0])?;
    let mut listings = Listings::default();
    while let Some(row) = rows.next()? {
        let (step, call, kind) = (row.get::<_, u32>(0)? as usize, text(row, 1)?, text(row, 2)?);
        listings.add(step, (call, kind), Arc::from(text(row, 3)?), row.get(4)?);
    }
    Ok(listings.done())
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(column)?.as_str()?)
}

pub fn named_ids(
    connection: &Connection,
    records: &RecordIds,
    at: &IdPlace,
) -> rusqlite::Result<Vec<NamedIds>> {
    let (path, rest) = path::split(at);
    let mut statement = connection.prepare_cached(PART)?;
    let mut named = Vec::new();
    for id in &records.ids {
        let values = (&records.upstream, &records.kind, id, &path);
        let part: Option<Option<String>> =
            statement.query_row(values, |row| row.get(0)).optional()?;
        if let Some(part) = part {
            let ids = ids_in(part.as_deref(), rest.as_ref());
            named.push((Arc::clone(id), ids.map(Arc::from).collect()));
        }
    }
    Ok(named)
}

pub fn last_fetched(
    connection: &Connection,
    records: &RecordIds,
) -> rusqlite::Result<Vec<(Arc<str>, Timestamp)>> {
    let mut statement = connection.prepare_cached(pending::FETCHED)?;
    let mut fetched = Vec::new();
    for id in &records.ids {
        let values = (&records.upstream, &records.kind, id);
        let at: String = statement.query_row(values, |row| row.get(0))?;
        fetched.extend(Timestamp::parse(&at).map(|at| (Arc::clone(id), at)));
    }
    Ok(fetched)
}
