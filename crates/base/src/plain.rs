//! Text for people: text from upstreams and files, made safe to show on a terminal; numbers and times.

use std::borrow::Cow;
use std::time::Duration;

use ingest_quota::Timestamp;

/// Whether a character can mislead a terminal or its reader: a control character, one that changes the direction of writing,
/// or an invisible one. The joiners U+200C and U+200D are allowed: words and emoji need them.
#[must_use]
pub fn is_hidden(character: char) -> bool {
    character.is_control() || is_direction(character) || is_invisible(character)
}

/// Marks, embeddings, overrides and isolates of the bidirectional algorithm.
const fn is_direction(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// Invisible format characters, and the separators of lines and paragraphs.
const fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{2060}'..='\u{2065}'
            | '\u{206a}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Returns JSON in which each misleading character is written as its code: the same JSON, safe on a terminal. Outside its strings
/// JSON has no such characters but white space, which stays.
#[must_use]
pub fn json_safe(json: &str) -> Cow<'_, str> {
    let is_safe = |character: char| character.is_ascii_whitespace() || !is_hidden(character);
    if json.chars().all(is_safe) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 64);
    for character in json.chars() {
        if is_safe(character) {
            safe.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            safe.push_str(&format!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(safe)
}

/// Returns the text with a space in place of each misleading character.
#[must_use]
pub fn plain(text: &str) -> String {
    text.chars()
        .map(|character| if is_hidden(character) { ' ' } else { character })
        .collect()
}

/// The most characters of an upstream's message that are shown: with its prefix, at most 200.
const LONGEST: usize = 160;

/// Returns an upstream's text as one short line that is safe on a terminal.
#[must_use]
pub fn one_line(text: &str) -> String {
    let plain = without_escapes(text);
    let mut words = String::new();
    // Each word has a character, so no more words than these are shown.
    for word in plain.split_whitespace().take(LONGEST) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    clipped(&words)
}

fn clipped(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// Returns the text without terminal escapes; other misleading characters become spaces.
fn without_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_to(&mut rest, |last| ('@'..='~').contains(&last)),
            hidden if is_hidden(hidden) => plain.push(' '),
            other => plain.push(other),
        }
    }
    plain
}

fn skip_escape(rest: &mut std::str::Chars<'_>) {
    match rest.next() {
        Some('[') => skip_to(rest, |last| ('@'..='~').contains(&last)),
        Some(']' | 'P' | '^' | '_') => {
            skip_to(rest, |last| matches!(last, '\u{7}' | '\u{9c}' | '\u{1b}'))
        }
        _ => (),
    }
}

fn skip_to(rest: &mut std::str::Chars<'_>, is_last: impl Fn(char) -> bool) {
    let _ = rest.find(|character| is_last(*character));
}

/// `9500` as `9,500`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let grouped: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| std::str::from_utf8(group).ok())
        .collect();
    grouped.join(",")
}

/// Returns an instant to the second, rounded up, so that no time is shown too early.
pub fn instant(at: Timestamp) -> String {
    let up = at + Duration::from_micros(999_999);
    up.to_utc().format("%Y-%m-%d %H:%M:%S UTC").to_string()
}
