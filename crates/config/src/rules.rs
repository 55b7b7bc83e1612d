//! `errors`: rules that classify refusals.

use std::borrow::Cow;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strum::IntoStaticStr;

use super::Pointer;
use super::error::Refusal;
use super::headers::HeaderName;
use super::values::{
    As, Filled, Leaf, OneOrMore, Scalar, Span, Table, described, leaves, without_quotes,
};
use ingest_quota::{Cost, LimitName};

/// How one kind of refusal is recognised, and what it means. Every condition must hold.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Table<RuleKeys>")]
pub struct Rule {
    /// The statuses of such a response; empty: any that is not a success.
    pub status: Vec<StatusMatch>,
    /// What must hold of the body or the headers.
    pub conditions: Vec<Condition>,
    /// What such a response means.
    pub class: Class,
    /// The limit that it is about, by its own name.
    pub limit: Option<String>,
    /// Where the response contains the upstream's own name of the limit.
    pub limit_at: Option<Pointer>,
    /// Where the response says when to retry.
    pub until: Option<Until>,
    /// How long to wait where the response does not say when to retry.
    pub pause: Option<Duration>,
    /// What of such a request the upstream does not count.
    pub free: Free,
}

/// The part of a charge that an upstream does not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Free {
    /// It counts everything.
    #[default]
    Nothing,
    /// It counts nothing.
    Everything,
    /// It does not count in these limits.
    Limits(Vec<LimitName>),
}

impl Free {
    /// Returns the part of a cost that stays charged.
    pub fn rest_of(&self, cost: &Cost) -> Cost {
        match self {
            Self::Nothing => cost.clone(),
            Self::Everything => Cost::none(),
            Self::Limits(free) => {
                let counted = cost.iter().filter(|(limit, _)| !free.contains(limit));
                counted
                    .map(|(limit, units)| (limit.clone(), units))
                    .collect()
            }
        }
    }

    /// The limits that it names; none if it is everything or nothing.
    pub fn limits(&self) -> &[LimitName] {
        match self {
            Self::Nothing | Self::Everything => &[],
            Self::Limits(free) => free,
        }
    }

