//! Regions and slices in tables for people.

use super::output::shown;
use super::table::count;
use ingest_config::{Region, Slice};

/// A backfill can have hundreds of slices: more than this of a region are counted.
const MOST_NAMED: usize = 3;

/// Names regions and slices in their order. Many slices of a region are one name: `US (37 slices)`.
pub fn names<'a>(all: impl Iterator<Item = (&'a str, Option<Slice>)>) -> Vec<String> {
    let mut regions: Vec<(&str, Vec<Option<Slice>>)> = Vec::new();
    for (region, slice) in all {
        match regions.iter_mut().find(|(one, _)| *one == region) {
            Some((_, slices)) if slice.is_some() => slices.push(slice),
            _ => regions.push((region, vec![slice])),
        }
    }
    let name = |(region, slices): (&str, Vec<Option<Slice>>)| match slices.len() {
        many if many > MOST_NAMED => {
            let many = format!("{} slices", count(many as u64));
            vec![if region == Region::NONE {
                many
            } else {
                format!("{} ({many})", shown(region))
            }]
        }
        _ => {
            let keys = slices
                .into_iter()
                .map(|slice| Region::key_of(region, slice));
            keys.map(|key| shown(&key)).collect()
        }
    };
    regions.into_iter().flat_map(name).collect()
}
