//! Input of the worst kind: bytes, and what is in `fuzz/corpus` with its bytes changed. A module `fuzz` of a package's tests has
//! a module for each target, which `bash tests/fuzz.sh` tries for ten minutes; everyday tests try some hundred inputs of each.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::sample::{Index, select};

/// What is always tried of a target, by file.
pub fn corpus(of: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus")).join(of);
    let entries = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

/// A change somewhere in a text.
#[derive(Debug, Clone)]
enum Change {
    Bytes(Index, Vec<u8>),
    Piece(Index, Index, Index),
    Gone(Index, usize),
    Again(Index, usize, usize),
    Cut(Index),
}

impl Change {
    fn any() -> impl Strategy<Value = Self> {
        let at = any::<Index>;
        prop_oneof![
            3 => (at(), prop::collection::vec(any::<u8>(), 1..6)).prop_map(|(at, bytes)| Self::Bytes(at, bytes)),
            2 => (at(), at(), at()).prop_map(|(at, from, to)| Self::Piece(at, from, to)),
            2 => (at(), 1_usize..20).prop_map(|(at, many)| Self::Gone(at, many)),
            1 => (at(), 1_usize..8, 1_usize..200).prop_map(|(at, many, times)| Self::Again(at, many, times)),
            1 => at().prop_map(Self::Cut),
        ]
    }

    /// Makes it in `text`; what is put in from elsewhere comes from `other`.
    fn make(&self, text: &mut Vec<u8>, other: &[u8]) {
        let place = |at: &Index, of: &[u8]| at.index(of.len() + 1);
        match self {
            Self::Bytes(at, bytes) => {
                let at = place(at, text);
                text.splice(at..at, bytes.iter().copied());
            }
            Self::Piece(at, from, to) => {
                let (at, from, to) = (place(at, text), place(from, other), place(to, other));
                text.splice(at..at, other[from.min(to)..from.max(to)].iter().copied());
            }
            Self::Gone(at, many) => {
                let at = place(at, text);
                text.drain(at..(at + many).min(text.len()));
            }
            Self::Again(at, many, times) => {
                let at = place(at, text);
                let piece = text[at..(at + many).min(text.len())].repeat(*times);
                text.splice(at..at, piece);
            }
            Self::Cut(at) => text.truncate(place(at, text)),
        }
    }
}

/// One of these with up to ten changes.
pub fn changed(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let other = select(seeds.clone());
    (
        select(seeds),
        other,
        prop::collection::vec(Change::any(), 0..10),
    )
        .prop_map(|(mut text, other, changes)| {
            changes
                .iter()
                .for_each(|change| change.make(&mut text, &other));
            text
        })
}

/// One of a target's corpus with up to ten changes.
pub fn near(of: &str) -> impl Strategy<Value = Vec<u8>> {
    changed(corpus(of).into_iter().map(|(_, bytes)| bytes).collect())
}

/// The same, as text.
pub fn text_near(of: &str) -> impl Strategy<Value = String> {
    near(of).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns a configuration with the cases of `PROPTEST_CASES`, divided by `fewer`: for properties whose cases take long.
pub fn cases(fewer: u32) -> ProptestConfig {
    let all = ProptestConfig::default();
    ProptestConfig {
        cases: (all.cases / fewer).max(1),
        ..all
    }
}

/// Whether a terminal takes nothing in it for a command.
pub fn is_plain(text: &str) -> bool {
    text.chars().all(|c| {
        c == '\n'
            || !(c.is_control()
                || matches!(
                    c,
                    '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}'
                )
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    })
}
