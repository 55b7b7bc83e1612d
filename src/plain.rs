//! What others said, as it may be shown.

/// Whether a terminal, or who reads there, is misled by a character: control characters, and those that turn the writing
/// round.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    character.is_control() || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text with a space in place of each such character.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|character| if is_hidden(character) { ' ' } else { character })
        .collect()
}