    /// The same, with other names of its limits.
    #[must_use]
    pub fn renamed(self, name: impl Fn(LimitName) -> LimitName) -> Self {
        match self {
            Self::Nothing | Self::Everything => self,
            Self::Limits(free) => Self::Limits(free.into_iter().map(name).collect()),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RuleKeys {
    /// The statuses that match: `403`, `"5xx"`, or a list. If unset, any but 2xx. Example: `status = [403, "5xx"]`.
    #[serde(default, with = "As::<Option<OneOrMore<StatusMatch>>>")]
    status: Option<Vec<StatusMatch>>,
    /// A place in the response body, whose value must be one of `is`. Example: `at = "/error/errors/*/reason"`.
    at: Option<Pointer>,
    /// The values at that place that match. `*` at the start or the end of a value matches any text: `*api_key*` matches all
    /// that contain `api_key`. Example: `is = "quotaExceeded"`.
    #[serde(default, with = "As::<Option<OneOrMore<Scalar>>>")]
    is: Option<Vec<String>>,
    /// Several conditions on the body, which must all hold. Example: `all = [{ at = "/error/code", is = 403 }]`.
    #[serde(default)]
    all: Vec<Table<BodyKeys>>,
    /// Text that the body contains, as it came (names of members and numbers too) or in a value of it. Example: `text = "quota exceeded"`.
    #[serde(default, with = "As::<Option<Filled>>")]
    text: Option<String>,
    /// A header that the response has. Example: `header = "x-ratelimit-remaining"`.
    #[serde(default, with = "As::<Option<HeaderName>>")]
    header: Option<String>,
    /// The values of that header that match, as for `is`. If unset, any. Example: `header_is = "0"`.
    #[serde(default, with = "As::<Option<OneOrMore<Scalar>>>")]
    header_is: Option<Vec<String>>,
    /// What the refusal means. Example: `class = "skip"`.
    class: Class,
    /// The limit that the refusal is about, by its name or its `upstream_name`. If unset, those of the call that the upstream can
    /// mean: those with an `upstream_name`, or else all but the user's `own`. Example: `limit = "daily"`.
    #[serde(default, with = "As::<Option<Filled>>")]
    limit: Option<String>,
    /// Where the response contains the upstream's name of the limit. Example: `limit_at = "/error/details/0/metadata/quota_limit"`.
    limit_at: Option<Pointer>,
    /// The header with the time to retry, in a form that `reported.reset` takes. `Retry-After` is always read so. Example:
    /// `until_header = "x-ratelimit-reset"`.
    #[serde(default, with = "As::<Option<HeaderName>>")]
    until_header: Option<String>,
    /// Where the body has the time to retry, instead of `until_header`. Example: `until_at = "/retry_after"`.
    until_at: Option<Pointer>,
    /// How long to wait before the request is repeated, where the response does not say: it works as a `Retry-After`. Only for
    /// `spent`, `slow_down` and `transient`. If unset, the upstream's `pause`, which grows
    /// with each attempt. Example: `pause = "60s"`.
    #[serde(default, with = "As::<Option<Span>>")]
    pause: Option<Duration>,
    /// What the upstream does not count, and so is not charged: `true`, the whole request; a list, its units of these limits. Example: `free = ["monthly"]`.
    #[serde(default)]
    free: Free,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct BodyKeys {
    /// A place in the response body. Example: `at = "/error/errors/*/reason"`.
    at: Pointer,
    /// The values at that place that match. `*` at the start or the end of a value matches any text: `*api_key*` matches all
    /// that contain `api_key`. Example: `is = "quotaExceeded"`.
    #[serde(with = "As::<OneOrMore<Scalar>>")]
    is: Vec<String>,
}

/// Too many requests.
const TOO_MANY: u16 = 429;

described!(Rule: RuleKeys);

impl TryFrom<Table<RuleKeys>> for Rule {
    type Error = Refusal;

    fn try_from(Table(keys): Table<RuleKeys>) -> Result<Self, Refusal> {
        let body = match (keys.at, keys.is) {
            (Some(at), Some(is)) => Some(BodyKeys { at, is }),
            (None, None) => None,
            (Some(_), None) => return Err(Refusal::missing("is", "\"quotaExceeded\"")),
            (None, Some(_)) => return Err(Refusal::missing("at", "\"/error/errors/*/reason\"")),
        };
        if keys.header.is_none() && keys.header_is.is_some() {
            return Err(Refusal::missing("header", "\"x-ratelimit-remaining\""));
        }
        let all = keys.all.into_iter().map(|Table(body)| body);
        let bodies = body.into_iter().chain(all);
        let bodies = bodies.map(|BodyKeys { at, is }| Condition::Body { at, is });
        let header = keys.header.map(|name| Condition::Header {
            name,
            is: keys.header_is.unwrap_or_default(),
        });
        let conditions: Vec<_> = bodies
            .chain(keys.text.map(Condition::Text))
            .chain(header)
            .collect();
        let (status, class) = (keys.status.unwrap_or_default(), keys.class);
        if status.is_empty() && conditions.is_empty() {
            return Err(Refusal::new(
                "the rule has no condition: it would match every refusal",
                "add status = [\"4xx\", \"5xx\"] or another condition",
            ));
        }
        let is_429 = conditions.is_empty() && status.contains(&StatusMatch::Exactly(TOO_MANY));
        if is_429 && !class.waits() {
            return Err(Refusal::new(
                "429 means that there were too many requests, and this class does not wait",
                "write { status = 429, class = \"slow_down\" } before it, or \"spent\" if the quota is exhausted, and remove 429 here",
            ));
        }
        let until = match (keys.until_header, keys.until_at) {
            (Some(_), Some(_)) => {
                return Err(Refusal::new(
                    "expected one of until_header, until_at",
                    "remove the other",
                ));
            }
            (Some(header), None) => Some(Until::EpochHeader(header)),
            (None, at) => at.map(Until::At),
        };
        if keys.pause.is_some() && !class.waits() {
            let refusal = Refusal::new("a refusal of this class is not repeated", "remove `pause`");
            return Err(refusal.below("pause"));
        }
        Ok(Self {
            status,
            conditions,
            class,
            limit: keys.limit,
            limit_at: keys.limit_at,
            until,
            pause: keys.pause,
            free: keys.free,
        })
    }
}

leaves!(Free, StatusMatch);

/// true, false, or the limits whose units are free.
impl Leaf for Free {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        match raw {
            Value::Bool(true) => Ok(Self::Everything),
            Value::Bool(false) => Ok(Self::Nothing),
            Value::Array(_) => OneOrMore::<Filled>::read(raw).map(Self::Limits),
            _ => Err(Refusal::new(
                "expected true or false",
                "write true, or remove the key",
            )),
        }
    }

    fn schema() -> Value {
        let limits = json!({ "type": "array", "items": Filled::schema(), "minItems": 1 });
        json!({ "title": "true, false, or list of limits", "anyOf": [{ "type": "boolean" }, limits] })
    }
}

impl Serialize for Free {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Limits(limits) => limits.serialize(serializer),
            whole => serializer.serialize_bool(*whole == Self::Everything),
        }
    }
}

impl Leaf for StatusMatch {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        let code = raw.as_u64().filter(|status| (100..600).contains(status));
        let code = code
            .and_then(|status| status.try_into().ok())
            .map(Self::Exactly);
        let hundred = raw
            .as_str()
            .and_then(|text| text.strip_suffix("xx")?.parse().ok());
        let hundred = hundred
            .filter(|hundred| (1..6).contains(hundred))
            .map(Self::Hundred);
        code.or(hundred).ok_or_else(|| {
            let quoted = without_quotes(&raw).filter(|code| code.len() == 3);
            Refusal::new(
                "expected a status code, or a class such as \"5xx\"",
                match quoted {
                    Some(code) => format!("write {code} without quotes"),
                    None => "write 403 or \"5xx\"".to_owned(),
                },
            )
        })
    }

