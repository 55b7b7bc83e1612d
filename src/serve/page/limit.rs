//! A limit of `/`: its use as a bar, when its units return, and its spend over a day.

use maud::{Markup, html};

use super::chart::Columns;
use super::spend::{self, ByJob};
use super::{Reader, chart};
use crate::commands::status::LimitStatus;
use crate::commands::table::{count, counted, span};
use crate::run::LimitReport;
use ingest_base::plain::plain;
use ingest_quota::Units;

/// The parts of a bar: the class in the style sheet, and the word for it.
const USED: (&str, &str) = ("used", "used");
const UNMETERED: (&str, &str) = ("unmetered", "unmetered, not yet in the ledger");
const FREE: (&str, &str) = ("free", "free");
const CLOSED: (&str, &str) = ("closed", "closed by the upstream, or by hand");
const UNKNOWN: (&str, &str) = ("unknown", "unknown");
const HEADROOM: (&str, &str) = ("headroom", "headroom");

type Part = ((&'static str, &'static str), u64);

/// The parts of a limit's bar, in units.
fn parts(limit: &LimitStatus) -> Vec<Part> {
    let report = &limit.report;
    let enforced = report.enforced.get();
    // More can be used than is enforced, as after the quota was lowered. A bar ends at its limit.
    let used = report.used.map(|used| used.get().min(enforced));
    let unmetered = limit
        .unrepaid
        .get()
        .min(enforced - used.unwrap_or_default());
    let rest = enforced - used.unwrap_or_default() - unmetered;
    let kind_of_rest = match (used, report.closed_until) {
        (None, _) => UNKNOWN,
        (Some(_), Some(_)) => CLOSED,
        (Some(_), None) => FREE,
    };
    let parts = [
        (USED, used.unwrap_or_default()),
        (UNMETERED, unmetered),
        (kind_of_rest, rest),
        (HEADROOM, limit.headroom.get()),
    ];
    parts.into_iter().filter(|(_, units)| *units > 0).collect()
}

/// What the colours of the bars mean.
pub fn legend(limits: &[LimitStatus]) -> Markup {
    let shown: Vec<Part> = limits.iter().flat_map(parts).collect();
    let all = [USED, UNMETERED, FREE, CLOSED, UNKNOWN, HEADROOM];
    let known = all
        .into_iter()
        .filter(|kind| shown.iter().any(|(one, _)| one == kind));
    html! {
        ul class="legend" { @for (class, word) in known { li { i class=(class) {} (word) } } }
    }
}

/// A limit, with the units in its window at the end of each of the last hours by job.
pub fn limit_shown(reader: &Reader, limit: &LimitStatus, spent: Option<&ByJob>) -> Markup {
    let report = &limit.report;
    let name = format!("{}/{}", report.account, report.limit);
    let parts = parts(limit);
    let in_words: Vec<String> = parts
        .iter()
        .map(|((_, word), units)| format!("{} {word}", count(*units)))
        .collect();
    let bar: Vec<(&str, u64)> = parts
        .iter()
        .map(|((class, _), units)| (*class, *units))
        .collect();
    let charges = [
        ("account", Some(&*report.account)),
        ("limit", Some(&*report.limit)),
    ];
    html! {
        section class="limit" {
            h3 { a href=(reader.to("/limit", &charges)) { (plain(&name)) } }
            (figures(limit))
            (chart::bar(&bar, &format!("{name}: {}", in_words.join(", "))))
            (warnings(reader, limit))
            (returns(reader, limit))
            @if let Some(spent) = spent { (day(reader, report, spent)) }
        }
    }
}

fn figures(limit: &LimitStatus) -> Markup {
    let report = &limit.report;
    html! {
        @match (report.used, report.remaining) {
            (Some(used), Some(left)) => p {
                strong { (count(left.get())) } " of " (counted(report.enforced.get(), "unit")) " left, " (count(used.get())) " used"
                @if limit.headroom > Units::ZERO { ", " (count(limit.headroom.get())) " kept as headroom" }
            },
            _ => p class="bad" { "The ledger cannot be reached. The limit is " (counted(report.enforced.get(), "unit")) "." },
        }
    }
}

fn warnings(reader: &Reader, limit: &LimitStatus) -> Markup {
    html! {
        @if let Some(until) = limit.report.closed_until {
            p class="bad" { "The upstream reported it exhausted, or it was closed by hand: closed until " (reader.time(until)) "." }
        }
        @if limit.unrepaid > Units::ZERO {
            p class="warn" { (counted(limit.unrepaid.get(), "unit")) " went unmetered from this machine, not yet charged to the ledger." }
        }
        @if let Some(until) = limit.waits_until {
            p class="warn" { "The ledger lost data: this machine charges again at " (reader.time(until)) "." }
        }
    }
}

fn returns(reader: &Reader, limit: &LimitStatus) -> Markup {
    let within = &limit.returns_within;
    html! {
        @if let Some(last) = limit.returns.last() {
            p class="quiet" {
                @if within.day > Units::ZERO {
                    "Units that return: " (count(within.hour.get())) " within 1 h, " (count(within.six_hours.get()))
                    " within 6 h, " (count(within.day.get())) " within 24 h. "
                }
                "All have returned at " (reader.time(last.at)) "."
            }
        }
    }
}

/// The spend of a day. Of a window that is shorter than an hour, an hour has more units than the limit counts at once.
fn day(reader: &Reader, report: &LimitReport, spent: &ByJob) -> Markup {
    let accounts = reader.app.environment.accounts();
    let account = accounts.iter().find(|one| one.name == report.account);
    let limit = account.and_then(|account| account.limits.get(&report.limit));
    let window = limit.map_or(spend::HOUR, |limit| limit.window().longest());
    let (caption, enforced) = match window < spend::HOUR {
        true => (
            format!(
                "Units of each of the last 24 hours, by job; the limit counts those of {} at once",
                span(window)
            ),
            None,
        ),
        false => (
            "Units that the limit counted at the end of each of the last 24 hours, by job"
                .to_owned(),
            Some(report.enforced.get()),
        ),
    };
    let ago = (0..spend::HOURS).rev();
    let times = ago.map(|ago| {
        if ago == 0 {
            "now".to_owned()
        } else {
            format!("{ago} h ago")
        }
    });
    let chart = Columns {
        caption: &caption,
        limit: &format!("{}/{}", report.account, report.limit),
        jobs: spent
            .iter()
            .map(|(job, units)| (job.as_str(), units.clone()))
            .collect(),
        times: times.collect(),
        enforced,
    };
    chart.shown()
}
