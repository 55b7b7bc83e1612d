//! The ids that lists name. A landing stores those that the records of its page name, where the configuration says that they do. Of a
//! record that was landed when the configuration said otherwise, the body is read.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value as Json;

use super::page::LandingPage;
use super::recall::last_fetched;
use super::sql::{Insert, Row, StoreError, Tx, Value, values};
use super::values;
use super::{
    CatalogError, CatalogReader, NamedIds, PassEnd, PassId, PassScope, PendingId, PendingQuery,
    RecordIds,
};
use ingest_base::plain::plain;
use ingest_config::IdPlace;
use ingest_quota::Timestamp;

/// Rows or keys of one statement: they are in memory once more while it runs.
const AT_ONCE: usize = 1_000;

const WANT: Insert<'_> = Insert {
    table: "wanted",
    columns: &["pass", "step", "at", "record", "id"],
    tail: "on conflict (pass, step, at, record, id) do nothing",
};
/// What an ended pass named or, where it is complete, the complete one before it: of the last one, previews ask what the next names.
const FORGET: &str = "delete from wanted where pass = case when ?2 <> 'complete' then ?1 else (
    select former.id from pass {join} pass former on former.job = pass.job and former.region = pass.region
        and former.slice_from is not distinct from pass.slice_from and former.slice_to is not distinct from pass.slice_to
        and former.outcome = 'complete' and former.id <> pass.id
    where pass.id = ?1 order by former.started_at desc, former.id desc limit 1) end";
const FORGET_STEP: &str = "delete from wanted where pass = ?1 and step = ?2";
const OPEN: &str = "select id, started_at, true from pass where job = ?1 and finished_at is null
    order by started_at, id";
const PASS: &str = "select id, started_at, finished_at is null from pass where id = {key}";
/// What the records of a list name; null of one whose names are not stored.
const NAMED: &str = "select listing.id, wanted.id from listing left join wanted
        on wanted.pass = listing.pass and wanted.step = listing.step and wanted.at = ?4 and wanted.record = listing.id
    where listing.pass = {key} and listing.upstream = ?1 and listing.call = ?2 and listing.kind = ?3
    order by listing.step, listing.position, wanted.id";
const BODY: &str = "select body from record where upstream = ?1 and kind = ?2 and id = {key}";
pub const STATEMENTS: &[&str] = &[FORGET, FORGET_STEP, OPEN, PASS, NAMED, BODY];

/// Stores the ids that a page names. An empty one says that its record names none.
pub fn store(tx: &Tx<'_>, page: &LandingPage, pass: PassId) -> Result<(), StoreError> {
    let landing = &page.landing;
    for (place, at) in landing.names.iter().enumerate() {
        let at = at.to_string();
        if !tx.takes_id(&at) {
            continue;
        }
        let mut rows: Vec<Vec<Value<'_>>> = Vec::new();
        for row in &page.rows {
            let ids = row.named.get(place).into_iter().flatten();
            let mut ids: Vec<&str> = ids.map(String::as_str).collect();
            ids.retain(|id| is_taken(tx, id, &landing.call));
            if ids.is_empty() {
                ids.push("");
            }
            let named = |id| values![pass.0, page.step, &at, &row.id, id];
            rows.extend(ids.into_iter().map(named));
            if rows.len() >= AT_ONCE {
                tx.insert_later(&WANT, std::mem::take(&mut rows))?;
            }
        }
        tx.insert_later(&WANT, rows)?;
    }
    Ok(())
}

/// Whether an id can be requested, and its records stored; otherwise, the log says so.
fn is_taken(tx: &Tx<'_>, id: &str, call: &str) -> bool {
    let is_taken = tx.takes_id(id);
    if !is_taken {
        tracing::warn!(
            "an id that {call} names is not requested, since it is too long for PostgreSQL's indexes: {} bytes, {:.60}...",
            id.len(),
            plain(id)
        );
    }
    is_taken
}

/// Deletes what nobody asks for any more once a pass has ended.
pub fn forget(tx: &Tx<'_>, pass: PassId, end: PassEnd) -> Result<(), StoreError> {
    tx.later(FORGET, values![pass.0, end.as_str()])
}

/// Deletes what a step of a pass named.
pub fn forget_step(tx: &Tx<'_>, pass: PassId, step: usize) -> Result<(), StoreError> {
    tx.later(FORGET_STEP, values![pass.0, step])
}

/// A pass whose lists a query reads.
pub struct Naming {
    pub pass: PassId,
    pub began: Timestamp,
    is_open: bool,
}

impl Naming {
    /// The passes of a query, in their order.
    pub fn of(tx: &Tx<'_>, query: &PendingQuery) -> Result<Vec<Self>, StoreError> {
        let rows = match &query.scope {
            PassScope::Open => tx.query(OPEN, values![&query.job])?,
            PassScope::Passes(passes) => {
                tx.each(PASS, values![], passes.iter().map(|pass| pass.0))?
            }
        };
        let naming = |row: &Row| {
            Ok(Self {
                pass: PassId(row.integer(0)?),
                began: row.time(1)?,
                is_open: row.truth(2)?,
            })
        };
        rows.iter().map(naming).collect()
    }

