//! Regions and slices, as text.

use super::figures::{count, counted};
use crate::doc::{PageLink, Phrase, Phrases};
use ingest_config::{Region, Slice};

/// A backfill can have hundreds of slices: more than this of a region are counted.
const MOST_NAMED: usize = 3;

/// The most regions that are all named.
const MOST_REGIONS: usize = 6;

/// Names regions and slices in their order: `US, GB`, and of many the first and the last: `131 regions: CQ, CT, …, JP`.
pub fn named<'a>(all: impl Iterator<Item = (&'a str, Option<Slice>)>) -> String {
    match &*names(all) {
        many @ [first, second, .., last] if many.len() > MOST_REGIONS => {
            let number = counted(many.len() as u64, "region");
            format!("{number}: {first}, {second}, …, {last}")
        }
        few => few.join(", "),
    }
}

/// The number of many regions that [`named`] names, without their names.
pub fn counted_if_many(named: &str) -> String {
    let number = named.split_once(": ").map(|(number, _)| number);
    number.unwrap_or(named).to_owned()
}

/// A text about a region of a job, with its slice if it has one.
pub type Said<'a> = (&'a str, (&'a str, Option<Slice>), String);

/// Regions of a job, each with its slice if it has one.
type Regions<'a> = Vec<(&'a str, Option<Slice>)>;

/// Each text once, with all regions of its job that have it: `trending US, GB: text.`
pub fn said<'a>(all: impl Iterator<Item = Said<'a>>) -> Vec<Phrases> {
    said_of(all, |regions| named(regions.iter().copied()))
}

/// The same, with batches of ids apart from the regions.
#[cfg(feature = "serve")]
pub fn said_apart<'a>(all: impl Iterator<Item = Said<'a>>) -> Vec<Phrases> {
    said_of(all, |regions| {
        let is_region = |(code, _): &&(&str, _)| *code != Region::SHARED;
        let named = named(regions.iter().filter(is_region).copied());
        let has_batches = regions.iter().any(|one| !is_region(&one));
        match (named.is_empty(), has_batches) {
            (false, false) => named,
            (false, true) => format!("{named}, and batches of ids"),
            (true, _) => "batches of ids".to_owned(),
        }
    })
}

fn said_of<'a>(
    all: impl Iterator<Item = Said<'a>>,
    name: impl Fn(&Regions<'a>) -> String,
) -> Vec<Phrases> {
    let mut groups: Vec<(&str, String, Regions<'a>)> = Vec::new();
    for (job, region, text) in all {
        match groups.iter_mut().find(|one| one.0 == job && one.1 == text) {
            Some((_, _, regions)) => regions.push(region),
            None => groups.push((job, text, vec![region])),
        }
    }
    let line = |(job, text, regions): (&str, String, Regions<'a>)| {
        let first = regions.first().map(|(code, _)| *code);
        let is_one = regions.iter().all(|(code, _)| Some(*code) == first);
        let passes = PageLink::passes(job, first.filter(|_| is_one));
        let whose = Phrase::linked(format!("{job} {}", name(&regions)), passes);
        Phrases::from(whose).and(format!(": {text}."))
    };
    groups.into_iter().map(line).collect()
}

/// Names regions and slices in their order. Many slices of a region are one name: `US (37 slices)`.
fn names<'a>(all: impl Iterator<Item = (&'a str, Option<Slice>)>) -> Vec<String> {
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
                format!("{} ({many})", region)
            }]
        }
        _ => {
            let keys = slices
                .into_iter()
                .map(|slice| Region::key_of(region, slice));
            keys.collect()
        }
    };
    regions.into_iter().flat_map(name).collect()
}
