//! `slices` of a job: a backfill, divided into spans of time that are walked one by one.

use std::fmt;
use std::time::Duration;

use chrono::{Months, NaiveTime};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::Refusal;
use super::since::moment;
use super::values::{As, Leaf, Scalar, Span, leaf, leaves, scalar};
use ingest_quota::Timestamp;

/// A span of time, from its start up to but not including its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Slice {
    /// The first instant.
    pub from: Timestamp,
    /// The first instant after it.
    pub to: Timestamp,
}

/// `2024-01-01/2024-02-01`, with times where an edge is not midnight in UTC.
impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from.to_utc(), self.to.to_utc());
        if from.time() == NaiveTime::MIN && to.time() == NaiveTime::MIN {
            return write!(f, "{}/{}", from.date_naive(), to.date_naive());
        }
        write!(f, "{}/{}", self.from, self.to)
    }
}

/// The length of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SliceStep {
    Span(Duration),
    Months(u32),
}

/// Where the last slice ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SliceEnd {
    /// This long before now: slices appear as time passes.
    Ago(Duration),
    At(Timestamp),
}

/// Which slice is walked first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SliceOrder {
    /// From the newest slice back.
    #[default]
    NewestFirst,
    /// From the oldest slice on.
    OldestFirst,
}

/// The slices of a backfill that are left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlicesLeft {
    /// The slices in the order in which they are walked; of very many, the first ones.
    pub slices: Vec<Slice>,
    /// Their number.
    pub count: u64,
    /// When the next slice ends, from which on it can be walked; `None` if there is no further one.
    pub next_at: Option<Timestamp>,
}

/// More slices than one run looks ahead.
const MOST_AHEAD: usize = 10_000;

impl Slices {
    /// Returns the slices that are over at `now`, without the spans in `taken`. A slice of which a part is taken is the rest of
    /// it, so a span is not walked twice when `from` or `step` were edited.
    pub fn left(&self, now: Timestamp, taken: &[Slice]) -> SlicesLeft {
        let taken = merged(taken);
        let mut taken = taken.as_slice();
        let mut left = SlicesLeft::default();
        for cell in self.cells() {
            if cell.to > self.until(now) {
                left.next_at = Some(self.seen_at(cell.to));
                break;
            }
            while let Some((_, later)) = taken.split_first().filter(|(one, _)| one.to <= cell.from)
            {
                taken = later;
            }
            left.slices.extend(without(cell, taken));
        }
        left.count = left.slices.len() as u64;
        if self.order == SliceOrder::NewestFirst {
            left.slices.reverse();
        }
        // Behind the reversal, so that those stay that are walked first.
        left.slices.truncate(MOST_AHEAD);
        left
    }

    /// Whether all of a slice is between the configured start and end.
    pub fn contain(&self, slice: Slice, now: Timestamp) -> bool {
        self.from <= slice.from && slice.to <= self.until(now)
    }

    /// Returns a number that is the smaller, the earlier a slice is walked.
    pub fn rank(&self, slice: Slice) -> i64 {
        match self.order {
            SliceOrder::NewestFirst => slice.from.micros().saturating_neg(),
            SliceOrder::OldestFirst => slice.from.micros(),
        }
    }

    /// When the last slice ends at the latest, as of `now`.
    fn until(&self, now: Timestamp) -> Timestamp {
        match self.to {
            SliceEnd::Ago(ago) => now - ago,
            // A slice in the future is not over, whatever end is configured.
            SliceEnd::At(at) => at.min(now),
        }
    }

    /// When a slice that ends at `to` can be walked.
    fn seen_at(&self, to: Timestamp) -> Timestamp {
        match self.to {
            SliceEnd::Ago(ago) => to + ago,
            SliceEnd::At(_) => to,
        }
    }

    /// All slices, oldest first; without end where they appear as time passes. A fixed end cuts the last one.
    fn cells(&self) -> impl Iterator<Item = Slice> {
        let end = match self.to {
            SliceEnd::Ago(_) => None,
            SliceEnd::At(at) => Some(at),
        };
        let starts = (0..).map_while(|index| self.start(index));
        let starts = starts.take_while(move |from| end.is_none_or(|end| *from < end));
        starts
            .zip((1..).map_while(|index| self.start(index)))
            .map(move |(from, to)| Slice {
                from,
                to: end.map_or(to, |end| to.min(end)),
            })
    }

    /// The start of a slice, counted from the first one: a month after January 31 is the last day of February, and two months
    /// after it March 31. `None` beyond the calendar.
    fn start(&self, index: u32) -> Option<Timestamp> {
        match self.step {
            SliceStep::Span(span) => Some(self.from + span.checked_mul(index)?),
            SliceStep::Months(months) => {
                let months = Months::new(months.checked_mul(index)?);
                Some(self.from.to_utc().checked_add_months(months)?.into())
            }
        }
    }
}

