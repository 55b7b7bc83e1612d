//! Hides secrets in texts of an upstream: it can echo them, as they are or in an encoding that requests and responses use.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// A shorter secret can occur in data by chance and is not hidden there: rewriting data would be worse.
const TELLTALE_BYTES: usize = 16;

/// What stands in place of a secret.
const REPLACED: &str = "***";

/// What an address may hold besides letters and digits without an encoding (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Hides secrets in texts of an upstream.
#[derive(Default)]
pub struct Redactor {
    /// The longest first, since one may contain another.
    hidden: Vec<Hidden>,
}

/// A secret in one encoding.
struct Hidden {
    text: SecretString,
    /// Whether the secret is too long to occur in data by chance.
    is_telltale: bool,
}

impl Redactor {
    /// A redactor that hides these secrets.
    pub fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let mut hidden: Vec<_> = secrets
            .into_iter()
            .flat_map(|secret| encoded(&secret))
            .collect();
        hidden.sort_by_key(|hidden| std::cmp::Reverse(hidden.text.expose_secret().len()));
        Self { hidden }
    }

    /// The text, with `***` in place of each secret.
    pub fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        clean(text, self.hidden.iter())
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

    /// Whether a text is a secret, however short, or what a cleaned document has in place of one.
    pub fn is_secret(&self, text: &str) -> bool {
        let mut hidden = self.hidden.iter();
        !self.hidden.is_empty()
            && (text == REPLACED || hidden.any(|hidden| hidden.text.expose_secret() == text))
    }

    fn telltale(&self) -> impl Iterator<Item = &Hidden> {
        self.hidden.iter().filter(|hidden| hidden.is_telltale)
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

fn clean<'a, 's>(text: &'a str, hidden: impl Iterator<Item = &'s Hidden>) -> Cow<'a, str> {
    hidden.fold(Cow::Borrowed(text), |text, hidden| {
        let hidden = hidden.text.expose_secret();
        match text.contains(hidden) {
            true => Cow::Owned(text.replace(hidden, REPLACED)),
            false => text,
        }
    })
}

/// Returns a secret as it is, percent-encoded (once and twice, as forms have it too), in base64, and as JSON and HTML have it; nothing
/// of an empty one. A secret of letters and digits has two different texts.
fn encoded(secret: &SecretString) -> Vec<Hidden> {
    let secret = secret.expose_secret();
    let all = utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string();
    let reserved = utf8_percent_encode(secret, RESERVED).to_string();
    let json = serde_json::Value::from(secret).to_string();
    let json = json.trim_matches('"');
    let mut texts = vec![
        secret.to_owned(),
        STANDARD_NO_PAD.encode(secret),
        URL_SAFE_NO_PAD.encode(secret),
        reserved.replace("%20", "+"),
        percent_encode(reserved.as_bytes(), RESERVED).to_string(),
        json.replace('/', "\\/"),
        json.to_owned(),
    ];
    texts.extend(QUOTES.map(|quotes| in_html(secret, quotes)));
    let partly = KEPT.map(|kept| kept.bytes().fold(reserved.clone(), keep));
    for percent in [all, reserved].into_iter().chain(partly) {
        // The digits of `%2F` are written in small letters as well.
        texts.push(in_small_digits(&percent));
        texts.push(percent);
    }
    texts.sort();
    texts.dedup();
    texts.retain(|text| !text.is_empty());
    let is_telltale = secret.len() >= TELLTALE_BYTES;
    let hidden = texts.into_iter().map(SecretString::from);
    hidden.map(|text| Hidden { text, is_telltale }).collect()
}

/// What encoders leave as it is, besides letters, digits and `-._~`: of paths, of a query, and `encodeURI` of browsers.
const KEPT: [&str; 8] = ["/", "=", "+", "/=", "/+", "=+", "/=+", "/=+:@,;$&?!'()*#"];

/// An encoded text in which this byte is as it was.
fn keep(encoded: String, kept: u8) -> String {
    encoded.replace(
        &format!("%{kept:02X}"),
        char::from(kept).encode_utf8(&mut [0; 4]),
    )
}

/// What stands for a quotation mark and an apostrophe in HTML: in texts between tags, and as several languages write them.
const QUOTES: [(&str, &str); 5] = [
    ("\"", "'"),
    ("&quot;", "'"),
    ("&quot;", "&#39;"),
    ("&quot;", "&#x27;"),
    ("&#34;", "&#39;"),
];

fn in_html(text: &str, (quote, apostrophe): (&str, &str)) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    let escaped = escaped.replace('>', "&gt;").replace('"', quote);
    escaped.replace('\'', apostrophe)
}

/// `%2f` for each `%2F`.
fn in_small_digits(percent: &str) -> String {
    let mut parts = percent.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        text.extend(["%", &digits.to_ascii_lowercase(), rest]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_hidden_however_much_of_it_an_encoder_leaves_as_it_is() {
        let redactor = Redactor::new([SecretString::from("a/b+c==")]);
        for encoded in [
            "a/b%2Bc%3D%3D",
            "a%2Fb%2Bc==",
            "a/b%2bc==",
            "a%2fb+c%3d%3d",
            "a/b+c==",
        ] {
            assert_eq!(redactor.clean(&format!("?key={encoded}&x")), "?key=***&x");
        }
    }

    #[test]
    fn a_secret_is_hidden_as_html_escapes_it() {
        let redactor = Redactor::new([SecretString::from("a&b\"<c>'d")]);
        for escaped in [
            "a&amp;b&quot;&lt;c&gt;&#x27;d",
            "a&amp;b&quot;&lt;c&gt;&#39;d",
            "a&amp;b&#34;&lt;c&gt;&#39;d",
            "a&amp;b\"&lt;c&gt;'d",
        ] {
            assert_eq!(redactor.clean(&format!("key {escaped}.")), "key ***.");
        }
    }
}
