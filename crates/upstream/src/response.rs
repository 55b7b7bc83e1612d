use std::borrow::Cow;

use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::decode::{DecodeError, decode, most_values};
use super::large_body::LargeBodySlot;
use super::paging::{self, Follows, Onward};
use super::records::{self, Found};
use super::redactor::Redactor;
use super::refusal::{self, failure_of, free_part, said};
use super::reported;
use super::request::RequestParts;
use super::text::{html_text, is_html};
use super::{Failure, Page, ReportedCost, transient, unread};
use super::{body, charset};
use ingest_base::apart::{apart, apart_alone};
use ingest_config::{Etag, Format, Rule, classify};

use ingest_base::fnv::fnv;
use ingest_base::plain::one_line;
use ingest_base::record::{CachedPage, Tag};
use ingest_base::saved_response::SavedResponse;

/// The most values that we read: more than any page of records has, and few enough that a hostile one fits into memory. A
/// parsed value takes up to a hundred times as many bytes as its text.
const MOST_VALUES: usize = 250_000;

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
    end: End,
    /// Hides secrets in whatever is shown of this response.
    pub redactor: Redactor,
    /// Held while it is processed, if it is large.
    slot: LargeBodySlot,
    format: Format,
}

/// How a body ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// It arrived completely.
    Whole,
    /// It is longer than this number of bytes.
    TooLong(usize),
    /// It broke off, for this reason.
    Broken(String),
}

impl From<&SavedResponse> for Response {
    fn from(saved: &SavedResponse) -> Self {
        let header = |(name, value): &(String, String)| {
            let name = HeaderName::try_from(name).ok()?;
            Some((name, HeaderValue::try_from(value).ok()?))
        };
        let headers = saved.headers.iter().filter_map(header).collect();
        let status = StatusCode::from_u16(saved.status).unwrap_or(StatusCode::OK);
        Self::new(status, headers, saved.body.clone())
    }
}

impl Response {
    /// A response that arrived completely.
    #[must_use]
    pub fn new(status: StatusCode, headers: HeaderMap, body: Vec<u8>) -> Self {
        Self {
            status,
            headers,
            body,
            end: End::Whole,
            redactor: Redactor::default(),
            slot: LargeBodySlot::default(),
            format: Format::default(),
        }
    }

