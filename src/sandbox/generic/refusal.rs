//! Refusals of an upstream that is known by its configuration alone: made so that its own rules know them.

use serde_json::Value;

use super::fill::set;
use crate::config::{Class, Condition, Rule, StatusMatch, Until, Upstream, classify};
use crate::sandbox::answer::{Answer, Content};
use crate::sandbox::count::Exhausted;
use crate::sandbox::refusal::Refusal;

/// Says no in the way that the upstream's rules expect; where none is about this, in the way that most do.
pub fn refuse(upstream: &Upstream, refusal: &Refusal) -> Answer {
    match refusal {
        Refusal::Denied => said(upstream, Class::Denied, 401, "The secret is invalid."),
        Refusal::BadCursor => said(
            upstream,
            Class::BadCursor,
            400,
            "The cursor is invalid for this list.",
        ),
        Refusal::Backend(status) => {
            Answer::json(*status, serde_json::json!({ "message": "Internal error." }))
        }
        Refusal::Spent(exhausted, name) => {
            exhausted_as(upstream, Class::Spent, exhausted, name.as_deref())
        }
        Refusal::SlowDown(exhausted, name) => {
            let seconds = exhausted.fits_in.as_millis().div_ceil(1_000).max(1);
            exhausted_as(upstream, Class::SlowDown, exhausted, name.as_deref())
                .with_header("retry-after", seconds.to_string())
        }
    }
}

fn said(upstream: &Upstream, class: Class, status: u16, message: &str) -> Answer {
    known_as(upstream, class, (None, None), |rule| {
        answer(rule, status, None, message)
    })
}

fn exhausted_as(
    upstream: &Upstream,
    class: Class,
    exhausted: &Exhausted,
    name: Option<&str>,
) -> Answer {
    let message = format!("The quota of {} is exhausted.", exhausted.limit);
    known_as(upstream, class, (name, Some(&exhausted.limit)), |rule| {
        let answer = answer(rule, 429, name, &message);
        match rule.and_then(|rule| rule.until.as_ref()) {
            Some(Until::EpochHeader(header)) => {
                let seconds = exhausted
                    .fits_at
                    .micros()
                    .div_euclid(1_000_000)
                    .saturating_add(1);
                answer.with_header(header, seconds.to_string())
            }
            None => answer,
        }
    })
}

/// The first answer that the upstream's rules take for what it is, made after one of the class's rules, after those first
/// that tell the limit's name where it has one; the usual answer where there is none.
fn known_as(
    upstream: &Upstream,
    class: Class,
    (name, limit): (Option<&str>, Option<&str>),
    make: impl Fn(Option<&Rule>) -> Answer,
) -> Answer {
    let meant = |rule: &&Rule| {
        rule.class == class && (rule.limit.is_none() || rule.limit.as_deref() == limit)
    };
    let mut rules: Vec<&Rule> = upstream.errors.iter().filter(meant).collect();
    rules.sort_by_key(|rule| rule.limit_at.is_some() != name.is_some());
    let mut made = rules.iter().map(|rule| make(Some(rule)));
    made.find(|answer| class_of(upstream, answer) == Some(class))
        .unwrap_or_else(|| make(None))
}

/// Whether the upstream's rules say that a request which is refused so is not counted.
pub fn is_free(upstream: &Upstream, answer: &Answer) -> bool {
    rule_of(upstream, answer).is_some_and(|rule| rule.free)
}

fn class_of(upstream: &Upstream, answer: &Answer) -> Option<Class> {
    rule_of(upstream, answer).map(|rule| rule.class)
}

fn rule_of<'u>(upstream: &'u Upstream, answer: &Answer) -> Option<&'u Rule> {
    let header = |name: &str| {
        let found = answer
            .headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    };
    let Content::Json(body) = &answer.content else {
        return None;
    };
    classify(&upstream.errors, answer.status, header, body)
}

/// An answer in which all holds that the rule names.
fn answer(rule: Option<&Rule>, usual: u16, name: Option<&str>, message: &str) -> Answer {
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
    let mut answer = Answer::json(rule.map_or(usual, |rule| status(&rule.status, usual)), body);
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
