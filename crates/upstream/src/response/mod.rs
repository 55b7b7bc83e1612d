//! What an upstream responded: its bytes, its format and its document.

mod page;
pub mod refusal;

use std::borrow::Cow;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::body::{self, Body, End};
use crate::charset;
use crate::decode::{DEEPEST, DecodeError, columns, decode, may_exceed};
use crate::large_body::LargeBodySlot;
use crate::redactor::Redactor;
use crate::retry_after::{DAY, http_date};
use crate::text::{html_text, is_html};
use crate::{Failure, transient};
use ingest_base::apart::{apart, apart_alone};
use ingest_base::fnv::fnv;
use ingest_base::plain::one_line;
use ingest_base::saved_response::SavedResponse;
use ingest_config::{Format, Upstream};
use ingest_quota::Timestamp;

pub use refusal::failure_of;

/// The default of `max_values`.
const USUAL_VALUES: usize = 250_000;

/// How a ZIP archive begins: with a file, without one, and as one of several parts.
const ZIP: [&[u8]; 3] = [b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08"];

/// A body from this size on, in bytes, is parsed on a thread of its own.
const LONG_BODY: usize = 16 * 1024;

/// What an upstream responded.
pub struct Response {
    /// The HTTP status.
    pub status: StatusCode,
    /// The response headers.
    pub headers: HeaderMap,
    /// The body, decompressed.
    pub body: Vec<u8>,
    /// How it ended.
    pub end: End,
    /// Whether nothing but the end of its connection ended it: it has no length, no chunks and is not compressed.
    pub is_unbounded: bool,
    /// Hides secrets in whatever is shown of this response.
    pub redactor: Redactor,
    /// Held while it is processed, if it is large.
    pub slot: LargeBodySlot,
    /// The format of the body.
    pub format: Format,
    /// The most values that are read of it.
    pub most_values: usize,
    /// The upstream that the key for more values is of.
    pub upstream: String,
}

impl Response {
    /// A response that a user saved, whose body has at most `most` bytes after decompression.
    pub fn saved(saved: &SavedResponse, most: u64) -> Self {
        let header = |(name, value): &(String, String)| {
            let name = HeaderName::try_from(name).ok()?;
            Some((name, HeaderValue::try_from(value).ok()?))
        };
        let headers = saved.headers.iter().filter_map(header).collect();
        let status = StatusCode::from_u16(saved.status).unwrap_or(StatusCode::OK);
        let (body, end) = Body::of(&saved.body, most);
        Self {
            end,
            ..Self::new(status, headers, body)
        }
    }

    /// A response that arrived completely.
    pub fn new(status: StatusCode, headers: HeaderMap, body: Vec<u8>) -> Self {
        Self {
            status,
            headers,
            body,
            end: End::Whole,
            is_unbounded: false,
            redactor: Redactor::default(),
            slot: LargeBodySlot::default(),
            format: Format::default(),
            most_values: USUAL_VALUES,
            upstream: String::new(),
        }
    }

    /// The same response, which comes from this upstream and whose body has this format.
    pub fn of(self, upstream: &Upstream, format: Format) -> Self {
        Self {
            format,
            most_values: usize::try_from(upstream.max_values).unwrap_or(usize::MAX),
            upstream: upstream.name.clone(),
            ..self
        }
    }

    /// Whether the body has more values than are read.
    pub fn has_too_many_values(&self) -> bool {
        may_exceed(self.most_values, &self.body, self.format)
    }

    /// Whether the whole body arrived.
    pub fn is_whole(&self) -> bool {
        self.end == End::Whole
    }

    /// Why the body broke off; `None` if it did not.
    pub fn broke_off(&self) -> Option<&str> {
        match &self.end {
            End::Broken(cause) => Some(cause),
            End::Whole | End::TooLong(_) => None,
        }
    }

    /// The value of a header as text; `None` if it is absent.
    pub fn header(&self, name: &str) -> Option<Cow<'_, str>> {
        self.headers(name).next()
    }

    /// Returns the time by the upstream's clock where its `Date` has one, or else `now`, which is this machine's. A time in the response
    /// is compared with it: the two clocks may differ. More than a day apart, the `Date` is no clock.
    pub fn upstream_time(&self, now: Timestamp) -> Timestamp {
        let is_clock = |date: &Timestamp| date.since(now).max(now.since(*date)) <= DAY;
        self.date().filter(is_clock).unwrap_or(now)
    }

    /// The time at which it was sent by the upstream's clock, to the second; `None` if it does not say.
    pub fn date(&self) -> Option<Timestamp> {
        self.header(DATE.as_str())
            .and_then(|date| http_date(date.trim()))
    }

    /// The values of all headers of this name as text.
    pub fn headers(&self, name: &str) -> impl Iterator<Item = Cow<'_, str>> {
        let values = self.headers.get_all(name).into_iter();
        values.map(|value| charset::header_text(value.as_bytes()))
    }

    /// The value of a header, exactly as it came; `None` if it is absent. An error is what the header has instead of UTF-8, for
    /// messages.
    pub fn exact_header(&self, name: &str) -> Result<Option<&str>, String> {
        let Some(value) = self.headers.get(name) else {
            return Ok(None);
        };
        let text = std::str::from_utf8(value.as_bytes());
        text.map(Some)
            .map_err(|_| self.shown(&charset::header_text(value.as_bytes())))
    }

    /// The document in the body, or why there is none. A long one is parsed on another thread, since that takes longer than the
    /// interval between two requests.
    async fn parsed(mut self) -> Result<(Self, Result<Value, Failure>), Failure> {
        if LargeBodySlot::is_large(&self.body, self.format) {
            self.slot.wait().await;
            return apart_alone(move || self.with_document())
                .await
                .map_err(|error| transient(error.to_string()));
        }
        if self.body.len() < LONG_BODY {
            return Ok(self.with_document());
        }
        apart(move || self.with_document())
            .await
            .map_err(|error| transient(error.to_string()))
    }

    fn with_document(self) -> (Self, Result<Value, Failure>) {
        let document = self.document();
        (self, document)
    }

    /// The document in the body.
    pub fn document(&self) -> Result<Value, Failure> {
        if let Some(encoding) = body::not_read(&self.headers) {
            return Err(Failure::WrongShape(format!(
                "the response is encoded as `{}`, which was not requested",
                self.shown(&encoding)
            )));
        }
        if ZIP.iter().any(|mark| self.body.starts_with(mark)) {
            return Err(Failure::WrongShape(
                "the response is a ZIP archive, which is not read; request it as gzip, or not compressed"
                    .to_owned(),
            ));
        }
        if self.body.starts_with(&body::GZIP) {
            return Err(Failure::WrongShape(
                "the response is packed with gzip twice; request it packed once, or not compressed"
                    .to_owned(),
            ));
        }
        let text = charset::decode(&self.headers, &self.body)
            .map_err(|error| Failure::WrongShape(self.shown(&error)))?;
        if text.trim().is_empty() {
            // Without a line, CSV and NDJSON are empty lists. JSON and XML have no empty document.
            return match self.format {
                Format::Csv(_) | Format::Ndjson => Ok(Value::Array(Vec::new())),
                Format::Json | Format::Xml => Err(Failure::Unreadable {
                    message: "the response has no body".to_owned(),
                    body: fnv(""),
                }),
            };
        }
        if may_exceed(self.most_values, text.as_bytes(), self.format) {
            return Err(Failure::Skip(format!(
                "the response contains more than {} values; request smaller pages, or raise upstreams.{}.max_values",
                self.most_values, self.upstream
            )));
        }
        if self.format != Format::Xml && is_html(&text) {
            let clean = self.redactor.clean(&text);
            let (came, shown) = (self.markup(&text), self.shown(&html_text(&clean)));
            let (stated, expected) = (self.stated_type(), self.format.name());
            return Err(Failure::Unreadable {
                message: format!("the response is {came}{stated} instead of {expected}: {shown}"),
                body: fnv(&text),
            });
        }
        let mut document =
            decode(&text, self.format).map_err(|error| self.not_read(&text, &error))?;
        // Here, before anything is taken out of it: neither a record nor a cursor may hold a secret that was echoed.
        self.redactor.clean_document(&mut document);
        Ok(document)
    }

    /// What error rules see of a body: its document; one that cannot be read is what it is in a refusal. A single line of NDJSON is
    /// the value of that line, since upstreams report an error so whatever the format of their pages is.
    fn for_rules<'d>(&self, document: &'d Result<Value, Failure>) -> Cow<'d, Value> {
        match (document, self.format) {
            (Ok(Value::Array(lines)), Format::Ndjson) if lines.len() == 1 => {
                lines.first().map_or_else(Cow::default, Cow::Borrowed)
            }
            (Ok(document), _) => Cow::Borrowed(document),
            (Err(_), _) => Cow::Owned(refusal::document(self)),
        }
    }

    /// A document that is valid but cannot be read cannot be read later either, so it is requested once.
    fn not_read(&self, text: &str, error: &DecodeError) -> Failure {
        let said = error.to_string();
        let after = |what: &str| {
            said.strip_prefix(what)
                .map(|at| at.trim_start_matches(" at ").to_owned())
        };
        if let Some(at) = after("recursion limit exceeded") {
            return Failure::Skip(format!(
                "the response is nested deeper than {DEEPEST} levels: {at}"
            ));
        }
        let (format, shown) = (self.format.name(), self.shown(&said));
        let message = match text.trim_start().starts_with(['{', '[']) {
            true => format!("the response is not {format}: {shown}"),
            false => {
                let (stated, begin) = (self.stated_type(), self.shown(text));
                format!("the response is not {format}{stated}: {shown}; it begins \"{begin}\"")
            }
        };
        match error {
            DecodeError::Repeat(_) => Failure::Skip(said),
            DecodeError::Column(_) | DecodeError::Twice(_) | DecodeError::Depth => {
                Failure::WrongShape(message)
            }
            // An object that has a name twice.
            DecodeError::Json(error) | DecodeError::Line(_, error) if error.is_data() => {
                Failure::WrongShape(message)
            }
            DecodeError::Json(_)
            | DecodeError::Line(..)
            | DecodeError::Csv(_)
            | DecodeError::Quoted
            | DecodeError::Quote(_)
            | DecodeError::Xml(_)
            | DecodeError::Tag
            | DecodeError::Unclosed(_)
            | DecodeError::Root
            | DecodeError::Entities
            | DecodeError::Entity(_) => Failure::Unreadable {
                message,
                body: fnv(text),
            },
        }
    }

    /// Whether it is a table without a byte.
    fn is_blank_table(&self) -> bool {
        matches!(self.format, Format::Csv(_)) && self.text_to_show().trim().is_empty()
    }

    /// Whether a part of the body, cut between two records, looks like the whole.
    const fn can_end_anywhere(&self) -> bool {
        match self.format {
            Format::Csv(_) | Format::Ndjson => true,
            Format::Json | Format::Xml => false,
        }
    }

    /// The names of the columns, if the body is a table.
    fn columns(&self) -> Option<Vec<String>> {
        match self.format {
            Format::Csv(delimiter) if !self.is_blank_table() => {
                Some(columns(&self.text_to_show(), delimiter))
            }
            Format::Csv(_) | Format::Json | Format::Ndjson | Format::Xml => None,
        }
    }

    /// The name of the markup that a body is in: by its content type, or else by how it begins.
    fn markup(&self, text: &str) -> &'static str {
        let stated = self.header(CONTENT_TYPE.as_str()).unwrap_or_default();
        let is_html = stated.contains("html") || text.contains("<html");
        let is_xml = stated.contains("xml") || text.trim_start().starts_with("<?xml");
        if is_xml && !is_html { "XML" } else { "HTML" }
    }

    /// The content type that the response states, for messages; empty if it states none.
    fn stated_type(&self) -> String {
        let stated = self.header(CONTENT_TYPE.as_str());
        stated.map_or_else(String::new, |stated| {
            format!(" (`{}`)", self.shown(&stated))
        })
    }

    /// The body as text for messages: U+FFFD replaces invalid bytes.
    pub fn text_to_show(&self) -> Cow<'_, str> {
        charset::decode_for_show(&self.headers, &self.body)
    }

    /// The body of a refusal in XML; `None` for other formats, in which upstreams do not report errors.
    pub fn in_its_format(&self, text: &str) -> Option<Value> {
        match self.format {
            Format::Xml => decode(text, self.format).ok(),
            Format::Json | Format::Ndjson | Format::Csv(_) => None,
        }
    }

    /// A text of the upstream for messages.
    pub fn shown(&self, text: &str) -> String {
        one_line(&self.redactor.clean(text))
    }
}