    fn schema() -> Value {
        let code = json!({ "type": "integer", "minimum": 100, "maximum": 599 });
        let class = json!({ "type": "string", "pattern": "^[1-5]xx$" });
        json!({ "title": "status code, or class of them", "anyOf": [code, class] })
    }
}

/// A status code, or a class of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum StatusMatch {
    /// This code.
    Exactly(u16),
    /// The codes of this class: 5 for `5xx`.
    Hundred(u16),
}

/// What must hold of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Condition {
    /// A value at a place in the body is one of these texts. `*` at the start or the end of a text matches any text.
    Body {
        /// The place.
        at: Pointer,
        /// The texts.
        is: Vec<String>,
    },
    /// The body contains this text, as it came or in a value.
    Text(String),
    /// The header has one of these values, `*` as above; any value if there are none.
    Header {
        /// The name of the header, in lower case.
        name: String,
        /// The values.
        is: Vec<String>,
    },
}

/// What a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, IntoStaticStr, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Class {
    /// Nothing more to list: the response is an empty last page.
    End,
    /// The limit is exhausted: nothing that charges it is requested until it resets.
    Spent,
    /// Requests came too fast. The request is repeated after a pause, up to `attempts` times. A `Retry-After` above one minute closes the limit that `limit` or `limit_at` names, or else those of the call that the upstream can mean: the outcome is `stopped`, and no run requests it before that time, or before its window and a day are over.
    SlowDown,
    /// The credential is not accepted: nothing that uses it is requested again in this run, which fails.
    Denied,
    /// This region, or this id, cannot be served; the others can.
    Skip,
    /// The cursor is no longer accepted: the list starts again, once.
    BadCursor,
    /// The cursor with which the pass began (`page.lasting`) is too old: the pass starts again, once, and lists everything. A list that began without a cursor treats it as `bad_cursor`.
    OldCursor,
    /// A failure of the upstream or the network. The request is repeated, and `Retry-After` works, as for `slow_down`.
    Transient,
}

