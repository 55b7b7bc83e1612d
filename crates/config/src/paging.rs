//! `page = { kind = "…" }`: how the pages of a list follow each other. Everything that depends on the kind is here: a new
//! kind is a struct of its keys, a line of [`PAGING`], and what the compiler then reports as missing.

#![deny(clippy::wildcard_enum_match_arm)]

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::body::{Body, CALL_BODY, PARAMS, Params};
use super::declare::{
    AndThen, COUNT, Flat, FlatOptional, Keys, Kind, Leaf, Optional, Or, PAGES, POINTER, Required,
    Shape, TEXT, TRUTH, Tagged, Type, Words, keys, table,
};
use super::headers::HEADER_NAME;
use super::item::Item;
use super::path::PATH;
use super::{Param, Pointer, Template};

/// The most empty pages in a row that a list may contain while its cursor continues. Each is paid for.
pub const MOST_EMPTY_PAGES: u64 = 20;

/// How a call turns pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Paging {
    #[default]
    None,
    Token(ByToken),
    Link(ByLink),
    NextUrl(ByNextUrl),
    Offset(ByOffset),
    Number(ByNumber),
}

pub const PAGING: Tagged<Paging> = Tagged(&[
    Kind::read_from::<ByToken>(
        "token",
        "The response contains an opaque token for the next page, which a parameter carries. The list ends when there is \
        no token.",
        |keys| by_token(keys, ByToken::read(keys)?).map(Paging::Token),
    ),
    Kind::read_from::<ByLink>(
        "link",
        "The response header `Link: <URL>; rel=\"next\"` names the next page, on the same host. The list ends without it.",
        |keys| ByLink::read(keys).map(Paging::Link),
    ),
    Kind::read_from::<ByNextUrl>(
        "next_url",
        "The response body contains the URL of the next page, on the same host. The list ends when there is none.",
        |keys| ByNextUrl::read(keys).map(Paging::NextUrl),
    ),
    Kind::read_from::<ByOffset>(
        "offset",
        "A parameter carries the number of records to skip. The list ends at the reported total; without one, at a page \
        that is not full.",
        |keys| ByOffset::read(keys).map(Paging::Offset),
    ),
    Kind::read_from::<ByNumber>(
        "number",
        "A parameter carries the number of the page. The list ends at the reported total of records or of pages; without \
        one, at a page that is not full; if the size is unknown, at an empty one.",
        |keys| by_number(keys, ByNumber::read(keys)?).map(Paging::Number),
    ),
    Kind::read_from::<()>("none", "One page is the whole list.", |_| {
        Some(Paging::None)
    }),
]);

/// Whether exactly one place of the token is configured.
fn by_token(keys: &Item<'_>, by: ByToken) -> Option<ByToken> {
    let places = [
        by.next.is_some(),
        by.next_header.is_some(),
        by.last.is_some(),
    ];
    match places.iter().filter(|is_present| **is_present).count() {
        0 => keys.lacks("next", "\"/nextPageToken\", or `last`, or `next_header`"),
        1 if by.lasting.is_none() && by.lasting_param.is_some() => {
            keys.find(&["lasting_param"])?.refuse(
                "`lasting_param` carries the cursor of `lasting`, which is not configured",
                "write for example lasting = \"/nextSyncToken\"",
            )
        }
        1 => Some(by),
        _ => keys.refuse(
            "expected exactly one of next, next_header, last",
            "remove the others",
        ),
    }
}

/// Whether at most one total is configured.
fn by_number(keys: &Item<'_>, by: ByNumber) -> Option<ByNumber> {
    match (&by.total, &by.pages) {
        (Some(_), Some(_)) => keys.refuse("expected one of total, pages", "remove the other"),
        (Some(_) | None, _) => Some(by),
    }
}

