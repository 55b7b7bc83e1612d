//! The charset of a response: that of its byte order mark, else the declared one, else UTF-8.

use std::borrow::Cow;

use encoding_rs::mem::decode_latin1;
use encoding_rs::{Encoding, UTF_8};
use reqwest::header::{CONTENT_TYPE, HeaderMap};

/// The text of a body, without its byte order mark.
///
/// # Errors
/// Some bytes are invalid in the charset. No replacement character takes their place: two ids could become equal.
pub fn decode<'a>(headers: &HeaderMap, body: &'a [u8]) -> Result<Cow<'a, str>, String> {
    let (encoding, text) = meant(headers, body);
    let declared = || declared(headers, body);
    let Some(encoding) = encoding else {
        return match std::str::from_utf8(body) {
            // ASCII is the same in every charset that is in use.
            Ok(text) if text.is_ascii() => Ok(Cow::Borrowed(text)),
            _ => Err(format!("{}, which is not supported", declared())),
        };
    };
    if encoding == UTF_8 {
        return std::str::from_utf8(text)
            .map(Cow::Borrowed)
            .map_err(|error| {
                let at = error.valid_up_to();
                let byte = text.get(at).copied().unwrap_or_default();
                format!(
                    "{}, and byte 0x{byte:02X} at position {at} is not UTF-8",
                    declared()
                )
            });
    }
    let decoded = encoding.decode_without_bom_handling_and_without_replacement(text);
    decoded.ok_or_else(|| format!("{}, and its bytes are not {}", declared(), encoding.name()))
}

/// What a response declares about its charset, in words.
fn declared(headers: &HeaderMap, body: &[u8]) -> String {
    match (Encoding::for_bom(body), label(headers, body)) {
        (Some((encoding, _)), _) => {
            let name = encoding.name();
            format!("the response starts with the byte order mark of {name}")
        }
        (None, Some(label)) => format!("the response declares the charset `{label}`"),
        (None, None) => "the response declares no charset".to_owned(),
    }
}

/// The text of a body for messages: U+FFFD replaces invalid bytes.
pub fn decode_for_show<'a>(headers: &HeaderMap, body: &'a [u8]) -> Cow<'a, str> {
    let (encoding, text) = meant(headers, body);
    encoding
        .unwrap_or(UTF_8)
        .decode_without_bom_handling(text)
        .0
}

/// The value of a header as text: UTF-8, or else Latin-1, in which every byte is a character.
pub fn header_text(value: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(value).map_or_else(|_| decode_latin1(value), Cow::Borrowed)
}

/// The encoding that a response declares (`None` if it is not supported), and the body without its mark.
fn meant<'a>(headers: &HeaderMap, body: &'a [u8]) -> (Option<&'static Encoding>, &'a [u8]) {
    if let Some((encoding, length)) = Encoding::for_bom(body) {
        return (Some(encoding), body.get(length..).unwrap_or_default());
    }
    let encoding = match label(headers, body) {
        None => Some(UTF_8),
        Some(label) => Encoding::for_label_no_replacement(label.as_bytes()),
    };
    (encoding, body)
}

/// The name of the charset that a response declares beside its byte order mark.
fn label(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    charset(headers).or_else(|| prolog_charset(body))
}

/// The encoding that the first line of an XML document declares: `<?xml version="1.0" encoding="ISO-8859-1"?>`
fn prolog_charset(body: &[u8]) -> Option<String> {
    const LONGEST: usize = 200;
    let body = body.get(..LONGEST).unwrap_or(body);
    let text = String::from_utf8_lossy(body);
    let (prolog, _) = text.strip_prefix("<?xml")?.split_once("?>")?;
    let (_, value) = prolog.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let quote = value
        .chars()
        .next()
        .filter(|quote| "\"'".contains(*quote))?;
    let (label, _) = value.get(1..)?.split_once(quote)?;
    Some(label.to_owned())
}

/// The charset parameter of `Content-Type`.
fn charset(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(CONTENT_TYPE)?;
    let value = String::from_utf8_lossy(value.as_bytes());
    let charset = value.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("charset")
            .then(|| value.trim().trim_matches(['"', '\'']).to_owned())
    });
    charset.filter(|label| !label.is_empty())
}
