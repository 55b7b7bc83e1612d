//! What goes wrong: by chance, or as a test wrote it down.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Answer, Content, Ending};
use super::asked::Asked;
use super::chance::Chance;
use crate::config::Lead;

/// Faults to come: `POST /_sandbox/faults`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// How many requests it hits.
    #[serde(default = "once")]
    times: u64,
    /// How many requests it lets pass before.
    #[serde(default)]
    after: u64,
    /// The call that it is about; any if none is named.
    call: Option<String>,
    /// How long the answer takes, in milliseconds.
    #[serde(default)]
    delay_ms: u64,
    /// What is answered; nothing means what would be answered anyway, or `status`, `headers` and `body` if given.
    answer: Option<Kind>,
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// A text is sent as it is, anything else as JSON.
    body: Option<Value>,
}

/// What kind of bad answer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The connection ends before an answer.
    Drop,
    /// The connection ends in the middle of what would have been answered.
    HalfBody,
    /// A body that never ends.
    Endless,
    /// Nothing, with status 200.
    NoBody,
    /// A web page, with status 200.
    Html,
    /// A list where an object belongs.
    List,
    /// What would be answered, its records `null`.
    NullRecords,
    /// What would be answered, its token leading to the same page again; the first page has none that leads to it.
    SameCursor,
    /// An error that is a plain text.
    PlainError,
    /// The upstream's refusal of a spent budget.
    Spent,
    /// The upstream's refusal of too fast a rate.
    SlowDown,
    /// The upstream's refusal of a secret.
    Denied,
    /// The upstream's refusal of a cursor.
    BadCursor,
    /// The upstream's own fault; `status` tells which (503 if none).
    Backend,
}

const fn once() -> u64 {
    1
}

/// What a scripted fault does to one request.
#[derive(Debug, Clone)]
pub struct Hit {
    pub kind: Option<Kind>,
    pub status: Option<u16>,
    headers: BTreeMap<String, String>,
    body: Option<Value>,
    delay: Duration,
}

/// The first fault that hits this call, used up a little.
pub fn hit(faults: &mut Vec<Fault>, call: &str) -> Option<Hit> {
    let found = faults
        .iter_mut()
        .find(|fault| fault.call.as_deref().is_none_or(|named| named == call))?;
    if let Some(left) = found.after.checked_sub(1) {
        found.after = left;
        return None;
    }
    found.times = found.times.saturating_sub(1);
    let hit = Hit {
        kind: found.answer,
        status: found.status,
        headers: found.headers.clone(),
        body: found.body.clone(),
        delay: Duration::from_millis(found.delay_ms),
    };
    faults.retain(|fault| fault.times > 0);
    Some(hit)
}

impl Hit {
    fn spoil_body(&self, body: &mut Value, asked: &Asked<'_>) {
        match self.kind {
            Some(Kind::NullRecords) => null_records(body, asked),
            Some(Kind::SameCursor) => same_cursor(body, asked),
            _ => {}
        }
    }

    /// Makes of a good answer what the fault wants.
    pub fn spoil(&self, mut good: Answer, asked: &Asked<'_>) -> Answer {
        if let Content::Json(body) = &mut good.content {
            self.spoil_body(body, asked);
        }
        let mut answer = match self.kind {
            Some(Kind::Drop) => good.ending(Ending::Dropped),
            Some(Kind::HalfBody) => good.ending(Ending::Half),
            Some(Kind::Endless) => good.ending(Ending::Endless),
            Some(Kind::NoBody) => Answer::text(200, ""),
            Some(Kind::Html) => Answer::text(
                200,
                "<!doctype html><title>Welcome</title><p>Please log in.",
            ),
            Some(Kind::List) => Answer::json(200, json!([1, "two", null])),
            Some(Kind::PlainError) => Answer::json(400, json!({ "error": "that did not work" })),
            _ => good,
        };
        answer.status = self.status.unwrap_or(answer.status);
        answer.headers.extend(self.headers.clone());
        answer.delay = self.delay;
        match &self.body {
            Some(Value::String(text)) => answer.content = Content::Text(text.clone()),
            Some(body) => answer.content = Content::Json(body.clone()),
            None => {}
        }
        answer
    }
}

fn null_records(body: &mut Value, asked: &Asked<'_>) {
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

fn same_cursor(body: &mut Value, asked: &Asked<'_>) {
    let (Lead::Token(next), Some(cursor)) = (asked.route.call.paging.lead(), asked.cursor()) else {
        return;
    };
    if let Some(found) = body.pointer_mut(next.as_str()) {
        *found = cursor.into();
    }
}

/// What chance does to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    Backend(u16),
    Drop,
}

/// Whether a request fails that is asked for the `attempt`th time. Told by what is asked, not by when, so that it does
/// not depend on what else is asked meanwhile.
pub fn mishap(chance: Chance, rate: f64, asked: &str, attempt: u64) -> Option<Mishap> {
    let chance = chance.of("failure").of(asked).nth(attempt);
    let kinds = [
        Some(Mishap::Backend(500)),
        Some(Mishap::Backend(503)),
        Some(Mishap::Drop),
    ];
    chance
        .happens(rate)
        .then(|| chance.of("kind").pick(&kinds))
        .flatten()
}
