//! What an answer tells of the quota.

use std::collections::BTreeMap;

use serde_json::Value;

use super::ReportedLimit;
use super::request::RequestParts;
use super::response::Response;
use super::retry_after::epoch;
use crate::config::{Call, CredentialLimit};
use crate::quota::{LimitName, Units};

/// More than any quota: what is told beyond it is not believed.
const MOST: u64 = 1_000_000_000_000_000;

/// What the request truly cost, of the limits whose cost the answer tells.
pub fn cost(call: &Call, document: &Value) -> BTreeMap<LimitName, Units> {
    let reported = call
        .settle
        .iter()
        .filter_map(|(limit, at)| Some((limit.clone(), units(&at.text_in(document)?)?)));
    reported.collect()
}

/// How the charged limits stand that the headers tell of.
pub fn limits(parts: &RequestParts<'_>, answer: &Response) -> Vec<ReportedLimit> {
    let charged = parts.request.step.call.cost.limits();
    charged
        .filter_map(|limit| standing(parts, answer, limit, parts.limits.get(limit)?))
        .collect()
}

fn standing(
    parts: &RequestParts<'_>,
    answer: &Response,
    limit: &str,
    about: &CredentialLimit,
) -> Option<ReportedLimit> {
    let reported = about.reported.as_ref()?;
    let name = about.upstream_name.as_deref().unwrap_or(limit);
    if reported
        .resource
        .as_ref()
        .is_some_and(|resource| answer.header(resource) != Some(name))
    {
        return None;
    }
    Some(ReportedLimit {
        limit: limit.to_owned(),
        remaining: left(answer.header(&reported.remaining)?)?,
        reset: reported
            .reset
            .as_ref()
            .and_then(|reset| epoch(answer.header(reset)?, parts.request.now)),
    })
}

/// Units that are left, a fraction rounded down; none where more than all is spent.
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
