//! The words of texts as `tsvector` and `tsquery` literals, so that the server's parser and locale decide nothing.

use std::collections::BTreeSet;

use super::PostgresError;
use crate::catalog::tokens::{LONGEST, tokens};
use crate::catalog::words::{Word, searched};

/// The words of a text for the index.
pub struct Vector {
    /// A `tsvector`: which words they are, not where, because it keeps few positions.
    pub words: String,
    /// How many there are.
    pub length: i64,
}

/// The words of each text.
///
/// # Errors
/// There is no memory to split them.
pub fn vectors<'t>(
    texts: impl Iterator<Item = &'t str> + Clone,
) -> Result<Vec<Vector>, PostgresError> {
    let of_texts = tokens(texts).map_err(unsplit)?;
    let vector = |tokens: Vec<String>| Vector {
        length: i64::try_from(tokens.len()).unwrap_or(i64::MAX),
        words: literal(tokens.iter().map(|token| (token, false)), " "),
    };
    Ok(of_texts.into_iter().map(vector).collect())
}

/// A search: the records that contain its words are among those that its `tsquery` matches.
pub struct Matching {
    /// The query; empty where no record can match.
    pub query: String,
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
        of_word.len() < 2 && of_word.iter().all(|token| token.len() < LONGEST)
    });
    let beginnings = tokens.iter().zip(&words).flat_map(|(of_word, word)| {
        let last = of_word.len().saturating_sub(1);
        let tokens = of_word.iter().enumerate();
        tokens.map(move |(place, token)| (token, word.is_beginning && place == last))
    });
    Ok(Matching {
        query: literal(beginnings, " & "),
        is_exact,
    })
}

/// Tokens, each once, and whether it stands for all words that begin so.
fn literal<'t>(tokens: impl Iterator<Item = (&'t String, bool)>, between: &str) -> String {
    let distinct: BTreeSet<(&String, bool)> =
        tokens.filter(|(token, _)| !token.is_empty()).collect();
    let quoted = distinct.into_iter().map(|(token, is_beginning)| {
        // A token has letters, marks and digits only: nothing in it needs an escape.
        format!("'{token}'{}", if is_beginning { ":*" } else { "" })
    });
    quoted.collect::<Vec<_>>().join(between)
}

fn unsplit(error: rusqlite::Error) -> PostgresError {
    PostgresError::Unusable(format!("cannot split texts into words: {error}"))
}
