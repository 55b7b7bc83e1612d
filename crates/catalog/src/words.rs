//! Splits text into the words that a full-text index holds, and queries into the words that it is searched for.
//!
//! An index takes the characters between spaces and punctuation for a word. In scripts that write no spaces between words,
//! each character becomes a word of its own, and a word in a query becomes the phrase of its characters.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// An invisible character that separates words.
const BREAK: char = '\u{200B}';

/// Separates every character of an unspaced script from its neighbours.
pub fn part(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(is_unspaced) {
        return Cow::Borrowed(text);
    }
    let mut parted = String::with_capacity(text.len() * 2);
    for character in text.chars() {
        if is_unspaced(character) {
            parted.extend([BREAK, character, BREAK]);
        } else {
            parted.push(character);
        }
    }
    Cow::Owned(parted)
}

/// Undoes [`part`].
pub fn join(text: &str) -> String {
    text.replace(BREAK, "")
}

/// A word that is searched for.
pub struct Word {
    /// The word, [`part`]ed.
    pub parted: String,
    /// Whether it stands for all words that begin so.
    pub is_beginning: bool,
}

impl Word {
    /// The FTS5 query for the word, whatever characters it contains.
    pub fn query(&self) -> String {
        let star = if self.is_beginning { "*" } else { "" };
        format!("\"{}\"{star}", self.parted.replace('"', "\"\""))
    }
}

/// The FTS5 query for records that contain all of these words.
pub fn query<'w>(words: impl IntoIterator<Item = &'w Word>) -> String {
    let queries: Vec<String> = words.into_iter().map(Word::query).collect();
    queries.join(" ")
}

/// The words that a search has, each once.
pub fn searched(words: &str) -> impl Iterator<Item = Word> {
    let words: BTreeSet<&str> = words
        .split(|c: char| c.is_whitespace() || c.is_control())
        .collect();
    words.into_iter().filter_map(word)
}

fn word(word: &str) -> Option<Word> {
    let beginning = beginning(word);
    let word = beginning.unwrap_or(word);
    word.chars().any(char::is_alphanumeric).then(|| Word {
        parted: part(word).into_owned(),
        is_beginning: beginning.is_some(),
    })
}

/// Returns the beginning of words that `beginning*` stands for; `None` for a whole word.
fn beginning(word: &str) -> Option<&str> {
    let beginning = word.strip_suffix('*')?;
    let ends_in_a_word = beginning.chars().last().is_some_and(char::is_alphanumeric);
    ends_in_a_word.then_some(beginning)
}

fn is_unspaced(character: char) -> bool {
    matches!(u32::from(character),
        0x0E00..=0x0EFF         // Thai, Lao
        | 0x1000..=0x109F       // Burmese
        | 0x1780..=0x17FF       // Khmer
        | 0x2E80..=0x9FFF       // Chinese, Japanese
        | 0xAC00..=0xD7AF       // Korean, which attaches particles to words
        | 0xF900..=0xFAFF       // Chinese
        | 0xFF66..=0xFF9F       // Japanese, half-width
        | 0x1AFF0..=0x1B16F     // Japanese
        | 0x20000..=0x3FFFF     // Chinese
    )
}