impl Class {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the requests after such a refusal wait.
    const fn waits(self) -> bool {
        match self {
            Self::Spent | Self::SlowDown | Self::Transient => true,
            Self::End | Self::Denied | Self::Skip | Self::BadCursor | Self::OldCursor => false,
        }
    }
}

/// Where a response says when to retry. `Retry-After` is always understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Until {
    /// A header of this name, with the time or the seconds from now.
    EpochHeader(String),
    /// A place in the body.
    At(Pointer),
}

impl Rule {
    /// Whether a response matches this rule. `header` returns a header by its name in lower case.
    pub fn matches<'h>(
        &self,
        status: u16,
        header: impl Fn(&str) -> Option<Cow<'h, str>>,
        body: RuleBody<'_>,
    ) -> bool {
        self.matches_status(status)
            && self
                .conditions
                .iter()
                .all(|condition| condition.holds(&header, body))
    }

    /// Whether it is about responses of this status.
    pub fn matches_status(&self, status: u16) -> bool {
        match self.status.as_slice() {
            [] => !(200..300).contains(&status),
            listed => listed.iter().any(|wanted| wanted.matches(status)),
        }
    }
}

/// The body of a response, for rules.
#[derive(Debug, Clone, Copy)]
pub struct RuleBody<'a> {
    /// Its document; one that cannot be parsed is one JSON string.
    pub document: &'a Value,
    /// The text that came.
    pub text: &'a str,
}

/// The first rule that a response matches.
pub fn classify<'r, 'h>(
    rules: &'r [Rule],
    status: u16,
    header: impl Fn(&str) -> Option<Cow<'h, str>>,
    body: RuleBody<'_>,
) -> Option<&'r Rule> {
    rules
        .iter()
        .find(|rule| rule.matches(status, &header, body))
}

impl StatusMatch {
    /// Whether the status is this code, or of this class.
    #[must_use]
    pub const fn matches(self, status: u16) -> bool {
        match self {
            Self::Exactly(exact) => status == exact,
            Self::Hundred(hundred) => status / 100 == hundred,
        }
    }
}

impl Condition {
    fn holds<'h>(
        &self,
        header: &impl Fn(&str) -> Option<Cow<'h, str>>,
        body: RuleBody<'_>,
    ) -> bool {
        let document = body.document;
        match self {
            Self::Body { at, is } => {
                let found = at.texts_in(document);
                found.iter().any(|found| is_one_of(found, is))
            }
            // A value can be written with escapes.
            Self::Text(text) => body.text.contains(text) || holds_text(document, text),
            Self::Header { name, is } => {
                header(name).is_some_and(|found| is.is_empty() || is_one_of(&found, is))
            }
        }
    }
}

fn is_one_of(found: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| is_like(found, pattern))
}

fn is_like(found: &str, pattern: &str) -> bool {
    let behind = pattern.strip_prefix('*');
    let text = behind.unwrap_or(pattern);
    match (behind, text.strip_suffix('*')) {
        (None, None) => found == text,
        (None, Some(start)) => found.starts_with(start),
        (Some(end), None) => found.ends_with(end),
        (Some(_), Some(middle)) => found.contains(middle),
    }
}

fn holds_text(body: &Value, text: &str) -> bool {
    match body {
        Value::String(found) => found.contains(text),
        Value::Array(elements) => elements.iter().any(|element| holds_text(element, text)),
        Value::Object(members) => members.values().any(|member| holds_text(member, text)),
        _ => false,
    }
}
