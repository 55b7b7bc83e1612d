//! Regions and slices, as text.

use super::figures::{count, counted};
use super::groups::{Group, grouped};
use crate::doc::{PageLink, Phrase, Phrases};
use ingest_config::{Region, Slice};

/// A backfill can have hundreds of slices: more than this of a region are counted.
const MOST_NAMED: usize = 3;

/// The most regions that are all named.
const MOST_REGIONS: usize = 6;

/// Names regions and slices in their order: `US, GB`, and of many the first and the last: `131 regions: CQ, CT, …, JP`.
pub fn named<'a>(all: impl Iterator<Item = (&'a str, Option<Slice>)>) -> String {
    named_in_full(&names(all))
}

fn named_in_full(names: &[String]) -> String {
    match names {
        many @ [first, second, .., last] if many.len() > MOST_REGIONS => {
            let number = counted(many.len() as u64, "region");
            format!("{number}: {first}, {second}, …, {last}")
        }
        few => few.join(", "),
    }
}

/// The same for a cell of a table: of many regions, the number alone where a terminal has no room for names.
pub fn named_or_counted<'a>(all: impl Iterator<Item = (&'a str, Option<Slice>)>) -> Phrases {
    let names = names(all);
    let named = Phrases::from(named_in_full(&names));
    match names.len() {
        many if many > MOST_REGIONS => named.or_short(counted(many as u64, "region")),
        _ => named,
    }
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
    let all: Vec<Said<'a>> = all.collect();
    let line = |group: &Group<'_, Said<'a>>| {
        let (job, (first, _), text) = group.first;
        let regions: Regions<'a> = group.all.iter().map(|(_, region, _)| *region).collect();
        let is_one = regions.iter().all(|(code, _)| code == first);
        let passes = PageLink::passes(job, Some(*first).filter(|_| is_one));
        let whose = Phrase::linked(format!("{job} {}", name(&regions)), passes);
        Phrases::from(whose).and(format!(": {text}."))
    };
    let groups = grouped(&all, |one, other| (one.0, &one.2) == (other.0, &other.2));
    groups.iter().map(line).collect()
}

/// Names regions and slices in their order. Many slices of a region are one name: `US (37 slices)`.
fn names<'a>(all: impl Iterator<Item = (&'a str, Option<Slice>)>) -> Vec<String> {
    let all: Regions<'a> = all.collect();
    let regions = grouped(&all, |first, one| first.0 == one.0 && one.1.is_some());
    let name = |group: &Group<'_, (&str, Option<Slice>)>| {
        let (region, _) = *group.first;
        match group.all.len() {
            many if many > MOST_NAMED => {
                let many = format!("{} slices", count(many as u64));
                vec![if region == Region::NONE {
                    many
                } else {
                    format!("{region} ({many})")
                }]
            }
            _ => {
                let keys = group.all.iter();
                keys.map(|(_, slice)| Region::key_of(region, *slice))
                    .collect()
            }
        }
    };
    regions.iter().flat_map(name).collect()
}
