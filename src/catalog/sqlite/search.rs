//! Full-text search. The index holds words only, so the excerpts of the hits come from a second index, in memory.

use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::Value;

use super::text_index::TextIndex;
use super::{StoreError, columns, views};
use crate::catalog::text::text_of;
use crate::catalog::{SearchHit, SearchQuery, words};

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

/// The records that contain all words, best match first.
pub fn search(
    connection: &Connection,
    index: &TextIndex,
    query: &SearchQuery,
) -> Result<Vec<SearchHit>, StoreError> {
    let Some(matching) = words::all_of(&query.words).filter(|_| query.limit > 0) else {
        return Ok(Vec::new());
    };
    let since = query.since.map(columns::time);
    let mut hits = index.matching(connection, &matching, |numbers| {
        let mut statement = connection.prepare_cached(RECORD)?;
        let mut hits = Vec::new();
        for number in numbers {
            let filters = (number?, &query.kind, &since, &query.region);
            hits.extend(statement.query_row(filters, hit).optional()?);
            if hits.len() >= query.limit as usize {
                break;
            }
        }
        Ok(hits)
    })?;
    cut_excerpts(connection, &matching, &mut hits)?;
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
        first_seen: columns::read_time(row, 4)?,
        last_seen: columns::read_time(row, 5)?,
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
        insert.execute((number, words::part(&searched_text(connection, hit)?)))?;
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

fn searched_text(connection: &Connection, hit: &SearchHit) -> rusqlite::Result<String> {
    let pointers = views::text_pointers(connection, &hit.upstream, &hit.kind)?;
    Ok(text_of(&hit.body, &pointers))
}
