//! An invented record: whatever the configuration reads of one has a value, as a function of its id.

use std::time::Duration;

use serde_json::Value;

use super::drawn::{below, drawn};
use super::pointer::set;
use super::route::{AnsweredCall, ReadByJobs};
use ingest_config::{Column, ColumnType, Field, Moment, Records};
use ingest_quota::Timestamp;

/// Nothing in the invented world is newer. The instant is fixed, so that a later run finds the same records.
const NEWEST: Timestamp = Timestamp::from_micros(1_762_000_000_000_000);
const TWO_YEARS: u64 = 2 * 365 * 24 * 60 * 60;
/// How many other things the records of an upstream name by their ids, as the videos of a region name their channels.
const OTHERS: u64 = 400;
const WORDS: [&str; 28] = [
    "Puppy",
    "Garden",
    "River",
    "Violin",
    "Mountain",
    "Recipe",
    "Station",
    "Market",
    "Summer",
    "Letter",
    "Island",
    "Lantern",
    "Bridge",
    "Winter",
    "Copper",
    "Engine",
    "Harbour",
    "Meadow",
    "Orchid",
    "Pepper",
    "Puzzle",
    "Thunder",
    "Käsekuchen",
    "Été",
    "Чайник",
    "منارة",
    "自転車",
    "천둥",
];

/// The record of this id, in the world of a seed.
pub fn record(seed: u64, route: &AnsweredCall, records: &Records, id: &str) -> Value {
    let seed = drawn(seed, id);
    let ids = records.id.iter().filter_map(Field::pointer);
    let ids = ids.enumerate().map(|(number, at)| match number {
        0 => (at, id.into()),
        _ => (
            at,
            format!("{:012x}", drawn(seed, at.as_str()) >> 16).into(),
        ),
    });
    let read = route.read_by_jobs.iter();
    let read = read.map(|(at, read)| (at, read_by_job(seed, at.as_str(), read)));
    // A record of a list is there: nothing says that it was removed.
    let removed = records.removed.as_ref().map(|removed| &removed.at);
    let columns = records.columns.iter();
    let columns =
        columns.filter(|(_, column)| column.template.is_none() && Some(&column.at) != removed);
    let columns =
        columns.map(|(name, Column { at, kind, .. })| (at, value(seed, at.as_str(), name, *kind)));
    let texts = records.text.iter();
    let texts = texts.map(|at| (at, title(drawn(seed, at.as_str())).into()));
    let mut record = Value::Null;
    for (at, value) in ids.chain(read).chain(columns).chain(texts) {
        set(&mut record, at.tokens(), value);
    }
    record
}

/// What a step reads here: ids of other things, or times.
fn read_by_job(seed: u64, at: &str, read: &ReadByJobs) -> Value {
    match read {
        ReadByJobs::Ids => format!("of-{:x}", below(seed, at, OTHERS)).into(),
        ReadByJobs::Times(None) => Moment::at(time(seed, at)).text().into(),
        ReadByJobs::Times(Some(format)) => Moment::at(time(seed, at)).written(format).into(),
    }
}

/// What a column of this name and type is likely to hold.
fn value(seed: u64, at: &str, column: &str, kind: Option<ColumnType>) -> Value {
    const COUNTS: [&str; 10] = [
        "count", "views", "stars", "size", "number", "total", "rank", "users", "sessions", "score",
    ];
    let named = |parts: &[&str]| parts.iter().any(|part| column.contains(part));
    match kind {
        Some(ColumnType::Integer | ColumnType::Real) => below(seed, at, 1_000_000).into(),
        Some(ColumnType::Boolean) => (below(seed, at, 2) == 0).into(),
        Some(ColumnType::Timestamp) => Moment::at(time(seed, at)).text().into(),
        _ if column.ends_with("_at") || named(&["date", "time"]) => {
            Moment::at(time(seed, at)).text().into()
        }
        _ if named(&COUNTS) => below(seed, at, 1_000_000).into(),
        _ if column.contains("url") => {
            format!("https://pages.example/{:016x}", drawn(seed, at)).into()
        }
        _ => title(drawn(seed, at)).into(),
    }
}

fn time(seed: u64, at: &str) -> Timestamp {
    NEWEST - Duration::from_secs(below(seed, at, TWO_YEARS))
}

/// Two to five words; some titles have characters that need escaping.
fn title(bits: u64) -> String {
    let pick = |at: u64| usize::try_from(bits >> (8 * at) & 0xff).unwrap_or_default() % WORDS.len();
    let words = (0..2 + (bits >> 48) % 4).filter_map(|at| WORDS.get(pick(at)).copied());
    let words = words.collect::<Vec<_>>().join(" ");
    match (bits >> 56) % 12 {
        0 => format!("{words} & Co."),
        1 => format!("\"{words}\""),
        2 => format!("{words} 🎬 <live>"),
        3 => format!("Don't miss: {words}"),
        _ => words,
    }
}
