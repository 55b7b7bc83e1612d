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
pub struct Previous(Option<Vec<u64>>);

impl Previous {
    /// Returns how a page repeats the page before, and whether its first record is one of that. The page is then the page before.
    pub fn compare(&mut self, records: &[Record]) -> (Repeats, bool) {
        let ids: Vec<u64> = records.iter().map(|record| hash(&record.id)).collect();
        let Some(before) = self.0.replace(ids) else {
            return (Repeats::Nothing, false);
        };
        let ids = self.0.as_deref().unwrap_or_default();
        let overlaps = ids.first().is_some_and(|first| before.contains(first));
        (repeats(&before, ids), overlaps)
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

fn hash(id: &str) -> u64 {
    // Compared within one list alone, so it need not be the hash of another build.
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}
