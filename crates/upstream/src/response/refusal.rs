//! Classifies a response that is no page, and finds its message.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{LOCATION, RETRY_AFTER};
use serde_json::Value;
use url::Url;

use super::Response;
use crate::endpoint::host_of;
use crate::retry_after::{Wait, reset, retry_after};
use crate::text::{html_text, is_html, without_tags};
use crate::{Failure, json};
use ingest_config::{Class, Rule, RuleBody, Until, classify};
use ingest_quota::Timestamp;

/// The places of a description beside a code at `/error`.
const DESCRIPTIONS: [&str; 3] = ["/error_description", "/description", "/detail"];

/// The places of an error message in a response, the most specific first.
const MESSAGES: [&str; 7] = [
    "/error/message",
    "/message",
    "/error",
    "/error_description",
    "/errors/0/message",
    "/errors/0",
    "/0/message/0/value",
];

/// Classifies a response that is no page: by the first error rule that it matches, else by its status.
///
/// The status of a truncated response decides nothing, since the missing part may say more: it is requested again, unless its
/// headers or the part that arrived match a rule.
pub fn failure_of(answer: &Response, rules: &[Rule], now: Timestamp) -> Failure {
    failure_in(answer, &document(answer), rules, now)
}

/// The same, for a response with this document.
pub fn failure_in(answer: &Response, document: &Value, rules: &[Rule], now: Timestamp) -> Failure {
    let now = answer.upstream_time(now);
    let rule = rule_of(answer, rules, document);
    let by_status = if answer.broke_off().is_some() {
        Class::Transient
    } else {
        class_of(answer.status)
    };
    let refusal = Refusal {
        message: message(answer, document),
        limit: rule.and_then(|rule| limit_of(rule, answer, document)),
        wait: requested_wait(answer, now),
        until: rule
            .and_then(|rule| until(rule, answer, document, now))
            .map(Wait::Until),
        pause: rule.and_then(|rule| rule.pause).map(Wait::Pause),
    };
    refusal.failure(rule.map_or(by_status, |rule| rule.class))
}

/// How long a response asks to wait in its `Retry-After`. `now`: by the upstream's clock.
pub fn requested_wait(answer: &Response, now: Timestamp) -> Option<Wait> {
    let value = answer.header(RETRY_AFTER.as_str())?;
    retry_after(&value, now).map(Wait::RetryAfter)
}

/// The rule that a response with this document matches.
pub fn rule_of<'r>(answer: &Response, rules: &'r [Rule], document: &Value) -> Option<&'r Rule> {
    let status = answer.status.as_u16();
    // Most pages are of a status that no rule is about, and then their text is not looked at.
    if !rules.iter().any(|rule| rule.matches_status(status)) {
        return None;
    }
    let text = answer.text_to_show();
    let body = RuleBody {
        document,
        text: &text,
    };
    let rule = classify(rules, status, |name| answer.header(name), body);
    rule.filter(|rule| answer.broke_off().is_none() || !rule.conditions.is_empty())
}

/// The body as far as it arrived; a body that cannot be parsed, or has more values than are read, is one text.
pub fn document(answer: &Response) -> Value {
    let text = answer.text_to_show();
    if answer.has_too_many_values() {
        return Value::String(text.into_owned());
    }
    let cut = || {
        if answer.is_whole() {
            None
        } else {
            json::read_cut(&text)
        }
    };
    // JSON first, whatever the format of the pages: upstreams often report errors in it.
    json::read_any(&text)
        .ok()
        .or_else(|| answer.in_its_format(&text))
        .or_else(cut)
        .unwrap_or_else(|| Value::String(text.clone().into_owned()))
}

fn message(answer: &Response, document: &Value) -> String {
    let (status, said) = (answer.status, said(answer, document));
    let broke_off = answer
        .broke_off()
        .map(|cause| format!("; the response is incomplete: {cause}"))
        .unwrap_or_default();
    if said.is_empty() {
        format!("{status}{broke_off}")
    } else {
        format!("{status}: {said}{broke_off}")
    }
}

struct Refusal {
    message: String,
    limit: Option<String>,
    wait: Option<Wait>,
    until: Option<Wait>,
    /// What the rule waits for where the response says nothing.
    pause: Option<Wait>,
}

