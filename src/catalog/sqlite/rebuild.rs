//! The full-text index, made anew from the records.

use std::collections::HashMap;

use rusqlite::{Connection, Transaction};
use serde_json::Value;

use super::page::Text;
use super::views;
use crate::config::Pointer;

const EMPTY: &str = "insert into record_text (record_text) values ('delete-all')";
const RECORDS: &str = "select number, upstream, kind, body from record order by number";
const INDEX: &str = "insert into record_text (rowid, text) values (?1, ?2)";
const REHASH: &str = "update record set text_hash = ?2 where number = ?1";

/// Empties the index and fills it again; says how many records it holds.
pub fn rebuild(tx: &Transaction<'_>) -> rusqlite::Result<u64> {
    tx.execute(EMPTY, [])?;
    let mut pointers: HashMap<(String, String), Vec<Pointer>> = HashMap::new();
    let mut records = tx.prepare(RECORDS)?;
    let mut rows = records.query([])?;
    let mut indexed = 0_u64;
    while let Some(row) = rows.next()? {
        let (number, kind): (i64, (String, String)) = (row.get(0)?, (row.get(1)?, row.get(2)?));
        if !pointers.contains_key(&kind) {
            pointers.insert(kind.clone(), views::text_pointers(tx, &kind.0, &kind.1)?);
        }
        let body: String = row.get(3)?;
        let text = text(
            &body,
            pointers.get(&kind).map(Vec::as_slice).unwrap_or_default(),
        );
        indexed += u64::from(text.is_some());
        store(tx, number, text.as_ref())?;
    }
    Ok(indexed)
}

fn text(body: &str, pointers: &[Pointer]) -> Option<Text> {
    let body: Value = serde_json::from_str(body).ok()?;
    Text::of(&body, pointers)
}

fn store(connection: &Connection, number: i64, text: Option<&Text>) -> rusqlite::Result<()> {
    connection
        .prepare_cached(REHASH)?
        .execute((number, text.map(|text| text.hash)))?;
    match text {
        Some(text) => connection
            .prepare_cached(INDEX)?
            .execute((number, &text.parted))
            .map(drop),
        None => Ok(()),
    }
}
