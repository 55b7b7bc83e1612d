//! JSON as upstreams send it, with the mistakes that are common in it.
//!
//! Numbers keep the digits with which they came. An object that has a name twice is no document: which of the two values is meant,
//! nobody knows.

use std::fmt;

use serde::de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::map::Entry;
use serde_json::{Map, Value};

/// Reads a JSON text. An escape of half a surrogate pair is no character, and stays in the text as it is written: a title
/// that was cut in the middle of a character loses that character and not the page, and different texts stay different. `NaN` and
/// `Infinity`, which are no JSON, are read as texts, so that one of them does not refuse a page either.
///
/// # Errors
/// It is not JSON (a syntax error), or an object in it has a name twice (an error of data, the only one).
pub fn read(json: &str) -> serde_json::Result<Value> {
    mended(json).map(|Distinct(value)| value)
}

/// Reads a JSON text in which the last value of a name counts, as in an error that is only shown and compared with rules.
pub fn read_any(json: &str) -> serde_json::Result<Value> {
    mended(json)
}

fn mended<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    serde_json::from_str(json).or_else(|error| {
        let mended = with_words_as_texts(&with_whole_pairs(json));
        if error.is_data() || mended == json {
            Err(error)
        } else {
            serde_json::from_str(&mended)
        }
    })
}

/// A value in which no object has a name twice, at any depth.
struct Distinct(Value);

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DistinctVisitor).map(Self)
    }
}

struct DistinctVisitor;

impl<'de> Visitor<'de> for DistinctVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut elements = Vec::new();
        while let Some(Distinct(element)) = list.next_element()? {
            elements.push(element);
        }
        Ok(Value::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            // It is checked again, since an upstream can send a member of this name.
            if name == NUMBER {
                let digits: String = object.next_value()?;
                return digits.parse().map(Value::Number).map_err(A::Error::custom);
            }
            let Distinct(value) = object.next_value()?;
            match members.entry(name) {
                Entry::Vacant(free) => drop(free.insert(value)),
                Entry::Occupied(first) => return Err(twice(first.key())),
            }
        }
        Ok(Value::Object(members))
    }
}

fn twice<E: Error>(name: &str) -> E {
    E::custom(format_args!("an object has the name `{name}` twice"))
}

/// The name with which `serde_json` hands over a number that is no integer of 64 bits: the value is the text of its digits.
const NUMBER: &str = "$serde_json::private::Number";

/// The readable part of a JSON text that was cut off: everything before its last comma or bracket, with closing brackets.
pub fn read_cut(text: &str) -> Option<Value> {
    let (mut open, mut quoted, mut escaped, mut end) = (Vec::new(), false, false, 0);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            _ if quoted => (),
            ',' => end = at,
            '{' | '[' => {
                open.push(if character == '{' { '}' } else { ']' });
                end = at + 1;
            }
            '}' | ']' => {
                open.pop();
                end = at + 1;
            }
            _ => (),
        }
    }
    let closed: String = text
        .get(..end)?
        .chars()
        .chain(open.into_iter().rev())
        .collect();
    read_any(&closed).ok()
}

/// The text with another backslash before each escape of half a surrogate pair.
fn with_whole_pairs(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        let (is_half, length) = match (
            unit(escape),
            escape
                .get(5..)
                .and_then(|next| unit(next.strip_prefix('\\')?)),
        ) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => (false, 11),
            (Some(0xD800..=0xDFFF), _) => (true, 5),
            // The escaped character is skipped, since it may be a backslash.
            _ => (false, escape.chars().next().map_or(0, char::len_utf8)),
        };
        let (own, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
        whole.extend([before, if is_half { "\\\\" } else { "\\" }, own]);
        rest = after;
    }
    whole + rest
}

/// The UTF-16 unit of an escape without its backslash: `u00e9`
fn unit(escape: &str) -> Option<u16> {
    u16::from_str_radix(escape.strip_prefix('u')?.get(..4)?, 16).ok()
}

/// The text with quotes around the words that some programs write where JSON has no number.
fn with_words_as_texts(text: &str) -> String {
    const WORDS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];
    let (mut whole, mut rest) = (String::with_capacity(text.len()), text);
    let (mut quoted, mut escaped) = (false, false);
    while let Some(character) = rest.chars().next() {
        let word = WORDS
            .iter()
            .find(|word| !quoted && rest.starts_with(**word));
        let length = word.map_or(character.len_utf8(), |word| word.len());
        let (part, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        let mark = if word.is_some() { "\"" } else { "" };
        whole.extend([mark, part, mark]);
        quoted ^= character == '"' && !escaped;
        escaped = quoted && character == '\\' && !escaped;
        rest = after;
    }
    whole
}
