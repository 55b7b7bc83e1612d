//! The full-text index of records. In a file, triggers keep it equal to the words of the records; PostgreSQL keeps a vector of words
//! for each. It is rebuilt by the places of texts that the configuration names now.

use super::layout::Layouts;
use super::page::IndexedText;
use super::postgres::Vectors;
use super::sql::{StoreError, Tx, values};

const WORDS: &str = "insert into record_words (number, text) values (?1, ?2)
    on conflict do update set text = excluded.text where text <> excluded.text";
const NO_WORDS: &str = "delete from record_words where number = ?1";
/// Records in one transaction, so that others can land pages in between.
const AT_ONCE: i64 = 500;

// Locked, so that no landing indexes another text of a record meanwhile.
const RECORDS: &str = "select number, upstream, kind, body from record where number > ?1
    order by number limit ?2{lock}";
const REHASH: &str =
    "update record set text_hash = ?2 where number = ?1 and text_hash is distinct from ?2";
pub const STATEMENTS: &[&str] = &[NO_WORDS, RECORDS, REHASH];

/// Stores what the index holds of records, by their numbers. Returns how many words PostgreSQL has to merge.
pub fn store(tx: &Tx<'_>, texts: &[(i64, Option<&IndexedText>)]) -> Result<i64, StoreError> {
    match tx {
        Tx::File(_) => {
            for (number, text) in texts {
                match text {
                    Some(text) => tx.later(WORDS, values![*number, &text.parted])?,
                    None => tx.later(NO_WORDS, values![*number])?,
                }
            }
            Ok(0)
        }
        Tx::Server(server) => {
            let without = texts.iter().filter(|(_, text)| text.is_none());
            forget(tx, without.map(|(number, _)| *number).collect())?;
            // The last text of a record that is several times in a page.
            let with: std::collections::BTreeMap<i64, &str> = texts
                .iter()
                .filter_map(|(number, text)| Some((*number, text.as_ref()?.parted.as_str())))
                .collect();
            let vectors = Vectors::new(with.values().copied())?;
            let words = vectors.lengths.iter().sum();
            super::postgres::index(server, with.into_keys().collect(), vectors);
            Ok(words)
        }
    }
}

/// Forgets records that are deleted or have no text.
pub fn forget(tx: &Tx<'_>, numbers: Vec<i64>) -> Result<(), StoreError> {
    match tx {
        // A trigger follows the record.
        Tx::File(_) => Ok(()),
        Tx::Server(_) if numbers.is_empty() => Ok(()),
        Tx::Server(_) => tx.later(
            "delete from record_text where number {any ?1}",
            values![numbers],
        ),
    }
}

/// Indexes the records after this one. Returns the number of the last, and how many of them have a text; `None` where there are no
/// more.
pub fn rebuild_some(tx: &Tx<'_>, after: i64) -> Result<Option<(i64, u64)>, StoreError> {
    let rows = tx.query(RECORDS, values![after, AT_ONCE])?;
    let layouts = Layouts::read(tx)?;
    let mut texts = Vec::new();
    for row in &rows {
        let pointers = layouts.text_pointers(&row.text(1)?, &row.text(2)?);
        // A body that cannot be read has no text.
        let body = serde_json::from_str(row.verbatim(3)?).ok();
        let text = body.and_then(|body| IndexedText::new(&body, &pointers));
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
    store(tx, &texts)?;
    Ok(texts.last().map(|(last, _)| (*last, indexed as u64)))
}
