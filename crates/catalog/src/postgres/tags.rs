//! Pages by the upstream's name for their state: a page that did not change is not paid for again.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;

use super::sql::{Columns, all_stored, parameters, stored, time};
use super::{PostgresError, Transaction};
use crate::page::LandingPage;
use crate::rows;
use ingest_base::record::{CachedPage, Record, Tag};
use ingest_quota::Timestamp;

// Of two requests with one hash the later one is kept, which costs a page at most.
const REMEMBER: &str = "insert into tag (upstream, request, call, name, kind, ids, next, at)
    values ($1, $2, $3, $4, $5, $6, $7, $8)
    on conflict (upstream, hashtextextended(request, 0)) do update set request = excluded.request,
        call = excluded.call, name = excluded.name, kind = excluded.kind, ids = excluded.ids,
        next = excluded.next, at = excluded.at";
// By its hash, which is what the index has: an entry holds no text of any length.
const CACHED: &str = "select name, ids, next from tag where upstream = $1
    and hashtextextended(request, 0) = hashtextextended($2, 0) and request = $2 and kind = $3";
const BODIES: &str =
    "select id, body from record where upstream = $1 and kind = $2 and id = any($3)";
const ALL: &str = "select request, name, next from tag where upstream = $1 order by request";
const FORGET: &str = "delete from tag where upstream = $1 and call = $2";
pub const FORGET_OLD: &str = "delete from tag where upstream = $1 and at < $2";

/// Stores the tag of a page.
pub async fn remember(tx: &Transaction<'_>, page: &LandingPage) -> Result<(), PostgresError> {
    let Some(tag) = &page.landing.tag else {
        return Ok(());
    };
    let ids: Value = page.rows.iter().map(|row| row.id.as_str()).collect();
    tx.execute(
        REMEMBER,
        parameters![
            stored(&page.landing.upstream),
            stored(&tag.request),
            stored(&page.landing.call),
            stored(&tag.name),
            stored(page.kind()),
            Cow::<str>::Owned(ids.to_string()),
            tag.next.as_deref().map(stored),
            time(page.landing.now),
        ],
    )
    .await
}

/// Deletes the tags of pages that nobody requested for long, whenever one is stored.
pub async fn forget_aged(tx: &Transaction<'_>, page: &LandingPage) -> Result<(), PostgresError> {
    if page.landing.tag.is_none() {
        return Ok(());
    }
    let upstream = stored(&page.landing.upstream);
    tx.execute(
        FORGET_OLD,
        parameters![upstream, time(page.tags_kept_since())],
    )
    .await
}

/// The page that a request brought last; `None` if any of its records was deleted.
pub async fn cached_page(
    tx: &Transaction<'_>,
    upstream: &str,
    kind: &str,
    request: &str,
) -> Result<Option<CachedPage>, PostgresError> {
    let rows = tx
        .query(
            CACHED,
            parameters![stored(upstream), stored(request), stored(kind)],
        )
        .await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let ids: Vec<String> = row.json(1)?;
    let mut bodies: HashMap<String, Value> = HashMap::new();
    for row in tx
        .query(
            BODIES,
            parameters![stored(upstream), stored(kind), all_stored(&ids)],
        )
        .await?
    {
        bodies.insert(row.text(0)?, row.json(1)?);
    }
    let records = ids.into_iter().map(|id| {
        let body = bodies.get(&id)?.clone();
        Some(Record { id, body })
    });
    let Some(records) = records.collect() else {
        return Ok(None);
    };
    Ok(Some(CachedPage {
        tag: Tag {
            request: request.to_owned(),
            name: row.text(0)?,
            next: row.optional_text(2)?,
        },
        records,
    }))
}

pub async fn tags(tx: &Transaction<'_>, upstream: &str) -> Result<Vec<Tag>, PostgresError> {
    let rows = tx.query(ALL, parameters![stored(upstream)]).await?;
    rows.iter().map(rows::tag).collect()
}

/// Deletes the tags of a call's pages.
pub async fn forget(tx: &Transaction<'_>, upstream: &str, call: &str) -> Result<(), PostgresError> {
    tx.execute(FORGET, parameters![stored(upstream), stored(call)])
        .await
}

/// Deletes the tags of pages that were last requested before `since`.
pub async fn forget_old(
    tx: &Transaction<'_>,
    upstream: &str,
    since: Timestamp,
) -> Result<(), PostgresError> {
    tx.execute(FORGET_OLD, parameters![stored(upstream), time(since)])
        .await
}
