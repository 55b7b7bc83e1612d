//! Refusals, such that the configuration's own rules recognise them.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::answer::{Content, Reply};
use super::count::{Exhausted, Pace};
use super::pointer::set;
use super::request::CallRequest;
use ingest_config::{Class, Condition, Rule, RuleBody, StatusMatch, Until, classify};
use ingest_quota::Cost;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The secret is missing or wrong.
    Denied,
    /// A limit is exhausted; with the upstream's name for it, where the configuration has one.
    Exhausted(Exhausted, Option<String>),
    /// The cursor belongs to another list.
    BadCursor,
    /// The cursor with which a pass begins is too old.
    OldCursor,
    /// There is no such region.
    NoRegion,
    /// The upstream fails, with this status.
    Backend(u16),
}

/// Refuses in the way that the upstream's rules expect; where no rule is about it, in the way that most upstreams do.
pub fn refuse(request: &CallRequest<'_>, reason: &Reason) -> Reply {
    let rules = &*request.route.call.errors;
    let (class, status, message) = match reason {
        Reason::Denied => (Class::Denied, 401, "The secret is invalid."),
        Reason::BadCursor => (
            Class::BadCursor,
            400,
            "The cursor is invalid for this list.",
        ),
        Reason::OldCursor => (
            Class::OldCursor,
            410,
            "The cursor is too old; list everything again.",
        ),
        Reason::NoRegion => (Class::Skip, 404, "The region does not exist."),
        Reason::Backend(status) => {
            return Reply::json(*status, json!({ "message": "Internal error." }));
        }
        Reason::Exhausted(exhausted, name) => return spent(rules, exhausted, name.as_deref()),
    };
    known_as(rules, class, (None, None), |rule| {
        answer(rule, status, None, message)
    })
}

fn spent(rules: &[Rule], exhausted: &Exhausted, name: Option<&str>) -> Reply {
    let seconds = exhausted.fits_in.as_millis().div_ceil(1_000);
    match (exhausted.pace, seconds) {
        (Pace::Budget, _) => exhausted_as(rules, Class::Spent, exhausted, name),
        (Pace::Rate, 0) => exhausted_as(rules, Class::SlowDown, exhausted, name),
        (Pace::Rate, _) => exhausted_as(rules, Class::SlowDown, exhausted, name)
            .with_header("retry-after", seconds.to_string()),
    }
}

fn exhausted_as(rules: &[Rule], class: Class, exhausted: &Exhausted, name: Option<&str>) -> Reply {
    let message = format!("The quota of {} is exhausted.", exhausted.limit);
    known_as(rules, class, (name, Some(&exhausted.limit)), |rule| {
        let answer = answer(rule, 429, name, &message);
        let seconds = exhausted.fits_at.micros().div_euclid(1_000_000);
        let seconds = seconds.saturating_add(1);
        match rule.and_then(|rule| rule.until.as_ref()) {
            Some(Until::EpochHeader(header)) => answer.with_header(header, seconds.to_string()),
            Some(Until::At(at)) => answer.with_value(at, seconds.into()),
            None => answer,
        }
    })
}

/// The first answer that the upstream's rules take for what it is, made after one of the class's rules, after those first
/// that tell the limit's name where it has one; the usual answer where there is none.
fn known_as(
    rules: &[Rule],
    class: Class,
    (name, limit): (Option<&str>, Option<&str>),
    make: impl Fn(Option<&Rule>) -> Reply,
) -> Reply {
    let meant = |rule: &&Rule| {
        rule.class == class && (rule.limit.is_none() || rule.limit.as_deref() == limit)
    };
    let mut models: Vec<&Rule> = rules.iter().filter(meant).collect();
    models.sort_by_key(|rule| rule.limit_at.is_some() != name.is_some());
    let mut made = models.iter().map(|rule| make(Some(rule)));
    made.find(|answer| class_of(rules, answer) == Some(class))
        .unwrap_or_else(|| make(None))
}

/// The part of a cost that is not counted of a request which is refused so, by the upstream's rules.
pub fn free_part(rules: &[Rule], answer: &Reply, cost: &Cost) -> Cost {
    let mut free = cost.clone();
    match rule_of(rules, answer) {
        Some(rule) => free.take(&rule.free.rest_of(cost)),
        None => free = Cost::none(),
    }
    free
}

fn class_of(rules: &[Rule], answer: &Reply) -> Option<Class> {
    rule_of(rules, answer).map(|rule| rule.class)
}

fn rule_of<'r>(rules: &'r [Rule], answer: &Reply) -> Option<&'r Rule> {
    let header = |name: &str| {
        let found = answer
            .headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| Cow::from(value.as_str()))
    };
    let Content::Json(body) = &answer.content else {
        return None;
    };
    let body = RuleBody {
        document: body,
        text: &body.to_string(),
    };
    classify(rules, answer.status, header, body)
}

/// An answer in which all holds that the rule names.
fn answer(rule: Option<&Rule>, usual: u16, name: Option<&str>, message: &str) -> Reply {
    let mut body = Value::Null;
    let mut message = message.to_owned();
    let mut headers = Vec::new();
    for condition in rule.into_iter().flat_map(|rule| &rule.conditions) {
        match condition {
            Condition::Body { at, is } => set(&mut body, at.tokens(), example(is).into()),
            Condition::Text(text) => message = format!("{message} {text}"),
            Condition::Header { name, is } => headers.push((name.clone(), example(is))),
        }
    }
    if let (Some(at), Some(name)) = (rule.and_then(|rule| rule.limit_at.as_ref()), name) {
        set(&mut body, at.tokens(), name.into());
    }
    set(&mut body, &["message".to_owned()], message.into());
    let mut answer = Reply::json(rule.map_or(usual, |rule| status(&rule.status, usual)), body);
    answer.headers = headers;
    answer
}

/// A status that the rule takes: the usual one if it does.
fn status(taken: &[StatusMatch], usual: u16) -> u16 {
    match taken.first() {
        _ if taken.iter().any(|one| one.matches(usual)) => usual,
        None => usual,
        Some(StatusMatch::Exactly(status)) => *status,
        Some(StatusMatch::Hundred(hundred)) => hundred.saturating_mul(100),
    }
}

/// A text that one of these patterns takes.
fn example(patterns: &[String]) -> String {
    patterns
        .first()
        .map_or_else(|| "0".to_owned(), |pattern| pattern.replace('*', ""))
}
