//! The ids that are still to be fetched. They are computed from the listings, so nothing is lost when a run stops.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use rusqlite::{CachedStatement, Connection, ToSql};

use super::{columns, path};
use crate::places::ids_in;
use crate::rows::Columns;
use crate::{PassId, PassScope, PendingId, PendingQuery};
use ingest_config::IdPlace;
use ingest_quota::Timestamp;

// `cross join` keeps the joins in the order of the indexes: open passes of the job, their listings, the listed records.
const LISTED_BY_OPEN: &str = "select pass.id, pass.started_at, pass.finished_at is null, record.number
    from pass
    cross join listing on listing.pass = pass.id
    cross join record
        on record.upstream = listing.upstream and record.kind = listing.kind and record.id = listing.id
    where pass.job = ?1 and pass.finished_at is null
        and listing.upstream = ?2 and listing.call = ?3 and listing.kind = ?4
    order by pass.started_at, pass.id, listing.step, listing.position";
/// The same for one pass, by its id.
const LISTED_BY_PASS: &str = "select pass.id, pass.started_at, pass.finished_at is null, record.number
    from pass
    cross join listing on listing.pass = pass.id
    cross join record
        on record.upstream = listing.upstream and record.kind = listing.kind and record.id = listing.id
    where pass.id = ?1
        and listing.upstream = ?2 and listing.call = ?3 and listing.kind = ?4
    order by listing.step, listing.position";
const PART: &str = "select body -> ?2 from record where number = ?1";
// Empty, which sorts before every time, for an id that was never requested.
pub const FETCHED: &str = "select max(
    coalesce((select last_seen from record where upstream = ?1 and kind = ?2 and id = ?3), ''),
    coalesce((select at from absent where upstream = ?1 and kind = ?2 and id = ?3), ''))";
pub const STATEMENTS: &[&str] = &[LISTED_BY_OPEN, LISTED_BY_PASS, PART, FETCHED];

/// A record that a pass lists.
struct ListedRecord {
    pass: PassId,
    started_at: String,
    began: Timestamp,
    unfinished: bool,
    number: i64,
}

/// Ids to fetch, in the order of the passes and their listings.
pub fn pending_ids(
    connection: &Connection,
    query: &PendingQuery,
) -> rusqlite::Result<Vec<PendingId>> {
    let mut lookups = Lookups::new(connection, query)?;
    let mut seen = HashSet::new();
    let mut pending = Vec::new();
    for listed in listed_records(connection, query)? {
        for id in lookups.named_by(listed.number)?.iter() {
            if seen.insert((listed.pass, Rc::clone(id))) && !lookups.is_fresh(id, &listed)? {
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

fn listed_records(
    connection: &Connection,
    query: &PendingQuery,
) -> rusqlite::Result<Vec<ListedRecord>> {
    match &query.scope {
        PassScope::Open => listed_by(connection, LISTED_BY_OPEN, &query.job, query),
        PassScope::Passes(passes) => {
            let mut all = Vec::new();
            for pass in passes {
                all.extend(listed_by(connection, LISTED_BY_PASS, pass.0, query)?);
            }
            Ok(all)
        }
    }
}

fn listed_by(
    connection: &Connection,
    statement: &str,
    passes: impl ToSql,
    query: &PendingQuery,
) -> rusqlite::Result<Vec<ListedRecord>> {
    let mut statement = connection.prepare_cached(statement)?;
    let values = (
        passes,
        &query.upstream,
        &query.listed_by,
        &query.listed_kind,
    );
    let listed = statement.query_map(values, |row| {
        Ok(ListedRecord {
            pass: PassId(row.get(0)?),
            started_at: row.get(1)?,
            began: row.time(1)?,
            unfinished: row.get(2)?,
            number: row.get(3)?,
        })
    })?;
    listed.collect()
}

/// Looks up each record and each id once: several regions list mostly the same records, which name the same ids.
struct Lookups<'a> {
    query: &'a PendingQuery,
    path: String,
    rest: Option<IdPlace>,
    fresh_since: String,
    part: CachedStatement<'a>,
    last_fetched: CachedStatement<'a>,
    named: HashMap<i64, Rc<[Rc<str>]>>,
    fetched: HashMap<Rc<str>, String>,
}

impl<'a> Lookups<'a> {
    fn new(connection: &'a Connection, query: &'a PendingQuery) -> rusqlite::Result<Self> {
        let (path, rest) = path::split(&query.at);
        Ok(Self {
            query,
            path,
            rest,
            fresh_since: columns::time(query.fresh_since),
            part: connection.prepare_cached(PART)?,
            last_fetched: connection.prepare_cached(FETCHED)?,
            named: HashMap::new(),
            fetched: HashMap::new(),
        })
    }

    fn named_by(&mut self, record: i64) -> rusqlite::Result<Rc<[Rc<str>]>> {
        if let Some(named) = self.named.get(&record) {
            return Ok(Rc::clone(named));
        }
        let part: Option<String> = self
            .part
            .query_row((record, &self.path), |row| row.get(0))?;
        let named: Rc<[Rc<str>]> = ids_in(part.as_deref(), self.rest.as_ref())
            .map(Rc::from)
            .collect();
        self.named.insert(record, Rc::clone(&named));
        Ok(named)
    }

    /// Whether the id was fetched recently, or after the unfinished pass that names it started.
    fn is_fresh(&mut self, id: &Rc<str>, listed: &ListedRecord) -> rusqlite::Result<bool> {
        if !self.fetched.contains_key(id) {
            let values = (&self.query.upstream, &self.query.kind, &**id);
            let at = self.last_fetched.query_row(values, |row| row.get(0))?;
            self.fetched.insert(Rc::clone(id), at);
        }
        let fetched = self.fetched.get(id).map_or("", String::as_str);
        let in_this_pass = listed.unfinished && fetched >= listed.started_at.as_str();
        Ok(in_this_pass || fetched >= self.fresh_since.as_str())
    }
}
