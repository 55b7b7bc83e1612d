use serde_json::Value;
use url::Url;

use super::Failure;
use super::link::next_link;
use super::records::{is_inexact, name_of};
use super::request::RequestParts;
use super::response::Response;
use crate::config::{Auth, Lead, NextPage, NotANumber, Paging, Pointer, SeenPage};

impl From<NotANumber> for Failure {
    fn from(error: NotANumber) -> Self {
        Self::BadCursor(error.to_string())
    }
}

/// What the body of a response says about the next page: its token, its URL, or the number of all records. It must be read
/// before the records are taken out of the document, since it can be inside them.
pub fn read(paging: &Paging, document: &Value) -> Result<Option<String>, Failure> {
    match paging.lead() {
        Lead::Token(at) | Lead::Url(at) => token(at, document),
        Lead::Total(at) => Ok(at.text_in(document)),
        Lead::LinkHeader | Lead::Nowhere => Ok(None),
    }
}

/// The cursor of the page behind one that listed so many records, where its body `reported` that (see [`read`]).
pub fn next(
    parts: &RequestParts<'_>,
    response: &Response,
    reported: Result<Option<String>, Failure>,
    listed: u64,
) -> Result<Option<String>, Failure> {
    let paging = &parts.request.step.call.paging;
    if paging.counts_itself() && listed == 0 {
        return Ok(None);
    }
    let (reported, place) = match paging.lead() {
        Lead::LinkHeader => (link(response), "in the header `link`".to_owned()),
        Lead::Url(at) => (reported?, format!("at `{at}`")),
        Lead::Token(_) | Lead::Total(_) | Lead::Nowhere => (reported?, String::new()),
    };
    let page = SeenPage {
        cursor: parts.request.cursor,
        listed,
        is_full: is_full(parts, listed),
        reported,
    };
    match paging.next(page)? {
        NextPage::End => Ok(None),
        NextPage::Cursor(cursor) => Ok(Some(cursor)),
        NextPage::Url(url) => {
            let next = on_same_host(parts, response, &url, &place)?;
            Ok(Some(match paging.lead() {
                // A body is cleaned of secrets as a whole, a header is not.
                Lead::LinkHeader => response.redactor.clean_data(&next).into_owned(),
                Lead::Url(_) | Lead::Token(_) | Lead::Total(_) | Lead::Nowhere => next,
            }))
        }
    }
}

/// The URL of the next page in the header `Link`.
fn link(response: &Response) -> Option<String> {
    let values = response.headers.get_all("link").iter();
    let next = next_link(values.filter_map(|value| value.to_str().ok()));
    next.filter(|url| !url.is_empty()).map(str::to_owned)
}

/// Whether a list can continue behind a page although the page's own body stays the same: a full last one, where a header
/// leads on.
pub fn may_grow_unseen(parts: &RequestParts<'_>, listed: u64, next: Option<&str>) -> bool {
    parts.request.step.call.paging.may_grow_unseen() && next.is_none() && is_full(parts, listed)
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
