//! Splits the texts of all records again, by the places that the configuration names now.

use std::collections::HashMap;

use rusqlite::{Connection, TransactionBehavior};
use serde_json::Value;

use super::{land, views};
use crate::page::Text;
use ingest_config::Pointer;

/// Records in one transaction, so that other processes can land pages in between.
const AT_ONCE: i64 = 1_000;

const INDEX: &str = "insert into record_text (record_text) values ('rebuild')";
const RECORDS: &str =
    "select number, upstream, kind, body from record where number > ?1 order by number limit ?2";
const REHASH: &str = "update record set text_hash = ?2 where number = ?1 and text_hash is not ?2";
/// The statements whose cost must not grow with the catalog.
pub const STATEMENTS: &[&str] = &[RECORDS, REHASH];

type Pointers = HashMap<(String, String), Vec<Pointer>>;

/// Fills the full-text index again. Returns the number of records that have a text.
pub fn rebuild(connection: &mut Connection) -> rusqlite::Result<u64> {
    connection.execute_batch(INDEX)?;
    let (mut indexed, mut last) = (0, Some(i64::MIN));
    let mut pointers = Pointers::new();
    while let Some(after) = last {
        last = some(connection, after, &mut pointers, &mut indexed)?;
    }
    Ok(indexed)
}

/// Splits the texts of the records after this one. Returns the number of the last; `None` where there are no more.
fn some(
    connection: &mut Connection,
    after: i64,
    pointers: &mut Pointers,
    indexed: &mut u64,
) -> rusqlite::Result<Option<i64>> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut last = None;
    let mut statement = tx.prepare_cached(RECORDS)?;
    let mut rows = statement.query((after, AT_ONCE))?;
    while let Some(row) = rows.next()? {
        let (number, kind): (i64, (String, String)) = (row.get(0)?, (row.get(1)?, row.get(2)?));
        if !pointers.contains_key(&kind) {
            let found = views::text_pointers(&tx, &kind.0, &kind.1)?;
            pointers.insert(kind.clone(), found);
        }
        let of_kind = pointers.get(&kind).map(Vec::as_slice).unwrap_or_default();
        let body: Option<Value> = serde_json::from_str(row.get_ref(3)?.as_str()?).ok();
        let text = body.and_then(|body| Text::new(&body, of_kind));
        land::store_words(&tx, number, text.as_ref())?;
        tx.prepare_cached(REHASH)?
            .execute((number, text.as_ref().map(|text| text.hash)))?;
        *indexed += u64::from(text.is_some());
        last = Some(number);
    }
    drop(rows);
    drop(statement);
    tx.commit()?;
    Ok(last)
}
