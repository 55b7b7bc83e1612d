//! What a saved response shows of a call that is not configured yet: its format, where its list is, and how it leads on. It
//! recognizes what `ingest try` names when a configuration does not read it.

use serde_json::Value;
use url::Url;

use super::Failure;
use super::response::Response;
use super::unread::{self, WITHIN_NEXT};
use ingest_base::bounded;
use ingest_base::saved_response::SavedResponse;
use ingest_config::{Format, Pointer};

/// What a response shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    pub format: Format,
    /// Where the records are; the root if there is no list of objects, and the whole response is one record.
    pub at: Pointer,
    pub records: Vec<Value>,
    /// Where it names the next page; `None`: it names none.
    pub next: Option<NextPlace>,
    /// Where it says whether there are more pages.
    pub more: Option<String>,
    /// Where it says whether this is the last page.
    pub done: Option<String>,
    /// Where it has the number of all records, and that number.
    pub total: Option<(String, u64)>,
}

/// Where a response names the next page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextPlace {
    /// In the header `Link`.
    Link,
    /// The URL of the page is at this place.
    Url(String),
    /// The token of the page is at this place.
    Token(String),
}

/// Reads a saved response.
///
/// # Errors
/// It is a refusal, cannot be read, or has no record.
pub fn outline(saved: &SavedResponse) -> Result<Outline, Failure> {
    if !(200..300).contains(&saved.status) {
        let status = saved.status;
        let why = format!("the response is a refusal (status {status}); save one with records");
        return Err(Failure::Skip(why));
    }
    let mut response = Response::saved(saved, bounded::DOCUMENT);
    let format = format_of(saved, &response.body);
    response.format = format;
    let document = response.document()?;
    let at = Pointer::parse(&unread::elsewhere(&document, format).unwrap_or_default());
    let at = at.map_err(|error| Failure::WrongShape(error.to_string()))?;
    let records = match at.find(&document) {
        Some(Value::Array(elements)) => elements.clone(),
        Some(one @ Value::Object(_)) if is_record(one) => vec![one.clone()],
        _ => Vec::new(),
    };
    if !records.iter().any(Value::is_object) {
        let why =
            "the response has no list of objects, and is no record itself; save one with records";
        return Err(Failure::Skip(why.to_owned()));
    }
    let signs = unread::signs(&at, &document, &response);
    let leads_on = signs.more.is_some() || signs.done.is_some();
    let next = signs.next.or(signs.token.filter(|_| leads_on));
    Ok(Outline {
        format,
        next: next.and_then(|place| next_place(&place, &document)),
        more: signs.more.as_deref().map(plain),
        done: signs.done.as_deref().map(plain),
        total: signs.total.map(|(at, total)| (plain(&at), total)),
        at,
        records,
    })
}

/// A place without what sets it off in a message.
fn plain(place: &str) -> String {
    place.trim_matches('`').to_owned()
}

/// Whether an object is a record, and not what stands around an empty list.
fn is_record(object: &Value) -> bool {
    let members = || {
        object
            .as_object()
            .into_iter()
            .flat_map(|members| members.values())
    };
    let is_plain = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
    members().any(is_plain) && !members().any(|value| *value == Value::Array(Vec::new()))
}

/// The format of an unpacked body: by its content type, or else by how it begins.
fn format_of(saved: &SavedResponse, body: &[u8]) -> Format {
    let mut headers = saved.headers.iter();
    let stated = headers.find(|(name, _)| name == "content-type");
    let stated = stated.map_or("", |(_, value)| value);
    let text = String::from_utf8_lossy(body);
    let text = text.trim_start_matches('\u{feff}').trim();
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let is_json = |text: &str| serde_json::from_str::<Value>(text).is_ok();
    match text.chars().next() {
        Some('{' | '[') if !is_json(text) && lines().count() > 1 && lines().all(is_json) => {
            Format::Ndjson
        }
        Some('{' | '[') => Format::Json,
        Some('<') => Format::Xml,
        _ if stated.contains("json") => Format::Json,
        _ => Format::Csv(separator(lines().next().unwrap_or_default())),
    }
}

/// The byte that separates the values of a line.
fn separator(line: &str) -> u8 {
    let times = |byte: u8| line.bytes().filter(|one| *one == byte).count();
    // Of equal numbers the last one counts: the comma.
    let all = [b'\t', b';', b','];
    all.into_iter()
        .max_by_key(|byte| times(*byte))
        .unwrap_or(b',')
}

/// What stands where a response names the next page.
fn next_place(place: &str, document: &Value) -> Option<NextPlace> {
    if place == unread::LINK {
        return Some(NextPlace::Link);
    }
    let at = place.trim_matches('`');
    let value = document.pointer(at)?;
    let (at, value) = match value {
        Value::Object(link) => {
            let within = WITHIN_NEXT.iter();
            let mut found = within.filter_map(|name| Some((name, link.get(*name)?)));
            let (name, value) = found.find(|(_, value)| value.is_string())?;
            (format!("{at}/{name}"), value)
        }
        value => (at.to_owned(), value),
    };
    let text = match value {
        Value::String(text) => text,
        Value::Number(_) => "",
        // No token: a list of links, for example.
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let is_url = Url::parse(text).is_ok_and(|url| url.has_host()) || text.starts_with(['/', '?']);
    Some(match is_url {
        true => NextPlace::Url(at),
        false => NextPlace::Token(at),
    })
}
