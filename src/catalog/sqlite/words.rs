//! Words, as the full-text index knows them.
//!
//! The index takes a word for what stands between spaces and punctuation. In scripts that put none between words, every
//! character is made a word of its own, and a word that is looked for the phrase of its characters.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// Parts words where no reader sees it.
const BREAK: char = '\u{200B}';

/// The text with every character of an unspaced script parted from its neighbours.
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

/// The text as it was before it was parted.
pub fn join(text: &str) -> String {
    text.replace(BREAK, "")
}

/// What asks the index for all of these words, whatever they hold; `None` when there are none.
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
        | 0xAC00..=0xD7AF       // Korean, whose particles cling to its words
        | 0xF900..=0xFAFF       // Chinese
        | 0xFF66..=0xFF9F       // Japanese, of half width
        | 0x1AFF0..=0x1B16F     // Japanese
        | 0x20000..=0x3FFFF     // Chinese
    )
}
