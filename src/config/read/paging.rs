//! `page = { kind = "…" }`

use super::scalars::{count, pointer, word};
use crate::config::item::Item;
use crate::config::names::advice;
use crate::config::section::Section;
use crate::config::{PageSize, Paging, Place};

pub const KINDS: [(&str, &[&str]); 6] = [
    (
        "token",
        &[
            "kind",
            "param",
            "next",
            "in",
            "size_param",
            "size",
            "empty_pages",
        ],
    ),
    ("link", &["kind", "size_param", "size", "empty_pages"]),
    (
        "next_url",
        &["kind", "next", "size_param", "size", "empty_pages"],
    ),
    (
        "offset",
        &["kind", "param", "in", "size_param", "size", "total"],
    ),
    (
        "number",
        &["kind", "param", "in", "size_param", "size", "first"],
    ),
    ("none", &["kind"]),
];

/// `page.empty_pages`, where it is not configured.
const EMPTY_PAGES: u64 = 20;

/// `page.empty_pages` of a call. Where we count records or pages, an empty page is the last one.
pub fn empty_pages(call: &Item<'_>) -> Option<u64> {
    call.find(&["page", "empty_pages"])
        .map_or(Some(EMPTY_PAGES), |item| item.number(0..=1_000_000))
}

pub const PLACES: [(&str, Place); 2] = [("query", Place::Query), ("body", Place::Body)];

pub fn paging(item: Item<'_>) -> Option<Paging> {
    let names = KINDS.map(|(name, _)| name);
    let Some(kind) = item.find(&["kind"]) else {
        item.entries()?;
        return item.lacks(
            "kind",
            &format!("\"token\" (or one of {})", names.join(", ")),
        );
    };
    let text = kind.text()?;
    let Some((name, keys)) = KINDS.iter().find(|(name, _)| *name == text) else {
        return kind.refuse("unknown paging kind", advice(text, names));
    };
    let section = item.table(keys)?;
    match *name {
        "token" => token(&section),
        "link" => Some(Paging::Link {
            size: size(&section)?,
        }),
        "next_url" => next_url(&section),
        "offset" => offset(&section),
        "number" => number(&section),
        _ => Some(Paging::None),
    }
}

fn token(section: &Section<'_>) -> Option<Paging> {
    let (param, next) = (param(section), next(section));
    let (place, size) = (place(section), size(section));
    Some(Paging::Token {
        param: param?,
        next: next?,
        place: place?,
        size: size?,
    })
}

fn next_url(section: &Section<'_>) -> Option<Paging> {
    let (next, size) = (next(section), size(section));
    Some(Paging::NextUrl {
        next: next?,
        size: size?,
    })
}

fn offset(section: &Section<'_>) -> Option<Paging> {
    let (param, place, total) = (
        param(section),
        place(section),
        section.optional("total", pointer),
    );
    let size = match size(section)? {
        Some(size) => size,
        None => return section.0.lacks("size", "100"),
    };
    Some(Paging::Offset {
        param: param?,
        place: place?,
        size,
        total: total?,
    })
}

fn number(section: &Section<'_>) -> Option<Paging> {
    let (param, place, size) = (param(section), place(section), size(section));
    let first = section.or("first", 1, |item| item.number(0..=1_000_000));
    Some(Paging::Number {
        param: param?,
        first: first?,
        place: place?,
        size: size?,
    })
}

fn param(section: &Section<'_>) -> Option<String> {
    section.required("param", "\"page\"", |item| item.filled_text())
}

fn next(section: &Section<'_>) -> Option<crate::config::Pointer> {
    section.required("next", "\"/next\"", pointer)
}

fn place(section: &Section<'_>) -> Option<Place> {
    section.or("in", Place::Query, |item| word(&item, &PLACES))
}

/// A parameter without a size would have nothing to say; a size without a parameter is how long a full page is.
fn size(section: &Section<'_>) -> Option<Option<PageSize>> {
    let param = section.optional("size_param", |item| item.filled_text());
    let size = section.optional("size", count);
    match (param?, size?) {
        (param, Some(size)) => Some(Some(PageSize { param, size })),
        (None, None) => Some(None),
        (Some(_), None) => section.0.lacks("size", "50"),
    }
}