keys! {
    /// `kind = "token"`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ByToken {
        /// The parameter that carries the token. A JSON pointer is a place in the body: `/variables/after`.
        param: String = Required(TEXT, "'pageToken'"),
        /// Where the response contains the token of the next page. In a body, a number stays a number and a list stays a list. In
        /// a query, the token may be an object with a member that is named as `param`: each member is sent as a parameter.
        /// Exactly one of `next`, `next_header` and `last` is present.
        next: Option<Pointer> = Optional(POINTER, "'/nextPageToken'"),
        /// The response header with the token of the next page.
        next_header: Option<String> = Optional(HEADER_NAME, "'x-next-page'"),
        /// Where the last record of a page has the token of the next page. Such a list ends at an empty page; without `more`, it
        /// also ends at one that is not full.
        last: Option<Pointer> = Optional(POINTER, "'/id'"),
        /// The token of the first page. If unset, the first request has no token, or where a list begins at a stored value, the
        /// one that `params` has under the same name: `params = { since_id = "{since}" }` with `param = "since_id"`.
        first: Option<String> = Optional(TEXT, "'*'"),
        /// Where the response says whether there are more pages: true or false. A list that ends while there are more is not
        /// complete.
        more: Option<Pointer> = Optional(POINTER, "'/has_more'"),
        /// Where the response says whether this is the last page: true or false, the opposite of `more`.
        done: Option<Pointer> = Optional(POINTER, "'/is_last'"),
        /// Where the response reports the number of all records. A list that has fewer different records is not complete.
        total: Option<Pointer> = Optional(POINTER, "'/total'"),
        /// Where the last page of a list has the token with which the next pass begins: such a list names everything once, and from
        /// then on what changed. `last`: it is the token of the last page, and without `more` and `done` an empty page is the last.
        lasting: Option<Lasting> = Optional(LASTING, "'/nextSyncToken'"),
        /// The parameter that carries that token, in all requests of the next pass. If unset, `param` in its first request.
        lasting_param: Option<String> = Optional(TEXT, "'syncToken'"),
        /// Where paging parameters are sent.
        place as "in": Place = Or(Words(PLACES), "'query'", "'body'"),
        /// The requests behind the first page, where they differ from it: a path of their own, and no parameters, no body and
        /// no size but those that are written here, and the token.
        then: Option<Arc<Then>> = Optional(AndThen(table::<Then>(), |_, then| Some(Arc::new(then))), "{ path = 'things/continue' }"),
        /// The size of a page.
        size: Option<PageSize> = FlatOptional::<PageSize>::NEW,
        /// Whether an empty page ends the list although it has a token: event feeds and scrolls always have one. If false, a list
        /// goes on behind empty pages, and one with more than 20 of them in a row is not complete.
        empty_page_ends: bool = Or(TRUTH, "false", "true"),
    }
}

keys! {
    /// The requests behind the first page of a list.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Then {
        /// The path below `base_url`. If unset, that of the call.
        path: Option<Template> = Optional(PATH, "'things/continue'"),
        /// Query parameters, instead of those of the call and the step.
        params: Params = Or(PARAMS, "{}", "{ keep_alive = '1m' }"),
        /// The body, instead of that of the call and the step.
        body: Option<Body> = CALL_BODY,
    }
}

keys! {
    /// `kind = "link"`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ByLink {
        /// Where the response reports the number of all records. A list that has fewer different records is not complete.
        total: Option<Pointer> = Optional(POINTER, "'/total'"),
        /// The size of a page.
        size: Option<PageSize> = FlatOptional::<PageSize>::NEW,
        /// Whether an empty page ends the list although the header names a next one. If false, a list goes on behind empty pages, and one with
        /// more than 20 of them in a row is not complete.
        empty_page_ends: bool = Or(TRUTH, "false", "true"),
    }
}

keys! {
    /// `kind = "next_url"`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ByNextUrl {
        /// Where the response contains the URL of the next page. One without a host is relative to the URL of the request:
        /// `/v1/things?page=2` is a path of the host, `?page=2` has the path of the request.
        next: Pointer = Required(POINTER, "'/links/next'"),
        /// Where the response says whether there are more pages: true or false.
        more: Option<Pointer> = Optional(POINTER, "'/has_more'"),
        /// Where the response says whether this is the last page: true or false, the opposite of `more`.
        done: Option<Pointer> = Optional(POINTER, "'/is_last'"),
        /// Where the response reports the number of all records. A list that has fewer different records is not complete.
        total: Option<Pointer> = Optional(POINTER, "'/total'"),
        /// Where the last page of a list has the URL with which the next pass begins, on the same host: such a list names everything
        /// once, and from then on what changed. `last`: it is the URL of the last page, and without `more` and `done` an empty page
        /// is the last.
        lasting: Option<Lasting> = Optional(LASTING, "'/@odata.deltaLink'"),
        /// The size of a page.
        size: Option<PageSize> = FlatOptional::<PageSize>::NEW,
        /// Whether an empty page ends the list although it has the URL of a next one. If false, a list goes on behind empty pages, and one with
        /// more than 20 of them in a row is not complete.
        empty_page_ends: bool = Or(TRUTH, "false", "true"),
    }
}

keys! {
    /// `kind = "offset"`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ByOffset {
        /// The parameter that carries the number of records to skip. A JSON pointer is a place in the body: `/variables/after`.
        param: String = Required(TEXT, "'offset'"),
        /// The number of the first record: 1 where the parameter carries the number of a page's first record, counted from 1.
        first: u64 = Or(PAGES, "0", "1"),
        /// Where paging parameters are sent.
        place as "in": Place = Or(Words(PLACES), "'query'", "'body'"),
        /// The size of a page.
        size: PageSize = Flat::<PageSize>::NEW,
        /// Where the response reports the number of all records.
        total: Option<Pointer> = Optional(POINTER, "'/total'"),
        /// Where the response says whether there are more pages: true or false. It takes precedence over `total` and `size`.
        more: Option<Pointer> = Optional(POINTER, "'/has_more'"),
        /// Where the response says whether this is the last page: true or false, the opposite of `more`.
        done: Option<Pointer> = Optional(POINTER, "'/is_last'"),
    }
}

