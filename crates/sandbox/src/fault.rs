//! Faults that a test scripts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Content, Ending, Reply};
use super::request::CallRequest;
use ingest_config::Lead;

/// Scripted faults: `POST /_sandbox/faults`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// How many requests it hits.
    #[serde(default = "once")]
    times: u64,
    /// How many requests pass before it.
    #[serde(default)]
    after: u64,
    /// The call that it affects; `None`: any.
    call: Option<String>,
    /// The latency of the response, in milliseconds.
    #[serde(default)]
    delay_ms: u64,
    /// The bad response; `None`: the usual one, with `status`, `headers` and `body` where they are given.
    pub answer: Option<FaultKind>,
    pub status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// A string is sent as text, any other value as JSON.
    body: Option<Value>,
}

/// The kinds of bad responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The connection ends before the response.
    Drop,
    /// The connection ends in the middle of the usual response.
    HalfBody,
    /// A body that never ends.
    Endless,
    /// An empty body, with status 200.
    NoBody,
    /// A web page, with status 200.
    Html,
    /// An array instead of an object.
    List,
    /// The usual response, with `null` for each record.
    NullRecords,
    /// The usual response, with a token that leads to the same page again, except on the first page.
    SameCursor,
    /// An error whose value is a plain text.
    PlainError,
    /// The upstream's refusal for an exhausted budget.
    Spent,
    /// The upstream's refusal for an exceeded rate.
    SlowDown,
    /// The upstream's refusal of a secret.
    Denied,
    /// The upstream's refusal of a cursor.
    BadCursor,
    /// The upstream's refusal of a cursor with which a pass begins.
    OldCursor,
    /// The upstream fails with `status` (503 by default).
    Backend,
}

const fn once() -> u64 {
    1
}

/// The first fault that affects this call; it has one request less afterwards.
pub fn hit(faults: &mut Vec<Fault>, call: &str) -> Option<Fault> {
    let found = faults
        .iter_mut()
        .find(|fault| fault.call.as_deref().is_none_or(|named| named == call))?;
    if let Some(left) = found.after.checked_sub(1) {
        found.after = left;
        return None;
    }
    found.times = found.times.saturating_sub(1);
    let hit = found.clone();
    faults.retain(|fault| fault.times > 0);
    Some(hit)
}

impl Fault {
    fn spoil_body(&self, body: &mut Value, asked: &CallRequest<'_>) {
        match self.answer {
            Some(FaultKind::NullRecords) => null_records(body, asked),
            Some(FaultKind::SameCursor) => same_cursor(body, asked),
            _ => {}
        }
    }

    /// Turns a usual response into the bad one.
    pub fn spoil(&self, mut good: Reply, asked: &CallRequest<'_>) -> Reply {
        if let Content::Json(body) = &mut good.content {
            self.spoil_body(body, asked);
        }
        let mut answer = match self.answer {
            Some(FaultKind::Drop) => good.ending(Ending::Dropped),
            Some(FaultKind::HalfBody) => good.ending(Ending::Half),
            Some(FaultKind::Endless) => good.ending(Ending::Endless),
            Some(FaultKind::NoBody) => Reply::text(200, ""),
            Some(FaultKind::Html) => Reply::text(
                200,
                "<!doctype html><title>Welcome</title><p>Please log in.",
            ),
            Some(FaultKind::List) => Reply::json(200, json!([1, "two", null])),
            Some(FaultKind::PlainError) => {
                Reply::json(400, json!({ "error": "that did not work" }))
            }
            _ => good,
        };
        answer.status = self.status.unwrap_or(answer.status);
        answer.headers.extend(self.headers.clone());
        answer.delay = Duration::from_millis(self.delay_ms);
        match &self.body {
            Some(Value::String(text)) => answer.content = Content::Text(text.clone()),
            Some(body) => answer.content = Content::Json(body.clone()),
            None => {}
        }
        answer
    }
}

fn null_records(body: &mut Value, asked: &CallRequest<'_>) {
    let at = asked
        .route
        .call
        .records
        .as_ref()
        .map_or("", |records| records.at.as_str());
    if let Some(Value::Array(list)) = body.pointer_mut(at) {
        list.fill(Value::Null);
    }
}

fn same_cursor(body: &mut Value, asked: &CallRequest<'_>) {
    let (Some(Lead::Token(next)), Some(cursor)) = (asked.route.call.paging.lead(), asked.cursor())
    else {
        return;
    };
    if let Some(found) = body.pointer_mut(next.as_str()) {
        *found = cursor.into();
    }
}
