//! What is remembered of earlier passes: what they listed, what that names, and when it was fetched.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row};

use super::{path, pending};
use crate::catalog::{NamedIds, PassId, StepListing};
use crate::config::Pointer;
use crate::quota::Timestamp;

const LISTING: &str =
    "select step, call, kind, id from listing where pass = ?1 order by step, position";
const PART: &str = "select body -> ?4 from record where upstream = ?1 and kind = ?2 and id = ?3";
pub const STATEMENTS: &[&str] = &[LISTING, PART];

/// Records of one kind, as they go to another thread.
pub struct Records {
    upstream: String,
    kind: String,
    ids: Vec<Arc<str>>,
}

impl Records {
    pub fn of(upstream: &str, kind: &str, ids: &[Arc<str>]) -> Self {
        Self {
            upstream: upstream.to_owned(),
            kind: kind.to_owned(),
            ids: ids.to_vec(),
        }
    }
}

pub fn listing(connection: &Connection, pass: PassId) -> rusqlite::Result<Vec<StepListing>> {
    let mut statement = connection.prepare_cached(LISTING)?;
    let mut rows = statement.query([pass.0])?;
    let mut all: Vec<StepListing> = Vec::new();
    while let Some(row) = rows.next()? {
        let (step, call, kind) = (row.get::<_, u32>(0)? as usize, text(row, 1)?, text(row, 2)?);
        let id = Arc::from(text(row, 3)?);
        match all
            .last_mut()
            .filter(|last| (last.step, &*last.call, &*last.kind) == (step, call, kind))
        {
            Some(last) => last.ids.push(id),
            None => all.push(StepListing {
                step,
                call: call.to_owned(),
                kind: kind.to_owned(),
                ids: vec![id],
            }),
        }
    }
    Ok(all)
}

fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(column)?.as_str()?)
}

pub fn named(
    connection: &Connection,
    records: &Records,
    at: &Pointer,
) -> rusqlite::Result<Vec<NamedIds>> {
    let (path, rest) = path::split(at);
    let mut statement = connection.prepare_cached(PART)?;
    let mut named = Vec::new();
    for id in &records.ids {
        let part = statement
            .query_row((&records.upstream, &records.kind, id, &path), |row| {
                row.get(0)
            })
            .optional()?;
        let Some(part): Option<Option<String>> = part else {
            continue;
        };
        let part = part
            .and_then(|part| serde_json::from_str(&part).ok())
            .unwrap_or_default();
        let ids = rest
            .iter()
            .flat_map(|rest| rest.texts_in(&part))
            .filter(|id| !id.is_empty());
        named.push((Arc::clone(id), ids.map(Arc::from).collect()));
    }
    Ok(named)
}

pub fn fetched(
    connection: &Connection,
    records: &Records,
) -> rusqlite::Result<Vec<(Arc<str>, Timestamp)>> {
    let mut statement = connection.prepare_cached(pending::FETCHED)?;
    let mut fetched = Vec::new();
    for id in &records.ids {
        let at: String =
            statement.query_row((&records.upstream, &records.kind, id), |row| row.get(0))?;
        fetched.extend(Timestamp::parse(&at).map(|at| (Arc::clone(id), at)));
    }
    Ok(fetched)
}
