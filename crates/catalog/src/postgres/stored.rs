//! Values as they are stored.
//!
//! PostgreSQL's `text` cannot contain U+0000, which ids, cursors and names can. It is stored as U+001A and `0`, and U+001A
//! itself as U+001A and `1`. Bodies need none of that, since JSON escapes both.

use std::borrow::Cow;

use chrono::{DateTime, Utc};

use crate::values::clamped;
use ingest_quota::Timestamp;

const ESCAPE: char = '\u{1A}';

/// A text as it is stored.
pub fn stored(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace(ESCAPE, "\u{1A}1").replace('\0', "\u{1A}0"))
}

/// The bytes of the longest id that is stored. An entry of an index has 2,704 at most, and one of `listing` has three ids.
const LONGEST_ID: usize = 800;

/// Whether an id fits in the indexes.
pub fn takes_id(id: &str) -> bool {
    stored(id).len() <= LONGEST_ID
}

/// A time as it is stored.
pub fn time(at: Timestamp) -> DateTime<Utc> {
    clamped(at).to_utc()
}

/// A stored text as it was.
pub fn restored(text: &str) -> String {
    if !text.contains(ESCAPE) {
        return text.to_owned();
    }
    text.replace("\u{1A}0", "\0").replace("\u{1A}1", "\u{1A}")
}
