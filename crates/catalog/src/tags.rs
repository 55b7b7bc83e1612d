//! Pages by the upstream's name for their state: a page that did not change is not paid for again. It is landed again as a
//! page of the new pass, so that nothing else needs to know of it.

use std::collections::HashMap;

use serde_json::Value;

use super::page::LandingPage;
use super::sql::{StoreError, Tx, values};
use super::{Catalog, CatalogError, CatalogReader, rows};
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

impl CatalogReader {
    /// Returns the page that a request brought last; `None` if it came without a tag or any of its records was deleted.
    pub async fn cached_page(
        &self,
        upstream: &str,
        kind: &str,
        request: &str,
    ) -> Result<Option<CachedPage>, CatalogError> {
        let [upstream, kind, request] = [upstream, kind, request].map(str::to_owned);
        self.read(move |tx| {
            let Some(row) = tx.first(CACHED, values![&upstream, &request, &kind])? else {
                return Ok(None);
            };
            let ids: Vec<String> = row.json(1)?;
            let mut bodies: HashMap<usize, Value> = HashMap::new();
            for row in tx.each(BODY, values![&upstream, &kind], &ids)? {
                bodies.insert(row.place, row.json(1)?);
            }
            let records = ids.into_iter().enumerate().map(|(place, id)| {
                let body = bodies.remove(&place)?;
                Some(Record { id, body })
            });
            let Some(records) = records.collect() else {
                return Ok(None);
            };
            let tag = Tag {
                request: request.clone(),
                name: row.text(0)?,
                next: row.optional_text(2)?,
            };
            Ok(Some(CachedPage { tag, records }))
        })
        .await
    }

    /// Returns the tags of all stored pages of an upstream.
    pub async fn tags(&self, upstream: &str) -> Result<Vec<Tag>, CatalogError> {
        let upstream = upstream.to_owned();
        self.read(move |tx| {
            let rows = tx.query(ALL, values![&upstream])?;
            rows.iter().map(rows::tag).collect()
        })
        .await
    }
}

impl Catalog {
    /// Deletes the tags of a call's pages, so that they are requested in full.
    pub async fn forget_tags(&self, upstream: &str, call: &str) -> Result<(), CatalogError> {
        let [upstream, call] = [upstream, call].map(str::to_owned);
        self.write(move |tx| tx.later(FORGET, values![&upstream, &call]))
            .await
    }
}

/// Deletes the tags of pages that were last requested before `since`.
pub fn forget_old(tx: &Tx<'_>, upstream: &str, since: Timestamp) -> Result<(), StoreError> {
    tx.later(FORGET_OLD, values![upstream, since])
}
