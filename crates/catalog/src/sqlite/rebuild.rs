//! Rebuilds the full-text index from the records.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use serde_json::Value;

use super::text_index::{self, Followed};
use super::views;
use crate::page::Text;
use ingest_config::Pointer;

const EMPTY: &str = "insert into record_text (record_text) values ('delete-all')";
const RECORDS: &str = "select number, upstream, kind, body, text_hash from record order by number";
const RECORD: &str = "select upstream, kind, body from record where number = ?1";
const NEWEST_CHANGE: &str =
    "select seq, mark from text_change where seq = (select max(seq) from text_change)";
// Another process may have changed the record meanwhile.
const REHASH: &str = "update record set text_hash = ?2 where number = ?1 and text_hash is not ?2 and text_hash is ?3";
/// The statements whose cost must not grow with the catalog.
pub const STATEMENTS: &[&str] = &[RECORD, NEWEST_CHANGE, REHASH];

/// A record whose text has another hash than the catalog stores.
struct Rehash {
    number: i64,
    stored: Option<i64>,
    found: Option<i64>,
}

/// Empties the index and fills it again; returns how many records it holds. Other processes land their pages meanwhile.
pub fn rebuild(index: &mut Connection, records: &mut Connection) -> rusqlite::Result<u64> {
    let tx = index.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute(EMPTY, [])?;
    // One state of the catalog: what changes later is behind its newest change, and the next writer follows it.
    let snapshot = records.transaction()?;
    let (indexed, rehashes) = fill(&tx, &snapshot)?;
    text_index::set_followed(&tx, newest(&snapshot)?)?;
    drop(snapshot);
    tx.commit()?;
    rehash(records, &rehashes)?;
    Ok(indexed)
}

/// The text of one record as the index holds it; `None` where there is no such record, or no text in it.
pub fn text(records: &Connection, number: i64) -> rusqlite::Result<Option<String>> {
    let record: Option<(String, String, String)> = records
        .prepare_cached(RECORD)?
        .query_row([number], |row| row.try_into())
        .optional()?;
    let Some((upstream, kind, body)) = record else {
        return Ok(None);
    };
    let pointers = views::text_pointers(records, &upstream, &kind)?;
    Ok(text_of(&body, &pointers).map(|text| text.parted))
}

fn newest(records: &Connection) -> rusqlite::Result<Followed> {
    records.query_row(NEWEST_CHANGE, [], |row| {
        Ok(Followed {
            seq: row.get(0)?,
            mark: row.get(1)?,
        })
    })
}

fn fill(index: &Transaction<'_>, records: &Connection) -> rusqlite::Result<(u64, Vec<Rehash>)> {
    let mut pointers: HashMap<(String, String), Vec<Pointer>> = HashMap::new();
    let (mut indexed, mut rehashes) = (0_u64, Vec::new());
    let mut statement = records.prepare(RECORDS)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (number, kind): (i64, (String, String)) = (row.get(0)?, (row.get(1)?, row.get(2)?));
        if !pointers.contains_key(&kind) {
            let found = views::text_pointers(records, &kind.0, &kind.1)?;
            pointers.insert(kind.clone(), found);
        }
        let body: String = row.get(3)?;
        let of_kind = pointers.get(&kind).map(Vec::as_slice).unwrap_or_default();
        let text = text_of(&body, of_kind);
        if let Some(text) = &text {
            text_index::add(index, number, &text.parted)?;
            indexed += 1;
        }
        let (stored, found) = (row.get(4)?, text.map(|text| text.hash));
        if stored != found {
            rehashes.push(Rehash {
                number,
                stored,
                found,
            });
        }
    }
    Ok((indexed, rehashes))
}

fn rehash(records: &mut Connection, rehashes: &[Rehash]) -> rusqlite::Result<()> {
    if rehashes.is_empty() {
        return Ok(());
    }
    let tx = records.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for one in rehashes {
        tx.prepare_cached(REHASH)?
            .execute((one.number, one.found, one.stored))?;
    }
    tx.commit()
}

fn text_of(body: &str, pointers: &[Pointer]) -> Option<Text> {
    let body: Value = serde_json::from_str(body).ok()?;
    Text::new(&body, pointers)
}
