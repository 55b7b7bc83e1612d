use serde_json::Value;
use url::Url;

use super::Failure;
use super::link::next_link;
use super::records::{is_inexact, name_of};
use super::request::RequestParts;
use super::response::Response;
use crate::config::{Auth, ByNextUrl, ByNumber, ByOffset, ByToken, Paging, Place, Pointer};

/// What turning to a page puts into its request.
#[derive(Debug, Default)]
pub struct Turn<'a> {
    /// How many records a page is to hold.
    pub size: Option<(&'a str, u64)>,
    /// Which page.
    pub cursor: Option<(&'a str, Value)>,
    /// Where both go.
    pub place: Place,
    /// Path and query of the page, instead of the step's.
    pub go_to: Option<&'a str>,
}

/// Turns to the page at `cursor`.
pub fn turn<'a>(paging: &'a Paging, cursor: Option<&'a str>) -> Result<Turn<'a>, Failure> {
    let size = paging
        .size()
        .and_then(|size| Some((size.param.as_deref()?, size.size)));
    let turned = |place, cursor| Turn {
        size,
        cursor,
        place,
        go_to: None,
    };
    Ok(match paging {
        Paging::None => Turn::default(),
        Paging::Token(ByToken { param, place, .. }) => {
            turned(*place, cursor.map(|token| (&**param, Value::from(token))))
        }
        Paging::Link(_) | Paging::NextUrl(_) => Turn {
            go_to: cursor,
            ..turned(Place::Query, None)
        },
        Paging::Offset(ByOffset { param, place, .. }) => {
            turned(*place, Some((param, Value::from(number(cursor, 0)?))))
        }
        Paging::Number(ByNumber {
            param,
            first,
            place,
            ..
        }) => turned(*place, Some((param, Value::from(number(cursor, *first)?)))),
    })
}

fn number(cursor: Option<&str>, first: u64) -> Result<u64, Failure> {
    let number = cursor.map_or(Ok(first), str::parse);
    number.map_err(|_| {
        Failure::BadCursor(
            "the cursor is not a number, which the paging of this call requires".to_owned(),
        )
    })
}

/// How a cursor is asked for and where it is read: what a stored cursor depends on.
pub fn names(paging: &Paging) -> (&'static str, &str, &str) {
    match paging {
        Paging::None => ("none", "", ""),
        Paging::Token(ByToken { param, next, .. }) => ("token", param, next.as_str()),
        Paging::Link(_) => ("link", "", ""),
        Paging::NextUrl(ByNextUrl { next, .. }) => ("next_url", "", next.as_str()),
        Paging::Offset(ByOffset { param, .. }) => ("offset", param, ""),
        Paging::Number(ByNumber { param, .. }) => ("number", param, ""),
    }
}

/// What the answer says of the next page: its token, its URL, or the number of all records. It must be read before the
/// records are taken out of the document, since it can be inside them.
pub fn read(paging: &Paging, document: &Value) -> Result<Option<String>, Failure> {
    match paging {
        Paging::Token(ByToken { next, .. }) | Paging::NextUrl(ByNextUrl { next, .. }) => {
            token(next, document)
        }
        Paging::Offset(ByOffset { total, .. }) => {
            Ok(total.as_ref().and_then(|total| total.text_in(document)))
        }
        Paging::None | Paging::Link(_) | Paging::Number(_) => Ok(None),
    }
}

/// The cursor of the page after one that listed so many records, where the answer `says` that of its next page (see
/// [`read`]). An empty page is the last where we count; where the upstream says what comes next, it can have left out all
/// that a page would have held.
pub fn next(
    parts: &RequestParts<'_>,
    answer: &Response,
    says: Result<Option<String>, Failure>,
    listed: u64,
) -> Result<Option<String>, Failure> {
    let cursor = parts.request.cursor;
    match &parts.request.step.call.paging {
        Paging::None => Ok(None),
        Paging::Offset(_) | Paging::Number(_) if listed == 0 => Ok(None),
        Paging::Token(_) => says,
        Paging::NextUrl(ByNextUrl { next, .. }) => {
            let place = format!("at `{next}`");
            says?
                .map(|url| on_same_host(parts, answer, &url, &place))
                .transpose()
        }
        Paging::Link(_) => {
            let values = answer
                .headers
                .get_all("link")
                .iter()
                .filter_map(|value| value.to_str().ok());
            let next = next_link(values).filter(|url| !url.is_empty());
            let next = next
                .map(|url| on_same_host(parts, answer, url, "in the header `link`"))
                .transpose()?;
            Ok(next.map(|next| answer.redactor.clean_data(&next).into_owned()))
        }
        Paging::Offset(_) => {
            let reached = number(cursor, 0)?.saturating_add(listed);
            let total = says?.and_then(|total| total.parse::<u64>().ok());
            let more = total.map_or_else(|| is_full(parts, listed), |total| reached < total);
            Ok(more.then(|| reached.to_string()))
        }
        Paging::Number(ByNumber { first, .. }) => {
            let next = number(cursor, *first)?.saturating_add(1);
            Ok(is_full(parts, listed).then(|| next.to_string()))
        }
    }
}

/// Whether a list can go on behind a page although the page's own body stays as it is: a full last one, where a header
/// leads on.
pub fn may_grow_unseen(parts: &RequestParts<'_>, listed: u64, next: Option<&str>) -> bool {
    matches!(parts.request.step.call.paging, Paging::Link(_))
        && next.is_none()
        && is_full(parts, listed)
}

fn is_full(parts: &RequestParts<'_>, listed: u64) -> bool {
    parts.page_size.is_none_or(|size| listed >= size)
}

/// The token at a place: a text or a number. Nothing, null, false and blank texts are the end.
fn token(at: &Pointer, document: &Value) -> Result<Option<String>, Failure> {
    match at.find(document) {
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(Value::String(token)) => {
            Ok(Some(token.clone()).filter(|token| !token.trim().is_empty()))
        }
        Some(token @ Value::Number(_)) if is_inexact(token) => {
            Err(no_token("a number that is not an exact integer", at))
        }
        Some(Value::Number(token)) => Ok(Some(token.to_string())),
        Some(other) => Err(no_token(name_of(other), at)),
    }
}

fn no_token(found: &str, at: &Pointer) -> Failure {
    Failure::WrongShape(format!(
        "the response contains {found} instead of the next page's token (at `{at}`)"
    ))
}

/// Path and query of a page's URL, which stands at that place, without the secret: all that is kept of it. Another host is
/// refused.
fn on_same_host(
    parts: &RequestParts<'_>,
    answer: &Response,
    url: &str,
    place: &str,
) -> Result<String, Failure> {
    let base = &parts.upstream.base_url;
    let shown = || answer.shown(url);
    let none = |_| Failure::WrongShape(format!("the value {place} is not a URL: \"{}\"", shown()));
    let mut to = parts.url.join(url).map_err(none)?;
    if !to.has_host() {
        return Err(Failure::Skip(format!(
            "the next page's URL has no host: \"{}\"",
            shown()
        )));
    }
    let same_port = to.port().is_none() || to.port() == base.port();
    if to.host() != base.host() || !same_port || !matches!(to.scheme(), "http" | "https") {
        let to = super::http::host_of(&to);
        return Err(Failure::Skip(format!(
            "the next page is on another host ({to}), to which no request is sent; if it is the \
            same API, write this host into upstreams.{}.base_url",
            parts.upstream.name
        )));
    }
    if let Auth::Query(secret) = &parts.upstream.auth {
        remove_parameter(&mut to, secret);
    }
    for secret in parts.secret_params.keys() {
        remove_parameter(&mut to, secret);
    }
    let query = to
        .query()
        .map(|query| format!("?{query}"))
        .unwrap_or_default();
    Ok(format!("{}{query}", to.path()))
}

fn remove_parameter(url: &mut Url, name: &str) {
    if url.query_pairs().all(|(key, _)| key != name) {
        return;
    }
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(key, _)| key != name)
        .map(|(key, value)| (key.into(), value.into()))
        .collect();
    url.query_pairs_mut().clear().extend_pairs(kept);
}
