//! Values that every catalog stores in one form: costs and lists as JSON, times within four-digit years.

use std::collections::BTreeMap;

use ingest_base::record::Doubted;
use ingest_quota::{Cost, Timestamp, Units};

/// 0000-01-01T00:00:00Z, and the last microsecond of 9999: RFC 3339 has no text for a time outside them.
const FIRST: i64 = -62_167_219_200_000_000;
const LAST: i64 = 253_402_300_799_999_999;

/// The nearest time whose year has four digits.
pub fn clamped(at: Timestamp) -> Timestamp {
    Timestamp::from_micros(at.micros().clamp(FIRST, LAST))
}

/// Converts to the signed integers of databases; saturates.
pub fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Formats a list as JSON.
pub fn list(list: &[String]) -> String {
    serde_json::json!(list).to_string()
}

/// Reads a cost from JSON.
pub fn cost(json: &str) -> serde_json::Result<Cost> {
    let units: BTreeMap<String, Units> = serde_json::from_str(json)?;
    Ok(units.into_iter().collect())
}

/// Adds a cost to the units that a pass spent, which are JSON.
pub fn sum(spent: &str, more: &Cost) -> String {
    let mut units: BTreeMap<String, u64> = serde_json::from_str(spent).unwrap_or_default();
    for (limit, taken) in more.iter() {
        let sum = units.entry(limit.clone()).or_default();
        *sum = sum.saturating_add(taken.get());
    }
    serde_json::json!(units).to_string()
}

/// Reads stored doubts, each once; none where nothing is stored. What cannot be read is a doubt.
pub fn doubts(stored: Option<&str>) -> Vec<Doubted> {
    let all: Vec<Doubted> = match stored.map(serde_json::from_str) {
        None => Vec::new(),
        Some(Ok(all)) => all,
        Some(Err(error)) => vec![unreadable(&error)],
    };
    let mut doubts: Vec<Doubted> = Vec::new();
    for doubt in all {
        if !doubts.contains(&doubt) {
            doubts.push(doubt);
        }
    }
    doubts
}

fn unreadable(error: &serde_json::Error) -> Doubted {
    Doubted {
        doubt: "unreadable".to_owned(),
        call: String::new(),
        text: format!(
            "the catalog has doubts about this pass that cannot be read ({error}); to request its lists again, use --relist"
        ),
    }
}
