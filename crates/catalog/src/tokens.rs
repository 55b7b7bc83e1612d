//! The words of a text, split and folded as the full-text index of SQLite does it, for an index elsewhere.
//!
//! FTS5 separates and folds words character by character, by tables that no other library has. A process therefore looks each
//! character up in FTS5 once.

use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use parking_lot::RwLock;
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

/// The tokens of a text, in its order. A token is lower-case and without diacritics; it can be empty.
pub struct Tokens {
    /// All of them, one after the other: a page has thousands.
    letters: String,
    /// Where each one ends.
    ends: Vec<usize>,
}

impl Tokens {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let token = self.letters.get(begin..*end).unwrap_or_default();
            begin = *end;
            token
        })
    }

    fn split(text: &str, alphabet: &Alphabet) -> Self {
        let mut tokens = Self {
            letters: String::with_capacity(text.len()),
            ends: Vec::with_capacity(text.len() / 6),
        };
        let mut begin = None;
        for character in text.chars() {
            match letter(character, alphabet) {
                Letter::Separator => tokens.end(&mut begin),
                Letter::Folded(folded) => {
                    let begin = *begin.get_or_insert(tokens.letters.len());
                    if tokens.letters.len() - begin < LONGEST {
                        tokens.letters.extend(folded);
                    }
                }
            }
        }
        tokens.end(&mut begin);
        tokens
    }

    /// Ends the token that began, if one did.
    fn end(&mut self, begin: &mut Option<usize>) {
        self.ends.extend(begin.take().map(|_| self.letters.len()));
    }
}

/// Returns the tokens of texts that [`super::words::part`] parted, text by text.
///
/// # Errors
/// There is no memory for an index.
pub fn tokens<'t>(texts: impl Iterator<Item = &'t str> + Clone) -> rusqlite::Result<Vec<Tokens>> {
    let alphabet = alphabet();
    let unknown: BTreeSet<char> = {
        let known = alphabet.read();
        let letters = texts.clone().filter(|text| !text.is_ascii());
        let letters = letters.flat_map(str::chars).filter(|c| !c.is_ascii());
        letters
            .filter(|letter| !known.contains_key(letter))
            .collect()
    };
    if !unknown.is_empty() {
        let learned = learned(&unknown)?;
        let mut known = alphabet.write();
        known.extend(learned);
    }
    let known = alphabet.read();
    Ok(texts.map(|text| Tokens::split(text, &known)).collect())
}

fn alphabet() -> &'static RwLock<Alphabet> {
    static ALPHABET: OnceLock<RwLock<Alphabet>> = OnceLock::new();
    ALPHABET.get_or_init(RwLock::default)
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
