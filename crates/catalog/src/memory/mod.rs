//! A catalog in memory, for simulations: it begins with the passes by which the next ones go, and stores passes and no records.
//!
//! Its lists are known beforehand, as [`Contents`]: a landed page has one record, whose id is the page's number there. A forecast would
//! otherwise write each record a hundred times.

mod contents;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use foldhash::HashSet;
use parking_lot::Mutex;

use self::contents::{ById, Place};
use super::page::LandingPage;
use super::passes::{self, NEWEST_POSITIONS};
use super::sql::{StoreError, Tx, in_transaction};
use super::tables::{CopiedRow, Table, put, rows_of};
use super::wanted::Naming;
use super::{
    Catalog, CatalogError, Landed, Landing, Lease, Leases, NamedIds, PassId, PassRef, PendingId,
    PendingQuery, RecordIds, Resource, Taken,
};
use super::{land, lasting};
use ingest_quota::Timestamp;
use ingest_sqlite as sqlite;
use ingest_sqlite::Database;

pub use contents::{Contents, PageNumber, PageRecords, RecordKind};

/// A page leads on to the one whose number is the count of those before it.
const NUMBER_CURSORS: &str =
    "update checkpoint set cursor = cast(page as text) where cursor is not null";
/// All that a simulation writes is one transaction, which nobody ends.
const NOTHING_IS_UNDONE: &str = "pragma journal_mode = off; begin";

/// What the passes of a simulation go by.
#[derive(Debug, Clone)]
pub struct Beginning {
    /// Jobs, with their regions and whether they have slices.
    pub jobs: Vec<(String, Vec<String>, bool)>,
    /// Further passes.
    pub passes: Vec<PassId>,
    /// Passes that started later do not count.
    pub until: Timestamp,
}

/// Rows with which a catalog in memory begins.
pub type Rows = Vec<(&'static Table, Vec<CopiedRow>)>;

/// Reads the rows of the passes by which the next ones go.
pub fn read(tx: &Tx<'_>, beginning: &Beginning) -> Result<Rows, StoreError> {
    let mut passes: BTreeSet<i64> = beginning.passes.iter().map(|pass| pass.0).collect();
    for (job, regions, has_slices) in &beginning.jobs {
        let of_job = passes::read_by_next(tx, job, regions, *has_slices, beginning.until)?;
        passes.extend(of_job);
    }
    let passes: Vec<i64> = passes.into_iter().collect();
    let newest = format!("pass = {{key}} and {NEWEST_POSITIONS}");
    let of_pass = [
        ("pass", "id = {key}"),
        ("checkpoint", newest.as_str()),
        ("batch", "pass = {key}"),
        // A simulated list begins at no cursor.
        ("lasting_cursor", "pass = {key} and stopped is not null"),
    ];
    let of_pass = of_pass
        .into_iter()
        .map(|(table, which)| rows_of(tx, table, which, &passes));
    let facts = rows_of(tx, "call_facts", "{key} = 0", &[0]);
    of_pass.chain([facts]).collect()
}

/// Writes these rows into an empty catalog.
fn begin(tx: &Tx<'_>, rows: Rows) -> Result<(), StoreError> {
    for (table, rows) in rows {
        put(tx, table, rows)?;
    }
    tx.batch(NUMBER_CURSORS)
}

/// A catalog in memory as simulations begin with it.
pub struct Template {
    database: Mutex<Database>,
    contents: Arc<Contents>,
}

/// What stands for the path of a catalog in memory.
pub fn nowhere() -> &'static Path {
    Path::new(":memory:")
}

impl Template {
    pub(super) fn new(rows: Rows, contents: Arc<Contents>) -> Result<Self, CatalogError> {
        let database = sqlite::in_memory(Catalog::schema());
        let mut database = database.map_err(|error| CatalogError::Failed(error.to_string()))?;
        let begun = database.change(|connection| in_transaction(connection, |tx| begin(tx, rows)));
        begun.map_err(|error| error.of_file(nowhere()))?;
        Ok(Self {
            database: Mutex::new(database),
            contents,
        })
    }

