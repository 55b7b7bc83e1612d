//! Pages of every kind that a configuration can name.

use serde_json::Value;
use url::Url;

use super::fill::set;
use crate::config::{Lead, PageSize, Paging, Pointer};
use crate::sandbox::answer::{Answer, Content};
use crate::sandbox::asked::Asked;
use crate::sandbox::chance::Chance;
use crate::sandbox::route::LINKED;
use crate::sandbox::token::{self, Direction};

/// Records a page, where neither the configuration nor the request says.
const USUAL: u64 = 20;
const MOST: u64 = 10_000;
/// A list is no longer than a few such pages, if nobody says, lest practice takes long.
const USUAL_PAGE: u64 = 1_000;

/// Which records a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: u64,
    pub size: u64,
}

/// How many records a list holds, if nobody says: three pages and a half.
pub fn usual_total(paging: &Paging) -> u64 {
    if paging.most_pages(None) == Some(1) {
        return USUAL;
    }
    let size = paging
        .size()
        .map_or(USUAL, |size| size.size)
        .min(USUAL_PAGE);
    size.saturating_mul(3).saturating_add(size / 2)
}

/// The page that is asked for; `None` where the cursor is none of this list.
pub fn span(asked: &Asked<'_>, list: Chance) -> Option<Span> {
    let paging = &asked.route.call.paging;
    if paging.most_pages(None) == Some(1) {
        return Some(Span {
            start: 0,
            size: MOST,
        });
    }
    let size = size(asked, paging.size());
    let cursor = asked.cursor();
    let start = paging.position(cursor.as_deref(), size, |cursor| {
        token::decode(cursor, list)
    })?;
    Some(Span { start, size })
}

/// The size that is asked for, else the configured one.
fn size(asked: &Asked<'_>, configured: Option<&PageSize>) -> u64 {
    let param = configured.and_then(|size| size.param.as_deref());
    let wanted = param
        .and_then(|param| asked.page_value(param))
        .and_then(|size| size.parse().ok());
    wanted
        .or(configured.map(|size| size.size))
        .unwrap_or(USUAL)
        .clamp(1, MOST)
}

/// Adds what leads on from this page of a list of so many records.
pub fn lead_on(answer: Answer, asked: &Asked<'_>, span: Span, total: u64, list: Chance) -> Answer {
    let end = span.start.saturating_add(span.size);
    let next = (end < total).then(|| token::encode(end, Direction::Next, list));
    match asked.route.call.paging.lead() {
        Lead::Nowhere => answer,
        Lead::Total(at) => with_value(answer, at, total.into()),
        Lead::Token(at) => match next {
            Some(token) => with_value(answer, at, token.into()),
            None => answer,
        },
        Lead::Url(at) => {
            let url = next.map(|token| linked(asked, &token));
            with_value(
                answer,
                at,
                url.map_or(Value::Null, |url| url.to_string().into()),
            )
        }
        Lead::LinkHeader => match next.map(|token| linked(asked, &token)) {
            Some(url) => answer.with_header("link", format!("<{url}>; rel=\"next\"")),
            None => answer,
        },
    }
}

pub fn with_value(mut answer: Answer, at: &Pointer, value: Value) -> Answer {
    if let Content::Json(body) = &mut answer.content {
        set(body, at.tokens(), value);
    }
    answer
}

/// This very request with another cursor, and without its secret.
fn linked(asked: &Asked<'_>, token: &str) -> Url {
    let mut url = asked.url.clone();
    let others = asked.params.iter().filter(|(name, _)| *name != LINKED);
    url.query_pairs_mut()
        .clear()
        .extend_pairs(others)
        .append_pair(LINKED, token);
    url
}
