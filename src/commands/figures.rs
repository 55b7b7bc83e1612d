//! Numbers, units and times, as text.

use std::time::Duration;

use crate::run::Deletion;
pub use ingest_base::plain::{count, instant};
use ingest_quota::{Cost, Units};

/// `1 region`, `9,500 regions`
pub fn counted(number: u64, what: &str) -> String {
    format!(
        "{} {what}{}",
        count(number),
        if number == 1 { "" } else { "s" }
    )
}

/// `1,203 records of youtube that no response contained for 30d`
pub fn deleted(one: &Deletion) -> String {
    let (records, keep) = (counted(one.records, "record"), span(one.keep));
    format!(
        "{records} of {} that no response contained for {keep}",
        one.upstream
    )
}

/// `5 daily, 1 search`
pub fn cost(cost: &Cost) -> String {
    let parts: Vec<String> = cost
        .iter()
        .map(|(limit, units)| format!("{} {limit}", count(units.get())))
        .collect();
    parts.join(", ")
}

/// Returns units; a dash for `None`.
pub fn units(units: Option<Units>) -> String {
    units.map_or_else(|| "-".to_owned(), |units| count(units.get()))
}

/// Returns how long something took: `0.4s`, `12s`, `1h 5m`.
pub fn took(took: Duration) -> String {
    if took < Duration::from_secs(10) {
        return format!("{:.1}s", took.as_secs_f64());
    }
    span(took)
}

/// Returns a duration in its two largest units: `1h 5m`, `40d 1h`.
pub fn span(span: Duration) -> String {
    // Rounded up, so that nobody comes back too early.
    let seconds = span
        .as_secs()
        .saturating_add(u64::from(span.subsec_nanos() > 0));
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let units = [
        (hours / 24, "d"),
        (hours % 24, "h"),
        (minutes % 60, "m"),
        (seconds % 60, "s"),
    ];
    let some = units.iter().filter(|(number, _)| *number > 0).take(2);
    let text: Vec<String> = some
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    if text.is_empty() {
        "0s".to_owned()
    } else {
        text.join(" ")
    }
}
