//! `page = { kind = "…" }`: how the pages of a list follow each other.

use super::Pointer;
use super::declare::{
    COUNT, Flat, FlatOptional, Keys, Kind, Optional, Or, PAGES, POINTER, Required, TEXT, Tagged,
    Words, keys,
};
use super::item::Item;

/// How a call turns pages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Paging {
    /// `none`
    #[default]
    None,
    /// `token`
    Token(ByToken),
    /// `link`
    Link(ByLink),
    /// `next_url`
    NextUrl(ByNextUrl),
    /// `offset`
    Offset(ByOffset),
    /// `number`
    Number(ByNumber),
}

pub const PAGING: Tagged<Paging> = Tagged(&[
    kind::<ByToken>(
        "token",
        "The response contains an opaque token for the next page, which a parameter carries. The list ends when there is \
        no token.",
        |keys| ByToken::read(keys).map(Paging::Token),
    ),
    kind::<ByLink>(
        "link",
        "The response header `Link: <URL>; rel=\"next\"` names the next page, on the same host. The list ends without it.",
        |keys| ByLink::read(keys).map(Paging::Link),
    ),
    kind::<ByNextUrl>(
        "next_url",
        "The response body contains the URL of the next page, on the same host. The list ends when there is none.",
        |keys| ByNextUrl::read(keys).map(Paging::NextUrl),
    ),
    kind::<ByOffset>(
        "offset",
        "A parameter carries the number of records to skip. The list ends at the reported total; without one, at a page \
        that is not full.",
        |keys| ByOffset::read(keys).map(Paging::Offset),
    ),
    kind::<ByNumber>(
        "number",
        "A parameter carries the number of the page. The list ends at a page that is not full; if the size is unknown, at \
        an empty one.",
        |keys| ByNumber::read(keys).map(Paging::Number),
    ),
    kind::<()>("none", "One page is the whole list.", |_| {
        Some(Paging::None)
    }),
]);

const fn kind<K: Keys>(
    name: &'static str,
    doc: &'static str,
    read: fn(&Item<'_>) -> Option<Paging>,
) -> Kind<Paging> {
    Kind {
        name,
        doc,
        keys: K::keys,
        names: K::names,
        read,
    }
}

keys! {
    /// `kind = "token"`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ByToken {
        /// The parameter that carries the token.
        param: String = Required(TEXT, "'pageToken'"),
        /// Where the response contains the token of the next page.
        next: Pointer = Required(POINTER, "'/nextPageToken'"),
        /// Where paging parameters are sent.
        place as "in": Place = Or(Words(PLACES), "'query'", "'body'"),
        /// The size of a page.
        size: Option<PageSize> = FlatOptional::<PageSize>::NEW,
        /// The most empty pages in a row that a list may contain while its token continues. A list with more is not complete.
        empty_pages: u64 = Or(PAGES, "20", "100"),
    }
}

keys! {
    /// `kind = "link"`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ByLink {
        /// The size of a page.
        size: Option<PageSize> = FlatOptional::<PageSize>::NEW,
        /// The most empty pages in a row that a list may contain while the header continues. A list with more is not complete.
        empty_pages: u64 = Or(PAGES, "20", "100"),
    }
}

keys! {
    /// `kind = "next_url"`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ByNextUrl {
        /// Where the response contains the URL of the next page.
        next: Pointer = Required(POINTER, "'/links/next'"),
        /// The size of a page.
        size: Option<PageSize> = FlatOptional::<PageSize>::NEW,
        /// The most empty pages in a row that a list may contain while the URL continues. A list with more is not complete.
        empty_pages: u64 = Or(PAGES, "20", "100"),
    }
}

keys! {
    /// `kind = "offset"`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ByOffset {
        /// The parameter that carries the number of records to skip.
        param: String = Required(TEXT, "'offset'"),
        /// Where paging parameters are sent.
        place as "in": Place = Or(Words(PLACES), "'query'", "'body'"),
        /// The size of a page.
        size: PageSize = Flat::<PageSize>::NEW,
        /// Where the response reports the number of all records.
        total: Option<Pointer> = Optional(POINTER, "'/total'"),
    }
}

keys! {
    /// `kind = "number"`
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ByNumber {
        /// The parameter that carries the number of the page.
        param: String = Required(TEXT, "'page'"),
        /// The number of the first page.
        first: u64 = Or(PAGES, "1", "0"),
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
        /// The parameter that requests the size of a page. If unset, the size is not requested.
        param as "size_param": Option<String> = Optional(TEXT, "'maxResults'"),
        /// The number of records on a full page.
        size: u64 = Required(COUNT, "50"),
    }
}

/// Where paging parameters are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Place {
    /// In the query.
    #[default]
    Query,
    /// In the JSON body, at the top.
    Body,
}

const PLACES: &[(&str, Place, &str)] = &[
    ("query", Place::Query, "In the query of the URL."),
    (
        "body",
        Place::Body,
        "At the top of the JSON body of a POST.",
    ),
];

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

    /// The most empty pages in a row that a list may contain while its cursor continues.
    #[must_use]
    pub const fn empty_pages(&self) -> u64 {
        match self {
            Self::Token(ByToken { empty_pages, .. })
            | Self::Link(ByLink { empty_pages, .. })
            | Self::NextUrl(ByNextUrl { empty_pages, .. }) => *empty_pages,
            Self::None | Self::Offset(_) | Self::Number(_) => 0,
        }
    }
}
