//! `page = { kind = "…" }`: how the pages of a list follow each other. Everything that depends on the kind is here: a new
//! kind is a word of [`PageKind`], its column in `checked`, and what the compiler then reports as missing.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::body::{Body, Graphql, JsonTemplate, Params, beside, only_body};
use super::error::Refusal;
use super::headers::HeaderName;
use super::template::Path;
use super::values::{As, Count, Filled, Leaf, Pages, Scalar, Table, described, leaves};
use super::{Param, Pointer, Template};

/// The most empty pages in a row that a list may contain while its cursor continues. Each is paid for.
pub const MOST_EMPTY_PAGES: u64 = 20;

/// How a call turns pages: the keys of `page`. Which of them a table has depends on its kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Paging {
    /// How pages follow each other. Example: `kind = "token"`.
    pub kind: PageKind,
    /// The parameter of `token`, `offset` and `number`, which require it. A JSON pointer is a place in the body: `/variables/after`.
    /// Example: `param = "pageToken"`.
    #[serde(default, with = "As::<Option<Filled>>")]
    pub param: Option<String>,
    /// Where the response contains the token or the URL of the next page, with `token` and `next_url`. In a body, a token that is a
    /// number or a list stays one. In a query, the token may be an object with a member named as `param`: each member is sent as a
    /// parameter. A URL without a host is relative to that of the request. Example: `next = "/nextPageToken"`.
    pub next: Option<Pointer>,
    /// The header with the token of the next page, instead of `next`, with `token`. Example: `next_header = "x-next-page"`.
    #[serde(default, with = "As::<Option<HeaderName>>")]
    pub next_header: Option<String>,
    /// Where the last record of a page has the token of the next one, instead of `next`, with `token`. Such a list ends at an empty
    /// page; without `more`, also at one that is not full. Example: `last = "/id"`.
    pub last: Option<Pointer>,
    /// What `param` carries in the first request. With `token`, a text; if unset, nothing, or what `params` has under the same name:
    /// `params = { since_id = "{since}" }` with `param = "since_id"`. With `offset`, 1 where records are counted from 1; if unset, 0.
    /// With `number`, the number of the first page; if unset, 1. Example: `first = "*"`.
    #[serde(default, with = "As::<Option<Scalar>>")]
    pub first: Option<String>,
    /// Whether the first request leaves `param` out, with `offset` and `number`, as some upstreams refuse the number of the first
    /// page. The second page has the number behind it all the same. Example: `omit_first = true`.
    #[serde(default)]
    pub omit_first: bool,
    /// Where the response says whether there are more pages, true or false. It goes before `total`, `pages` and `size`. A list that
    /// ends while there are more is not complete. Not with `link`. Example: `more = "/has_more"`.
    pub more: Option<Pointer>,
    /// The opposite of `more`: whether this is the last page. Not with `link`. Example: `done = "/is_last"`.
    pub done: Option<Pointer>,
    /// Where the response reports the number of all records, at which a list with `offset` or `number` ends. One with fewer different
    /// records is not complete. Example: `total = "/total"`.
    pub total: Option<Pointer>,
    /// Where the response reports the number of all pages, instead of `total`, with `number`. Example: `pages = "/total_pages"`.
    pub pages: Option<Pointer>,
    /// Where the last page has the token or the URL with which the next pass begins, with `token` and `next_url`: such a list names
    /// everything once, then what changed. `last`: that of the last page, which without `more` and `done` is an empty one. Example:
    /// `lasting = "/nextSyncToken"`.
    pub lasting: Option<Lasting>,
    /// The parameter that carries that token, in all requests of the next pass. If unset, `param` in its first request. Example: `lasting_param = "syncToken"`.
    #[serde(default, with = "As::<Option<Filled>>")]
    pub lasting_param: Option<String>,
    /// Where paging parameters are sent. If unset, in the query, or in the body where `param` is a JSON pointer. Example: `in = "body"`.
    #[serde(rename = "in")]
    pub place: Option<Place>,
    /// The requests behind the first page, where they differ from it, with `token`: they have the parameters, the body and the size
    /// that are written here, and the token, no others. Example: `then = { path = "things/continue" }`.
    pub then: Option<Arc<Then>>,
    /// The parameter for the size of a page, or a JSON pointer to its place in the body. If unset, no size is requested. Example:
    /// `size_param = "maxResults"`.
    #[serde(default, with = "As::<Option<Filled>>")]
    pub size_param: Option<String>,
    /// The number of records on a full page. Required with `offset`. Example: `size = 50`.
    #[serde(default, with = "As::<Option<Count>>")]
    pub size: Option<u64>,
    /// Whether an empty page ends the list although it names a next one, as event feeds and scrolls always do; with `token`, `link`
    /// and `next_url`. Otherwise a list goes on behind empty pages, and one with more than 20 in a row is not complete. Example: `empty_page_ends = true`.
    pub empty_page_ends: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PageKind {
    /// The response contains a token of the next page, which a parameter carries. The list ends without one.
    Token,
    /// The header `Link: <URL>; rel="next"` names the next page, on the same host. The list ends without it.
    Link,
    /// The body contains the URL of the next page, on the same host. The list ends without one.
    NextUrl,
    /// A parameter carries the number of records to skip. The list ends at the reported total; without one, at a page that is not
    /// full.
    Offset,
    /// A parameter carries the number of the page. The list ends at the reported total of records or of pages; without one, at a page
    /// that is not full; if the size is unknown, at an empty one.
    Number,
    /// One page is the whole list.
    #[default]
    None,
}

