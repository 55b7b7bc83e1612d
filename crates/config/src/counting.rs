//! `counting` and `buckets`, of the limits of an account and of those on readers.

use serde_json::json;

use super::declare::{Leaf, Shape};
use ingest_quota::Counting;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountingWord {
    Exact,
    Buckets,
}

impl CountingWord {
    /// The counting, with this number of parts where it has parts.
    pub const fn with(self, parts: u32) -> Counting {
        match self {
            Self::Exact => Counting::Exact,
            Self::Buckets => Counting::Buckets(parts),
        }
    }
}

/// The number of parts of a window where none is configured.
pub const PARTS: u32 = 60;

pub const COUNTING: &[(&str, CountingWord, &str)] = &[
    (
        "exact",
        CountingWord::Exact,
        "Each by itself: as many entries as charges.",
    ),
    (
        "buckets",
        CountingWord::Buckets,
        "Those of each part of the window together, and the oldest part in full: few entries, never more than the quota, \
        and up to one part of the window too strict.",
    ),
];

pub const BUCKETS: Leaf<u32> = Leaf {
    read: |item| u32::try_from(item.number(1..=10_000)?).ok(),
    shape: || {
        let schema = json!({ "type": "integer", "minimum": 1, "maximum": 10_000 });
        Shape::scalar("integer from 1", schema)
    },
};
