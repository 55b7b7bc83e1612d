use serde_json::Value;

use super::Pointer;

/// How one kind of refusal is known, and what it means. All that a rule names must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The statuses it is about; empty: any that is not a success.
    pub status: Vec<StatusMatch>,
    /// What must hold of the body or the headers.
    pub conditions: Vec<Condition>,
    /// What such an answer means.
    pub class: Class,
    /// The limit that is meant, by its own name.
    pub limit: Option<String>,
    /// Where the answer holds the upstream's own name of the limit.
    pub limit_at: Option<Pointer>,
    /// Where the answer tells when to come back.
    pub until: Option<Until>,
    /// Whether the upstream does not count a request that it refuses so: its charge is released.
    pub free: bool,
}

/// A status, or a hundred of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusMatch {
    /// Exactly this one.
    Exactly(u16),
    /// All of this hundred: 5 for `5xx`.
    Hundred(u16),
}

/// What must hold of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Some value there is one of these texts; a text that ends in `*` stands for all that begin so, one that begins with
    /// `*` for all that end so.
    Body {
        /// Where.
        at: Pointer,
        /// What.
        is: Vec<String>,
    },
    /// The body's text holds this.
    Text(String),
    /// The header has one of these values, `*` as above; any value if none is given.
    Header {
        /// Which, in lower case.
        name: String,
        /// What.
        is: Vec<String>,
    },
}

/// What a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The limit is exhausted: nothing that charges it is asked again until it resets.
    Spent,
    /// Too fast: the same request again, later.
    SlowDown,
    /// The credential is no good: nothing that uses it is asked again.
    Denied,
    /// This region, or this id, cannot be served: the others can.
    Skip,
    /// The cursor is no longer taken.
    BadCursor,
    /// Their fault, or the network's: the same request again, later.
    Transient,
}

/// Where an answer tells when to come back. `Retry-After` is always understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// A header with seconds since the Unix epoch.
    EpochHeader(String),
}

impl Rule {
    /// Whether an answer is what this rule is about. `header` looks one up by its name in lower case; a body that is not
    /// JSON is one JSON text.
    #[must_use]
    pub fn matches<'h>(
        &self,
        status: u16,
        header: impl Fn(&str) -> Option<&'h str>,
        body: &Value,
    ) -> bool {
        self.is_about(status)
            && self
                .conditions
                .iter()
                .all(|condition| condition.holds(&header, body))
    }

    fn is_about(&self, status: u16) -> bool {
        match self.status.as_slice() {
            [] => !(200..300).contains(&status),
            listed => listed.iter().any(|wanted| wanted.matches(status)),
        }
    }
}

/// The first rule that an answer matches.
#[must_use]
pub fn classify<'r, 'h>(
    rules: &'r [Rule],
    status: u16,
    header: impl Fn(&str) -> Option<&'h str>,
    body: &Value,
) -> Option<&'r Rule> {
    rules
        .iter()
        .find(|rule| rule.matches(status, &header, body))
}

impl StatusMatch {
    /// Whether it is this status.
    #[must_use]
    pub const fn matches(self, status: u16) -> bool {
        match self {
            Self::Exactly(exact) => status == exact,
            Self::Hundred(hundred) => status / 100 == hundred,
        }
    }
}

impl Condition {
    fn holds<'h>(&self, header: &impl Fn(&str) -> Option<&'h str>, body: &Value) -> bool {
        match self {
            Self::Body { at, is } => at.texts_in(body).iter().any(|found| is_one_of(found, is)),
            Self::Text(text) => holds_text(body, text),
            Self::Header { name, is } => {
                header(name).is_some_and(|found| is.is_empty() || is_one_of(found, is))
            }
        }
    }
}

fn is_one_of(found: &str, patterns: &[String]) -> bool {
    patterns.iter().any(
        |pattern| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            (Some(end), _) => found.ends_with(end),
            (None, Some(start)) => found.starts_with(start),
            (None, None) => found == pattern,
        },
    )
}

fn holds_text(body: &Value, text: &str) -> bool {
    match body {
        Value::String(found) => found.contains(text),
        Value::Array(elements) => elements.iter().any(|element| holds_text(element, text)),
        Value::Object(members) => members.values().any(|member| holds_text(member, text)),
        _ => false,
    }
}