keys! {
    /// `kind = "number"`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ByNumber {
        /// The parameter that carries the number of the page. A JSON pointer is a place in the body: `/variables/after`.
        param: String = Required(TEXT, "'page'"),
        /// The number of the first page.
        first: u64 = Or(PAGES, "1", "0"),
        /// Where the response reports the number of all records.
        total: Option<Pointer> = Optional(POINTER, "'/total'"),
        /// Where the response reports the number of all pages, instead of `total`.
        pages: Option<Pointer> = Optional(POINTER, "'/total_pages'"),
        /// Where the response says whether there are more pages: true or false. It takes precedence over `total`, `pages` and
        /// `size`.
        more: Option<Pointer> = Optional(POINTER, "'/has_more'"),
        /// Where the response says whether this is the last page: true or false, the opposite of `more`.
        done: Option<Pointer> = Optional(POINTER, "'/is_last'"),
        /// Where paging parameters are sent.
        place as "in": Place = Or(Words(PLACES), "'query'", "'body'"),
        /// The size of a page.
        size: Option<PageSize> = FlatOptional::<PageSize>::NEW,
    }
}

keys! {
    /// The size of a page, and how it is requested.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PageSize {
        /// The parameter that requests the size of a page, or a JSON pointer to its place in the body. If unset, the size is not
        /// requested.
        param as "size_param": Option<String> = Optional(TEXT, "'maxResults'"),
        /// The number of records on a full page.
        size: u64 = Required(COUNT, "50"),
    }
}

/// Where paging parameters are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    #[default]
    Query,
    Body,
}

const PLACES: &[(&str, Place, &str)] = &[
    ("query", Place::Query, "In the query of the URL."),
    (
        "body",
        Place::Body,
        "In the body: a field of the form; at the top of the JSON, or at the pointer that the parameter is.",
    ),
];

/// The place of the cursor that begins the next pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lasting {
    /// At this place of the last page.
    At(Pointer),
    /// It is the last cursor of the list.
    Last,
}

impl Lasting {
    /// As the configuration has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::At(at) => at.as_str(),
            Self::Last => LAST,
        }
    }
}

const LASTING: Leaf<Lasting> = Leaf {
    read: |item| match item.as_text().as_deref() {
        Some(LAST) => Some(Lasting::Last),
        _ => POINTER.read(item).map(Lasting::At),
    },
    shape: || Shape::scalar(LAST, json!({ "const": LAST })).or(POINTER.shape()),
};
const LAST: &str = "last";

