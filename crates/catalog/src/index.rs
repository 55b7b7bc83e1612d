//! The full-text index of records. In a file, triggers keep it equal to the words of the records; PostgreSQL keeps a vector of words
//! for each.

use super::page::Text;
use super::postgres::Vectors;
use super::sql::{StoreError, Tx, values};

const WORDS: &str = "insert into record_words (number, text) values (?1, ?2)
    on conflict do update set text = excluded.text where text <> excluded.text";
const NO_WORDS: &str = "delete from record_words where number = ?1";
pub const STATEMENTS: &[&str] = &[NO_WORDS];

/// Stores what the index holds of records, by their numbers. Returns how many words PostgreSQL has to merge.
pub fn store(tx: &Tx<'_>, texts: &[(i64, Option<&Text>)]) -> Result<i64, StoreError> {
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
