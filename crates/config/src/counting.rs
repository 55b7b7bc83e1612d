//! `counting` and `buckets`, of the limits of an account and of those on readers.

use super::declare::{Leaf, whole};
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

pub const BUCKETS: Leaf<u32> = whole::<_, 1, 10_000>();