/// Where a response leads on to the next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead<'a> {
    /// Nowhere: the cursor is a count of ours, or there is one page.
    Nowhere,
    /// The number of all records at this place; the cursor is a count of ours.
    Total(&'a Pointer),
    /// The number of all pages at this place; the cursor is a count of ours.
    Pages(&'a Pointer),
    /// The token of the next page at this place.
    Token(&'a Pointer),
    /// The token of the next page in this header.
    TokenHeader(&'a str),
    /// The token of the next page at this place of the last record.
    LastRecord(&'a Pointer),
    /// The URL of the next page at this place.
    Url(&'a Pointer),
    /// The URL of the next page in the header `Link`.
    LinkHeader,
}

/// What a page says about the next one.
#[derive(Debug)]
pub struct SeenPage<'a> {
    /// The cursor with which it was requested; `None` for the first page.
    pub cursor: Option<&'a str>,
    /// The number of its records.
    pub listed: u64,
    /// Whether it has as many records as were requested, or the size is unknown.
    pub is_full: bool,
    /// The value at the place of its [`Lead`], if it has one.
    pub reported: Option<String>,
    /// Whether there are more pages; `None` if the page does not say.
    pub more: Option<bool>,
}

/// The page behind another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextPage {
    /// The list ends: the upstream says so, or the page is empty.
    End,
    /// The list ends: there is nothing where the response would name the next page.
    NotNamed,
    /// The list seems to end: the page is not full, and the upstream says nothing. The next page would have this cursor.
    Assumed(String),
    /// The list ends by a number or a flag of the response. The next page would have this cursor.
    Said(String),
    /// There should be one, but the page does not name it.
    Unnamed,
    /// The page with this cursor.
    Cursor(String),
    /// The page with this URL, which must be on the host of the upstream.
    Url(String),
}

/// A stored cursor does not fit the configured paging.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cursor is not a number, which the paging of this call requires")]
pub struct NotANumber;

/// What turning to a page puts into its request.
#[derive(Debug, Default)]
pub struct Turn<'a> {
    /// The parameter for the size of a page, and the size.
    pub size: Option<(&'a str, u64)>,
    /// The parameter for the cursor, and the cursor.
    pub cursor: Option<(&'a str, Value)>,
    /// The parameter for the cursor with which the pass began, and that cursor.
    pub begins: Option<(&'a str, Value)>,
    /// Where both go.
    pub place: Place,
    /// Path and query of the page, instead of the step's.
    pub go_to: Option<&'a str>,
    /// What the request has instead of the step's path, parameters and body.
    pub then: Option<&'a Then>,
}

/// The cursor of a page, as templates contain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorText<'a> {
    /// A token.
    Text(&'a str),
    /// A count of ours.
    Count(u64),
}

impl fmt::Display for CursorText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

impl Paging {
    /// The size of a page and how it is requested; `None` if the configuration has none.
    #[must_use]
    pub const fn size(&self) -> Option<&PageSize> {
        match self {
            Self::None => None,
            Self::Offset(ByOffset { size, .. }) => Some(size),
            Self::Token(ByToken { size, .. })
            | Self::Link(ByLink { size, .. })
            | Self::NextUrl(ByNextUrl { size, .. })
            | Self::Number(ByNumber { size, .. }) => size.as_ref(),
        }
    }

    /// The number of records on a full page; 1 if the configuration has no size.
    #[must_use]
    pub fn page_size(&self) -> u64 {
        self.size().map_or(1, |size| size.size)
    }

    /// Whether an empty page ends a list although it names a next one. Where the cursor is a count of ours, it names none.
    #[must_use]
    pub const fn empty_page_ends(&self) -> bool {
        match self {
            Self::Token(ByToken {
                empty_page_ends, ..
            })
            | Self::Link(ByLink {
                empty_page_ends, ..
            })
            | Self::NextUrl(ByNextUrl {
                empty_page_ends, ..
            }) => *empty_page_ends,
            Self::None | Self::Offset(_) | Self::Number(_) => false,
        }
    }

    /// The parameter that carries the cursor; `None` if a URL is the cursor, or there is none.
    #[must_use]
    pub const fn cursor_param(&self) -> Option<&str> {
        match self {
            Self::Token(ByToken { param, .. })
            | Self::Offset(ByOffset { param, .. })
            | Self::Number(ByNumber { param, .. }) => Some(param.as_str()),
            Self::Link(_) | Self::NextUrl(_) | Self::None => None,
        }
    }

    /// Where paging parameters are sent: in the body if the parameter is a pointer.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            Self::Token(ByToken { place, .. })
            | Self::Offset(ByOffset { place, .. })
            | Self::Number(ByNumber { place, .. }) => match self.cursor_param() {
                Some(param) => place_of(param, *place),
                None => *place,
            },
            Self::Link(_) | Self::NextUrl(_) | Self::None => Place::Query,
        }
    }

    /// Where a response leads on to the next page.
    #[must_use]
    pub const fn lead(&self) -> Lead<'_> {
        match self {
            Self::Token(by) => by.lead(),
            Self::NextUrl(ByNextUrl { next, .. }) => Lead::Url(next),
            Self::Link(_) => Lead::LinkHeader,
            Self::Offset(ByOffset {
                total: Some(total), ..
            })
            | Self::Number(ByNumber {
                total: Some(total), ..
            }) => Lead::Total(total),
            Self::Number(ByNumber {
                pages: Some(pages), ..
            }) => Lead::Pages(pages),
            Self::Offset(_) | Self::Number(_) | Self::None => Lead::Nowhere,
        }
    }

    /// Returns the place of the cursor that begins the next pass; `None` if each pass lists everything.
    #[must_use]
    pub const fn lasting(&self) -> Option<&Lasting> {
        match self {
            Self::Token(ByToken { lasting, .. }) | Self::NextUrl(ByNextUrl { lasting, .. }) => {
                lasting.as_ref()
            }
            Self::None | Self::Link(_) | Self::Offset(_) | Self::Number(_) => None,
        }
    }

    /// The parameter that carries the cursor with which a pass begins, if it has one of its own.
    #[must_use]
    pub const fn lasting_param(&self) -> Option<&str> {
        match self {
            Self::Token(by) => match &by.lasting_param {
                Some(param) => Some(param.as_str()),
                None => None,
            },
            Self::None | Self::Link(_) | Self::NextUrl(_) | Self::Offset(_) | Self::Number(_) => {
                None
            }
        }
    }

    /// The cursor of a page, in a pass that began at `lasting`; `None` is the first page of a list.
    #[must_use]
    pub const fn cursor_of<'c>(
        &self,
        cursor: Option<&'c str>,
        lasting: Option<&'c str>,
    ) -> Option<&'c str> {
        match cursor {
            None if self.lasting_param().is_none() => lasting,
            cursor => cursor,
        }
    }

    /// Where a response says whether there are more pages.
    #[must_use]
    pub const fn more(&self) -> Option<&Pointer> {
        match self {
            Self::Token(ByToken { more, .. })
            | Self::NextUrl(ByNextUrl { more, .. })
            | Self::Offset(ByOffset { more, .. })
            | Self::Number(ByNumber { more, .. }) => more.as_ref(),
            Self::Link(_) | Self::None => None,
        }
    }

    /// Where a response says whether it is the last page.
    #[must_use]
    pub const fn done(&self) -> Option<&Pointer> {
        match self {
            Self::Token(ByToken { done, .. })
            | Self::NextUrl(ByNextUrl { done, .. })
            | Self::Offset(ByOffset { done, .. })
            | Self::Number(ByNumber { done, .. }) => done.as_ref(),
            Self::Link(_) | Self::None => None,
        }
    }

    /// Where a response reports the number of all records.
    #[must_use]
    pub const fn total(&self) -> Option<&Pointer> {
        match self {
            Self::Token(ByToken { total, .. })
            | Self::Link(ByLink { total, .. })
            | Self::NextUrl(ByNextUrl { total, .. })
            | Self::Offset(ByOffset { total, .. })
            | Self::Number(ByNumber { total, .. }) => total.as_ref(),
            Self::None => None,
        }
    }

    /// A token as it is stored. In a body, a number or a list stays what it was in the response; in a query, an object
    /// stays one. `None` if a token of this type cannot be sent.
    #[must_use]
    pub fn stored_token(&self, token: &Value) -> Option<String> {
        let place = self.place();
        match (token, place) {
            (Value::String(text), _) if is_ambiguous(text, place) => {
                Some(format!("{TEXT_TOKEN}{text}"))
            }
            (Value::String(text), _) => Some(text.clone()),
            (Value::Number(number), Place::Body) => Some(format!("{NUMBER}{number}")),
            (Value::Number(number), Place::Query) => Some(number.to_string()),
            (Value::Array(values), Place::Body) if !values.is_empty() => {
                Some(format!("{JSON}{token}"))
            }
            (Value::Object(members), Place::Query) if self.are_parameters(members) => {
                Some(format!("{JSON}{token}"))
            }
            (Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_), _) => None,
        }
    }

    /// Whether the members of an object are the parameters of the next page. A place that is wrong by one level is often an
    /// object too, which has no member with the name of the parameter.
    fn are_parameters(&self, members: &Map<String, Value>) -> bool {
        let has_param = |param| members.contains_key(param);
        self.cursor_param().is_some_and(has_param) && members.values().all(is_plain)
    }

    /// The cursor as templates contain it: what the parameter of the page carries. `None` if the first page has none.
    #[must_use]
    pub fn cursor_text<'a>(&'a self, cursor: Option<&'a str>) -> Option<CursorText<'a>> {
        let text = match (self, cursor) {
            (Self::Token(by), None) => by.first.as_deref(),
            (Self::Token(by), Some(cursor)) => Some(StoredToken::new(cursor, by.sent_in()).text()),
            (Self::Link(_) | Self::NextUrl(_) | Self::None, cursor) => cursor,
            (Self::Offset(_) | Self::Number(_), _) => {
                return self.count(cursor).ok().map(CursorText::Count);
            }
        };
        text.map(CursorText::Text)
    }

    /// Whether the cursor is a token of the response, and the first page has none.
    #[must_use]
    pub const fn has_no_first_token(&self) -> bool {
        match self {
            Self::Token(by) => by.first.is_none(),
            Self::None | Self::Link(_) | Self::NextUrl(_) | Self::Offset(_) | Self::Number(_) => {
                false
            }
        }
    }

    /// The count of ours that a page's parameter carries; 0 without a cursor.
    fn count(&self, cursor: Option<&str>) -> Result<u64, NotANumber> {
        match self {
            Self::Offset(ByOffset { first, .. }) => Ok(count(cursor, 0)?.saturating_add(*first)),
            Self::Number(by) => Ok(by.place(cursor)?.number),
            Self::None | Self::Token(_) | Self::Link(_) | Self::NextUrl(_) => Ok(0),
        }
    }

    /// The requests behind the first page, if they differ from it.
    #[must_use]
    pub fn then(&self) -> Option<&Then> {
        match self {
            Self::Token(by) => by.then.as_deref(),
            Self::None | Self::Link(_) | Self::NextUrl(_) | Self::Offset(_) | Self::Number(_) => {
                None
            }
        }
    }

    /// Whether the cursor is a count of ours. It never repeats, so an upstream that ignores it would be requested without end.
    #[must_use]
    pub const fn counts_itself(&self) -> bool {
        match self {
            Self::Offset(_) | Self::Number(_) => true,
            Self::None | Self::Token(_) | Self::Link(_) | Self::NextUrl(_) => false,
        }
    }

    /// Whether the upstream names a page that follows one with these reports, or says that there is one: `more` is its flag, and
    /// `reported` whether it reports a number of all records or pages. Otherwise the page is only counted.
    #[must_use]
    pub const fn names_next(&self, more: Option<bool>, reported: bool) -> bool {
        match self.lead() {
            Lead::Token(_) | Lead::TokenHeader(_) | Lead::Url(_) | Lead::LinkHeader => true,
            Lead::Total(_) | Lead::Pages(_) => match more {
                Some(more) => more,
                None => reported,
            },
            Lead::Nowhere | Lead::LastRecord(_) => matches!(more, Some(true)),
        }
    }

    /// Whether a full page is followed by a request that the upstream did not name, so that it can lead behind the end of the list.
    #[must_use]
    pub fn can_lead_behind_the_end(&self) -> bool {
        match self.lead() {
            Lead::Nowhere => self.counts_itself(),
            Lead::LastRecord(_) => true,
            Lead::Total(_)
            | Lead::Pages(_)
            | Lead::Token(_)
            | Lead::Url(_)
            | Lead::LinkHeader
            | Lead::TokenHeader(_) => false,
        }
    }

    /// The most pages of a list, of which at most `configured` are fetched; `None` if only the responses can tell.
    #[must_use]
    pub const fn most_pages(&self, configured: Option<u64>) -> Option<u64> {
        match self {
            Self::None => Some(1),
            Self::Token(_)
            | Self::Link(_)
            | Self::NextUrl(_)
            | Self::Offset(_)
            | Self::Number(_) => configured,
        }
    }

    /// What a stored cursor depends on: the kind, the parameter, and where the next cursor is read.
    #[must_use]
    pub fn identity(&self) -> (&'static str, &str, &str) {
        let param = self.cursor_param().unwrap_or_default();
        match self {
            Self::None => ("none", param, ""),
            Self::Token(by) => match by.lead() {
                Lead::Token(at) => ("token", param, at.as_str()),
                Lead::LastRecord(at) => ("token last", param, at.as_str()),
                Lead::TokenHeader(name) => ("token header", param, name),
                Lead::Nowhere
                | Lead::Total(_)
                | Lead::Pages(_)
                | Lead::Url(_)
                | Lead::LinkHeader => ("token", param, ""),
            },
            Self::Link(_) => ("link", param, ""),
            Self::NextUrl(ByNextUrl { next, .. }) => ("next_url", param, next.as_str()),
            Self::Offset(_) => ("offset", param, ""),
            Self::Number(_) => ("number", param, ""),
        }
    }

    /// What the request of the page at `cursor` contains, in a pass that began at `lasting`; `None` is the first page of a list.
    ///
    /// # Errors
    /// The cursor is not one of this kind.
    pub fn turn<'a>(
        &'a self,
        cursor: Option<&'a str>,
        lasting: Option<&'a str>,
    ) -> Result<Turn<'a>, NotANumber> {
        let cursor = self.cursor_of(cursor, lasting);
        let value = match self {
            Self::None | Self::Link(_) | Self::NextUrl(_) => None,
            Self::Token(by) => by.value(cursor),
            Self::Offset(_) | Self::Number(_) => Some(Value::from(self.count(cursor)?)),
        };
        let go_to = match self {
            Self::Link(_) | Self::NextUrl(_) => cursor,
            Self::None | Self::Token(_) | Self::Offset(_) | Self::Number(_) => None,
        };
        let then = self.then().filter(|_| cursor.is_some());
        let size = self.size().filter(|_| then.is_none());
        Ok(Turn {
            size: size.and_then(|size| Some((size.param.as_deref()?, size.size))),
            cursor: self.cursor_param().zip(value),
            begins: self
                .lasting_param()
                .zip(lasting.map(|token| StoredToken::new(token, self.place()).value())),
            place: self.place(),
            go_to,
            then,
        })
    }

    /// The page behind this one. Where the cursor is a count of ours, an empty page is the last; where the upstream says what
    /// comes next, it can have left out everything that a page would have contained.
    ///
    /// # Errors
    /// The page's own cursor is not one of this kind.
    pub fn next(&self, page: SeenPage<'_>) -> Result<NextPage, NotANumber> {
        let is_counted = self.counts_itself() || matches!(self.lead(), Lead::LastRecord(_));
        let expects_more = page.more == Some(true);
        // First of all: a count of ours never ends by itself, and neither a flag nor a total may lead behind an empty
        // page.
        if is_counted && page.listed == 0 {
            return Ok(match expects_more {
                true => NextPage::Unnamed,
                false => NextPage::End,
            });
        }
        if page.listed == 0 && self.empty_page_ends() && !expects_more {
            return Ok(NextPage::End);
        }
        // Where pages are counted, `Ends` keeps the cursor of the further page, which can refute the end.
        if page.more == Some(false) && !is_counted {
            return Ok(NextPage::End);
        }
        Ok(match self {
            Self::None => NextPage::End,
            Self::Token(by) if by.last.is_some() => match page.reported {
                None if page.more == Some(false) => NextPage::End,
                None => NextPage::Unnamed,
                Some(token) => Ends::new(page.more, page.is_full, None).then(token),
            },
            Self::Token(_) | Self::Link(_) | Self::NextUrl(_) if page.reported.is_none() => {
                match expects_more {
                    true => NextPage::Unnamed,
                    false => NextPage::NotNamed,
                }
            }
            Self::Token(_) => NextPage::Cursor(page.reported.unwrap_or_default()),
            Self::Link(_) | Self::NextUrl(_) => NextPage::Url(page.reported.unwrap_or_default()),
            Self::Offset(_) => {
                let reached = count(page.cursor, 0)?.saturating_add(page.listed);
                let total = number_in(page.reported.as_deref());
                let is_rest = total.map(|total| reached < total);
                Ends::new(page.more, page.is_full, is_rest).then(reached.to_string())
            }
            Self::Number(by) => {
                let (next, is_rest) = by.next(&page)?;
                Ends::new(page.more, page.is_full, is_rest).then(next.to_string())
            }
        })
    }

    /// The number of records before the page at `cursor`, if the cursor tells.
    #[must_use]
    pub fn before(&self, cursor: Option<&str>) -> Option<u64> {
        match self {
            Self::Offset(_) => count(cursor, 0).ok(),
            Self::Number(by) => by.place(cursor).ok()?.before,
            Self::None | Self::Token(_) | Self::Link(_) | Self::NextUrl(_) => {
                cursor.is_none().then_some(0)
            }
        }
    }

    /// Whether a list can seem to end with a page that is not full, where the upstream says nothing.
    #[must_use]
    pub const fn assumes_end(&self) -> bool {
        let says = self.more().is_some() || self.done().is_some();
        match self {
            Self::Offset(by) => by.total.is_none() && !says,
            Self::Number(by) => {
                by.size.is_some() && by.total.is_none() && by.pages.is_none() && !says
            }
            Self::Token(by) => by.last.is_some() && by.size.is_some() && !says,
            Self::None | Self::Link(_) | Self::NextUrl(_) => false,
        }
    }

    /// Whether a list can continue behind its last page although the body of that page stays the same: the next page is named
    /// in a header.
    #[must_use]
    pub const fn may_grow_unseen(&self) -> bool {
        match self {
            Self::Link(_) => true,
            Self::Token(by) => by.next_header.is_some(),
            Self::None | Self::NextUrl(_) | Self::Offset(_) | Self::Number(_) => false,
        }
    }

    /// The number of records before the page at `cursor`, in a list with pages of `size` records: what a stand-in serves.
    /// `decode` reads its opaque cursors. `None` if the cursor does not belong to the list.
    pub fn position(
        &self,
        cursor: Option<&str>,
        size: u64,
        decode: impl FnOnce(&str) -> Option<u64>,
    ) -> Option<u64> {
        let Some(cursor) = cursor else {
            return Some(0);
        };
        match self {
            Self::None => Some(0),
            Self::Token(by) if by.first.as_deref() == Some(cursor) => Some(0),
            Self::Token(_) | Self::Link(_) | Self::NextUrl(_) => decode(cursor),
            Self::Offset(ByOffset { first, .. }) => cursor.parse::<u64>().ok()?.checked_sub(*first),
            Self::Number(ByNumber { first, .. }) => {
                let page = cursor.parse::<u64>().ok()?.checked_sub(*first)?;
                page.checked_mul(size)
            }
        }
    }
}