impl Paging {
    /// Refuses keys that the kind does not have, and what it lacks.
    pub fn checked(self) -> Result<Self, Refusal> {
        let kind = self.kind;
        let (is_token, is_url) = (kind == PageKind::Token, kind == PageKind::NextUrl);
        let (is_link, is_none) = (kind == PageKind::Link, kind == PageKind::None);
        let is_number = kind == PageKind::Number;
        let (is_named, is_counted) = (is_token || is_url, self.counts_itself());
        Refusal::of_kind(&[
            ("param", self.param.is_some(), is_token || is_counted),
            ("next", self.next.is_some(), is_named),
            ("next_header", self.next_header.is_some(), is_token),
            ("last", self.last.is_some(), is_token),
            ("first", self.first.is_some(), is_token || is_counted),
            ("omit_first", self.omit_first, is_counted),
            ("more", self.more.is_some(), is_named || is_counted),
            ("done", self.done.is_some(), is_named || is_counted),
            ("total", self.total.is_some(), !is_none),
            ("pages", self.pages.is_some(), is_number),
            ("lasting", self.lasting.is_some(), is_named),
            ("lasting_param", self.lasting_param.is_some(), is_token),
            ("in", self.place.is_some(), is_token || is_counted),
            ("then", self.then.is_some(), is_token),
            ("size_param", self.size_param.is_some(), !is_none),
            ("size", self.size.is_some(), !is_none),
            (
                "empty_page_ends",
                self.empty_page_ends.is_some(),
                is_named || is_link,
            ),
        ])?;
        let lacks = |is_present: bool, key, example| match is_present {
            true => Ok(()),
            false => Err(Refusal::missing(key, example)),
        };
        let param = match kind {
            PageKind::Offset => "\"offset\"",
            PageKind::Number => "\"page\"",
            _ => "\"pageToken\"",
        };
        lacks(
            self.param.is_some() || !(is_token || is_counted),
            "param",
            param,
        )?;
        lacks(self.next.is_some() || !is_url, "next", "\"/links/next\"")?;
        let needs_size = kind == PageKind::Offset || self.size_param.is_some();
        lacks(self.size.is_some() || !needs_size, "size", "50")?;
        self.size_has_own_param()?;
        if let Some(first) = self.first.as_ref().filter(|_| is_counted) {
            let number = first
                .parse::<u64>()
                .map_or_else(|_| first.as_str().into(), Value::from);
            Pages::read(number).map_err(|refusal| refusal.below("first"))?;
        }
        if self.total.is_some() && self.pages.is_some() {
            return Err(Refusal::new(
                "expected one of total, pages",
                "remove the other",
            ));
        }
        let places = [
            self.next.is_some(),
            self.next_header.is_some(),
            self.last.is_some(),
        ];
        match places.iter().filter(|is_present| **is_present).count() {
            0 if is_token => {
                let example = "\"/nextPageToken\", or `last`, or `next_header`";
                return Err(Refusal::missing("next", example));
            }
            0 | 1 => {}
            _ => {
                let expected = "expected exactly one of next, next_header, last";
                return Err(Refusal::new(expected, "remove the others"));
            }
        }
        if self.lasting.is_none() && self.lasting_param.is_some() {
            let refusal = Refusal::new(
                "`lasting_param` carries the cursor of `lasting`, which is not configured",
                "write for example lasting = \"/nextSyncToken\"",
            );
            return Err(refusal.below("lasting_param"));
        }
        Ok(self)
    }
}

