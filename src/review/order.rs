//! Pages compared with the page before: by the hashes of their ids.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash};

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
    /// All of its records are those of the page before, and not its end.
    Within,
}

impl Repeats {
    /// Whether the page has records of the page before where a list that moved has none.
    pub const fn is_reordered(self) -> bool {
        matches!(self, Self::InAnotherOrder | Self::Within)
    }
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

    /// Returns how a page repeats the page before. It is then the page before.
    pub fn compare(&mut self, records: &[Record]) -> Repeats {
        let ids: Vec<u64> = records.iter().map(|record| hash(&record.id)).collect();
        let is_new = ids.is_empty() || self.pages.insert(hash(&ids));
        self.repeated = match is_new {
            true => 0,
            false => self.repeated.saturating_add(1),
        };
        self.overlapping = 0;
        let Some(before) = self.ids.replace(ids.clone()) else {
            return Repeats::Nothing;
        };
        let known: HashSet<&u64> = before.iter().collect();
        let common = ids.iter().filter(|id| known.contains(id)).count();
        let end = before.get(before.len().saturating_sub(common)..);
        let is_end = end == ids.get(..common);
        if is_end {
            self.overlapping = common as u64;
        }
        match (is_end, common < ids.len()) {
            _ if ids == before => Repeats::Whole,
            _ if ids.is_empty() || common.saturating_mul(2) < ids.len() => Repeats::Nothing,
            (true, true) => Repeats::Nothing,
            (false, false) => Repeats::Within,
            (true, false) | (false, true) => Repeats::InAnotherOrder,
        }
    }
}

fn hash(value: &impl Hash) -> u64 {
    // Compared within one list alone, so it need not be the hash of another build.
    foldhash::fast::FixedState::default().hash_one(value)
}
