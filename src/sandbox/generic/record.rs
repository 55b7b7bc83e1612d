//! Invented records: whatever the configuration reads of one is in it.

use std::time::Duration;

use serde_json::Value;

use super::fill::set;
use crate::config::{Pointer, Records};
use crate::quota::Timestamp;
use crate::sandbox::chance::Chance;
use crate::sandbox::route::Route;
use crate::sandbox::words::{self, Script};

/// The newest that anything is. The world does not age, so that a later run finds the same again.
const NEWEST: Timestamp = Timestamp::from_micros(1_762_000_000_000_000);

/// The records of a list, each as what is drawn about it: two in five are in every list of their kind, the others are its
/// own.
pub fn list(records: &Records, name: &str, total: u64, world: Chance) -> Vec<Chance> {
    let kind = world.of(&records.kind);
    let shared = total.saturating_mul(2) / 5;
    let record = |number| {
        if number < shared {
            kind.of("everywhere").nth(number)
        } else {
            kind.of(name).nth(number)
        }
    };
    let mut drawn: Vec<Chance> = (0..total).map(record).collect();
    let order = kind.of("order").of(name);
    drawn.sort_by_cached_key(|chance| order.nth(chance.bits()).bits());
    drawn
}

/// The records of these ids. A few do not exist.
pub fn by_id(route: &Route, records: &Records, ids: &[String], world: Chance) -> Vec<Value> {
    let drawn = ids
        .iter()
        .map(|id| (id, world.of(&records.kind).of("id").of(id)));
    let there = drawn.filter(|(_, chance)| !chance.of("absent").percent(2));
    there
        .map(|(id, chance)| one(route, records, chance, Some(id)))
        .collect()
}

/// One record; `id` takes the place of the drawn one.
pub fn one(route: &Route, records: &Records, chance: Chance, id: Option<&str>) -> Value {
    let mut record = Value::Null;
    for (number, pointer) in records.id.iter().enumerate() {
        let drawn = format!("{:012x}", chance.of(pointer.as_str()).bits() >> 16);
        let id = id.filter(|_| number == 0).map_or(drawn, str::to_owned);
        set(&mut record, pointer.tokens(), id.into());
    }
    for pointer in &route.read_by_jobs {
        set(
            &mut record,
            pointer.tokens(),
            format!("of-{:x}", chance.of("owner").below(300)).into(),
        );
    }
    for (column, pointer) in &records.columns {
        set(
            &mut record,
            pointer.tokens(),
            value(column, chance.of(pointer.as_str())),
        );
    }
    for pointer in &records.text {
        set(&mut record, pointer.tokens(), title(pointer, chance).into());
    }
    record
}

fn title(pointer: &Pointer, chance: Chance) -> String {
    words::title(Script::of(None, chance), chance.of(pointer.as_str()))
}

/// What a column of this name is likely to hold.
fn value(column: &str, chance: Chance) -> Value {
    let named = |parts: &[&str]| parts.iter().any(|part| column.contains(part));
    if column.ends_with("_at") || named(&["date", "time"]) {
        return (NEWEST - Duration::from_secs(chance.below(60 * 60 * 24 * 700)))
            .to_utc()
            .to_rfc3339()
            .into();
    }
    if named(&[
        "count", "views", "stars", "size", "number", "total", "rank", "users", "sessions", "score",
    ]) {
        return chance.below(1_000_000).into();
    }
    if column.contains("url") {
        return format!("https://pages.example/{:016x}", chance.bits()).into();
    }
    words::title(Script::of(None, chance), chance).into()
}