impl Refusal {
    fn failure(self, class: Class) -> Failure {
        let wait = self.wait.or(self.until).or(self.pause);
        match class {
            Class::Spent => Failure::Spent {
                // The place that the rule names comes before `Retry-After`: a rule for an exhausted limit knows its
                // reset.
                until: self.until.or(self
                    .wait
                    .filter(|wait| !wait.length().is_zero())
                    .or(self.pause)),
                message: self.message,
                limit: self.limit,
            },
            Class::SlowDown => Failure::SlowDown {
                message: self.message,
                retry_after: wait,
                limit: self.limit,
            },
            Class::Denied => Failure::Denied(self.message),
            // `response` turns the end of a list into an empty page before it classifies failures.
            Class::Skip | Class::End => Failure::Skip(self.message),
            Class::BadCursor => Failure::BadCursor(self.message),
            Class::OldCursor => Failure::OldCursor(self.message),
            Class::Transient => Failure::Transient {
                message: self.message,
                retry_after: wait,
                limit: self.limit,
            },
        }
    }
}

/// Classifies a status that no rule matches.
fn class_of(status: StatusCode) -> Class {
    match status.as_u16() {
        401 | 403 | 407 => Class::Denied,
        429 => Class::SlowDown,
        // The upstream is still working on it.
        202 | 408 | 425 | 500.. => Class::Transient,
        // The rest, redirects included, would be the same again.
        _ => Class::Skip,
    }
}

/// The limit that the rule names, or else the response.
fn limit_of(rule: &Rule, answer: &Response, document: &Value) -> Option<String> {
    let reported = || Some(answer.shown(&rule.limit_at.as_ref()?.text_in(document)?));
    rule.limit.clone().or_else(reported)
}

fn until(rule: &Rule, answer: &Response, document: &Value, now: Timestamp) -> Option<Duration> {
    match rule.until.as_ref()? {
        Until::EpochHeader(name) => reset(&answer.header(name)?, now),
        Until::At(at) => reset(&at.text_in(document)?, now),
    }
    .wait()
}

/// The message of a response as one short line without a full stop, since more may follow; empty if there is none.
pub fn said(answer: &Response, document: &Value) -> String {
    let text = redirect(answer)
        .or_else(|| message_in(document))
        .unwrap_or_default();
    // First, since what looks like a tag can be a part of a secret.
    let text = answer.redactor.clean(&text);
    let text = match is_html(&text) {
        true => html_text(&text),
        false => without_tags(&text),
    };
    let shown = answer.shown(&text);
    match shown
        .strip_suffix('.')
        .filter(|shown| !shown.ends_with('.'))
    {
        Some(without_stop) => without_stop.to_owned(),
        None => shown,
    }
}

/// The host of a redirect. The rest of its URL may contain what was sent.
fn redirect(answer: &Response) -> Option<String> {
    let location = answer
        .status
        .is_redirection()
        .then(|| answer.header(LOCATION.as_str()))??;
    // As a browser reads it: `//host/path` has no scheme, and names another host all the same; so do more slashes, and others.
    let own = Url::parse("https://the-same.invalid/").ok()?;
    let rest = location.trim_start_matches(['/', '\\']);
    let named = (location.len() - rest.len() > 1).then(|| format!("//{rest}"));
    let to = match own.join(named.as_deref().unwrap_or(&location)) {
        Ok(to) if to.host() != own.host() => host_of(&to),
        _ => "another path of the same host".to_owned(),
    };
    Some(format!(
        "it redirects to {to}, and redirects are not followed; correct the upstream's base_url or \
        path"
    ))
}

fn message_in(document: &Value) -> Option<String> {
    let text = |place: &str| document.pointer(place)?.as_str().filter(is_filled);
    let known = MESSAGES.iter().find_map(|place| text(place));
    let is_code = known.is_some() && known == text("/error");
    let description = DESCRIPTIONS.iter().find_map(|place| text(place));
    match (known, description.filter(|_| is_code)) {
        (Some(code), Some(description)) => Some(format!("{code}: {description}")),
        (Some(known), None) => Some(known.to_owned()),
        (None, _) => {
            first_text(document, &is_sentence).or_else(|| first_text(document, &is_filled))
        }
    }
}

fn is_filled(text: &&str) -> bool {
    !text.trim().is_empty()
}

/// Whether a text has several words, as messages do, and codes and ids do not.
fn is_sentence(text: &&str) -> bool {
    text.trim().contains(' ')
}

/// The first such text anywhere in a document.
fn first_text(document: &Value, is_it: &impl Fn(&&str) -> bool) -> Option<String> {
    match document {
        Value::String(text) => Some(text.as_str()).filter(is_it).map(str::to_owned),
        Value::Array(elements) => elements.iter().find_map(|one| first_text(one, is_it)),
        Value::Object(members) => members.values().find_map(|one| first_text(one, is_it)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}
