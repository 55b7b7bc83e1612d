//! The words of texts as `tsvector` values and `tsquery` literals, so that the server's parser and locale decide nothing.

use std::collections::BTreeSet;
use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::PostgresError;
use crate::sql::ServerTx;
use crate::tokens::{LONGEST, Tokens, tokens};
use crate::words::{Word, searched};

/// A `tsvector` in the form in which the server sends and receives it: which words a text has, not where, because it keeps few
/// positions.
#[derive(Debug)]
pub struct Words(Vec<u8>);

impl Words {
    fn new(tokens: &Tokens) -> Self {
        let mut words: Vec<&str> = tokens.iter().filter(|token| !token.is_empty()).collect();
        words.sort_unstable();
        words.dedup();
        let bytes = words.iter().map(|word| word.len() + 3).sum::<usize>();
        let mut vector = Vec::with_capacity(4 + bytes);
        vector.put_u32(u32::try_from(words.len()).unwrap_or(u32::MAX));
        for word in words {
            // A token has letters, marks and digits only, so none contains the U+0000 that ends it here.
            vector.put_slice(word.as_bytes());
            vector.put_u8(0);
            vector.put_u16(0);
        }
        Self(vector)
    }
}

impl ToSql for Words {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TS_VECTOR
    }

    to_sql_checked!();
}

/// The words of texts for the index, text by text.
#[derive(Default)]
pub struct Vectors {
    pub words: Vec<Words>,
    /// How many words each text has.
    pub lengths: Vec<i64>,
}

impl Vectors {
    /// Splits texts into their words.
    ///
    /// # Errors
    /// There is no memory to split them.
    pub fn new<'t>(texts: impl Iterator<Item = &'t str> + Clone) -> Result<Self, PostgresError> {
        let of_texts = tokens(texts).map_err(unsplit)?;
        let length = |tokens: &Tokens| i64::try_from(tokens.count()).unwrap_or(i64::MAX);
        Ok(Self {
            words: of_texts.iter().map(Words::new).collect(),
            lengths: of_texts.iter().map(length).collect(),
        })
    }
}

/// Deletes the words of deleted records, and rebuilds the index.
pub const REINDEX: &str = "set local statement_timeout to 0;
    delete from record_text where not exists (select 1 from record where record.number = record_text.number);
    reindex index record_text_words";
const INDEX: &str = "insert into record_text (number, length, words)
    select * from unnest($1, $2, $3) on conflict (number) do update set length = excluded.length, words = excluded.words";

/// Indexes records, by their numbers.
pub fn index(server: &ServerTx<'_>, numbers: Vec<i64>, vectors: Vectors) {
    if !numbers.is_empty() {
        let Vectors { words, lengths } = vectors;
        let values: Vec<(Box<dyn ToSql + Sync + Send>, Type)> = vec![
            (Box::new(numbers), Type::INT8_ARRAY),
            (Box::new(lengths), Type::INT8_ARRAY),
            (Box::new(words), Type::TS_VECTOR_ARRAY),
        ];
        server.later_with(INDEX, values);
    }
}

/// A search: the records that contain its words are among those that its `tsquery` matches.
pub struct Matching {
    /// The query; empty where no record can match.
    pub query: String,
    /// The same for the words that are no beginnings.
    pub whole: String,
    /// Whether a record that the `tsquery` matches contains the words. Otherwise it may have them apart from each other.
    pub is_exact: bool,
}

/// The `tsquery` for a person's words.
///
/// # Errors
/// There is no memory to split them.
pub fn matching(words: &str) -> Result<Matching, PostgresError> {
    let words: Vec<Word> = searched(words).collect();
    let tokens = tokens(words.iter().map(|word| word.parted.as_str())).map_err(unsplit)?;
    let is_exact = tokens.iter().all(|of_word| {
        // A token that is as long may have been cut.
        of_word.count() < 2 && of_word.iter().all(|token| token.len() < LONGEST)
    });
    let beginnings = tokens.iter().zip(&words).flat_map(|(of_word, word)| {
        let last = of_word.count().saturating_sub(1);
        let tokens = of_word.iter().enumerate();
        tokens.map(move |(place, token)| (token, word.is_beginning && place == last))
    });
    let beginnings: Vec<(&str, bool)> = beginnings.collect();
    let whole = beginnings.iter().filter(|(_, is_beginning)| !is_beginning);
    Ok(Matching {
        whole: literal(whole.copied()),
        query: literal(beginnings.iter().copied()),
        is_exact,
    })
}

/// Tokens, each once, and whether it stands for all words that begin so.
fn literal<'t>(tokens: impl Iterator<Item = (&'t str, bool)>) -> String {
    let distinct: BTreeSet<(&str, bool)> = tokens.filter(|(token, _)| !token.is_empty()).collect();
    let quoted = distinct.into_iter().map(|(token, is_beginning)| {
        // A token has letters, marks and digits only: nothing in it needs an escape.
        format!("'{token}'{}", if is_beginning { ":*" } else { "" })
    });
    quoted.collect::<Vec<_>>().join(" & ")
}

fn unsplit(error: rusqlite::Error) -> PostgresError {
    PostgresError::Unusable(format!("cannot split texts into words: {error}"))
}
