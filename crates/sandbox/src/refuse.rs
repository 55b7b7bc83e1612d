//! Refusals: as the upstream's shape file describes them, otherwise such that the configuration's own rules recognise
//! them.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::answer::{Content, Reply};
use super::count::{Exhausted, Pace};
use super::draw::{Drawing, Facts};
use super::pointer::set;
use super::request::CallRequest;
use super::shape::{RefusalShape, ResponseShape};
use ingest_config::{Class, Condition, Rule, RuleBody, StatusMatch, Until, Upstream, classify};
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
    /// The upstream fails, with this status.
    Backend(u16),
}

impl Reason {
    /// Its name in shape files.
    const fn name(&self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Exhausted(Exhausted { pace, .. }, _) => match pace {
                Pace::Budget => "spent",
                Pace::Rate => "slow_down",
            },
            Self::BadCursor => "bad_cursor",
            Self::OldCursor => "old_cursor",
            Self::Backend(_) => "backend",
        }
    }
}

pub fn refuse(request: &CallRequest<'_>, reason: &Reason) -> Reply {
    let upstream = &request.route.upstream;
    let shape = request.route.shape.as_ref();
    let (limit, mut facts) = match reason {
        Reason::Exhausted(exhausted, name) => (name.as_deref(), exhausted_facts(exhausted, name)),
        Reason::Denied | Reason::BadCursor | Reason::OldCursor | Reason::Backend(_) => {
            (None, Facts::new())
        }
    };
    if let Reason::Backend(status) = reason {
        facts.insert("status".to_owned(), (*status).into());
    }
    shape
        .and_then(|shape| shaped(request, shape, reason.name(), limit, facts))
        .unwrap_or_else(|| by_rules(upstream, reason))
}

/// Refuses for a reason of the shape file.
pub fn refuse_as(request: &CallRequest<'_>, shape: &ResponseShape, reason: &str) -> Reply {
    match reason {
        // A shape file need not describe this refusal: the error rules of the configuration know it.
        "bad_cursor" => refuse(request, &Reason::BadCursor),
        _ => shaped(request, shape, reason, None, Facts::new())
            .unwrap_or_else(|| Reply::json(400, json!({ "message": reason }))),
    }
}

fn exhausted_facts(exhausted: &Exhausted, name: &Option<String>) -> Facts {
    let quota = exhausted.quota.to_string();
    let facts = [
        ("limit", Value::from(exhausted.limit.as_str())),
        ("limit_name", name.as_deref().into()),
        ("quota", quota.into()),
    ];
    facts
        .map(|(name, fact)| (name.to_owned(), fact))
        .into_iter()
        .collect()
}

/// The refusal of a shape file, where it has one for this reason.
fn shaped(
    request: &CallRequest<'_>,
    shape: &ResponseShape,
    reason: &str,
    limit: Option<&str>,
    facts: Facts,
) -> Option<Reply> {
    let refusals = shape.upstream.refusals.get(reason)?;
    let refusal = refusals.iter().find(|refusal| is_for(refusal, limit))?;
    let mut drawing = Drawing::of_nothing(shape, request, facts);
    let status = refusal.status.or_else(|| {
        let status = drawing.facts.get("status")?.as_u64()?;
        u16::try_from(status).ok()
    });
    let status = status.unwrap_or(400);
    drawing.facts.insert("status".to_owned(), status.into());
    drawing.facts.extend(refusal.facts.clone());
    Some(Reply::json(status, drawing.fill(&refusal.body)))
}

/// Whether a refusal is for the limit of this name.
fn is_for(refusal: &RefusalShape, limit: Option<&str>) -> bool {
    let matches = |pattern: &String| match (limit, pattern.strip_prefix('*')) {
        (None, _) => pattern.is_empty(),
        (Some(limit), Some(end)) => limit.ends_with(end),
        (Some(limit), None) => limit == pattern,
    };
    refusal.names.is_empty() || refusal.names.iter().any(matches)
}

/// Refuses in the way that the upstream's rules expect; where no rule is about it, in the way that most upstreams do.
fn by_rules(upstream: &Upstream, reason: &Reason) -> Reply {
    match reason {
        Reason::Denied => declined(upstream, Class::Denied, 401, "The secret is invalid."),
        Reason::BadCursor => declined(
            upstream,
            Class::BadCursor,
            400,
            "The cursor is invalid for this list.",
        ),
        Reason::OldCursor => declined(
            upstream,
            Class::OldCursor,
            410,
            "The cursor is too old; list everything again.",
        ),
        Reason::Backend(status) => Reply::json(*status, json!({ "message": "Internal error." })),
        Reason::Exhausted(exhausted, name) => match exhausted.pace {
            Pace::Budget => exhausted_as(upstream, Class::Spent, exhausted, name.as_deref()),
            Pace::Rate => {
                let seconds = exhausted.fits_in.as_millis().div_ceil(1_000).max(1);
                exhausted_as(upstream, Class::SlowDown, exhausted, name.as_deref())
                    .with_header("retry-after", seconds.to_string())
            }
        },
    }
}

fn declined(upstream: &Upstream, class: Class, status: u16, message: &str) -> Reply {
    known_as(upstream, class, (None, None), |rule| {
        answer(rule, status, None, message)
    })
}

fn exhausted_as(
    upstream: &Upstream,
    class: Class,
    exhausted: &Exhausted,
    name: Option<&str>,
) -> Reply {
    let message = format!("The quota of {} is exhausted.", exhausted.limit);
    known_as(upstream, class, (name, Some(&exhausted.limit)), |rule| {
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
    upstream: &Upstream,
    class: Class,
    (name, limit): (Option<&str>, Option<&str>),
    make: impl Fn(Option<&Rule>) -> Reply,
) -> Reply {
    let meant = |rule: &&Rule| {
        rule.class == class && (rule.limit.is_none() || rule.limit.as_deref() == limit)
    };
    let mut rules: Vec<&Rule> = upstream.errors.iter().filter(meant).collect();
    rules.sort_by_key(|rule| rule.limit_at.is_some() != name.is_some());
    let mut made = rules.iter().map(|rule| make(Some(rule)));
    made.find(|answer| class_of(upstream, answer) == Some(class))
        .unwrap_or_else(|| make(None))
}

/// The part of a cost that is not counted of a request which is refused so, by the upstream's rules.
pub fn free_part(upstream: &Upstream, answer: &Reply, cost: &Cost) -> Cost {
    let mut free = cost.clone();
    match rule_of(upstream, answer) {
        Some(rule) => free.take(&rule.free.rest_of(cost)),
        None => free = Cost::none(),
    }
    free
}

fn class_of(upstream: &Upstream, answer: &Reply) -> Option<Class> {
    rule_of(upstream, answer).map(|rule| rule.class)
}

fn rule_of<'u>(upstream: &'u Upstream, answer: &Reply) -> Option<&'u Rule> {
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
    classify(&upstream.errors, answer.status, header, body)
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