    /// Returns a copy, for one simulation.
    ///
    /// # Errors
    /// Fails if there is no memory for it.
    pub fn catalog(&self) -> Result<Catalog, CatalogError> {
        let copy = self.database.lock().in_memory().and_then(|copy| {
            copy.execute_batch(NOTHING_IS_UNDONE)?;
            Ok(copy)
        });
        let copy = copy.map_err(|error| StoreError::from(error).of_file(nowhere()))?;
        Ok(Catalog::in_memory(copy, Arc::clone(&self.contents)))
    }
}

/// The leases of a simulation, which is one run alone: every resource is free.
pub struct Alone;

#[async_trait]
impl Leases for Alone {
    async fn take(&self, _: &Resource) -> Result<Taken, CatalogError> {
        Ok(Taken::Granted(Lease::new(())))
    }
}

/// What a catalog in memory knows of records.
#[derive(Debug)]
pub struct SimulatedRecords {
    contents: Arc<Contents>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What passes listed in the simulation.
    listed: HashMap<List, HashMap<PassId, ListedIds>>,
    /// When batches fetched ids.
    fetched: HashMap<RecordKind, ById<Timestamp>>,
    /// When pages of lists were landed, by their numbers. Their ids were fetched then, too.
    landed: HashMap<PageNumber, Timestamp>,
    /// Since when every id that a page names is fetched, by the ids' kind, their place, and the page. Ids are only fetched again
    /// later, so a page that named nothing to fetch at that time does not until the time is too long ago.
    fresh: HashMap<(RecordKind, Place), HashMap<PageNumber, Timestamp>>,
}

/// The call and the kind of the records that it returned.
type List = (String, RecordKind);

/// What a call returned.
#[derive(Debug, Default)]
struct ListedIds {
    /// The ids of batches.
    ids: Vec<Arc<str>>,
    /// The pages of lists.
    pages: Vec<PageNumber>,
}

/// When the records of a kind were fetched.
struct Fetched<'a> {
    before: Option<&'a ById<Timestamp>>,
    own: Option<&'a ById<Timestamp>>,
    pages: Option<&'a ById<Vec<PageNumber>>>,
    landed: &'a HashMap<PageNumber, Timestamp>,
}

impl Fetched<'_> {
    fn at(&self, id: &str) -> Option<Timestamp> {
        let of = |fetched: Option<&ById<Timestamp>>| fetched.and_then(|all| all.get(id)).copied();
        let pages = self.pages.and_then(|pages| pages.get(id));
        let landed = pages.into_iter().flatten();
        let landed = landed.filter_map(|page| self.landed.get(page)).max();
        of(self.own).max(of(self.before)).max(landed.copied())
    }
}

impl State {
    fn fetched<'a>(&'a self, contents: &'a Contents, kind: &RecordKind) -> Fetched<'a> {
        Fetched {
            before: contents.fetched.get(kind),
            own: self.fetched.get(kind),
            pages: contents.pages_with(kind),
            landed: &self.landed,
        }
    }

    /// Notes what a page lists.
    fn list(&mut self, landing: &Landing, pass: PassId) {
        let kind = (landing.upstream.clone(), landing.kind.kind.clone());
        let records = landing.records.iter().map(|record| record.id.as_str());
        let list = (landing.call.clone(), kind.clone());
        let listed = self.listed.entry(list).or_default();
        let listed = listed.entry(pass).or_default();
        if landing.batch.is_none() {
            for page in records.filter_map(|number| number.parse().ok()) {
                self.landed.insert(page, landing.now);
                listed.pages.push(page);
            }
            return;
        }
        let fetched = self.fetched.entry(kind).or_default();
        for id in records {
            let id: Arc<str> = Arc::from(id);
            fetched.insert(Arc::clone(&id), landing.now);
            listed.ids.push(id);
        }
        for id in &landing.requested {
            // Most of them returned, and have an entry.
            match fetched.get_mut(&**id) {
                Some(at) => *at = landing.now,
                None => drop(fetched.insert(Arc::from(&**id), landing.now)),
            }
        }
    }
}

