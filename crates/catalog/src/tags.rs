//! Pages by the upstream's name for their state: a page that did not change is not paid for again. It is landed again as a
//! page of the new pass, so that nothing else needs to know of it.

use std::collections::HashMap;

use serde_json::Value;

use super::page::LandingPage;
use super::rows;
use super::sql::{StoreError, Tx, values};
use ingest_base::record::{CachedPage, Record, Tag};
use ingest_quota::{Period, Timestamp};

// Of two requests with one hash the later one is kept, which costs a page at most.
const REMEMBER: &str = "insert into tag (upstream, request, call, name, kind, ids, next, at)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    on conflict (upstream, {hash request}) do update set request = excluded.request, call = excluded.call,
        name = excluded.name, kind = excluded.kind, ids = excluded.ids, next = excluded.next, at = excluded.at";
const CACHED: &str = "select name, ids, next from tag
    where upstream = ?1 and {hash request} = {hash ?2} and request = ?2 and kind = ?3";
const BODY: &str = "select id, body from record where upstream = ?1 and kind = ?2 and id = {key}";
const ALL: &str = "select request, name, next from tag where upstream = ?1 order by request";
const FORGET: &str = "delete from tag where upstream = ?1 and call = ?2";
const FORGET_OLD: &str = "delete from tag where upstream = ?1 and at < ?2";
pub const STATEMENTS: &[&str] = &[CACHED, BODY, ALL, FORGET, FORGET_OLD];

/// Stores the tag of a page, and forgets those of pages that nobody requested for long.
pub fn remember(tx: &Tx<'_>, page: &LandingPage) -> Result<(), StoreError> {
    let Some(tag) = &page.landing.tag else {
        return Ok(());
    };
    let ids: Value = page.rows.iter().map(|row| row.id.as_str()).collect();
    let landing = &page.landing;
    tx.later(
        REMEMBER,
        values![
            &landing.upstream,
            &tag.request,
            &landing.call,
            &tag.name,
            page.kind(),
            ids.to_string(),
            &tag.next,
            landing.now,
        ],
    )?;
    // Nobody requested the page for longer than any quota lasts.
    forget_old(tx, &landing.upstream, landing.now - Period::longest())
}

/// The page that a request brought last; `None` if any of its records was deleted.
pub fn cached_page(
    tx: &Tx<'_>,
    upstream: &str,
    kind: &str,
    request: &str,
) -> Result<Option<CachedPage>, StoreError> {
    let Some(row) = tx.first(CACHED, values![upstream, request, kind])? else {
        return Ok(None);
    };
    let ids: Vec<String> = row.json(1)?;
    let mut bodies: HashMap<usize, Value> = HashMap::new();
    for row in tx.each(BODY, values![upstream, kind], &ids)? {
        bodies.insert(row.place, row.json(1)?);
    }
    let records = ids.into_iter().enumerate().map(|(place, id)| {
        let body = bodies.remove(&place)?;
        Some(Record { id, body })
    });
    let Some(records) = records.collect() else {
        return Ok(None);
    };
    let (name, next) = (row.text(0)?, row.optional_text(2)?);
    let request = request.to_owned();
    Ok(Some(CachedPage {
        tag: Tag {
            request,
            name,
            next,
        },
        records,
    }))
}

pub fn tags(tx: &Tx<'_>, upstream: &str) -> Result<Vec<Tag>, StoreError> {
    let rows = tx.query(ALL, values![upstream])?;
    rows.iter().map(rows::tag).collect()
}

/// Deletes the tags of a call's pages.
pub fn forget(tx: &Tx<'_>, upstream: &str, call: &str) -> Result<(), StoreError> {
    tx.later(FORGET, values![upstream, call])
}

/// Deletes the tags of pages that were last requested before `since`.
pub fn forget_old(tx: &Tx<'_>, upstream: &str, since: Timestamp) -> Result<(), StoreError> {
    tx.later(FORGET_OLD, values![upstream, since])
}
