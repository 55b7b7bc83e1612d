//! Pages compared with the page before: by the hashes of their ids.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use ingest_base::record::Record;

/// How a page repeats the page before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// Not at all, or as a list that moved meanwhile does: it begins with the end of the page before.
    Nothing,
    /// It has the same records in the same order.
    Whole,
    /// Half of its records or more are those of the page before, in another order or at another place.
    InAnotherOrder,
    /// So do all of its records, and they are not the end of the page before.
    Within,
}

/// The ids of the page before.
#[derive(Debug, Default)]
pub struct Previous {
    ids: Option<Vec<u64>>,
    /// The records with which the page begins and the one before ended.
    overlapping: u64,
    /// The hashes of all pages with records.
    pages: HashSet<u64>,
    /// How many pages in a row, with the last one, have the same records in the same order as an earlier page.
    repeated: u64,
}

impl Previous {
    /// Returns how many pages in a row, with the last one, have the same records in the same order as an earlier page.
    pub const fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Returns with how many records the page begins with which the one before it ended.
    pub const fn overlapping(&self) -> u64 {
        self.overlapping
    }

    /// Returns how a page repeats the page before, and whether its first record is one of that. The page is then the page before.
    pub fn compare(&mut self, records: &[Record]) -> (Repeats, bool) {
        let ids: Vec<u64> = records
            .iter()
            .map(|record| hash(record.id.as_str()))
            .collect();
        self.overlapping = 0;
        let is_new = ids.is_empty() || self.pages.insert(hash(&ids));
        self.repeated = match is_new {
            true => 0,
            false => self.repeated.saturating_add(1),
        };
        let Some(before) = self.ids.replace(ids) else {
            return (Repeats::Nothing, false);
        };
        let ids = self.ids.as_deref().unwrap_or_default();
        self.overlapping = overlapping(&before, ids);
        let overlaps = ids.first().is_some_and(|first| before.contains(first));
        (repeats(&before, ids), overlaps)
    }
}

/// How many records the end of a page and the beginning of the next have in common, where they have no others.
fn overlapping(before: &[u64], ids: &[u64]) -> u64 {
    let known: HashSet<&u64> = before.iter().collect();
    let common = ids.iter().filter(|id| known.contains(id)).count();
    let end = before.get(before.len().saturating_sub(common)..);
    match end == ids.get(..common) {
        true => common as u64,
        false => 0,
    }
}

fn repeats(before: &[u64], ids: &[u64]) -> Repeats {
    if ids == before {
        return Repeats::Whole;
    }
    let known: HashSet<&u64> = before.iter().collect();
    let common = ids.iter().filter(|id| known.contains(id)).count();
    if ids.is_empty() || common.saturating_mul(2) < ids.len() {
        return Repeats::Nothing;
    }
    let moved = before.get(before.len().saturating_sub(common)..);
    match (moved == ids.get(..common), common < ids.len()) {
        (true, true) => Repeats::Nothing,
        (false, false) => Repeats::Within,
        (true, false) | (false, true) => Repeats::InAnotherOrder,
    }
}

fn hash(id: impl Hash) -> u64 {
    // Compared within one list alone, so it need not be the hash of another build.
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
