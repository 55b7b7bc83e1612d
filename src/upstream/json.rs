//! JSON as upstreams send it.

use serde_json::Value;

/// Reads a JSON text. A byte order mark is left out, and what is no Unicode, in its bytes or in its escapes, becomes U+FFFD:
/// a title that was cut in the middle of a character costs that character and not the page.
pub fn read(json: &[u8]) -> serde_json::Result<Value> {
    let json = without_mark(json);
    serde_json::from_slice(json).or_else(|error| match mended(json) {
        Some(mended) => serde_json::from_str(&mended),
        None => Err(error),
    })
}

/// What can be read of a JSON text that was cut off: all before its last comma or bracket, with what is open there closed.
pub fn read_cut(json: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(without_mark(json));
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
    read(closed.as_bytes()).ok()
}

pub fn without_mark(json: &[u8]) -> &[u8] {
    json.strip_prefix("\u{feff}".as_bytes()).unwrap_or(json)
}

/// The text with U+FFFD for whatever is no Unicode; `None` where all of it is.
fn mended(json: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(json);
    let all_bytes_fit = matches!(text, std::borrow::Cow::Borrowed(_));
    let mended = with_whole_pairs(&text);
    (!all_bytes_fit || mended != text).then_some(mended)
}

/// The text with `\ufffd` for each escape of a surrogate that has no other half.
fn with_whole_pairs(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        let (kept, length) = match (
            unit(escape),
            escape
                .get(5..)
                .and_then(|next| unit(next.strip_prefix('\\')?)),
        ) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (None, 11),
            (Some(0xD800..=0xDFFF), _) => (Some("ufffd"), 5),
            // The escaped character goes along, since it may be a backslash.
            _ => (None, escape.chars().next().map_or(0, char::len_utf8)),
        };
        let (own, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        whole.extend([before, "\\", kept.unwrap_or(own)]);
        rest = after;
    }
    whole + rest
}

/// The UTF-16 unit that an escape stands for, of which the backslash is left out: `u00e9`
fn unit(escape: &str) -> Option<u16> {
    u16::from_str_radix(escape.strip_prefix('u')?.get(..4)?, 16).ok()
}