/// What a stored token for a body begins with, if it was a number in the response.
const NUMBER: &str = "number:";
/// What a stored token begins with, if it was a list or an object.
const JSON: &str = "json:";
/// What a stored token begins with, if it was a text that could be taken for one of the others.
const TEXT_TOKEN: &str = "text:";

fn is_plain(value: &Value) -> bool {
    matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_))
}

/// Whether a text begins as another type of token is stored.
fn is_ambiguous(text: &str, place: Place) -> bool {
    let rest = text.trim_start_matches(TEXT_TOKEN);
    match place {
        Place::Body => {
            text.starts_with(TEXT_TOKEN) || [NUMBER, JSON].iter().any(|mark| rest.starts_with(mark))
        }
        Place::Query => rest.starts_with(JSON),
    }
}

/// A token, as it is stored.
enum StoredToken<'a> {
    Text(&'a str),
    /// A number, a list or an object.
    Json(&'a str),
}

impl<'a> StoredToken<'a> {
    fn new(stored: &'a str, place: Place) -> Self {
        if let Some(text) = stored.strip_prefix(TEXT_TOKEN)
            && (place == Place::Body || is_ambiguous(text, place))
        {
            return Self::Text(text);
        }
        let number = stored.strip_prefix(NUMBER).filter(|_| place == Place::Body);
        match number.or(stored.strip_prefix(JSON)) {
            Some(json) => Self::Json(json),
            None => Self::Text(stored),
        }
    }

    const fn text(&self) -> &'a str {
        match self {
            Self::Text(text) | Self::Json(text) => text,
        }
    }

    fn value(&self) -> Value {
        match self {
            Self::Text(text) => (*text).into(),
            Self::Json(json) => serde_json::from_str(json).unwrap_or_else(|_| (*json).into()),
        }
    }
}

