use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::views::Shape;
use super::{moment, tags, words};
use crate::catalog::{Landing, OpenBatch, PassRef};
use crate::config::Pointer;
use crate::quota::Cost;
use crate::record::{Record, Tag};

/// A page as it goes to the thread that writes it, its records in the form in which they are stored.
pub struct LandingPage {
    pub pass: PassRef,
    pub step: i64,
    pub upstream: String,
    pub call: String,
    pub kind: String,
    pub shape: Shape,
    pub rows: Vec<Row>,
    pub request: String,
    pub next: Option<String>,
    pub cut: bool,
    pub empty_pages: i64,
    pub requested: Vec<String>,
    pub batch: Option<Batch>,
    pub requests: i64,
    pub units: Cost,
    pub tag: Option<Tag>,
    pub now: String,
    /// Tags from before then are forgotten.
    pub tags_since: String,
}

/// Where a batch stands, as it is stored: lists in JSON.
pub struct Batch {
    pub ids: String,
    pub missing: String,
    /// `None` where its last page has come.
    pub cursors: Option<String>,
    pub began: String,
    pub empty_pages: i64,
}

impl Batch {
    fn of(batch: &OpenBatch) -> Self {
        let json = |list: &[String]| serde_json::json!(list).to_string();
        let cursors = Some(&*batch.cursors).filter(|cursors| !cursors.is_empty());
        Self {
            ids: json(&batch.ids),
            missing: json(&batch.missing),
            cursors: cursors.map(json),
            began: moment::write(batch.began),
            empty_pages: super::integer(batch.empty_pages),
        }
    }
}

/// A record as it is stored.
pub struct Row {
    pub id: String,
    pub body: String,
    /// What the full-text index holds of it; `None` for nothing.
    pub text: Option<Text>,
}

/// What the full-text index holds of a record.
pub struct Text {
    pub parted: String,
    /// Tells whether the text changed. Another release's hash may differ, and then the text is indexed once more.
    pub hash: i64,
}

impl LandingPage {
    pub fn of(landing: &Landing<'_>) -> Self {
        Self {
            pass: landing.pass.clone(),
            step: super::integer(landing.step as u64),
            upstream: landing.upstream.to_owned(),
            call: landing.call.to_owned(),
            kind: landing.kind.kind.clone(),
            shape: Shape::of(landing.kind),
            rows: landing
                .records
                .iter()
                .map(|record| Row::of(record, &landing.kind.text))
                .collect(),
            request: landing.request.to_owned(),
            next: landing.next.map(str::to_owned),
            cut: landing.cut,
            empty_pages: super::integer(landing.empty_pages),
            requested: landing.requested.to_vec(),
            batch: landing.batch.map(Batch::of),
            requests: super::integer(landing.requests),
            units: landing.units.clone(),
            tag: landing.tag.cloned(),
            now: moment::write(landing.now),
            tags_since: moment::write(landing.now - tags::KEPT),
        }
    }

    /// Whether it takes much memory, which to land takes once more.
    pub fn is_large(&self) -> bool {
        const LARGE: usize = 1024 * 1024;
        self.rows.iter().map(|row| row.body.len()).sum::<usize>() > LARGE
    }

    /// The ids that were asked for, and whether each came.
    pub fn answers(&self) -> impl Iterator<Item = (&str, bool)> {
        let came: HashSet<&str> = self.rows.iter().map(|row| row.id.as_str()).collect();
        self.requested
            .iter()
            .map(move |id| (id.as_str(), came.contains(id.as_str())))
    }
}

impl Row {
    fn of(record: &Record, text: &[Pointer]) -> Self {
        Self {
            id: record.id.clone(),
            body: serde_json::to_string(&record.body).unwrap_or_else(|_| record.body.to_string()),
            text: Text::of(&record.body, text),
        }
    }

    pub fn text_hash(&self) -> Option<i64> {
        self.text.as_ref().map(|text| text.hash)
    }
}

impl Text {
    pub fn of(body: &Value, pointers: &[Pointer]) -> Option<Self> {
        let text = joined(body, pointers);
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let hash = i64::from_ne_bytes(hasher.finish().to_ne_bytes());
        (!text.is_empty()).then(|| Self {
            parted: words::part(&text).into_owned(),
            hash,
        })
    }
}

/// Around a found word of an excerpt. A record cannot bring them itself.
pub const MARKS: [char; 2] = ['\u{E000}', '\u{E001}'];

/// Of a record's text so many bytes are in the index: more than people write, and few enough that a hostile upstream fills
/// no memory with them.
const MOST_TEXT: usize = 64 * 1024;

/// The text of a record, a line a place, or as much of it as is in the index.
pub fn joined(body: &Value, pointers: &[Pointer]) -> String {
    let mut text = String::new();
    let found = pointers
        .iter()
        .flat_map(|pointer| pointer.find_all(body))
        .filter_map(scalar);
    for (number, more) in found.enumerate() {
        if text.len() >= MOST_TEXT {
            break;
        }
        text.push_str(if number > 0 { "\n" } else { "" });
        text.push_str(beginning(&more, MOST_TEXT.saturating_sub(text.len())));
    }
    if text.is_ascii() {
        text
    } else {
        text.replace(MARKS, "")
    }
}

fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(truth) => Some(Cow::Owned(truth.to_string())),
        _ => None,
    }
}

/// At most so many bytes of a text, and no half of a character.
fn beginning(text: &str, most: usize) -> &str {
    (0..=most.min(text.len()))
        .rev()
        .find_map(|end| text.get(..end))
        .unwrap_or_default()
}