    /// The same response, whose body ended like this.
    pub fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }

    /// The same response, which holds the slot for large ones.
    pub fn taken(self, slot: LargeBodySlot) -> Self {
        Self { slot, ..self }
    }

    /// The same response, whose secrets are hidden if it echoes them.
    pub fn redacted_by(self, redactor: Redactor) -> Self {
        Self { redactor, ..self }
    }

    /// The same response, whose body has this format.
    pub fn in_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// Whether the body has more values than are read.
    pub fn has_too_many_values(&self) -> bool {
        most_values(&self.body, self.format) > MOST_VALUES
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

    /// The value of a header; `None` if it is absent or no text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The values of all headers of this name; U+FFFD replaces invalid bytes.
    pub fn headers(&self, name: &str) -> impl Iterator<Item = Cow<'_, str>> {
        let values = self.headers.get_all(name).into_iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()))
    }

    /// Interprets the response. What it reports about the quota is put into `reported`, whether it is a page or not.
    ///
    /// # Errors
    /// Why it is no page.
    pub async fn understand(
        self,
        parts: &RequestParts<'_>,
        reported: &mut ReportedCost,
    ) -> Result<Page, Failure> {
        *reported = reported::read(parts, &self, None);
        let cached = parts.request.known;
        if let Some(cached) = cached.filter(|_| self.status == StatusCode::NOT_MODIFIED) {
            return Ok(unchanged(cached));
        }
        if !self.status.is_success() {
            let document = refusal::document(&self);
            *reported = reported::read(parts, &self, Some(&document));
            return self.refusal(parts, reported);
        }
        if self.status == StatusCode::NO_CONTENT {
            return Ok(self.no_records(parts));
        }
        self.came_whole(parts)?;
        let (response, document) = self.parsed().await?;
        let document = document?;
        *reported = reported::read(parts, &response, Some(&document));
        if response.is_refusal(&document, parts) {
            return response.refusal(parts, reported);
        }
        let page = response.page(document, parts);
        if page.is_err() {
            reported.free = free_part(&response, &parts.upstream.errors);
        }
        page
    }

    /// What a refusal means: an empty last page, if its rule says so, else a failure.
    fn refusal(
        &self,
        parts: &RequestParts<'_>,
        reported: &mut ReportedCost,
    ) -> Result<Page, Failure> {
        let rules = &parts.upstream.errors;
        reported.free = free_part(self, rules);
        if !refusal::ends_list(self, rules) {
            return Err(match failure_of(self, rules, parts.request.now) {
                // Without a rule, "gone" is about the cursor.
                Failure::Skip(why) if self.is_gone(rules) && parts.request.lasting.is_some() => {
                    Failure::OldCursor(why)
                }
                failure => failure,
            });
        }
        Ok(self.no_records(parts))
    }

    /// Whether its status is "gone", and no rule is about it.
    fn is_gone(&self, rules: &[Rule]) -> bool {
        self.status == StatusCode::GONE && refusal::rule_index(self, rules).is_none()
    }

    /// An empty last page.
    fn no_records(&self, parts: &RequestParts<'_>) -> Page {
        Page {
            lasting: paging::kept(parts),
            slot: self.slot.clone(),
            ..Page::default()
        }
    }

    /// The document in the body, or why there is none. A long one is parsed on another thread, since that takes longer than the
    /// interval between two requests.
    async fn parsed(mut self) -> Result<(Self, Result<Value, Failure>), Failure> {
        if LargeBodySlot::is_large(self.body.len(), || most_values(&self.body, self.format)) {
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

    fn page(&self, mut document: Value, parts: &RequestParts<'_>) -> Result<Page, Failure> {
        self.no_error(&document, parts)?;
        let call = &parts.request.step.call;
        let records = call.records.as_ref();
        let records =
            records.ok_or_else(|| Failure::Skip(format!("`{}` has no records", call.name)))?;
        // The cursor can be inside the records, so it is read before they are taken out of the document.
        let mut says = paging::read(&call.paging, &document, self);
        let unread = unread::read(&call.paging, records, &document, (self, parts.url.path()));
        let (total, places) = (says.total, std::mem::take(&mut says.places));
        let keep_last = paging::is_in_last_record(&call.paging);
        let is_first = parts.request.is_first();
        let may_end = call.paging.counts_itself() && !is_first;
        let found = records::take(&mut document, records, &parts.values(), keep_last, may_end)
            .map_err(|wrong| Failure::WrongShape(wrong.to_string()))?;
        says.read_last(&call.paging, found.last.as_ref());
        let (next, end, lasting, dead_end) = match paging::onward(parts, self, says, found.listed) {
            Err(Failure::Skip(why)) => (None, paging::End::Proved, None, Some(why)),
            onward => match onward? {
                Onward {
                    follows: Follows::Page(next),
                    ..
                } => (Some(next), paging::End::Proved, None, None),
                Onward {
                    follows: Follows::End(end),
                    lasting,
                } => (None, end, lasting, None),
            },
        };
        let elsewhere = found.lacks_list.then(|| unread::elsewhere(&document));
        let tag = self
            .tag(parts, &found, next.as_deref())
            .filter(|_| dead_end.is_none());
        Ok(Page {
            records: found.records,
            removed: found.removed,
            skipped: found.skipped,
            repeated: found.repeated,
            left_out: found.left_out,
            lacks_list: found.lacks_list,
            next,
            lasting,
            tag,
            unchanged: false,
            dead_end,
            is_first,
            listed: found.listed,
            unread,
            end,
            size: parts.page_size,
            total,
            before: call.paging.before(parts.request.page_cursor()),
            places,
            elsewhere: elsewhere.flatten(),
            slot: self.slot.clone(),
        })
    }

    /// The `ETag` with which the page can be requested again, if everything that we read is in the body that it names.
    fn tag(&self, parts: &RequestParts<'_>, found: &Found, next: Option<&str>) -> Option<Tag> {
        let wanted = parts.request.step.call.etag == Etag::Free;
        let name = self
            .header(ETAG.as_str())
            .filter(|name| wanted && !name.is_empty())?;
        // What a page that did not change shows again is its records and its next page.
        let is_stored =
            found.removed.is_empty() && parts.request.step.call.paging.lasting().is_none();
        let whole =
            found.skipped == 0 && is_stored && !paging::may_grow_unseen(parts, found.listed, next);
        whole.then(|| Tag {
            request: parts.name(),
            name: name.to_owned(),
            next: next.map(str::to_owned),
        })
    }

    fn came_whole(&self, parts: &RequestParts<'_>) -> Result<(), Failure> {
        match &self.end {
            End::Whole => Ok(()),
            End::Broken(cause) => Err(transient(format!("the response is incomplete: {cause}"))),
            End::TooLong(most) => Err(Failure::Skip(format!(
                "the response is longer than {most} bytes; request less, or raise \
                upstreams.{}.max_body",
                parts.upstream.name
            ))),
        }
    }

    fn document(&self) -> Result<Value, Failure> {
        if let Some(encoding) = body::not_requested(&self.headers) {
            return Err(Failure::WrongShape(format!(
                "the response is encoded as `{}`, which was not requested",
                self.shown(&encoding)
            )));
        }
        let text = charset::decode(&self.headers, &self.body, self.format)
            .map_err(|error| Failure::WrongShape(self.shown(&error.to_string())))?;
        if text.trim().is_empty() {
            return match self.format {
                Format::Csv(_) | Format::Ndjson => Ok(Value::Array(Vec::new())),
                Format::Json | Format::Xml => Err(transient("the response has no body".to_owned())),
            };
        }
        if most_values(text.as_bytes(), self.format) > MOST_VALUES {
            return Err(Failure::Skip(format!(
                "the response contains more than {MOST_VALUES} values; request smaller pages"
            )));
        }
        if self.format != Format::Xml && is_html(&text) {
            let (came, shown) = (self.markup(&text), self.shown(&html_text(&text)));
            let (stated, expected) = (self.stated_type(), self.format.name());
            return Err(Failure::Unreadable {
                message: format!("the response is {came}{stated} instead of {expected}: {shown}"),
                body: fnv(&text),
            });
        }
        let mut document =
            decode(&text, self.format).map_err(|error| self.not_read(&text, &error))?;
        self.redactor.clean_document(&mut document);
        Ok(document)
    }

    /// A document that is valid but cannot be read cannot be read later either, so it is requested once.
    fn not_read(&self, text: &str, error: &DecodeError) -> Failure {
        let said = error.to_string();
        let after = |what: &str| {
            said.strip_prefix(what)
                .map(|at| at.trim_start_matches(" at ").to_owned())
        };
        if let Some(at) = after("number out of range") {
            return Failure::Skip(format!(
                "the response contains a number that is out of range: {at}"
            ));
        }
        if let Some(at) = after("recursion limit exceeded") {
            return Failure::Skip(format!("the response is nested too deeply: {at}"));
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
            DecodeError::Column(_) | DecodeError::Depth => Failure::WrongShape(message),
            DecodeError::Json(_)
            | DecodeError::Line(..)
            | DecodeError::Csv(_)
            | DecodeError::Xml(_) => Failure::Unreadable {
                message,
                body: fnv(text),
            },
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
        stated.map_or_else(String::new, |stated| format!(" (`{}`)", self.shown(stated)))
    }

    /// Whether a success is a refusal, by a rule of its upstream.
    fn is_refusal(&self, document: &Value, parts: &RequestParts<'_>) -> bool {
        let header = |name: &str| self.header(name);
        classify(
            &parts.upstream.errors,
            self.status.as_u16(),
            header,
            document,
        )
        .is_some()
    }

    /// A success that is an error: it contains a message where APIs report errors, and no records. A list lacks them at its own
    /// place, which another attempt does not change.
    fn no_error(&self, document: &Value, parts: &RequestParts<'_>) -> Result<(), Failure> {
        let error = match document {
            Value::Array(elements) => elements
                .iter()
                .find_map(|element| error_in(element, &["error", "errors", "message"])),
            document => error_in(document, &["error", "errors"]),
        };
        let records = parts.request.step.call.records.as_ref();
        let has_records =
            records.is_some_and(|records| records::has_records(document, records, &parts.values()));
        if error.is_none() || has_records {
            return Ok(());
        }
        let message = format!("the response is an error: {}", said(self, document));
        match document {
            Value::Array(_) => Err(Failure::WrongShape(message)),
            _ => Err(transient(message)),
        }
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

/// The page that is stored already.
fn unchanged(known: &CachedPage) -> Page {
    let (records, next, tag) = (
        known.records.clone(),
        known.tag.next.clone(),
        Some(known.tag.clone()),
    );
    Page {
        listed: u64::try_from(records.len()).unwrap_or(u64::MAX),
        records,
        next,
        tag,
        unchanged: true,
        ..Page::default()
    }
}

/// The first of these members of an object that has content.
fn error_in<'a>(document: &'a Value, names: &[&str]) -> Option<&'a Value> {
    let members = document.as_object()?;
    let errors = names.iter().filter_map(|name| members.get(*name));
    errors.into_iter().find(|error| is_said(error))
}

/// Whether an error has content: it is not null, false, 0 or empty.
fn is_said(error: &Value) -> bool {
    match error {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}
