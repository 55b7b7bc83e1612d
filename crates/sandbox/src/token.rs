//! Page tokens: opaque, and valid for their own list only. They contain where to go on, so that another process of the
//! sandbox accepts them too.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::chance::Chance;

/// Which way a token leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Next = 0,
    Previous = 1,
}

/// The token that leads to `offset` in the list that `list` is drawn for.
pub fn encode(offset: u64, direction: Direction, list: Chance) -> String {
    // Five bytes hold every offset: no list is longer than `LONGEST`.
    let [_, _, _, bytes @ ..] = offset.to_be_bytes();
    let token = [&bytes[..], &[direction as u8], &check(offset, list)].concat();
    URL_SAFE_NO_PAD.encode(token)
}

/// Appends the list to its token, for requests that do not show the list.
pub fn with_list(token: &str, list: &str) -> String {
    format!("{token}.{}", URL_SAFE_NO_PAD.encode(list))
}

/// The list that a token contains.
pub fn list(token: &str) -> Option<String> {
    let (_, list) = token.split_once('.')?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(list).ok()?).ok()
}

/// Where a token of this list leads; `None` for any other text.
pub fn decode(token: &str, list: Chance) -> Option<u64> {
    let token = token.split('.').next()?;
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let [a, b, c, d, e, 0 | 1, found @ ..] = bytes.as_slice() else {
        return None;
    };
    let offset = u64::from_be_bytes([0, 0, 0, *a, *b, *c, *d, *e]);
    (*found == check(offset, list)).then_some(offset)
}

fn check(offset: u64, list: Chance) -> [u8; 4] {
    let [a, b, c, d, ..] = list.of("token").nth(offset).bits().to_be_bytes();
    [a, b, c, d]
}
