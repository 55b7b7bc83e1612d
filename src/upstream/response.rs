use std::borrow::Cow;

use reqwest::StatusCode;
use reqwest::header::{ETAG, HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::json;
use super::large_body::LargeBodySlot;
use super::paging;
use super::records::{self, Found};
use super::redactor::Redactor;
use super::refusal::{failure_of, is_free, said};
use super::reported;
use super::request::RequestParts;
use super::text::{html_text, is_html};
use super::{Failure, Page, ReportedCost, transient};
use super::{body, charset};
use crate::apart::{apart, apart_alone};
use crate::config::{Etag, classify};
use crate::plain::one_line;
use crate::record::{CachedPage, Tag};
use crate::saved_response::SavedResponse;

/// More values than any page of records holds, and few enough that a hostile one fits into memory: a parsed value takes up
/// to a hundred times the bytes that it is written in.
const MOST_VALUES: usize = 250_000;

/// From how many bytes on a body is parsed on a thread of its own.
const LONG_BODY: usize = 16 * 1024;

/// What an upstream answered.
pub struct Response {
    /// The HTTP status.
    pub status: StatusCode,
    /// The response headers.
    pub headers: HeaderMap,
    /// The body, decompressed.
    pub body: Vec<u8>,
    end: End,
    /// Hides the secret in whatever is shown of this answer.
    pub redactor: Redactor,
    /// Where it is large, nothing else that is large is at hand.
    slot: LargeBodySlot,
}

/// How a body ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Whole,
    /// It is longer than so many bytes.
    TooLong(usize),
    /// Before its time, for this reason.
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
    /// An answer that came whole.
    #[must_use]
    pub fn new(status: StatusCode, headers: HeaderMap, body: Vec<u8>) -> Self {
        Self {
            status,
            headers,
            body,
            end: End::Whole,
            redactor: Redactor::default(),
            slot: LargeBodySlot::default(),
        }
    }

    /// The same answer with the way its body ended.
    pub fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }

    /// The same answer, holding the slot for large answers.
    pub fn taken(self, slot: LargeBodySlot) -> Self {
        Self { slot, ..self }
    }

    /// The same answer, kept from telling the secret should it echo it.
    pub fn redacted_by(self, redactor: Redactor) -> Self {
        Self { redactor, ..self }
    }

    /// Whether the whole body arrived.
    pub fn is_whole(&self) -> bool {
        self.end == End::Whole
    }

    /// Why the body ended before its time.
    pub fn broke_off(&self) -> Option<&str> {
        match &self.end {
            End::Broken(cause) => Some(cause),
            End::Whole | End::TooLong(_) => None,
        }
    }

    /// A header's value, where it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The page that this holds. What it says of the cost of the request is in `told`, page or not.
    pub async fn understand(
        self,
        parts: &RequestParts<'_>,
        reported: &mut ReportedCost,
    ) -> Result<Page, Failure> {
        if let Some(known) = parts
            .request
            .known
            .filter(|_| self.status == StatusCode::NOT_MODIFIED)
        {
            return Ok(unchanged(known));
        }
        if !self.status.is_success() {
            if !parts.request.step.call.settle.is_empty() {
                reported.cost = reported::cost(
                    &parts.request.step.call,
                    &json::read(&self.text_to_show()).unwrap_or_default(),
                );
            }
            reported.free = is_free(&self, &parts.upstream.errors);
            return Err(failure_of(&self, &parts.upstream.errors, parts.request.now));
        }
        self.came_whole(parts)?;
        let (answer, document) = self.parsed().await?;
        let document = document?;
        reported.cost = reported::cost(&parts.request.step.call, &document);
        let page = answer.page(document, parts);
        reported.free = page.is_err() && is_free(&answer, &parts.upstream.errors);
        page
    }

    /// The document that this holds, or why there is none. To parse a long one takes as long as many requests are apart.
    async fn parsed(mut self) -> Result<(Self, Result<Value, Failure>), Failure> {
        if LargeBodySlot::is_large(self.body.len(), || most_values(&self.body)) {
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
        self.no_refusal(&document, parts)?;
        let records = parts.request.step.call.records.as_ref();
        let records = records.ok_or_else(|| {
            Failure::Skip(format!("`{}` has no records", parts.request.step.call.name))
        })?;
        let says = paging::read(&parts.request.step.call.paging, &document);
        let found = records::take(&mut document, records)
            .map_err(|wrong| Failure::WrongShape(wrong.to_string()))?;
        let (next, dead_end) = match paging::next(parts, self, says, found.listed) {
            Err(Failure::Skip(why)) => (None, Some(why)),
            next => (next?, None),
        };
        let tag = self
            .tag(parts, &found, next.as_deref())
            .filter(|_| dead_end.is_none());
        let slot = self.slot.clone();
        let Found {
            records,
            skipped,
            repeated,
            lacks_list,
            ..
        } = found;
        Ok(Page {
            records,
            skipped,
            repeated,
            lacks_list,
            next,
            tag,
            unchanged: false,
            dead_end,
            slot,
        })
    }

    /// The name of a page that can be asked for again under it: all that the page says is in the body that it names.
    fn tag(&self, parts: &RequestParts<'_>, found: &Found, next: Option<&str>) -> Option<Tag> {
        let wanted = parts.request.step.call.etag == Etag::Free;
        let name = self
            .header(ETAG.as_str())
            .filter(|name| wanted && !name.is_empty())?;
        let whole = found.skipped == 0 && !paging::may_grow_unseen(parts, found.listed, next);
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
        let text = charset::decode(&self.headers, &self.body)
            .map_err(|error| Failure::WrongShape(self.shown(&error.to_string())))?;
        if text.trim().is_empty() {
            return Err(transient("the response has no body".to_owned()));
        }
        if most_values(text.as_bytes()) > MOST_VALUES {
            return Err(Failure::Skip(format!(
                "the response contains more than {MOST_VALUES} values; request smaller pages"
            )));
        }
        let mut document = json::read(&text).map_err(|error| self.not_read(&error))?;
        self.redactor.clean_document(&mut document);
        Ok(document)
    }

    /// JSON that is right and cannot be read will not be read later either: it is asked for once.
    fn not_read(&self, error: &serde_json::Error) -> Failure {
        let said = error.to_string();
        let at = |what: &str| {
            said.strip_prefix(what)
                .map(|at| at.trim_start_matches(" at ").to_owned())
        };
        match (at("number out of range"), at("recursion limit exceeded")) {
            (Some(at), _) => Failure::Skip(format!(
                "the response contains a number that is out of range: {at}"
            )),
            (_, Some(at)) => Failure::Skip(format!("the response is nested too deeply: {at}")),
            _ => transient(self.not_json(error)),
        }
    }

    fn not_json(&self, error: &serde_json::Error) -> String {
        let text = self.text_to_show();
        if is_html(&text) {
            return format!(
                "the response is HTML instead of JSON: {}",
                self.shown(&html_text(&text))
            );
        }
        format!("the response is not JSON: {error}")
    }

    /// A success that is none: a rule says so, or there is an error where the list should be.
    fn no_refusal(&self, document: &Value, parts: &RequestParts<'_>) -> Result<(), Failure> {
        let rules = &parts.upstream.errors;
        if classify(
            rules,
            self.status.as_u16(),
            |name| self.header(name),
            document,
        )
        .is_some()
        {
            return Err(failure_of(self, rules, parts.request.now));
        }
        let Value::Object(members) = document else {
            return Ok(());
        };
        let error = ["error", "errors"]
            .iter()
            .filter_map(|name| members.get(*name))
            .find(|error| is_said(error));
        let records = parts.request.step.call.records.as_ref();
        match error {
            Some(_) if records.is_none_or(|records| records.at.find(document).is_none()) => {
                Err(transient(format!(
                    "the response is an error: {}",
                    said(self, document)
                )))
            }
            _ => Ok(()),
        }
    }

    /// The body as text, with U+FFFD for what is none: fit to be shown, never to be landed.
    pub fn text_to_show(&self) -> Cow<'_, str> {
        charset::decode_for_show(&self.headers, &self.body)
    }

    /// A text of theirs, fit to be shown.
    pub fn shown(&self, text: &str) -> String {
        one_line(&self.redactor.clean(text))
    }
}

/// The page that is there already.
fn unchanged(known: &CachedPage) -> Page {
    let (records, next, tag) = (
        known.records.clone(),
        known.tag.next.clone(),
        Some(known.tag.clone()),
    );
    Page {
        records,
        next,
        tag,
        unchanged: true,
        ..Page::default()
    }
}

/// How many values a JSON text can hold at most: each but the first follows a comma or an opening bracket.
fn most_values(json: &[u8]) -> usize {
    json.iter()
        .filter(|byte| matches!(byte, b',' | b'[' | b'{'))
        .count()
}

/// Whether an error says anything: not null, false, 0 or empty.
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
