//! What `ingest try` answers: for JSON, and in words.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::next_since::NextSince;
use crate::commands::figures::{cost as cost_text, count, instant};
use crate::commands::output;
use crate::review;
use ingest_base::record::{Doubted, Record};
use ingest_config::{Call, Pointer, Records};
use ingest_quota::{Cost, LimitName, Units};
use ingest_upstream::{Exchange, Failure, Page, ReportedCost, ReportedLimit, ShownRequest};

/// Shows at most this many records.
const SHOWN: usize = 3;

/// The result, as JSON shows it.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub job: Option<String>,
    pub region: String,
    pub request: Option<ShownRequest>,
    /// The HTTP status; `None`: there was no response.
    pub status: Option<u16>,
    /// `page`, or the class of the refusal; `stopped` or `not_sent` without a response.
    pub class: &'static str,
    /// The number of the error rule that matched, from 1.
    pub rule: Option<usize>,
    /// The upstream's message, or why nothing was sent.
    pub message: Option<String>,
    pub records: Vec<ShownRecord>,
    pub record_count: usize,
    /// The number of records that a page was requested to have; `None` if the configuration has no size.
    pub size: Option<u64>,
    pub next: Option<String>,
    /// How the list goes on, and why.
    pub goes_on: Option<String>,
    pub doubts: Vec<Doubted>,
    /// The cursor with which the next pass begins, on a last page that has one.
    pub lasting: Option<String>,
    /// `None`: the page has no value for the next `{since}`, or the job does not read one.
    pub next_since: Option<NextSince>,
    pub reported: Vec<ReportedLimit>,
    /// The cost that the response reports.
    pub reported_cost: BTreeMap<LimitName, Units>,
    /// The charge; `None` for a saved response.
    pub charged: Option<Cost>,
    /// False: `try` shows a page and lands none.
    pub landed: bool,
    pub missing: Vec<String>,
    pub notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub struct ShownRecord {
    id: String,
    columns: BTreeMap<String, Option<String>>,
    texts: Vec<String>,
}

impl Report {
    pub fn fill(&mut self, exchange: Exchange, tried: review::Tried<'_>) {
        let reported = exchange.reported;
        self.status = exchange.classified.map(|classified| classified.status);
        let rule = exchange.classified.and_then(|classified| classified.rule);
        self.rule = rule.map(|index| index.saturating_add(1));
        match exchange.page {
            Err(failure) => {
                self.class = class_of(&failure);
                self.message = Some(failure.to_string());
            }
            Ok(page) => {
                self.class = "page";
                self.judge(tried, &page, &reported);
                self.show(page, tried.step.call.records.as_deref());
            }
        }
        self.reported_cost = reported.cost;
        self.reported = reported.limits;
    }

    fn judge(&mut self, tried: review::Tried<'_>, page: &Page, reported: &ReportedCost) {
        let judged = tried.judge(page, reported);
        self.goes_on = Some(judged.goes_on);
        self.doubts = judged.doubts;
        self.missing = judged.missing;
        self.notes = judged.notes;
        let next = |values| NextSince::read(tried.job, tried.step, values);
        self.next_since = judged.values.and_then(next);
    }

    fn show(&mut self, page: Page, records: Option<&Records>) {
        self.record_count = page.records.len();
        self.size = page.size;
        self.next = page.next;
        self.lasting = page.lasting;
        let Some(about) = records else { return };
        let record = |record: &Record| ShownRecord {
            id: record.id.clone(),
            columns: about
                .columns
                .iter()
                .map(|(name, column)| (name.clone(), shown_value(&column.at, &record.body)))
                .collect(),
            texts: about
                .text
                .iter()
                .flat_map(|at| at.texts_in(&record.body))
                .collect(),
        };
        self.records = page.records.iter().take(SHOWN).map(record).collect();
    }

    /// What a person reads.
    pub fn text(&self, call: Option<&Call>) -> String {
        let mut lines = self.request_lines();
        lines.extend(call.map(|call| self.class_line(call)));
        lines.extend(self.message.iter().map(|message| format!("  {message}")));
        if self.class == "page" {
            lines.extend(self.page_lines());
        }
        lines.extend(self.quota_lines());
        if self.class == "page" {
            lines.push("Landed: nothing".to_owned());
        }
        // A doubt can be about a missing value, and is then one of the notes.
        let is_doubted = |text: &String| self.notes.iter().any(|note| note.contains(text));
        let missing = self.missing.iter().filter(|text| !is_doubted(text));
        let all: Vec<String> = missing.chain(&self.notes).cloned().collect();
        if !all.is_empty() {
            lines.push("Check the configuration:".to_owned());
            lines.extend(all.iter().map(|one| format!("  - {one}")));
        }
        lines.join("\n")
    }

