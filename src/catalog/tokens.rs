//! The words of a text, split and folded as the full-text index of SQLite does it, for an index elsewhere.
//!
//! FTS5 decides for each character on its own whether it separates words, and what becomes of it in a word. So it is asked
//! once about each character; its tables are nowhere else.

use std::collections::{BTreeSet, HashMap};
use std::sync::{OnceLock, PoisonError, RwLock};

use rusqlite::Connection;

/// A longer token is cut: an index elsewhere holds none of any length.
pub const LONGEST: usize = 500;

/// What becomes of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letter {
    /// It separates words.
    Separator,
    /// It is in a word as this character; `None`: it is in a word, and leaves nothing there.
    Folded(Option<char>),
}

type Alphabet = HashMap<char, Letter>;

/// Returns the tokens of texts that [`super::words::part`] parted, text by text. A token is lower-case and without
/// diacritics; it can be empty.
///
/// # Errors
/// There is no memory for an index.
pub fn tokens<'t>(
    texts: impl Iterator<Item = &'t str> + Clone,
) -> rusqlite::Result<Vec<Vec<String>>> {
    let alphabet = alphabet();
    let unknown: BTreeSet<char> = {
        let known = alphabet.read().unwrap_or_else(PoisonError::into_inner);
        let letters = texts.clone().filter(|text| !text.is_ascii());
        let letters = letters.flat_map(str::chars).filter(|c| !c.is_ascii());
        letters
            .filter(|letter| !known.contains_key(letter))
            .collect()
    };
    if !unknown.is_empty() {
        let learned = learned(&unknown)?;
        let mut known = alphabet.write().unwrap_or_else(PoisonError::into_inner);
        known.extend(learned);
    }
    let known = alphabet.read().unwrap_or_else(PoisonError::into_inner);
    Ok(texts.map(|text| split(text, &known)).collect())
}

fn alphabet() -> &'static RwLock<Alphabet> {
    static ALPHABET: OnceLock<RwLock<Alphabet>> = OnceLock::new();
    ALPHABET.get_or_init(RwLock::default)
}

fn split(text: &str, alphabet: &Alphabet) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut token: Option<String> = None;
    for character in text.chars() {
        match letter(character, alphabet) {
            Letter::Separator => tokens.extend(token.take()),
            Letter::Folded(folded) => {
                let token = token.get_or_insert_default();
                if token.len() < LONGEST {
                    token.extend(folded);
                }
            }
        }
    }
    tokens.extend(token);
    tokens
}

fn letter(character: char, alphabet: &Alphabet) -> Letter {
    match character {
        'a'..='z' | '0'..='9' => Letter::Folded(Some(character)),
        'A'..='Z' => Letter::Folded(Some(character.to_ascii_lowercase())),
        '\0'..='\x7F' => Letter::Separator,
        other => alphabet.get(&other).copied().unwrap_or(Letter::Separator),
    }
}

/// Asks FTS5 about characters: each is put between two letters, which show whether it separates them.
fn learned(unknown: &BTreeSet<char>) -> rusqlite::Result<Alphabet> {
    let index = Connection::open_in_memory()?;
    index.execute_batch(
        r#"create virtual table letter using fts5 (
            text, tokenize = "unicode61 remove_diacritics 2 categories 'L* N* Co M*'");
        create virtual table token using fts5vocab (letter, instance);
        begin"#,
    )?;
    let mut insert = index.prepare("insert into letter (rowid, text) values (?1, ?2)")?;
    for character in unknown {
        insert.execute((u32::from(*character), format!("a{character}b")))?;
    }
    let mut learned: Alphabet = unknown
        .iter()
        .map(|character| (*character, Letter::Separator))
        .collect();
    let mut tokens = index.prepare("select doc, term from token")?;
    let mut rows = tokens.query([])?;
    while let Some(row) = rows.next()? {
        let (number, token): (u32, String) = (row.get(0)?, row.get(1)?);
        let between = token
            .strip_prefix('a')
            .and_then(|rest| rest.strip_suffix('b'));
        if let (Some(character), Some(between)) = (char::from_u32(number), between) {
            learned.insert(character, Letter::Folded(between.chars().next()));
        }
    }
    Ok(learned)
}
