//! Headers with several values: a pattern names the parts that are read.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::error::Refusal;
use super::headers::HeaderName;
use super::values::{Leaf, leaves, text};

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
    pub fn has(&self, part: Part) -> bool {
        self.count(part) > 0
    }

    fn count(&self, part: Part) -> usize {
        let pieces = self.sections.iter().flatten();
        pieces.filter(|piece| **piece == Piece::Part(part)).count()
    }

    /// Reads the parts of a header's text; `None` if the text does not fit. Blanks do not matter. Text behind the pattern
    /// does not either.
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

leaves!(HeaderPattern);

const REMEDY: &str = "write for example \"x-usage: used={used}/{quota}\"; the parts are {remaining}, {used}, {quota} and {reset}";

/// `"NAME: TEXT"` with parts in braces.
impl Leaf for HeaderPattern {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        let line = text(raw)?;
        let Some((name, text)) = line.split_once(':') else {
            let expected = "expected a header line: its name, a colon, its text";
            return Err(Refusal::new(expected, REMEDY));
        };
        let header = HeaderName::read(name.trim().into())?;
        let Some(sections) = text.split('*').map(pieces).collect() else {
            return Err(Refusal::new("expected only known parts in braces", REMEDY));
        };
        let pattern = Self { header, sections };
        if PARTS.iter().any(|(_, part)| pattern.count(*part) > 1) {
            let remedy = "write * for text that is not read";
            return Err(Refusal::new("expected each part once", remedy));
        }
        let says = [Part::Remaining, Part::Used, Part::Reset];
        match says.iter().any(|part| pattern.has(*part)) {
            true => Ok(pattern),
            false => Err(Refusal::new(
                "expected {remaining}, {used} or {reset}",
                REMEDY,
            )),
        }
    }

    fn schema() -> Value {
        let pattern = "^[^:{}]+:.*\\{(remaining|used|reset)\\}";
        json!({ "title": "header line with parts in braces", "type": "string", "pattern": pattern })
    }
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
