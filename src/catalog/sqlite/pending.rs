//! Which ids are still to be fetched: asked of the listings, so that nothing needs remembering when a run stops.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use rusqlite::{CachedStatement, Connection, ToSql};

use super::{moment, path};
use crate::catalog::{PassId, PassScope, PendingId, PendingQuery};
use crate::config::Pointer;
use crate::quota::Timestamp;

/// The joins are in the order in which the indexes lead: open passes of the job, their listings, the records in these.
const NAMING: &str = "select pass.id, pass.started_at, pass.finished_at is null, record.number
    from pass
    cross join listing on listing.pass = pass.id
    cross join record
        on record.upstream = listing.upstream and record.kind = listing.kind and record.id = listing.id
    where pass.job = ?1 and pass.finished_at is null
        and listing.upstream = ?2 and listing.call = ?3 and listing.kind = ?4
    order by pass.started_at, pass.id, listing.step, listing.position";
/// The same of one pass, whose id is the number.
const NAMED: &str = "select pass.id, pass.started_at, pass.finished_at is null, record.number
    from pass
    cross join listing on listing.pass = pass.id
    cross join record
        on record.upstream = listing.upstream and record.kind = listing.kind and record.id = listing.id
    where pass.id = ?1
        and listing.upstream = ?2 and listing.call = ?3 and listing.kind = ?4
    order by listing.step, listing.position";
const PART: &str = "select body -> ?2 from record where number = ?1";
/// Empty, which is before every time, where it was never asked for.
pub const FETCHED: &str = "select max(
    coalesce((select last_seen from record where upstream = ?1 and kind = ?2 and id = ?3), ''),
    coalesce((select at from absent where upstream = ?1 and kind = ?2 and id = ?3), ''))";
pub const STATEMENTS: &[&str] = &[NAMING, NAMED, PART, FETCHED];

/// A `PendingQuery` as it goes to another thread.
pub struct Query {
    job: String,
    /// `None`: the open ones.
    passes: Option<Vec<PassId>>,
    upstream: String,
    call: String,
    call_kind: String,
    path: String,
    rest: Option<Pointer>,
    kind: String,
    fresh_since: String,
}

impl Query {
    pub fn of(query: &PendingQuery<'_>) -> Self {
        let (path, rest) = path::split(query.at);
        Self {
            job: query.job.to_owned(),
            passes: match query.scope {
                PassScope::Open => None,
                PassScope::Passes(passes) => Some(passes.to_vec()),
            },
            upstream: query.upstream.to_owned(),
            call: query.from.0.to_owned(),
            call_kind: query.from.1.to_owned(),
            path,
            rest,
            kind: query.kind.to_owned(),
            fresh_since: moment::write(query.fresh_since),
        }
    }
}

/// A record that a pass lists.
struct Listed {
    pass: PassId,
    started_at: String,
    began: Timestamp,
    unfinished: bool,
    record: i64,
}

/// Ids to fetch, in the order of the passes and their listings.
pub fn pending_ids(connection: &Connection, query: &Query) -> rusqlite::Result<Vec<PendingId>> {
    let mut answers = Answers::of(connection, query)?;
    let mut seen = HashSet::new();
    let mut pending = Vec::new();
    for naming in namings(connection, query)? {
        for id in answers.named_by(naming.record)?.iter() {
            if seen.insert((naming.pass, Rc::clone(id))) && !answers.is_fresh(id, &naming)? {
                pending.push(PendingId {
                    id: id.to_string(),
                    pass: naming.pass,
                    began: naming.began,
                });
            }
        }
    }
    Ok(pending)
}

fn namings(connection: &Connection, query: &Query) -> rusqlite::Result<Vec<Listed>> {
    match &query.passes {
        None => listed(connection, NAMING, &query.job, query),
        Some(passes) => {
            let of_pass = |pass: &PassId| listed(connection, NAMED, pass.0, query);
            let listed: rusqlite::Result<Vec<Vec<Listed>>> = passes.iter().map(of_pass).collect();
            Ok(listed?.into_iter().flatten().collect())
        }
    }
}

fn listed(
    connection: &Connection,
    statement: &str,
    passes: impl ToSql,
    query: &Query,
) -> rusqlite::Result<Vec<Listed>> {
    let mut statement = connection.prepare_cached(statement)?;
    let asked = (passes, &query.upstream, &query.call, &query.call_kind);
    let listed = statement.query_map(asked, |row| {
        Ok(Listed {
            pass: PassId(row.get(0)?),
            started_at: row.get(1)?,
            began: moment::read(row, 1)?,
            unfinished: row.get(2)?,
            record: row.get(3)?,
        })
    })?;
    listed.collect()
}

/// What the catalog said so far: eight regions list mostly the same records, and name the same ids.
struct Answers<'a> {
    query: &'a Query,
    part: CachedStatement<'a>,
    last_fetched: CachedStatement<'a>,
    named: HashMap<i64, Rc<[Rc<str>]>>,
    fetched: HashMap<Rc<str>, String>,
}

impl<'a> Answers<'a> {
    fn of(connection: &'a Connection, query: &'a Query) -> rusqlite::Result<Self> {
        Ok(Self {
            query,
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
            .query_row((record, &self.query.path), |row| row.get(0))?;
        let named: Rc<[Rc<str>]> = part
            .map(|part| self.ids_in(&part))
            .unwrap_or_default()
            .into();
        self.named.insert(record, Rc::clone(&named));
        Ok(named)
    }

    fn ids_in(&self, part: &str) -> Vec<Rc<str>> {
        let part = serde_json::from_str(part).unwrap_or_default();
        let ids = self.query.rest.iter().flat_map(|rest| rest.texts_in(&part));
        ids.filter(|id| !id.is_empty()).map(Rc::from).collect()
    }

    /// Whether it was fetched lately, or after the unfinished pass that names it began.
    fn is_fresh(&mut self, id: &Rc<str>, naming: &Listed) -> rusqlite::Result<bool> {
        if !self.fetched.contains_key(id) {
            let asked = (&self.query.upstream, &self.query.kind, &**id);
            self.fetched.insert(
                Rc::clone(id),
                self.last_fetched.query_row(asked, |row| row.get(0))?,
            );
        }
        let fetched = self.fetched.get(id).map_or("", String::as_str);
        let in_this_pass = naming.unfinished && fetched >= naming.started_at.as_str();
        Ok(in_this_pass || fetched >= self.query.fresh_since.as_str())
    }
}