/// Spans in order of time, overlapping ones joined.
fn merged(spans: &[Slice]) -> Vec<Slice> {
    let mut spans = spans.to_vec();
    spans.sort();
    let mut merged: Vec<Slice> = Vec::new();
    for span in spans {
        match merged.last_mut().filter(|last| span.from <= last.to) {
            Some(last) => last.to = last.to.max(span.to),
            None => merged.push(span),
        }
    }
    merged
}

/// The parts of a slice that no span in `taken` has. `taken` is in order.
fn without(slice: Slice, taken: &[Slice]) -> Vec<Slice> {
    let (mut parts, mut from) = (Vec::new(), slice.from);
    for span in taken.iter().take_while(|span| span.from < slice.to) {
        if from < span.from {
            let to = span.from;
            parts.push(Slice { from, to });
        }
        from = from.max(span.to);
    }
    if from < slice.to {
        parts.push(Slice { from, ..slice });
    }
    parts
}

/// How a job's backfill is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slices {
    /// The start of the first slice: a date or a time. Example: `from = "2024-01-01"`.
    #[serde(with = "As::<Start>")]
    pub from: Timestamp,
    /// The length of a slice: a duration, or `week`, `month`, `3 months`, `year` of the calendar, in UTC. Example: `step = "30d"`.
    pub step: SliceStep,
    /// The end of the last slice, or `now-2d` for an upstream that has its figures two days later. A slice is fetched when it is over,
    /// so with `now` a new one appears after each `step`. Example: `to = "2025-01-01"`.
    #[serde(default)]
    pub to: SliceEnd,
    /// Which slice is fetched first. Example: `order = "oldest_first"`.
    #[serde(default)]
    pub order: SliceOrder,
}

impl Slices {
    /// Whether the backfill has a span of time.
    pub fn checked(self) -> Result<Self, Refusal> {
        match self.to {
            SliceEnd::At(end) if end <= self.from => {
                let remedy = "write a later date, or \"now\"";
                Err(Refusal::new("expected an end after `from`", remedy).below("to"))
            }
            SliceEnd::At(_) | SliceEnd::Ago(_) => Ok(self),
        }
    }
}

leaf!(
    Start,
    Scalar,
    Timestamp,
    |text| moment(&text),
    "expected a date, or a time in RFC 3339",
    "write for example \"2024-01-01\" or \"2024-01-01T00:00:00Z\"",
    json!({ "title": "date or time", "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}" }),
);

leaves!(SliceStep, SliceEnd);

/// Shorter slices than this are taken for a mistake: a year would have half a million.
const SHORTEST: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Leaf for SliceStep {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        if let Some(step) = calendar_step(&scalar(raw.clone())?.trim().to_lowercase()) {
            return Ok(step);
        }
        match Span::read(raw)? {
            span if span < SHORTEST => Err(Refusal::new(
                "expected at least a minute",
                "write for example \"1d\"",
            )),
            span => Ok(Self::Span(span)),
        }
    }

    fn schema() -> Value {
        json!({ "title": "duration, `month` or `year`", "type": "string", "minLength": 1 })
    }
}

/// `week`, `3 months`; `None` for what is no number of calendar units. A duration in months would be of 30.44 days.
fn calendar_step(text: &str) -> Option<SliceStep> {
    let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let count = match text.strip_suffix(unit)? {
        "" => 1,
        count => count.parse::<u32>().ok().filter(|count| *count > 0)?,
    };
    let unit = unit.trim();
    Some(match unit.strip_suffix('s').unwrap_or(unit) {
        "day" => SliceStep::Span(DAY.checked_mul(count)?),
        "week" => SliceStep::Span((7 * DAY).checked_mul(count)?),
        "month" => SliceStep::Months(count),
        "year" => SliceStep::Months(count.checked_mul(12)?),
        _ => return None,
    })
}

impl Default for SliceEnd {
    fn default() -> Self {
        Self::Ago(Duration::ZERO)
    }
}

/// As far as the schema shows a default.
impl Serialize for SliceEnd {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("now")
    }
}

impl Leaf for SliceEnd {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        let text = scalar(raw)?;
        let ago = text
            .strip_prefix("now")
            .and_then(|ago| match ago.strip_prefix('-') {
                Some(span) => humantime::parse_duration(span).ok(),
                None => ago.is_empty().then_some(Duration::ZERO),
            });
        let end = ago.map(Self::Ago).or_else(|| moment(&text).map(Self::At));
        end.ok_or_else(|| {
            Refusal::new(
                "expected a date, a time in RFC 3339, or `now`",
                "write for example \"2025-01-01\", \"now\" or \"now-2d\"",
            )
        })
    }

    fn schema() -> Value {
        let pattern = "^(now(-[0-9].*)?|[0-9]{4}-[0-9]{2}-[0-9]{2}.*)$";
        json!({ "title": "date or time, or `now`", "type": "string", "pattern": pattern })
    }
}