impl Then {
    /// The templates of its path, parameters and body.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let params = self.params.values().flat_map(Param::templates);
        let body = self.body.iter().flat_map(Body::templates);
        params.chain(&self.path).chain(body)
    }
}

/// The place of a numbered page, as its cursor: `3`, or `3+200` where a total is reported. The number of a page does not tell
/// how many records precede it: an upstream can return fewer than were requested.
struct NumberedPage {
    number: u64,
    /// The number of records before it; `None` if the cursor has none.
    before: Option<u64>,
}

impl fmt::Display for NumberedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number)?;
        self.before.map_or(Ok(()), |before| write!(f, "+{before}"))
    }
}

impl ByNumber {
    /// The place of the page at a cursor; `None` is the first page.
    fn place(&self, cursor: Option<&str>) -> Result<NumberedPage, NotANumber> {
        let (number, before) = match cursor
            .map(|cursor| cursor.split_once('+').unwrap_or((cursor, "")))
        {
            None => (None, Some("0")),
            Some((number, before)) => (Some(number), Some(before).filter(|text| !text.is_empty())),
        };
        Ok(NumberedPage {
            number: count(number, self.first)?,
            before: before.map(|text| count(Some(text), 0)).transpose()?,
        })
    }

    /// The place of the page behind this one, and whether the response reports that there is one; `None` if it does not say.
    fn next(&self, page: &SeenPage<'_>) -> Result<(NumberedPage, Option<bool>), NotANumber> {
        let NumberedPage { number, before } = self.place(page.cursor)?;
        let (next, passed) = (number.saturating_add(1), number.saturating_sub(self.first));
        let reported = number_in(page.reported.as_deref());
        // A cursor of a configuration without `total` has the number alone.
        let size = self.size.as_ref().map_or(page.listed, |size| size.size);
        let before = before.unwrap_or_else(|| passed.saturating_mul(size));
        let reached = before.saturating_add(page.listed);
        let is_rest = reported.map(|reported| match self.pages {
            Some(_) => passed.saturating_add(1) < reported,
            None => reached < reported,
        });
        let next = NumberedPage {
            number: next,
            before: self.total.as_ref().map(|_| reached),
        };
        Ok((next, is_rest))
    }
}