impl SimulatedRecords {
    pub fn new(contents: Arc<Contents>) -> Self {
        Self {
            contents,
            state: Mutex::default(),
        }
    }

    /// Lands a page, without its records.
    pub fn land(&self, tx: &Tx<'_>, landing: &Arc<Landing>) -> Result<Landed, StoreError> {
        let is_known = landing.can_stop() && is_known(tx, landing)?;
        let page = LandingPage::without_records(Arc::clone(landing));
        let landed = land::without_records(tx, &page, is_known)?;
        self.state.lock().list(landing, landed.pass);
        Ok(landed)
    }

    pub fn named_ids(&self, records: RecordIds, at: String) -> Vec<NamedIds> {
        let place = ((records.upstream, records.kind), at);
        let names = self.contents.names(&place);
        let ids = records.ids.into_iter();
        ids.map(|id| (Arc::clone(&id), names.of(&id).into_owned()))
            .collect()
    }

    pub fn last_fetched(&self, records: RecordIds) -> Vec<(Arc<str>, Timestamp)> {
        let state = self.state.lock();
        let fetched = state.fetched(&self.contents, &(records.upstream, records.kind));
        let ids = records.ids.into_iter();
        ids.filter_map(|id| fetched.at(&id).map(|at| (id, at)))
            .collect()
    }

    pub fn pending(&self, tx: &Tx<'_>, query: &PendingQuery) -> Result<Vec<PendingId>, StoreError> {
        let passes = Naming::of(tx, query)?;
        let requested_kind = (query.upstream.clone(), query.kind.clone());
        let from = (query.upstream.clone(), query.listed_kind.clone());
        let list = (query.listed_by.clone(), from.clone());
        let key = (requested_kind, (from, query.at.to_string()));
        let mut state = self.state.lock();
        let mut fresh = state.fresh.remove(&key).unwrap_or_default();
        let (requested_kind, place) = &key;
        let names = self.contents.names(place);
        let fetched = state.fetched(&self.contents, requested_kind);
        let listed = state.listed.get(&list);
        let mut pending = Vec::new();
        for naming in passes {
            let (pass, began) = (naming.pass, naming.began);
            let fresh_since = naming.fresh_since(query);
            let mut seen: HashSet<Arc<str>> = HashSet::default();
            // Adds what a record names, and returns since when all of it is fetched; `None` if not all is fresh.
            let mut add = |named: Cow<'_, [Arc<str>]>| {
                let mut since = Some(Timestamp::from_micros(i64::MAX));
                for named in named.iter() {
                    let at = fetched.at(named).filter(|at| *at >= fresh_since);
                    since = since.zip(at).map(|(since, at)| since.min(at));
                    if at.is_none() && seen.insert(Arc::clone(named)) {
                        pending.push(PendingId {
                            id: named.to_string(),
                            pass,
                            began,
                        });
                    }
                }
                since
            };
            let own = listed.and_then(|listed| listed.get(&pass));
            let before = self
                .contents
                .listed(pass, &query.listed_by, &query.listed_kind);
            for record in before.chain(own.into_iter().flat_map(|own| &own.ids)) {
                add(names.of(record));
            }
            for page in own.into_iter().flat_map(|own| &own.pages) {
                if fresh.get(page).is_some_and(|since| *since >= fresh_since) {
                    continue;
                }
                let all = names.on(*page).map(&mut add);
                let since = all.reduce(|all, one| all.zip(one).map(|(all, one)| all.min(one)));
                fresh.extend(since.flatten().map(|since| (*page, since)));
            }
        }
        state.fresh.insert(key, fresh);
        Ok(pending)
    }
}

/// Whether a page ends its list: in a simulation nothing is new.
fn is_known(tx: &Tx<'_>, landing: &Landing) -> Result<bool, StoreError> {
    let PassRef { job, region, .. } = &landing.pass;
    let lists = [(region.clone(), landing.request.clone())];
    let known = lasting::known(tx, job, &lists, landing.now)?;
    Ok(known.into_iter().flatten().next().is_some())
}
