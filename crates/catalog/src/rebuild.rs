//! Splits the texts of all records again, by the places that the configuration names now.

use super::index;
use super::layout::Layouts;
use super::page::Text;
use super::sql::{StoreError, Tx, values};

/// Records in one transaction, so that others can land pages in between.
const AT_ONCE: i64 = 500;

// Locked, so that no landing indexes another text of a record meanwhile.
const RECORDS: &str = "select number, upstream, kind, body from record where number > ?1
    order by number limit ?2{lock}";
const REHASH: &str =
    "update record set text_hash = ?2 where number = ?1 and text_hash is distinct from ?2";
pub const STATEMENTS: &[&str] = &[RECORDS, REHASH];

/// Indexes the records after this one. Returns the number of the last, and how many of them have a text; `None` where there are no
/// more.
pub fn some(tx: &Tx<'_>, after: i64) -> Result<Option<(i64, u64)>, StoreError> {
    let rows = tx.query(RECORDS, values![after, AT_ONCE])?;
    let layouts = Layouts::read(tx)?;
    let mut texts = Vec::new();
    for row in &rows {
        let pointers = layouts.text_pointers(&row.text(1)?, &row.text(2)?);
        // A body that cannot be read has no text.
        let body = serde_json::from_str(row.verbatim(3)?).ok();
        let text = body.and_then(|body| Text::new(&body, &pointers));
        texts.push((row.integer(0)?, text));
    }
    for (number, text) in &texts {
        tx.later(
            REHASH,
            values![*number, text.as_ref().map(|text| text.hash)],
        )?;
    }
    let indexed = texts.iter().filter(|(_, text)| text.is_some()).count();
    let texts: Vec<_> = texts
        .iter()
        .map(|(number, text)| (*number, text.as_ref()))
        .collect();
    index::store(tx, &texts)?;
    Ok(texts.last().map(|(last, _)| (*last, indexed as u64)))
}
