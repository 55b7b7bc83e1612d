//! What a response reports about the quota.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::ReportedLimit;
use super::request::RequestParts;
use super::response::Response;
use super::retry_after::reset;
use ingest_config::{Call, CredentialLimit, ResponseField};
use ingest_quota::{LimitName, Units};

/// More than any quota: a larger value is ignored.
const MOST: u64 = 1_000_000_000_000_000;

/// What the request cost, for the limits whose cost the response reports. `document` is its body, if that could be read.
pub fn cost(
    call: &Call,
    response: &Response,
    document: Option<&Value>,
) -> BTreeMap<LimitName, Units> {
    let cost = |(limit, at): (&LimitName, &ResponseField)| {
        Some((limit.clone(), units(&value(at, response, document)?)?))
    };
    call.settle.iter().filter_map(cost).collect()
}

fn value<'a>(
    field: &ResponseField,
    response: &'a Response,
    document: Option<&Value>,
) -> Option<Cow<'a, str>> {
    match field {
        ResponseField::Header(name) => response.header(name).map(Cow::from),
        ResponseField::Body(at) => at.text_in(document?).map(Cow::from),
    }
}

/// The state of the charged limits that a response reports. `document` is its body, if that could be read.
pub fn limits(
    parts: &RequestParts<'_>,
    response: &Response,
    document: Option<&Value>,
) -> Vec<ReportedLimit> {
    let value = |field: &ResponseField| value(field, response, document);
    let report = |limit: &LimitName| report(parts, limit, parts.limits.get(limit)?, &value);
    let charged = parts.request.step.call.cost.limits();
    charged.filter_map(report).collect()
}

fn report<'a>(
    parts: &RequestParts<'_>,
    limit: &str,
    about: &CredentialLimit,
    value: &impl Fn(&ResponseField) -> Option<Cow<'a, str>>,
) -> Option<ReportedLimit> {
    let reported = about.reported.as_ref()?;
    let name = about.upstream_name.as_deref().unwrap_or(limit);
    if let Some(resource) = &reported.resource
        && value(resource).as_deref() != Some(name)
    {
        return None;
    }
    let reset = reported.reset.as_ref();
    let reset = reset.and_then(|at| self::reset(&value(at)?, parts.request.now));
    let remaining = match (&reported.remaining, &reported.used) {
        (Some(at), _) => Some(left(&value(at)?)?),
        (None, Some(at)) => Some(about.limit.quota().saturating_sub(units(&value(at)?)?)),
        (None, None) => reset.map(|_| None)?,
    };
    Some(ReportedLimit {
        limit: limit.to_owned(),
        remaining,
        reset,
    })
}

/// Remaining units, a fraction rounded down; zero if the quota is overdrawn.
fn left(text: &str) -> Option<Units> {
    let text = text.trim();
    match text.strip_prefix('-') {
        Some(overdrawn) => units(overdrawn).map(|_| Units::ZERO),
        None => units(
            text.split_once('.')
                .filter(|_| units(text).is_some())
                .map_or(text, |(whole, _)| whole),
        ),
    }
}

/// Whole units, a fraction rounded up.
fn units(text: &str) -> Option<Units> {
    let text = text.trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let more = u64::from(fraction.bytes().any(|digit| digit != b'0'));
    let units = whole.parse::<u64>().ok()?.checked_add(more)?;
    fraction
        .bytes()
        .all(|digit| digit.is_ascii_digit())
        .then_some(units)
        .filter(|units| *units <= MOST)
        .map(Units::new)
}