impl Paging {
    /// Whether the size has a parameter of its own, which carries no cursor: in a body, `limit` and `/limit` are one.
    fn size_has_own_param(&self) -> Result<(), Refusal> {
        let name = |param: &Option<String>| {
            let param = param.as_deref()?;
            Some(param.strip_prefix('/').unwrap_or(param).to_owned())
        };
        let size = name(&self.size_param);
        let cursors = [
            ("param", &self.param),
            ("lasting_param", &self.lasting_param),
        ];
        match cursors
            .iter()
            .find(|(_, param)| size.is_some() && name(param) == size)
        {
            None => Ok(()),
            Some((key, _)) => {
                let refusal = Refusal::new(
                    format!("`{key}` is this parameter already, and carries a cursor"),
                    "write the name of another parameter, or remove the key",
                );
                Err(refusal.below("size_param"))
            }
        }
    }
}

/// The requests behind the first page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "Table<ThenKeys>")]
pub struct Then {
    /// The path below `base_url`; `None`: that of the call.
    pub path: Option<Template>,
    /// Query parameters.
    pub params: Params,
    /// The body; `None` without one.
    pub body: Option<Body>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ThenKeys {
    /// The path below `base_url`. If unset, that of the call. Example: `path = "things/continue"`.
    #[serde(default, with = "As::<Option<Path>>")]
    path: Option<Template>,
    /// Query parameters, instead of those of the call and the step. Example: `params = { keep_alive = "1m" }`.
    #[serde(default)]
    params: Params,
    /// A JSON body, instead of the body of the call and the step. Example: `json = { scroll = "1m" }`.
    json: Option<JsonTemplate>,
    /// A form, likewise. Example: `form = { scroll = "1m" }`.
    form: Option<Params>,
    /// A GraphQL request, likewise; its keys are those of the call's. Example: `graphql = { query = "{ more { id } }" }`.
    graphql: Option<Table<Graphql>>,
}

described!(Then: ThenKeys);

impl TryFrom<Table<ThenKeys>> for Then {
    type Error = Refusal;

    fn try_from(Table(keys): Table<ThenKeys>) -> Result<Self, Refusal> {
        Ok(Self {
            path: keys.path,
            params: keys.params,
            body: only_body(keys.json, keys.form, keys.graphql)?,
        })
    }
}

/// Where paging parameters are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the query of the URL.
    #[default]
    Query,
    /// In the body: a field of the form; at the top of the JSON, or at the pointer that the parameter is.
    Body,
}

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
    pub fn as_str(&self) -> &str {
        match self {
            Self::At(at) => at.as_str(),
            Self::Last => LAST,
        }
    }
}

leaves!(Lasting);

impl Leaf for Lasting {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        match raw.as_str() {
            Some(LAST) => Ok(Self::Last),
            _ => Pointer::read(raw).map(Self::At),
        }
    }

    fn schema() -> Value {
        json!({ "title": "`\"last\"`, or JSON pointer", "anyOf": [{ "const": LAST }, Pointer::schema()] })
    }
}

const LAST: &str = "last";

/// Where a response names the next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead<'a> {
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
    /// The value at the place of its [`Lead`], or else the number of all records or pages; `None` if it has none.
    pub reported: Option<String>,
    /// Whether there are more pages; `None` if the page does not say.
    pub more: Option<bool>,
}

/// The page behind another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextPage {
    /// The page with this cursor. A URL must be on the host of the upstream.
    Cursor(String),
    /// None: the list ends.
    None(End),
}

