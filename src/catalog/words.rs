//! Splits text into the words that a full-text index holds.
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

/// An FTS5 query for all of these words, whatever characters they contain; `None` if there are no words.
pub fn all_of(words: &str) -> Option<String> {
    let words: BTreeSet<&str> = words
        .split(|c: char| c.is_whitespace() || c.is_control())
        .collect();
    let quoted: Vec<String> = words.into_iter().filter_map(quote).collect();
    (!quoted.is_empty()).then(|| quoted.join(" "))
}

fn quote(word: &str) -> Option<String> {
    word.chars()
        .any(char::is_alphanumeric)
        .then(|| format!("\"{}\"", part(word).replace('"', "\"\"")))
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
