//! Full-text search. The index holds words alone, so the texts of the hits are cut by an index of their own, in memory.

use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::Value;

use super::text_index::TextIndex;
use super::{Failure, moment, page, views, words};
use crate::catalog::{SearchHit, SearchQuery};

const RECORD: &str = "select upstream, kind, id, body, first_seen, last_seen from record
    where number = ?1
        and (?2 is null or kind = ?2)
        and (?3 is null or last_seen >= ?3)
        and (?4 is null or exists (
            select 1 from listing join pass on pass.id = listing.pass
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and pass.region = ?4))";
pub const STATEMENTS: &[&str] = &[RECORD, views::SHAPE, views::SHAPES];

const SCRATCH: &str = r#"create virtual table hit using fts5 (
    text, tokenize = "unicode61 remove_diacritics 2 categories 'L* N* Co M*'")"#;
const EXCERPTS: &str = "select rowid, snippet(hit, 0, char(0xE000), char(0xE001), '…', 32) from hit where hit match ?1";

/// A `SearchQuery` as it goes to another thread.
pub struct Query {
    matching: Option<String>,
    kind: Option<String>,
    since: Option<String>,
    region: Option<String>,
    limit: u32,
}

impl Query {
    pub fn of(query: &SearchQuery<'_>) -> Self {
        Self {
            matching: words::all_of(query.words),
            kind: query.kind.map(str::to_owned),
            since: query.since.map(moment::write),
            region: query.region.map(str::to_owned),
            limit: query.limit,
        }
    }
}

/// The records that hold all of the words, best first.
pub fn search(
    connection: &Connection,
    index: &TextIndex,
    query: &Query,
) -> Result<Vec<SearchHit>, Failure> {
    let Some(matching) = query.matching.as_ref().filter(|_| query.limit > 0) else {
        return Ok(Vec::new());
    };
    let mut hits = index.matching(connection, matching, |numbers| {
        let mut statement = connection.prepare_cached(RECORD)?;
        let mut hits = Vec::new();
        for number in numbers {
            let filters = (number?, &query.kind, &query.since, &query.region);
            hits.extend(statement.query_row(filters, hit).optional()?);
            if hits.len() >= query.limit as usize {
                break;
            }
        }
        Ok(hits)
    })?;
    cut_excerpts(connection, matching, &mut hits)?;
    Ok(hits)
}

fn hit(row: &Row<'_>) -> rusqlite::Result<SearchHit> {
    let body: String = row.get(3)?;
    Ok(SearchHit {
        upstream: row.get(0)?,
        kind: row.get(1)?,
        id: row.get(2)?,
        excerpt: String::new(),
        body: serde_json::from_str(&body).unwrap_or(Value::String(body)),
        first_seen: moment::read(row, 4)?,
        last_seen: moment::read(row, 5)?,
    })
}

fn cut_excerpts(
    connection: &Connection,
    matching: &str,
    hits: &mut [SearchHit],
) -> rusqlite::Result<()> {
    let scratch = Connection::open_in_memory()?;
    scratch.execute_batch(SCRATCH)?;
    let mut insert = scratch.prepare("insert into hit (rowid, text) values (?1, ?2)")?;
    for (number, hit) in (0_u32..).zip(hits.iter()) {
        insert.execute((number, words::part(&text_of(connection, hit)?)))?;
    }
    let mut excerpts = scratch.prepare(EXCERPTS)?;
    let mut rows = excerpts.query([matching])?;
    while let Some(row) = rows.next()? {
        if let Some(hit) = hits.get_mut(row.get::<_, u32>(0)? as usize) {
            hit.excerpt = words::join(&row.get::<_, String>(1)?);
        }
    }
    Ok(())
}

fn text_of(connection: &Connection, hit: &SearchHit) -> rusqlite::Result<String> {
    let pointers = views::text_pointers(connection, &hit.upstream, &hit.kind)?;
    Ok(page::joined(&hit.body, &pointers))
}