    /// Since when an id is fresh for it: what was fetched since an open pass began is, even where nothing stays fresh.
    pub fn fresh_since(&self, query: &PendingQuery) -> Timestamp {
        let fresh_since = values::clamped(query.fresh_since);
        match self.is_open {
            true => self.began.min(fresh_since),
            false => fresh_since,
        }
    }
}

/// An id that a record in a list names.
pub struct Named {
    /// The place of the pass.
    pub place: usize,
    pub record: Arc<str>,
    pub id: Arc<str>,
}

/// What the lists of these passes name, in their order.
pub fn named(
    tx: &Tx<'_>,
    passes: &[Naming],
    query: &PendingQuery,
) -> Result<Vec<Named>, StoreError> {
    let (upstream, call, kind) = (&query.upstream, &query.listed_by, &query.listed_kind);
    let mut texts = Texts::default();
    let mut listed: Vec<(usize, Arc<str>, Option<Arc<str>>)> = Vec::new();
    for (first, passes) in (0..).step_by(AT_ONCE).zip(passes.chunks(AT_ONCE)) {
        let of = values![upstream, call, kind, query.at.to_string()];
        for row in tx.each(NAMED, of, passes.iter().map(|one| one.pass.0))? {
            let id = row.optional_text(1)?.map(|id| texts.shared(&id));
            listed.push((first + row.place, texts.shared(&row.text(0)?), id));
        }
    }
    let unread = listed.iter().filter(|(.., id)| id.is_none());
    let unread: HashSet<&Arc<str>> = unread.map(|(_, record, _)| record).collect();
    let read = named_ids(tx, &RecordIds::new(upstream, kind, unread), &query.at)?;
    let read: HashMap<Arc<str>, Vec<Arc<str>>> = read.into_iter().collect();
    let mut all = Vec::new();
    for (place, record, id) in listed {
        let read = read.get(&record).filter(|_| id.is_none());
        let read = read
            .into_iter()
            .flatten()
            .filter(|id| is_taken(tx, id, call));
        let ids = id.into_iter().filter(|id| !id.is_empty());
        all.extend(ids.chain(read.cloned()).map(|id| Named {
            place,
            record: Arc::clone(&record),
            id,
        }));
    }
    Ok(all)
}

impl CatalogReader {
    /// Returns the ids to fetch, in the order of the passes and their listings.
    pub async fn pending_ids(&self, query: PendingQuery) -> Result<Vec<PendingId>, CatalogError> {
        match &self.simulated {
            None => self.read(move |tx| pending_ids(tx, &query)).await,
            Some(simulated) => {
                let simulated = Arc::clone(simulated);
                self.read(move |tx| simulated.pending(tx, &query)).await
            }
        }
    }

    /// Returns the ids that these records name at a place, record by record. Omits records that are not stored.
    pub async fn named_ids(
        &self,
        records: RecordIds,
        at: &IdPlace,
    ) -> Result<Vec<NamedIds>, CatalogError> {
        if let Some(simulated) = &self.simulated {
            return Ok(simulated.named_ids(records, at.to_string()));
        }
        let at = at.clone();
        self.read(move |tx| named_ids(tx, &records, &at)).await
    }
}

/// Texts, each in memory once: several regions list mostly the same records, which name the same ids.
#[derive(Default)]
struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }
}

/// The ids that the bodies of these records name at a place.
fn named_ids(tx: &Tx<'_>, records: &RecordIds, at: &IdPlace) -> Result<Vec<NamedIds>, StoreError> {
    let mut named = Vec::new();
    for ids in records.ids.chunks(AT_ONCE) {
        for row in tx.each(BODY, values![&records.upstream, &records.kind], ids)? {
            let body: Json = serde_json::from_str(row.verbatim(0)?).unwrap_or_default();
            // In the order of the stored ones.
            let of_record: BTreeSet<Arc<str>> =
                at.ids_in(&body).into_iter().map(Arc::from).collect();
            let of_record = of_record.into_iter().collect();
            named.extend(ids.get(row.place).cloned().map(|id| (id, of_record)));
        }
    }
    Ok(named)
}

/// Ids to fetch, in the order of the passes and their lists.
fn pending_ids(tx: &Tx<'_>, query: &PendingQuery) -> Result<Vec<PendingId>, StoreError> {
    let passes = Naming::of(tx, query)?;
    let named = named(tx, &passes, query)?;
    // Each is looked up once.
    let ids: HashSet<&Arc<str>> = named.iter().map(|named| &named.id).collect();
    let ids = RecordIds::new(&query.upstream, &query.kind, ids);
    let fetched: HashMap<Arc<str>, Timestamp> = last_fetched(tx, &ids)?.into_iter().collect();
    let mut seen = HashSet::new();
    let mut pending = Vec::new();
    for Named { place, id, .. } in &named {
        let Some(pass) = passes.get(*place) else {
            continue;
        };
        let fresh_since = pass.fresh_since(query);
        let is_fresh = fetched.get(id).is_some_and(|at| *at >= fresh_since);
        if !is_fresh && seen.insert((place, id)) {
            pending.push(PendingId {
                id: id.to_string(),
                pass: pass.pass,
                began: pass.began,
            });
        }
    }
    Ok(pending)
}
