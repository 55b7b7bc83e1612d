//! Reads `Link` headers (RFC 8288).

use std::borrow::Cow;

use percent_encoding::{CONTROLS, percent_encode};
use reqwest::header::{HeaderMap, LINK};
use url::{Url, form_urlencoded};

/// The values of the headers `Link`. Bytes that are not ASCII, which a URL does not contain, are percent-encoded, so that the URL of
/// the next page has the bytes that came.
pub fn link_values(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(LINK).iter();
    values
        .map(|value| percent_encode(value.as_bytes(), CONTROLS).to_string())
        .collect()
}

/// The target of the link of relation `next` in the values of `Link` headers (RFC 8288).
pub fn next_link<'a>(values: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    values.into_iter().find_map(next_in)
}

/// Whether a value that names a next page has no URL in angle brackets.
pub fn is_no_link(value: &str) -> bool {
    links(value).next().is_none() && value.to_ascii_lowercase().contains("next")
}

/// Returns the relation of a link to another page of the same list, if it is no usual one: it can be the upstream's word for the
/// next page. `requested` is the URL of this page.
pub fn unusual_relation<'a>(
    values: impl IntoIterator<Item = &'a str>,
    requested: &Url,
) -> Option<&'a str> {
    let mut links = values.into_iter().flat_map(links);
    links.find_map(|(target, parameters)| {
        let relation = relations(parameters).split_ascii_whitespace().next()?;
        (is_other_page(target, requested) && !is_usual(relation)).then_some(relation)
    })
}

/// Whether a URL is that of another page of the same list.
pub fn is_other_page(url: &str, requested: &Url) -> bool {
    let parts = url.split_once('?');
    parts.is_some_and(|(before, query)| {
        before.ends_with(requested.path()) && Some(query) != requested.query()
    })
}

/// The parameters of a request that the URL of its next page lacks. None where that has a new one that is no number: it can be a cursor,
/// which stands for the others.
pub fn dropped(requested: &Url, next: &str) -> Vec<String> {
    let (_, query) = next.split_once('?').unwrap_or_default();
    let next: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    let had = |name: &str| requested.query_pairs().any(|(one, _)| one == name);
    let is_cursor =
        |(name, value): &(Cow<'_, str>, Cow<'_, str>)| !had(name) && value.parse::<u64>().is_err();
    if next.iter().any(is_cursor) {
        return Vec::new();
    }
    let names = requested.query_pairs().map(|(name, _)| name.into_owned());
    let is_there = |name: &String| next.iter().any(|(one, _)| one == name);
    names.filter(|name| !is_there(name)).collect()
}

/// Whether a relation is one of a page to itself, or to another that has a name of its own.
pub fn is_usual(relation: &str) -> bool {
    USUAL
        .iter()
        .any(|usual| relation.eq_ignore_ascii_case(usual))
}

const USUAL: [&str; 12] = [
    "alternate",
    "canonical",
    "collection",
    "current",
    "first",
    "last",
    "next",
    "prev",
    "previous",
    "self",
    "start",
    "up",
];

fn next_in(value: &str) -> Option<&str> {
    let is_next = |parameters| {
        relations(parameters)
            .split_ascii_whitespace()
            .any(|relation| relation.eq_ignore_ascii_case("next"))
    };
    links(value).find_map(|(target, parameters)| is_next(parameters).then_some(target))
}

/// The links of a header's value: their targets and parameters.
fn links(value: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let (target, after) = rest.take()?.split_once('<')?.1.split_once('>')?;
        let (parameters, more) = split_unquoted(after, ',');
        rest = more;
        Some((target.trim(), parameters))
    })
}

/// The relations that the parameters of a link name, separated by spaces; empty if they name none.
fn relations(parameters: &str) -> &str {
    let mut rest = Some(parameters);
    while let Some(text) = rest {
        let (parameter, more) = split_unquoted(text, ';');
        if let Some((name, value)) = parameter.split_once('=')
            && name.trim().eq_ignore_ascii_case("rel")
        {
            return value.trim().trim_matches('"');
        }
        rest = more;
    }
    ""
}

/// Splits at the first `separator` outside quotes.
fn split_unquoted(text: &str, separator: char) -> (&str, Option<&str>) {
    let (mut quoted, mut escaped) = (false, false);
    let at = text.find(|character| {
        let here = !quoted && character == separator;
        quoted ^= character == '"' && !escaped;
        escaped = quoted && character == '\\' && !escaped;
        here
    });
    match at.and_then(|at| text.split_at_checked(at)) {
        Some((before, after)) => (before, after.strip_prefix(separator)),
        None => (text, None),
    }
}
