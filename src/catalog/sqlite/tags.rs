//! Pages by the name that their upstream has for them: what did not change need not be paid for.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Transaction};
use serde_json::Value;

use super::page::LandingPage;
use crate::record::{CachedPage, Record, Tag};

/// A page that was not asked for in so long is asked for anew.
pub const KEPT: Duration = Duration::from_secs(32 * 24 * 60 * 60);

const REMEMBER: &str = "insert into tag (upstream, request, call, name, kind, ids, next, at)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    on conflict do update set call = excluded.call, name = excluded.name, kind = excluded.kind, ids = excluded.ids,
        next = excluded.next, at = excluded.at";
const KNOWN: &str =
    "select name, ids, next from tag where upstream = ?1 and request = ?2 and kind = ?3";
const BODY: &str = "select body from record where upstream = ?1 and kind = ?2 and id = ?3";
const ALL: &str = "select request, name, next from tag where upstream = ?1";
const FORGET: &str = "delete from tag where upstream = ?1 and call = ?2";
const FORGET_OLD: &str = "delete from tag where upstream = ?1 and at < ?2";
pub const STATEMENTS: &[&str] = &[KNOWN, BODY, ALL, FORGET, FORGET_OLD];

/// Remembers under which name a page came.
pub fn remember(tx: &Transaction<'_>, page: &LandingPage) -> rusqlite::Result<()> {
    let Some(Tag {
        request,
        name,
        next,
    }) = &page.tag
    else {
        return Ok(());
    };
    let ids: Value = page.rows.iter().map(|row| row.id.as_str()).collect();
    let tag = (
        &page.upstream,
        request,
        &page.call,
        name,
        &page.kind,
        ids.to_string(),
        next,
        &page.now,
    );
    tx.prepare_cached(REMEMBER)?.execute(tag)?;
    forget_old(tx, &page.upstream, &page.tags_since)
}

/// The page that a request brought the last time; `None` where any of its records is gone.
pub fn cached_page(
    connection: &Connection,
    upstream: &str,
    kind: &str,
    request: &str,
) -> rusqlite::Result<Option<CachedPage>> {
    let found = connection
        .prepare_cached(KNOWN)?
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
    let tags = statement.query_map([upstream], |row| {
        Ok(Tag {
            request: row.get(0)?,
            name: row.get(1)?,
            next: row.get(2)?,
        })
    })?;
    tags.collect()
}

/// Forgets the tags of a call's pages.
pub fn forget(tx: &Transaction<'_>, upstream: &str, call: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(FORGET)?
        .execute((upstream, call))
        .map(drop)
}

/// Forgets the tags of pages that were not asked for since.
pub fn forget_old(tx: &Transaction<'_>, upstream: &str, since: &str) -> rusqlite::Result<()> {
    tx.prepare_cached(FORGET_OLD)?
        .execute((upstream, since))
        .map(drop)
}
