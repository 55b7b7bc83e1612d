//! Keeps the secret out of whatever an upstream says: it may echo it, in any way in which texts write what is not plain.

use std::borrow::Cow;
use std::collections::BTreeSet;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// A secret that may turn up in an answer by chance is left there: rewriting data would be worse.
const TELLTALE_BYTES: usize = 16;

/// More than a text has that was put into others a few times: they double each time.
const MOST_BACKSLASHES: usize = 32;

/// Keeps the secret out of whatever an upstream says.
pub struct Redactor {
    secret: SecretString,
}

impl Redactor {
    pub fn new(secret: Option<&SecretString>) -> Self {
        Self {
            secret: secret.cloned().unwrap_or_default(),
        }
    }

    /// The text, with `***` wherever the secret was.
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let secret = self.secret.expose_secret().as_bytes();
        let mut cleaned = String::new();
        let mut rest = text;
        while let Some((start, length)) = find(rest.as_bytes(), secret) {
            cleaned.push_str(rest.get(..start).unwrap_or_default());
            cleaned.push_str("***");
            rest = rest.get(start + length..).unwrap_or_default();
        }
        if cleaned.is_empty() {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(cleaned + rest)
        }
    }

    /// The same for a text that is sent again, where the secret is long enough to be no coincidence.
    pub fn clean_data<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.is_telltale() {
            self.clean(text)
        } else {
            Cow::Borrowed(text)
        }
    }

    /// The same for every text of a document that will be landed, the names of members included.
    pub fn clean_document(&self, document: &mut Value) {
        if self.is_telltale() {
            self.clean_texts(document);
        }
    }

    fn is_telltale(&self) -> bool {
        self.secret.expose_secret().len() >= TELLTALE_BYTES
    }

    fn clean_texts(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(cleaned) = self.clean(text) {
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
                    .any(|name| matches!(self.clean(name), Cow::Owned(_)))
                {
                    let cleaned = std::mem::take(members).into_iter();
                    *members = cleaned
                        .map(|(name, member)| (self.clean(&name).into_owned(), member))
                        .collect();
                }
            }
            _ => (),
        }
    }
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

/// `%2F`, and `%252f` where that was written so once more.
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

/// `\/` and `\u002f`, with a backslash more for each time that the text was put into another.
fn behind_backslashes(text: &[u8], byte: u8) -> Option<usize> {
    // A text of backslashes alone is not counted anew from each of them.
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

/// The number that so many hexadecimal digits at the beginning of a text are.
fn hex(text: &[u8], digits: usize) -> Option<u32> {
    let digits = text.get(..digits)?;
    digits.iter().try_fold(0, |number, digit| {
        Some(number * 16 + char::from(*digit).to_digit(16)?)
    })
}