    fn request_lines(&self) -> Vec<String> {
        let Some(request) = &self.request else {
            return Vec::new();
        };
        let mut lines = vec![format!("{} {}", request.method, request.url)];
        lines.extend(
            request
                .headers
                .iter()
                .map(|(name, value)| format!("  {name}: {value}")),
        );
        lines.extend(request.body.iter().map(Value::to_string));
        lines
    }

    fn class_line(&self, call: &Call) -> String {
        let Some(status) = self.status else {
            return format!("No response, class {}", self.class);
        };
        let (own, all) = (call.own_rules, call.errors.len());
        let rule = match self.rule {
            Some(rule) if own == 0 => format!(", by error rule {rule} of {all}"),
            Some(rule) if rule <= own => format!(", by error rule {rule} of {own} of the call"),
            Some(rule) => {
                let (rule, all) = (rule.saturating_sub(own), all.saturating_sub(own));
                format!(", by error rule {rule} of {all} of the upstream")
            }
            None if self.class == "page" => String::new(),
            None => ", by its status; no error rule matches".to_owned(),
        };
        format!("Response: status {status}, class {}{rule}", self.class)
    }

    fn page_lines(&self) -> Vec<String> {
        let of = self.size.map(|size| format!(" of {size} requested"));
        let of = of.unwrap_or_default();
        let mut lines = vec![format!("Records: {}{of}", self.record_count)];
        for record in &self.records {
            lines.push(format!("  id {}", record.id));
            for (column, value) in &record.columns {
                let value = value.as_deref().unwrap_or("(no value)");
                lines.push(format!("    {column}: {value}"));
            }
            lines.extend(
                record
                    .texts
                    .iter()
                    .map(|text| format!("    text: {}", output::shown(text))),
            );
        }
        let more = self.record_count.saturating_sub(self.records.len());
        if more > 0 {
            lines.push(format!("  and {more} more"));
        }
        let next = self.next.as_deref().unwrap_or("none, the list ends here");
        lines.push(format!("Next cursor: {next}"));
        lines.extend(self.goes_on.iter().map(|how| format!("The list {how}")));
        let lasting = self.lasting.iter();
        lines.extend(lasting.map(|lasting| format!("The next pass begins at: {lasting}")));
        lines.extend(self.next_since.iter().map(ToString::to_string));
        lines
    }

    fn quota_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for limit in &self.reported {
            let (name, reset) = (&limit.limit, limit.reset.map(instant));
            let left = limit.remaining.map(|left| count(left.get()));
            lines.push(match (left, reset) {
                (Some(left), Some(at)) => {
                    format!("Reported: {left} {name} remaining, reset at {at}")
                }
                (Some(left), None) => format!("Reported: {left} {name} remaining"),
                (None, at) => format!(
                    "Reported: {name} is closed{}",
                    at.map(|at| format!(" until {at}")).unwrap_or_default()
                ),
            });
        }
        if !self.reported_cost.is_empty() {
            let cost: Cost = self.reported_cost.clone().into_iter().collect();
            lines.push(format!("Reported cost: {}", cost_text(&cost)));
        }
        if let Some(charged) = &self.charged {
            let charged = match charged.is_none() {
                true => "nothing".to_owned(),
                false => cost_text(charged),
            };
            lines.push(format!("Charged: {charged}"));
        }
        lines
    }
}

/// The value of a column as text; a list or an object as JSON.
fn shown_value(at: &Pointer, record: &Value) -> Option<String> {
    let json = || {
        at.find(record)
            .filter(|value| !value.is_null())
            .map(Value::to_string)
    };
    at.text_in(record).or_else(json)
}

const fn class_of(failure: &Failure) -> &'static str {
    match failure {
        Failure::Unreachable(_)
        | Failure::NotSent(_)
        | Failure::Unsendable(_)
        | Failure::TooLate => "not_sent",
        Failure::Spent { .. } => "spent",
        Failure::SlowDown { .. } => "slow_down",
        Failure::Denied(_) => "denied",
        Failure::Skip(_) => "skip",
        Failure::BadCursor(_) => "bad_cursor",
        Failure::OldCursor(_) => "old_cursor",
        Failure::WrongShape(_) => "wrong_shape",
        Failure::Transient { .. } | Failure::Unreadable { .. } => "transient",
    }
}
