//! Headers with several values: a pattern names the parts that are read.

use std::collections::BTreeMap;

use serde_json::json;

use super::declare::{Leaf, Shape};
use super::headers::header_name;
use super::item::Item;

/// A header and a pattern of its text, such as `x-usage: api-usage={used}/{quota}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderPattern {
    /// The name of the header, in lower case.
    pub header: String,
    /// What stands between one `*` and the next. The text before the first one begins the header.
    sections: Vec<Vec<Piece>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// A character other than a blank.
    Exactly(char),
    Part(Part),
}

/// What a part of a header says of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The remaining units.
    Remaining,
    /// The used units.
    Used,
    Quota,
    /// When the units return.
    Reset,
}

/// The parts of a header by what they say.
pub type Parts<'a> = BTreeMap<Part, &'a str>;

const PARTS: [(&str, Part); 4] = [
    ("remaining", Part::Remaining),
    ("used", Part::Used),
    ("quota", Part::Quota),
    ("reset", Part::Reset),
];

impl HeaderPattern {
    /// Whether it reads this part.
    #[must_use]
    pub fn has(&self, part: Part) -> bool {
        self.count(part) > 0
    }

    fn count(&self, part: Part) -> usize {
        let pieces = self.sections.iter().flatten();
        pieces.filter(|piece| **piece == Piece::Part(part)).count()
    }

    /// Reads the parts of a header's text; `None` if the text does not fit. Blanks do not matter. Text behind the pattern
    /// does not either.
    #[must_use]
    pub fn read<'a>(&self, text: &'a str) -> Option<Parts<'a>> {
        let (first, others) = self.sections.split_first()?;
        let (mut parts, mut rest) = begins(first, text)?;
        for section in others {
            let places = rest.char_indices();
            let (more, behind) = places
                .filter_map(|(at, _)| begins(section, rest.get(at..)?))
                .next()?;
            parts.extend(more);
            rest = behind;
        }
        Some(parts)
    }
}

/// The parts of a text that begins like this, and what is behind them.
fn begins<'a>(section: &[Piece], text: &'a str) -> Option<(Parts<'a>, &'a str)> {
    let (mut parts, mut rest) = (Parts::new(), text);
    let mut pieces = section.iter().peekable();
    while let Some(piece) = pieces.next() {
        rest = rest.trim_start();
        match piece {
            Piece::Exactly(letter) => rest = rest.strip_prefix(*letter)?,
            Piece::Part(part) => {
                let ends = |letter: char| {
                    letter.is_whitespace()
                        || ",;\"')]}".contains(letter)
                        || pieces.peek() == Some(&&Piece::Exactly(letter))
                };
                let (value, behind) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
                parts.insert(*part, Some(value).filter(|value| !value.is_empty())?);
                rest = behind;
            }
        }
    }
    Some((parts, rest))
}

/// `"NAME: TEXT"` with parts in braces.
pub const HEADER_PATTERN: Leaf<HeaderPattern> = Leaf {
    read: header_pattern,
    shape: || {
        let schema =
            json!({ "type": "string", "pattern": "^[^:{}]+:.*\\{(remaining|used|reset)\\}" });
        Shape::scalar("header line with parts in braces", schema)
    },
};

const REMEDY: &str = "write for example \"x-usage: used={used}/{quota}\"; the parts are {remaining}, {used}, {quota} and {reset}";

fn header_pattern(item: Item<'_>) -> Option<HeaderPattern> {
    let Some((name, text)) = item.text()?.split_once(':') else {
        return item.refuse(
            "expected a header line: its name, a colon, its text",
            REMEDY,
        );
    };
    let header = header_name(&item, name.trim())?;
    let Some(sections) = text.split('*').map(pieces).collect() else {
        return item.refuse("expected only known parts in braces", REMEDY);
    };
    let pattern = HeaderPattern { header, sections };
    if PARTS.iter().any(|(_, part)| pattern.count(*part) > 1) {
        return item.refuse(
            "expected each part once",
            "write * for text that is not read",
        );
    }
    let says = [Part::Remaining, Part::Used, Part::Reset];
    if !says.iter().any(|part| pattern.has(*part)) {
        return item.refuse("expected {remaining}, {used} or {reset}", REMEDY);
    }
    Some(pattern)
}

/// The pieces of a text without `*`; `None` if it names a part that is not known.
fn pieces(text: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = text.trim_start();
    while let Some(letter) = rest.chars().next() {
        let (piece, length) = match name_of_part(rest) {
            Some(name) => (Piece::Part(part_named(name)?), name.len().saturating_add(2)),
            None => (Piece::Exactly(letter), letter.len_utf8()),
        };
        pieces.push(piece);
        rest = rest.get(length..)?.trim_start();
    }
    Some(pieces)
}

/// The name in braces with which a text begins. Other braces, as in a header of JSON, are text.
fn name_of_part(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    name.bytes()
        .all(|byte| byte.is_ascii_alphabetic())
        .then_some(name)
}

fn part_named(name: &str) -> Option<Part> {
    let found = PARTS.iter().find(|(known, _)| *known == name);
    found.map(|(_, part)| *part)
}
