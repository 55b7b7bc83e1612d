//! Pages by the upstream's name for their state: a page that did not change is not paid for again. It is landed again as a
//! page of the new pass, so that nothing else needs to know of it.

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde_json::Value;

use super::columns;
use crate::page::LandingPage;
use crate::{Landing, rows};
use ingest_base::record::{CachedPage, Record, Tag};

const REMEMBER: &str = "insert into tag (upstream, request, call, name, kind, ids, next, at)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    on conflict do update set call = excluded.call, name = excluded.name, kind = excluded.kind, ids = excluded.ids,
        next = excluded.next, at = excluded.at";
const CACHED: &str =
    "select name, ids, next from tag where upstream = ?1 and request = ?2 and kind = ?3";
const BODY: &str = "select body from record where upstream = ?1 and kind = ?2 and id = ?3";
const ALL: &str = "select request, name, next from tag where upstream = ?1";
const FORGET: &str = "delete from tag where upstream = ?1 and call = ?2";
const FORGET_OLD: &str = "delete from tag where upstream = ?1 and at < ?2";
pub const STATEMENTS: &[&str] = &[CACHED, BODY, ALL, FORGET, FORGET_OLD];

/// Stores the tag of a page.
pub fn remember(tx: &Transaction<'_>, page: &LandingPage) -> rusqlite::Result<()> {
    let Some(Tag {
        request,
        name,
        next,
    }) = &page.landing.tag
    else {
        return Ok(());
    };
    let ids: Value = page.rows.iter().map(|row| row.id.as_str()).collect();
    let Landing { upstream, call, .. } = &*page.landing;
    let kind = page.kind();
    tx.prepare_cached(REMEMBER)?.execute(params![
        upstream,
        request,
        call,
        name,
        kind,
        ids.to_string(),
        next,
        columns::time(page.landing.now)
    ])?;
    forget_old(tx, upstream, &columns::time(page.tags_kept_since()))
}

/// The page that a request brought last; `None` if any of its records was deleted.
pub fn cached_page(
    connection: &Connection,
    upstream: &str,
    kind: &str,
    request: &str,
) -> rusqlite::Result<Option<CachedPage>> {
    let found = connection
        .prepare_cached(CACHED)?
        .query_row((upstream, request, kind), |row| row.try_into());
    let Some((name, ids, next)): Option<(String, String, Option<String>)> = found.optional()?
    else {
        return Ok(None);
    };
    let ids: Vec<String> = serde_json::from_str(&ids).unwrap_or_default();
    let mut statement = connection.prepare_cached(BODY)?;
    let mut records = Vec::with_capacity(ids.len());
    for id in ids {
        let body: Option<String> = statement
            .query_row((upstream, kind, &id), |row| row.get(0))
            .optional()?;
        let Some(body) = body.and_then(|body| serde_json::from_str(&body).ok()) else {
            return Ok(None);
        };
        records.push(Record { id, body });
    }
    Ok(Some(CachedPage {
        tag: Tag {
            request: request.to_owned(),
            name,
            next,
        },
        records,
    }))
}

pub fn tags(connection: &Connection, upstream: &str) -> rusqlite::Result<Vec<Tag>> {
    let mut statement = connection.prepare_cached(ALL)?;
    let tags = statement.query_map([upstream], |row| rows::tag(row))?;
    tags.collect()
}

/// Deletes the tags of a call's pages.
pub fn forget(tx: &Transaction<'_>, upstream: &str, call: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(FORGET)?
        .execute((upstream, call))
        .map(drop)
}

/// Deletes the tags of pages that were last requested before `since`.
pub fn forget_old(tx: &Transaction<'_>, upstream: &str, since: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(FORGET_OLD)?
        .execute((upstream, since))
        .map(drop)
}