impl ByToken {
    /// Where a response has the token of the next page.
    const fn lead(&self) -> Lead<'_> {
        match (&self.next, &self.next_header, &self.last) {
            (_, Some(name), _) => Lead::TokenHeader(name.as_str()),
            (_, None, Some(at)) => Lead::LastRecord(at),
            (Some(at), None, None) => Lead::Token(at),
            // The reader accepts no such configuration.
            (None, None, None) => Lead::Nowhere,
        }
    }

    fn sent_in(&self) -> Place {
        place_of(&self.param, self.place)
    }

    /// The token as it is sent.
    fn value(&self, cursor: Option<&str>) -> Option<Value> {
        match cursor {
            None => self.first.as_deref().map(Value::from),
            Some(cursor) => Some(StoredToken::new(cursor, self.sent_in()).value()),
        }
    }
}

/// A parameter that is a JSON pointer is in the body.
fn place_of(param: &str, configured: Place) -> Place {
    match param.starts_with('/') {
        true => Place::Body,
        false => configured,
    }
}

/// The place of a paging parameter in a JSON body: at the top, unless it is a pointer.
#[must_use]
pub fn place_in_json(param: &str) -> Option<Pointer> {
    match param.starts_with('/') {
        true => Pointer::parse(param).ok(),
        false => Pointer::parse(&format!("/{}", param.replace('~', "~0").replace('/', "~1"))).ok(),
    }
}

fn number_in(text: Option<&str>) -> Option<u64> {
    text.and_then(|text| text.parse().ok())
}

/// How a list whose next cursor is always known goes on behind a page.
enum Ends {
    GoesOn,
    Said,
    Assumed,
}

impl Ends {
    /// `more` takes precedence over a reported number, and that over the size of the page.
    const fn new(more: Option<bool>, is_full: bool, is_rest: Option<bool>) -> Self {
        match (more, is_rest) {
            (Some(true), _) | (None, Some(true)) => Self::GoesOn,
            (Some(false), _) | (None, Some(false)) => Self::Said,
            (None, None) if is_full => Self::GoesOn,
            (None, None) => Self::Assumed,
        }
    }

    fn then(self, next: String) -> NextPage {
        match self {
            Self::GoesOn => NextPage::Cursor(next),
            Self::Said => NextPage::Said(next),
            Self::Assumed => NextPage::Assumed(next),
        }
    }
}

fn count(cursor: Option<&str>, first: u64) -> Result<u64, NotANumber> {
    cursor.map_or(Ok(first), |cursor| cursor.parse().map_err(|_| NotANumber))
}
