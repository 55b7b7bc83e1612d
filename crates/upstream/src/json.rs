//! JSON as upstreams send it, with the mistakes that are common in it.

use serde_json::Value;

/// Reads a JSON text. An escape of half a surrogate pair is no character, and stays in the text as it is written: a title
/// that was cut in the middle of a character loses that character and not the page, and different texts stay different.
pub fn read(json: &str) -> serde_json::Result<Value> {
    serde_json::from_str(json).or_else(|error| {
        let mended = with_whole_pairs(json);
        if mended == json {
            Err(error)
        } else {
            serde_json::from_str(&mended)
        }
    })
}

/// The readable part of a JSON text that was cut off: everything before its last comma or bracket, with closing brackets.
pub fn read_cut(text: &str) -> Option<Value> {
    let (mut open, mut quoted, mut escaped, mut end) = (Vec::new(), false, false, 0);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            _ if quoted => (),
            ',' => end = at,
            '{' | '[' => {
                open.push(if character == '{' { '}' } else { ']' });
                end = at + 1;
            }
            '}' | ']' => {
                open.pop();
                end = at + 1;
            }
            _ => (),
        }
    }
    let closed: String = text
        .get(..end)?
        .chars()
        .chain(open.into_iter().rev())
        .collect();
    read(&closed).ok()
}

/// The text with another backslash before each escape of half a surrogate pair.
fn with_whole_pairs(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        let (is_half, length) = match (
            unit(escape),
            escape
                .get(5..)
                .and_then(|next| unit(next.strip_prefix('\\')?)),
        ) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (false, 11),
            (Some(0xD800..=0xDFFF), _) => (true, 5),
            // The escaped character is skipped, since it may be a backslash.
            _ => (false, escape.chars().next().map_or(0, char::len_utf8)),
        };
        let (own, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        whole.extend([before, if is_half { "\\\\" } else { "\\" }, own]);
        rest = after;
    }
    whole + rest
}

/// The UTF-16 unit of an escape without its backslash: `u00e9`
fn unit(escape: &str) -> Option<u16> {
    u16::from_str_radix(escape.strip_prefix('u')?.get(..4)?, 16).ok()
}