/// Why a list ends with a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum End {
    /// The upstream says so by a flag, or the page is empty.
    #[default]
    Proved,
    /// There is nothing where the response would name the next page.
    NotNamed,
    /// The upstream says so by a flag or a number; the next page would have this cursor.
    Said(String),
    /// The page is not full, and the upstream says nothing; the next page would have this cursor.
    Assumed(String),
    /// The response says that there are more pages, and names none, as the text says.
    Unnamed(String),
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
    /// The number of records on a full page; 1 if the configuration has no size.
    pub fn page_size(&self) -> u64 {
        self.size.unwrap_or(1)
    }

    /// Whether an empty page ends a list although it names a next one. Where the cursor is a count of ours, it names none.
    pub fn empty_page_ends(&self) -> bool {
        self.empty_page_ends == Some(true)
    }

    /// Where paging parameters are sent: in the body if the parameter is a pointer.
    pub fn place(&self) -> Place {
        match self.param.as_deref() {
            Some(param) if param.starts_with('/') => Place::Body,
            _ => self.place.unwrap_or_default(),
        }
    }

    /// Where a response names the next page; `None`: the cursor is a count of ours, or there is one page.
    pub fn lead(&self) -> Option<Lead<'_>> {
        match self.kind {
            PageKind::Link => Some(Lead::LinkHeader),
            PageKind::NextUrl => self.next.as_ref().map(Lead::Url),
            PageKind::Token => {
                let header = self.next_header.as_deref().map(Lead::TokenHeader);
                let last = self.last.as_ref().map(Lead::LastRecord);
                header.or(last).or(self.next.as_ref().map(Lead::Token))
            }
            PageKind::Offset | PageKind::Number | PageKind::None => None,
        }
    }

    /// Where the last page has the cursor of the next pass; `None` if each pass lists everything, or no response has it there.
    pub fn lasting_at(&self) -> Option<&Pointer> {
        match self.lasting.as_ref()? {
            Lasting::At(at) => Some(at),
            Lasting::Last => self.next.as_ref(),
        }
    }

    /// The cursor of a page, in a pass that began at `lasting`; `None` is the first page of a list.
    pub fn cursor_of<'c>(
        &self,
        cursor: Option<&'c str>,
        lasting: Option<&'c str>,
    ) -> Option<&'c str> {
        match cursor {
            None if self.lasting_param.is_none() => lasting,
            cursor => cursor,
        }
    }

    /// A token as it is stored. In a body, a number or a list stays what it was in the response; in a query, an object
    /// stays one. `None` if a token of this type cannot be sent.
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
        self.param.as_deref().is_some_and(has_param) && members.values().all(is_plain)
    }

    /// The cursor as templates contain it: what the parameter of the page carries. `None` if the first page has none.
    pub fn cursor_text<'a>(&'a self, cursor: Option<&'a str>) -> Option<CursorText<'a>> {
        let text = match (self.kind, cursor) {
            (PageKind::Offset | PageKind::Number, _) => {
                return self.count(cursor).ok().map(CursorText::Count);
            }
            (PageKind::Token, None) => self.first.as_deref(),
            (PageKind::Token, Some(cursor)) => Some(StoredToken::new(cursor, self.place()).text()),
            (PageKind::Link | PageKind::NextUrl | PageKind::None, cursor) => cursor,
        };
        text.map(CursorText::Text)
    }

    /// Whether the cursor is a token of the response, and the first page has none.
    pub fn has_no_first_token(&self) -> bool {
        self.kind == PageKind::Token && self.first.is_none()
    }

    /// What the parameter of the first page carries where the cursor is a count of ours.
    fn first_count(&self) -> u64 {
        let first = self.first.as_ref().and_then(|first| first.parse().ok());
        first.unwrap_or(u64::from(self.kind == PageKind::Number))
    }

    /// The count of ours that a page's parameter carries; 0 without a cursor.
    fn count(&self, cursor: Option<&str>) -> Result<u64, NotANumber> {
        match self.kind {
            PageKind::Offset => Ok(count(cursor, 0)?.saturating_add(self.first_count())),
            PageKind::Number => Ok(self.numbered(cursor)?.number),
            PageKind::None | PageKind::Token | PageKind::Link | PageKind::NextUrl => Ok(0),
        }
    }

    /// The same, whose requests behind the first page have these parameters too, unless they override them.
    #[must_use]
    pub fn with_params(mut self, all: &Params) -> Self {
        if let Some(then) = self.then.take() {
            let params = beside(all, then.params.clone());
            self.then = Some(Arc::new(Then {
                params,
                ..Then::clone(&then)
            }));
        }
        self
    }

    /// Whether the cursor is a count of ours. It never repeats, so an upstream that ignores it would be requested without end.
    pub const fn counts_itself(&self) -> bool {
        matches!(self.kind, PageKind::Offset | PageKind::Number)
    }

    /// Whether the upstream names a page that follows one with these reports, or says that there is one: `more` is its flag, and
    /// `reported` whether it reports a number of all records or pages. Otherwise the page is only counted.
    pub fn names_next(&self, more: Option<bool>, reported: bool) -> bool {
        match self.lead() {
            Some(Lead::LastRecord(_)) => more == Some(true),
            Some(Lead::Token(_) | Lead::TokenHeader(_) | Lead::Url(_) | Lead::LinkHeader) => true,
            None => more.unwrap_or(reported),
        }
    }

    /// Whether a full page is followed by a request that the upstream did not name, so that it can lead behind the end of the list.
    pub fn can_lead_behind_the_end(&self) -> bool {
        let is_reported = self.total.is_some() || self.pages.is_some();
        self.last.is_some() || (self.counts_itself() && !is_reported)
    }

    /// The most pages of a list, of which at most `configured` are fetched; `None` if only the responses can tell.
    pub const fn most_pages(&self, configured: Option<u64>) -> Option<u64> {
        match self.kind {
            PageKind::None => Some(1),
            _ => configured,
        }
    }

    /// What a stored cursor depends on: the kind, the parameter, and where the next cursor is read.
    pub fn identity(&self) -> (&'static str, &str, &str) {
        let (kind, at) = match self.lead() {
            Some(Lead::Token(at)) => ("token", at.as_str()),
            Some(Lead::LastRecord(at)) => ("token last", at.as_str()),
            Some(Lead::TokenHeader(name)) => ("token header", name),
            Some(Lead::Url(at)) => ("next_url", at.as_str()),
            Some(Lead::LinkHeader) => ("link", ""),
            None => match self.kind {
                PageKind::Offset => ("offset", ""),
                PageKind::Number => ("number", ""),
                _ => ("none", ""),
            },
        };
        (kind, self.param.as_deref().unwrap_or_default(), at)
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
        let (value, go_to) = match self.kind {
            PageKind::None => (None, None),
            PageKind::Link | PageKind::NextUrl => (None, cursor),
            PageKind::Offset | PageKind::Number if self.omit_first && cursor.is_none() => {
                (None, None)
            }
            PageKind::Offset | PageKind::Number => (Some(Value::from(self.count(cursor)?)), None),
            PageKind::Token => {
                let token = cursor.map(|cursor| StoredToken::new(cursor, self.place()).value());
                (
                    token.or_else(|| self.first.as_deref().map(Value::from)),
                    None,
                )
            }
        };
        let then = self.then.as_deref().filter(|_| cursor.is_some());
        let size = self.size_param.as_deref().zip(self.size);
        let begins = lasting.map(|token| StoredToken::new(token, self.place()).value());
        Ok(Turn {
            size: size.filter(|_| then.is_none()),
            cursor: self.param.as_deref().zip(value),
            begins: self.lasting_param.as_deref().zip(begins),
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
        let of_record = self.last.is_some();
        let is_counted = self.counts_itself() || of_record;
        let expects_more = page.more == Some(true);
        // First of all: a count of ours never ends by itself, and neither a flag nor a total may lead behind an empty
        // page.
        if is_counted && page.listed == 0 {
            return Ok(NextPage::None(match expects_more {
                true if of_record => self.names_none(),
                true => End::Unnamed(
                    "the response says that there are more pages, and this one is empty".to_owned(),
                ),
                false => End::Proved,
            }));
        }
        if page.listed == 0 && self.empty_page_ends() && !expects_more {
            return Ok(NextPage::None(End::Proved));
        }
        // Where pages are counted, `Ends` keeps the cursor of the further page, which can refute the end.
        if page.more == Some(false) && !is_counted {
            return Ok(NextPage::None(End::Proved));
        }
        Ok(match (self.kind, page.reported) {
            (PageKind::None, _) => NextPage::None(End::Proved),
            (PageKind::Offset, reported) => {
                let reached = count(page.cursor, 0)?.saturating_add(page.listed);
                // A number below the records that came is wrong, and proves no end.
                let total = number_in(reported.as_deref()).filter(|total| *total >= reached);
                let is_rest = total.map(|total| reached < total);
                Ends::new(page.more, page.is_full, is_rest).then(reached.to_string())
            }
            (PageKind::Number, reported) => {
                let (next, is_rest) = self.next_number(page.cursor, page.listed, reported)?;
                Ends::new(page.more, page.is_full, is_rest).then(next.to_string())
            }
            (PageKind::Token, Some(token)) if of_record => {
                Ends::new(page.more, page.is_full, None).then(token)
            }
            (PageKind::Token, None) if of_record && page.more == Some(false) => {
                NextPage::None(End::Proved)
            }
            (_, None) if of_record || expects_more => NextPage::None(self.names_none()),
            (_, None) => NextPage::None(End::NotNamed),
            (PageKind::Token | PageKind::Link | PageKind::NextUrl, Some(next)) => {
                NextPage::Cursor(next)
            }
        })
    }

    fn names_none(&self) -> End {
        End::Unnamed(format!(
            "there are more pages, but the response names none {}",
            self.next_place()
        ))
    }

    /// Where a response names the next page, or says how many there are, in messages.
    pub fn next_place(&self) -> String {
        match self.lead() {
            Some(Lead::LinkHeader) => "in the header `link`".to_owned(),
            Some(Lead::TokenHeader(name)) => format!("in the header `{name}`"),
            Some(Lead::LastRecord(at)) => format!("at `{at}` of the last record"),
            Some(Lead::Url(at) | Lead::Token(at)) => format!("at `{at}`"),
            None => {
                let at = self.total.as_ref().or(self.pages.as_ref());
                at.map_or_else(String::new, |at| format!("at `{at}`"))
            }
        }
    }

    /// The number of records before the page at `cursor`, if the cursor tells.
    pub fn before(&self, cursor: Option<&str>) -> Option<u64> {
        match self.kind {
            PageKind::Offset => count(cursor, 0).ok(),
            PageKind::Number => self.numbered(cursor).ok()?.before,
            _ => cursor.is_none().then_some(0),
        }
    }

    /// Whether a list can seem to end with a page that is not full, where the upstream says nothing.
    pub fn assumes_end(&self) -> bool {
        let says = self.more.is_some() || self.done.is_some();
        self.size.is_some() && !says && self.can_lead_behind_the_end()
    }

    /// Whether a list can continue behind its last page although the body of that page stays the same: the next page is named
    /// in a header.
    pub fn may_grow_unseen(&self) -> bool {
        self.kind == PageKind::Link || self.next_header.is_some()
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
        match self.kind {
            PageKind::None => Some(0),
            PageKind::Token if self.first.as_deref() == Some(cursor) => Some(0),
            PageKind::Token | PageKind::Link | PageKind::NextUrl => decode(cursor),
            PageKind::Offset => cursor.parse::<u64>().ok()?.checked_sub(self.first_count()),
            PageKind::Number => {
                let page = cursor
                    .parse::<u64>()
                    .ok()?
                    .checked_sub(self.first_count())?;
                page.checked_mul(size)
            }
        }
    }

    /// The place of the numbered page at a cursor; `None` is the first page.
    fn numbered(&self, cursor: Option<&str>) -> Result<NumberedPage, NotANumber> {
        let (number, before) = match cursor
            .map(|cursor| cursor.split_once('+').unwrap_or((cursor, "")))
        {
            None => (None, Some("0")),
            Some((number, before)) => (Some(number), Some(before).filter(|text| !text.is_empty())),
        };
        Ok(NumberedPage {
            number: count(number, self.first_count())?,
            before: before.map(|text| count(Some(text), 0)).transpose()?,
        })
    }

    /// The place of the page behind a numbered one, and whether the response reports that there is one; `None` if it does not say.
    fn next_number(
        &self,
        cursor: Option<&str>,
        listed: u64,
        reported: Option<String>,
    ) -> Result<(NumberedPage, Option<bool>), NotANumber> {
        let NumberedPage { number, before } = self.numbered(cursor)?;
        let passed = number.saturating_sub(self.first_count());
        // A cursor of a configuration without `total` has the number alone.
        let size = self.size.unwrap_or(listed);
        let before = before.unwrap_or_else(|| passed.saturating_mul(size));
        let reached = before.saturating_add(listed);
        let came = match self.pages {
            Some(_) => passed.saturating_add(1),
            None => reached,
        };
        // A number below what came is wrong, and proves no end.
        let reported = number_in(reported.as_deref()).filter(|reported| *reported >= came);
        let is_rest = reported.map(|reported| came < reported);
        let next = NumberedPage {
            number: number.saturating_add(1),
            before: self.total.as_ref().map(|_| reached),
        };
        Ok((next, is_rest))
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

/// The place of a paging parameter in a JSON body: at the top, unless it is a pointer.
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
            Self::Said => NextPage::None(End::Said(next)),
            Self::Assumed => NextPage::None(End::Assumed(next)),
        }
    }
}

fn count(cursor: Option<&str>, first: u64) -> Result<u64, NotANumber> {
    cursor.map_or(Ok(first), |cursor| cursor.parse().map_err(|_| NotANumber))
}
