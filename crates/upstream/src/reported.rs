//! What a response reports about the quota.

use std::borrow::Cow;

use serde_json::Value;

use super::request::RequestParts;
use super::response::Response;
use super::retry_after::{Reset, reset};
use super::{Missing, ReportedCost, ReportedLimit};
use ingest_config::{CredentialLimit, HeaderPattern, Part, ReportedState, ResponseField};
use ingest_quota::{LimitName, Timestamp, Units};

/// More than any quota: a larger value is ignored.
const MOST: u64 = 1_000_000_000_000_000;

/// Reads what a response reports. `document` is its body, if that could be read.
pub fn read(
    parts: &RequestParts<'_>,
    response: &Response,
    document: Option<&Value>,
) -> ReportedCost {
    let answer = Answer {
        parts,
        response,
        document,
    };
    let mut found = ReportedCost::default();
    let call = &parts.request.step.call;
    for (limit, at) in &call.settle {
        match answer.cost(limit, at) {
            Ok(units) => found.cost.extend([(limit.clone(), units)]),
            Err(missing) => found.missing.extend([missing]),
        }
    }
    for limit in call.cost.limits() {
        let about = parts.limits.get(limit);
        if let Some((about, state)) =
            about.and_then(|about| Some((about, about.reported.as_ref()?)))
        {
            answer.limit(limit, about, state, &mut found);
        }
    }
    found
}

/// A response to a request, and its body, if that could be read.
struct Answer<'a> {
    parts: &'a RequestParts<'a>,
    response: &'a Response,
    document: Option<&'a Value>,
}

/// Where the configuration looks for a value.
#[derive(Clone, Copy)]
enum ReportedSource<'a> {
    Field(&'a ResponseField),
    Part(&'a HeaderPattern, Part),
}

impl<'a> ReportedSource<'a> {
    /// The place of a part: of its own, or in the pattern.
    fn new(state: &'a ReportedState, own: Option<&'a ResponseField>, part: Part) -> Option<Self> {
        let pattern = state.pattern.as_ref().filter(|pattern| pattern.has(part));
        own.map(Self::Field)
            .or(pattern.map(|pattern| Self::Part(pattern, part)))
    }

    /// The header, or the place in the body.
    fn place(self) -> String {
        match self {
            Self::Field(field) => field.to_string(),
            Self::Part(pattern, _) => pattern.header.clone(),
        }
    }
}

impl Answer<'_> {
    fn cost(&self, limit: &LimitName, at: &ResponseField) -> Result<Units, Missing> {
        let source = ReportedSource::Field(at);
        let read = self.value(source).and_then(|text| units(&text));
        read.ok_or_else(|| {
            let what = format!("the cost for the limit `{limit}`");
            self.missing(&what, source, "settle")
        })
    }

    /// Adds the state of a limit to `found`, or why there is none.
    fn limit(
        &self,
        limit: &LimitName,
        about: &CredentialLimit,
        state: &ReportedState,
        found: &mut ReportedCost,
    ) {
        let remaining = match self.remaining(limit, about, state) {
            Ok(remaining) => remaining,
            // Its reset is left out too: alone it would say that no request may follow until then.
            Err(source) => {
                let what = format!("the limit `{limit}`");
                found.missing.push(self.missing(&what, source, "reported"));
                return;
            }
        };
        let reset = self.reset(state, remaining).unwrap_or_else(|source| {
            let what = format!("the reset of the limit `{limit}`");
            found.missing.push(self.missing(&what, source, "reported"));
            None
        });
        if remaining.is_some() || reset.is_some() {
            found.limits.push(ReportedLimit {
                limit: limit.clone(),
                remaining,
                reset,
            });
        }
    }

    /// The remaining units; `None` if the configuration names no place for them. An error is the place that has none.
    fn remaining<'s>(
        &self,
        limit: &str,
        about: &CredentialLimit,
        state: &'s ReportedState,
    ) -> Result<Option<Units>, ReportedSource<'s>> {
        let name = about.upstream_name.as_deref().unwrap_or(limit);
        let resource = state.resource.as_ref().map(ReportedSource::Field);
        if let Some(resource) = resource
            && self.value(resource).as_deref() != Some(name)
        {
            return Err(resource);
        }
        let units_at = |source, read: fn(&str) -> Option<Units>| {
            let text = self.value(source);
            text.and_then(|text| read(&text)).ok_or(source)
        };
        if let Some(source) = ReportedSource::new(state, state.remaining.as_ref(), Part::Remaining)
        {
            return units_at(source, left).map(Some);
        }
        let Some(source) = ReportedSource::new(state, state.used.as_ref(), Part::Used) else {
            return Ok(None);
        };
        let quota = match ReportedSource::new(state, None, Part::Quota) {
            Some(source) => units_at(source, units)?,
            None => about.limit.quota(),
        };
        Ok(Some(quota.saturating_sub(units_at(source, units)?)))
    }

    /// The instant of the reset: now if it has just passed; `None` if it passed long ago, or none is expected. An error is the place
    /// that has none.
    fn reset<'s>(
        &self,
        state: &'s ReportedState,
        remaining: Option<Units>,
    ) -> Result<Option<Timestamp>, ReportedSource<'s>> {
        let Some(source) = ReportedSource::new(state, state.reset.as_ref(), Part::Reset) else {
            return Ok(None);
        };
        let now = self.parts.request.now;
        let theirs = self.response.upstream_time(now);
        match self.value(source).map(|text| reset(&text, theirs)) {
            Some(Reset::In(wait)) => Ok(Some(now + wait)),
            // The limit is closed for its whole window, and nobody would see why.
            Some(Reset::Passed) if remaining == Some(Units::ZERO) => Err(source),
            Some(Reset::Passed) => Ok(None),
            // What only reports waits says nothing while there is none.
            None if !state.reports_units() && self.text(source).is_none() => Ok(None),
            Some(Reset::Unreadable) | None => Err(source),
        }
    }

    /// The text of a value; `None` if there is none.
    fn value(&self, source: ReportedSource<'_>) -> Option<Cow<'_, str>> {
        let ReportedSource::Part(pattern, part) = source else {
            return self.text(source);
        };
        let text = self.text(source)?;
        let parts = pattern.read(&text)?;
        parts
            .get(&part)
            .map(|value| Cow::Owned((*value).to_owned()))
    }

    /// All that the response has at a place; `None` if it has nothing there.
    fn text(&self, source: ReportedSource<'_>) -> Option<Cow<'_, str>> {
        match source {
            ReportedSource::Field(ResponseField::Header(name)) => {
                self.response.headers(name).next()
            }
            ReportedSource::Field(ResponseField::Body(at)) => {
                at.text_in(self.document?).map(Cow::from)
            }
            ReportedSource::Part(pattern, _) => {
                let values: Vec<_> = self.response.headers(&pattern.header).collect();
                (!values.is_empty()).then(|| Cow::Owned(values.join(", ")))
            }
        }
    }

    fn missing(&self, what: &str, source: ReportedSource<'_>, key: &str) -> Missing {
        let held = self.text(source).map(|text| self.response.shown(&text));
        Missing::report(what, &source.place(), held.as_deref(), key)
    }
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
