//! Hides secrets in texts of an upstream: it can echo them, in any encoding of text.

use std::borrow::Cow;
use std::collections::BTreeSet;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// A shorter secret can occur in data by chance and is not hidden there: rewriting data would be worse.
const TELLTALE_BYTES: usize = 16;

/// The most backslashes before a character: they double each time that a text is quoted in another.
const MOST_BACKSLASHES: usize = 32;

/// Hides secrets in texts of an upstream.
#[derive(Default)]
pub struct Redactor {
    /// The longest first, since one may contain another.
    secrets: Vec<SecretString>,
}

impl Redactor {
    /// A redactor that hides these secrets.
    pub fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let mut secrets: Vec<_> = secrets.into_iter().collect();
        secrets.retain(|secret| !secret.expose_secret().is_empty());
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        Self { secrets }
    }

    /// The text, with `***` in place of each secret.
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        clean(text, self.secrets.iter())
    }

    /// The same for a text that will be sent again; secrets that are short enough to occur by chance stay.
    pub fn clean_data<'a>(&self, text: &'a str) -> Cow<'a, str> {
        clean(text, self.telltale())
    }

    /// The same for every text of a document that will be landed, the names of members included.
    pub fn clean_document(&self, document: &mut Value) {
        if self.telltale().next().is_some() {
            self.clean_texts(document);
        }
    }

    fn telltale(&self) -> impl Iterator<Item = &SecretString> {
        let is_telltale = |secret: &&SecretString| secret.expose_secret().len() >= TELLTALE_BYTES;
        self.secrets.iter().filter(is_telltale)
    }

    fn clean_texts(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(cleaned) = self.clean_data(text) {
                    *text = cleaned;
                }
            }
            Value::Array(elements) => elements
                .iter_mut()
                .for_each(|element| self.clean_texts(element)),
            Value::Object(members) => {
                members
                    .values_mut()
                    .for_each(|member| self.clean_texts(member));
                if members
                    .keys()
                    .any(|name| matches!(self.clean_data(name), Cow::Owned(_)))
                {
                    let cleaned = std::mem::take(members).into_iter();
                    *members = cleaned
                        .map(|(name, member)| (self.clean_data(&name).into_owned(), member))
                        .collect();
                }
            }
            _ => (),
        }
    }
}

fn clean<'a, 's>(text: &'a str, secrets: impl Iterator<Item = &'s SecretString>) -> Cow<'a, str> {
    secrets.fold(Cow::Borrowed(text), |text, secret| {
        match without(&text, secret.expose_secret().as_bytes()) {
            Some(cleaned) => Cow::Owned(cleaned),
            None => text,
        }
    })
}

/// The text without a secret; `None` if it does not contain the secret.
fn without(text: &str, secret: &[u8]) -> Option<String> {
    let mut cleaned = String::new();
    let mut rest = text;
    while let Some((start, length)) = find(rest.as_bytes(), secret) {
        cleaned.push_str(rest.get(..start).unwrap_or_default());
        cleaned.push_str("***");
        rest = rest.get(start + length..).unwrap_or_default();
    }
    (!cleaned.is_empty()).then(|| cleaned + rest)
}

/// Where the secret is in a text, and how many bytes of it it takes.
fn find(text: &[u8], secret: &[u8]) -> Option<(usize, usize)> {
    let (first, more) = secret.split_first()?;
    let may_begin = |byte: u8| byte == *first || matches!(byte, b'%' | b'&' | b'\\' | b'+');
    let starts = text
        .iter()
        .enumerate()
        .filter(|(_, byte)| may_begin(**byte));
    starts
        .map(|(start, _)| start)
        .find_map(|start| Some((start, length(text.get(start..)?, *first, more)?)))
}

/// How many bytes the secret takes at the beginning of a text: each byte of it may be written in a way of its own.
fn length(text: &[u8], first: u8, more: &[u8]) -> Option<usize> {
    let mut ends: BTreeSet<usize> = written(text, first).collect();
    for byte in more {
        let behind = |end: &usize| {
            let end = *end;
            written(text.get(end..).unwrap_or_default(), *byte).map(move |length| end + length)
        };
        ends = ends.iter().flat_map(behind).collect();
        if ends.is_empty() {
            return None;
        }
    }
    ends.last().copied()
}

/// How many bytes a byte takes at the beginning of a text, in each way in which it can be written there.
fn written(text: &[u8], byte: u8) -> impl Iterator<Item = usize> + use<> {
    [
        plain(text, byte),
        in_percent(text, byte),
        behind_backslashes(text, byte),
        as_entity(text, byte),
    ]
    .into_iter()
    .flatten()
}

/// As it is, or a space as forms have it.
fn plain(text: &[u8], byte: u8) -> Option<usize> {
    let first = *text.first()?;
    (first == byte || (first == b'+' && byte == b' ')).then_some(1)
}

/// `%2F`, and `%252f` if it was encoded again.
fn in_percent(text: &[u8], byte: u8) -> Option<usize> {
    let mut digits = text.strip_prefix(b"%")?;
    while let Some(again) = digits
        .strip_prefix(b"25")
        .filter(|again| again.len() >= 2 && hex(again, 2).is_some())
    {
        digits = again;
    }
    (hex(digits, 2)? == u32::from(byte)).then_some(text.len() - digits.len() + 2)
}

/// `\/` and `\u002f`, with more backslashes each time that the text was quoted in another.
fn behind_backslashes(text: &[u8], byte: u8) -> Option<usize> {
    // The bound keeps a text of backslashes alone from costing quadratic time.
    let backslashes = text
        .iter()
        .take(MOST_BACKSLASHES)
        .take_while(|byte| **byte == b'\\')
        .count();
    let after = text.get(backslashes..).filter(|_| backslashes > 0)?;
    if let Some(digits) = after.strip_prefix(b"u")
        && hex(digits, 4) == Some(u32::from(byte))
    {
        return Some(backslashes + 5);
    }
    (after.first() == Some(&byte)).then_some(backslashes + 1)
}

/// `&#47;`, `&#x2F;` and `&amp;`.
fn as_entity(text: &[u8], byte: u8) -> Option<usize> {
    const LONGEST: usize = 10;
    let end = text.iter().take(LONGEST).position(|byte| *byte == b';')?;
    let name = std::str::from_utf8(text.get(..end)?.strip_prefix(b"&")?).ok()?;
    let code = match name {
        "amp" => u32::from(b'&'),
        "lt" => u32::from(b'<'),
        "gt" => u32::from(b'>'),
        "quot" => u32::from(b'"'),
        "apos" => u32::from(b'\''),
        _ => match name.strip_prefix("#x").or_else(|| name.strip_prefix("#X")) {
            Some(digits) => u32::from_str_radix(digits, 16).ok()?,
            None => name.strip_prefix('#')?.parse().ok()?,
        },
    };
    (code == u32::from(byte)).then_some(end + 1)
}

/// Reads `digits` hexadecimal digits at the start of a text.
fn hex(text: &[u8], digits: usize) -> Option<u32> {
    let digits = text.get(..digits)?;
    digits.iter().try_fold(0, |number, digit| {
        Some(number * 16 + char::from(*digit).to_digit(16)?)
    })
}
