use std::borrow::Cow;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::plain::is_hidden;

/// So much of what an upstream says is shown, in characters: with what goes before it, at most 200.
const LONGEST: usize = 160;

/// A secret that may turn up in an answer by chance is left there: rewriting data would be worse.
const TELLTALE_BYTES: usize = 16;

/// Keeps the secret out of whatever an upstream says: it may echo it.
pub(super) struct Redactor {
    forms: Vec<SecretString>,
    telltale: bool,
}

impl Redactor {
    pub(super) fn new(secret: Option<&SecretString>) -> Self {
        let secret = secret.map(ExposeSecret::expose_secret).unwrap_or_default();
        Self { forms: written_forms(secret), telltale: secret.len() >= TELLTALE_BYTES }
    }

    /// The text, with `***` wherever the secret was.
    pub(super) fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.forms.iter().fold(Cow::Borrowed(text), |text, form| {
            let form = form.expose_secret();
            if text.contains(form) { Cow::Owned(text.replace(form, "***")) } else { text }
        })
    }

    /// The same for a text that is sent again, where the secret is long enough to be no coincidence.
    pub(super) fn clean_data<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.telltale { self.clean(text) } else { Cow::Borrowed(text) }
    }

    /// The same for every text of a document that will be landed, the names of members included.
    pub(super) fn clean_document(&self, document: &mut Value) {
        if self.telltale {
            self.clean_texts(document);
        }
    }

    fn clean_texts(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(cleaned) = self.clean(text) {
                    *text = cleaned;
                }
            }
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.clean_texts(element)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.clean_texts(member));
                if members.keys().any(|name| matches!(self.clean(name), Cow::Owned(_))) {
                    let cleaned = std::mem::take(members).into_iter();
                    *members = cleaned.map(|(name, member)| (self.clean(&name).into_owned(), member)).collect();
                }
            }
            _ => (),
        }
    }
}

/// The secret as it is, as it stands in a URL, and as it stands in JSON that escapes slashes.
fn written_forms(secret: &str) -> Vec<SecretString> {
    if secret.is_empty() {
        return Vec::new();
    }
    let mut forms = vec![
        secret.to_owned(),
        utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string(),
        url::form_urlencoded::byte_serialize(secret.as_bytes()).collect(),
        secret.replace('/', "\\/"),
    ];
    forms.dedup();
    forms.into_iter().map(SecretString::from).collect()
}

/// A text of theirs as one short line that a terminal can be given.
pub(super) fn one_line(text: &str) -> String {
    let plain = without_escapes(text);
    let mut words = String::new();
    for word in plain.split_whitespace().take(LONGEST) {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    clipped(&words)
}

fn clipped(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return text.to_owned();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// The text without terminal escapes; other control characters, and those that turn the writing round, become spaces.
fn without_escapes(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        match character {
            '\u{1b}' => skip_escape(&mut rest),
            '\u{9b}' => skip_to(&mut rest, |last| ('@'..='~').contains(&last)),
            hidden if is_hidden(hidden) => plain.push(' '),
            other => plain.push(other),
        }
    }
    plain
}

fn skip_escape(rest: &mut std::str::Chars<'_>) {
    match rest.next() {
        Some('[') => skip_to(rest, |last| ('@'..='~').contains(&last)),
        Some(']' | 'P' | '^' | '_') => skip_to(rest, |last| matches!(last, '\u{7}' | '\u{9c}' | '\u{1b}')),
        _ => (),
    }
}

fn skip_to(rest: &mut std::str::Chars<'_>, is_last: impl Fn(char) -> bool) {
    let _ = rest.find(|character| is_last(*character));
}

/// Whether a body looks like a web page.
pub(super) fn is_html(text: &str) -> bool {
    text.trim_start().starts_with('<')
}

/// What a reader of a web page would see first: its title, else its text.
pub(super) fn html_text(page: &str) -> String {
    let title = between(page, "<title>", "</title>").filter(|title| !title.trim().is_empty());
    without_tags(title.unwrap_or(page))
}

fn between<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(inner, _)| inner)
}

/// The text without HTML tags, words kept apart. A `<` that begins none stays.
pub(super) fn without_tags(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, tag)) = rest.split_once('<') {
        plain.push_str(before);
        let begins_tag = tag.starts_with(|next: char| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?'));
        match tag.split_once('>').filter(|_| begins_tag) {
            Some((_, after)) => {
                if after.starts_with(char::is_alphanumeric) {
                    plain.push(' ');
                }
                rest = after;
            }
            None => {
                plain.push('<');
                rest = tag;
            }
        }
    }
    plain + rest
}
