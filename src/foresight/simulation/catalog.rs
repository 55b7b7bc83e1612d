//! The catalog of a simulation: it starts as a copy of the real one, and stores only the ids of records.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::snapshot::{CatalogSnapshot, PageNumber, RecordKind};
use crate::run::{Backfill, Candidate};
use ingest_base::record::{CachedPage, Tag};
use ingest_catalog::{
    CallFacts, CatalogError, DoubtfulPass, EndedSlice, Estimate, IdSince, Landed, Landing,
    LastPages, Lease, Leases, Listed, NamedIds, OpenBatch, OpenPass, PassEnd, PassId, PassReader,
    PassRef, PassScope, PassStore, PendingId, PendingQuery, Rearrangement, RecordIds, RegionState,
    Resource, SliceState, StepListing, StepPosition, Taken, UncutPass, slice_states,
};
use ingest_config::{Pointer, Slice};
use ingest_quota::{Cost, Timestamp};

/// The catalog of a simulation.
#[derive(Debug, Default)]
pub struct SimulatedCatalog {
    snapshot: Arc<CatalogSnapshot>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    passes: BTreeMap<i64, SimulatedPass>,
    /// The passes by job, region and slice, of which there can be thousands.
    by_region: BTreeMap<(String, String, Option<Slice>), Vec<i64>>,
    /// The unfinished passes by job, oldest first: few of all, and read for each batch.
    open: HashMap<String, BTreeSet<(Timestamp, i64)>>,
    next: i64,
    /// From when on the next pass lists, by job and region.
    since: HashMap<(String, String), UncutPass>,
    fetched: HashMap<RecordKind, HashMap<Arc<str>, Timestamp>>,
    /// When pages of lists were landed, by their numbers. Their ids were fetched then, too.
    landed: Vec<Option<Timestamp>>,
    /// Since when every id that a page names is fetched, by the ids' kind, their place, and the page. Ids are only fetched again
    /// later, so a page that named nothing to fetch at that time does not until the time is too long ago.
    fresh: HashMap<(RecordKind, Place), HashMap<PageNumber, Timestamp>>,
    /// What the lists of each call showed.
    call_facts: Vec<CallFacts>,
    /// The slices that were complete before the simulation, by job and region, and the pages of the last one.
    backfills: HashMap<(String, String), (Arc<Backfill>, PagesByStep)>,
}

/// Those of the passes that are unfinished, oldest first.
fn open_passes<'a>(passes: impl Iterator<Item = (i64, &'a SimulatedPass)>) -> Vec<OpenPass> {
    let open = passes.filter(|(_, pass)| pass.end.is_none());
    let mut open: Vec<OpenPass> = open
        .map(|(id, pass)| OpenPass {
            id: PassId(id),
            region: pass.region.clone(),
            slice: pass.slice,
            started_at: pass.started_at,
            greatest: None,
            steps: pass.positions.clone(),
            batches: pass.batches.clone(),
            doubts: Vec::new(),
            relists: false,
        })
        .collect();
    open.sort_by_key(|pass| (pass.started_at, pass.id));
    open
}

/// Those of the passes over slices that have ended, oldest first.
fn ended_slices<'a>(passes: impl Iterator<Item = (i64, &'a SimulatedPass)>) -> Vec<EndedSlice> {
    let ended = |(id, pass): (i64, &SimulatedPass)| {
        Some(EndedSlice {
            slice: pass.slice?,
            pass: PassId(id),
            end: pass.end?,
            started_at: pass.started_at,
            finished_at: pass.ended_at,
            request: None,
            doubts: Vec::new(),
        })
    };
    let mut ended: Vec<EndedSlice> = passes.filter_map(ended).collect();
    ended.sort_by_key(|one| (one.started_at, one.pass));
    ended
}

/// Where records of a kind name ids.
type Place = (RecordKind, String);

/// Pages, by the step's index.
type PagesByStep = Vec<(usize, u64)>;

#[derive(Debug)]
struct SimulatedPass {
    job: String,
    region: String,
    slice: Option<Slice>,
    started_at: Timestamp,
    end: Option<PassEnd>,
    ended_at: Timestamp,
    /// Whether `max_pages` cut a step that names `{since}`.
    cut: bool,
    positions: Vec<StepPosition>,
    batches: Vec<OpenBatch>,
    listings: Vec<SimulatedListing>,
}

/// The ids of one kind that calls of one name returned.
#[derive(Debug)]
struct SimulatedListing {
    call: String,
    kind: RecordKind,
    /// Those listed before the simulation, and those of batches.
    ids: Vec<Arc<str>>,
    /// The pages of lists.
    pages: Vec<PageNumber>,
}

/// When the records of a kind were fetched.
struct Fetched<'a> {
    own: Option<&'a HashMap<Arc<str>, Timestamp>>,
    pages: Option<&'a HashMap<Arc<str>, Vec<PageNumber>>>,
    landed: &'a [Option<Timestamp>],
}

impl Fetched<'_> {
    fn at(&self, id: &str) -> Option<Timestamp> {
        let own = self.own.and_then(|own| own.get(id)).copied();
        let pages = self.pages.and_then(|pages| pages.get(id));
        let landed = |page: &PageNumber| self.landed.get(*page).copied().flatten();
        pages
            .into_iter()
            .flatten()
            .filter_map(landed)
            .max()
            .max(own)
    }
}

impl SimulatedCatalog {
    /// Starts with the state of these regions and the shared passes of their jobs.
    pub fn new(
        snapshot: Arc<CatalogSnapshot>,
        candidates: &[Candidate],
        shared: &[(Arc<ingest_config::Job>, OpenPass)],
    ) -> Self {
        let mut state = State {
            fetched: snapshot.fetched.clone(),
            landed: vec![None; snapshot.page_count()],
            call_facts: snapshot.call_facts.clone(),
            ..State::default()
        };
        for candidate in candidates {
            state.begin(&snapshot, candidate);
        }
        for (job, pass) in shared {
            let upstream = &job.credential.upstream.name;
            state.put(pass.id, open(&snapshot, upstream, &job.name, pass));
        }
        Self {
            snapshot,
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn begin(&mut self, snapshot: &CatalogSnapshot, candidate: &Candidate) {
        let Candidate { job, state, .. } = candidate;
        let upstream = &job.credential.upstream.name;
        let blank = |started_at, end| SimulatedPass {
            job: job.name.clone(),
            region: state.region.clone(),
            slice: candidate.region.slice,
            started_at,
            end: Some(end),
            ended_at: started_at,
            cut: false,
            positions: Vec::new(),
            batches: Vec::new(),
            listings: Vec::new(),
        };
        if let Some(backfill) = &candidate.backfill {
            let region = (job.name.clone(), state.region.clone());
            let known = || (Arc::clone(backfill), state.last_pages.clone());
            self.backfills.entry(region).or_insert_with(known);
        }
        if candidate.is_backfilled() {
            return;
        }
        if let (Some(id), Some(started_at)) = (state.last_complete_pass, state.last_complete) {
            let position = |&(step, pages): &(usize, u64)| StepPosition {
                step,
                pages,
                cursor: None,
                request: None,
                empty_pages: 0,
            };
            let positions = state.last_pages.iter().map(position).collect();
            let listings = listings(snapshot, upstream, id);
            self.put(
                id,
                SimulatedPass {
                    positions,
                    listings,
                    ..blank(started_at, PassEnd::Complete)
                },
            );
        }
        let without_pages = [
            (state.last_refused, PassEnd::Refused),
            (candidate.doubtful_since(), PassEnd::Doubtful),
            (state.last_abandoned, PassEnd::Abandoned),
        ];
        for (ended_at, end) in without_pages {
            if let Some(at) = ended_at {
                self.put(PassId((-self.next).saturating_sub(1)), blank(at, end));
            }
        }
        if let Some(since) = state.since.clone() {
            let region = (job.name.clone(), state.region.clone());
            self.since.insert(region, since);
        }
        if let Some(pass) = &state.unfinished {
            self.put(pass.id, open(snapshot, upstream, &job.name, pass));
        }
    }

    fn put(&mut self, id: PassId, pass: SimulatedPass) {
        self.next = self.next.max(id.0.saturating_abs()).saturating_add(1);
        let region = (pass.job.clone(), pass.region.clone(), pass.slice);
        if pass.end.is_none() {
            let open = self.open.entry(pass.job.clone()).or_default();
            open.insert((pass.started_at, id.0));
        }
        if self.passes.insert(id.0, pass).is_none() {
            self.by_region.entry(region).or_default().push(id.0);
        }
    }

    /// The passes of a region, those over its slices included.
    fn of_region(&self, job: &str, region: &str) -> impl Iterator<Item = (i64, &SimulatedPass)> {
        let first = (job.to_owned(), region.to_owned(), None);
        let is_of = |place: &(String, String, _)| place.0 == first.0 && place.1 == first.1;
        let ids = self.by_region.range(first.clone()..);
        let ids: Vec<i64> = ids
            .take_while(|(place, _)| is_of(place))
            .flat_map(|(_, ids)| ids.iter().copied())
            .collect();
        ids.into_iter()
            .filter_map(|id| Some((id, self.passes.get(&id)?)))
    }

    /// The passes over one slice of a region, or outside its slices.
    fn of_slice(
        &self,
        job: &str,
        region: &str,
        slice: Option<Slice>,
    ) -> impl Iterator<Item = (i64, &SimulatedPass)> {
        let place = (job.to_owned(), region.to_owned(), slice);
        let ids = self.by_region.get(&place).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.passes.get(id)?)))
    }

    /// The newest of these passes that ended so.
    fn last<'p>(
        passes: impl Iterator<Item = (i64, &'p SimulatedPass)>,
        end: PassEnd,
    ) -> Option<(i64, &'p SimulatedPass)> {
        let ended = passes.filter(|(_, pass)| pass.end == Some(end));
        ended.max_by_key(|(id, pass)| (pass.started_at, *id))
    }

    fn region_state(&self, job: &str, region: &str) -> RegionState {
        let passes: Vec<(i64, &SimulatedPass)> = self.of_slice(job, region, None).collect();
        let last = |end| Self::last(passes.iter().copied(), end);
        let complete = last(PassEnd::Complete);
        let last_complete = complete.map(|(_, pass)| pass.started_at);
        let refused = last(PassEnd::Refused).map(|(_, pass)| pass.started_at);
        let doubtful = last(PassEnd::Doubtful);
        let doubtful = doubtful.map(|(_, pass)| DoubtfulPass {
            started_at: pass.started_at,
            request: None,
            doubts: Vec::new(),
        });
        let pages = |(_, pass): (i64, &SimulatedPass)| pass.pages();
        RegionState {
            region: region.to_owned(),
            last_complete,
            last_complete_pass: complete.map(|(id, _)| PassId(id)),
            since: self
                .since
                .get(&(job.to_owned(), region.to_owned()))
                .cloned(),
            last_refused: refused
                .filter(|refused| last_complete.is_none_or(|complete| *refused > complete)),
            // A refusal that the configuration outdated is not part of the state that a simulation begins with.
            refused_request: None,
            doubtful: doubtful.filter(|doubtful| Some(doubtful.started_at) > last_complete),
            last_abandoned: last(PassEnd::Abandoned).map(|(_, pass)| pass.ended_at),
            unfinished: open_passes(passes.iter().copied()).pop(),
            last_pages: complete.map(pages).unwrap_or_default(),
            last_filled: complete.map(pages).unwrap_or_default(),
            last_notes: None,
        }
    }

    /// The slices of a region that have passes.
    fn slices(&self, job: &str, region: &str) -> Vec<SliceState> {
        let before = self.backfills.get(&(job.to_owned(), region.to_owned()));
        let before = before.map_or(&[][..], |(backfill, _)| &backfill.done);
        let passes = || self.of_region(job, region);
        let now = slice_states(region, &ended_slices(passes()), open_passes(passes()));
        before.iter().cloned().chain(now).collect()
    }

    /// One of these slices, which was not complete before the simulation.
    fn slice(&self, job: &str, region: &str, slice: Slice) -> Option<SliceState> {
        let passes = || self.of_slice(job, region, Some(slice));
        slice_states(region, &ended_slices(passes()), open_passes(passes())).pop()
    }

    /// The pages of the last complete slice of a region.
    fn last_pages(&self, job: &str, region: &str) -> Option<PagesByStep> {
        let complete = |(_, pass): &(i64, &SimulatedPass)| {
            pass.end == Some(PassEnd::Complete) && pass.slice.is_some()
        };
        let passes = self.of_region(job, region).filter(complete);
        let last = passes.max_by_key(|(id, pass)| (pass.started_at, *id));
        let before = || self.backfills.get(&(job.to_owned(), region.to_owned()));
        last.map(|(_, pass)| pass.pages())
            .or_else(|| before().map(|(_, pages)| pages.clone()))
    }

    /// The unfinished passes of a job, oldest first.
    fn open(&self, job: &str) -> impl Iterator<Item = (i64, &SimulatedPass)> {
        let open = self.open.get(job).into_iter().flatten();
        open.filter_map(|(_, id)| Some((*id, self.passes.get(id)?)))
    }

    fn fetched<'a>(&'a self, snapshot: &'a CatalogSnapshot, kind: &RecordKind) -> Fetched<'a> {
        Fetched {
            own: self.fetched.get(kind),
            pages: snapshot.pages_with(kind),
            landed: &self.landed,
        }
    }

    /// Returns the id of a pass, which is put among the others if it is new.
    fn id_of(&mut self, pass: &PassRef) -> PassId {
        let (job, region, slice, started_at) = match pass {
            PassRef::Open(id) => return *id,
            PassRef::New {
                job,
                region,
                slice,
                started_at,
            } => (job, region, slice, *started_at),
        };
        let id = PassId(self.next);
        let new = SimulatedPass {
            job: job.clone(),
            region: region.clone(),
            slice: *slice,
            started_at,
            end: None,
            ended_at: started_at,
            cut: false,
            positions: Vec::new(),
            batches: Vec::new(),
            listings: Vec::new(),
        };
        self.put(id, new);
        id
    }

    fn land(&mut self, landing: &Landing) -> Landed {
        let id = self.id_of(&landing.pass);
        let kind = (landing.upstream.clone(), landing.kind.kind.clone());
        let records = || landing.records.iter().map(|record| &record.id);
        let (mut ids, mut pages): (Vec<Arc<str>>, Vec<PageNumber>) = (Vec::new(), Vec::new());
        match landing.batch {
            Some(_) => ids.extend(records().map(|id| Arc::from(&**id))),
            None => pages.extend(records().filter_map(|number| number.parse::<PageNumber>().ok())),
        }
        for page in &pages {
            if let Some(landed) = self.landed.get_mut(*page) {
                *landed = Some(landing.now);
            }
        }
        let requested = landing.requested.iter().map(|id| Arc::from(&**id));
        let fetched = ids.iter().cloned().chain(requested);
        if landing.batch.is_some() {
            let all = self.fetched.entry(kind.clone()).or_default();
            all.extend(fetched.map(|id| (id, landing.now)));
        }
        if let Some(pass) = self.passes.get_mut(&id.0) {
            pass.advance(landing);
            pass.cut |= landing.cut;
            pass.keep(landing.batch.as_ref());
            if let Some(listing) = pass.listing(&landing.call, kind) {
                listing.ids.extend(ids);
                listing.pages.extend(pages);
            }
        }
        Landed {
            pass: id,
            cursor_repeats: false,
            lease_lost: false,
        }
    }

    fn finish(&mut self, pass: &PassRef, end: PassEnd, now: Timestamp) -> PassId {
        let id = self.id_of(pass);
        let Some(ended) = self.passes.get_mut(&id.0) else {
            return id;
        };
        if ended.end.is_some() {
            return id;
        }
        ended.end = Some(end);
        ended.ended_at = now;
        ended.batches.clear();
        if let Some(open) = self.open.get_mut(&ended.job) {
            open.remove(&(ended.started_at, id.0));
        }
        let began = ended.started_at;
        let counts = end == PassEnd::Complete && !ended.cut;
        let (job, region) = (ended.job.clone(), ended.region.clone());
        if ended.slice.is_some() {
            // What slices listed is not read again, and each is complete once.
            ended.listings.clear();
            return id;
        }
        if counts {
            let place = (job.clone(), region.clone());
            // Simulated pages have no values.
            let before = self.since.get(&place);
            let greatest = before.and_then(|before| before.greatest.clone());
            self.since.insert(place, UncutPass { began, greatest });
        }
        let newest = Self::last(self.of_slice(&job, &region, None), end).map(|(id, _)| id);
        // Only the last one of each is ever read.
        let is_older = |id: &mut i64| {
            let pass = self.passes.get(id);
            Some(*id) != newest && pass.is_some_and(|pass| pass.end == Some(end))
        };
        let ids = self.by_region.entry((job, region, None)).or_default();
        for older in ids.extract_if(.., is_older).collect::<Vec<i64>>() {
            self.passes.remove(&older);
        }
        id
    }

    fn pending(&mut self, snapshot: &CatalogSnapshot, query: &PendingQuery) -> Vec<PendingId> {
        let passes: Vec<PassId> = match &query.scope {
            PassScope::Open => self.open(&query.job).map(|(id, _)| PassId(id)).collect(),
            PassScope::Passes(passes) => passes.clone(),
        };
        let requested_kind = (query.upstream.clone(), query.kind.clone());
        let from = (query.upstream.clone(), query.listed_kind.clone());
        let key = (requested_kind, (from, query.at.as_str().to_owned()));
        let mut fresh = self.fresh.remove(&key).unwrap_or_default();
        let (requested_kind, place) = &key;
        let (names, fetched) = (
            snapshot.names(place),
            self.fetched(snapshot, requested_kind),
        );
        let mut pending = Vec::new();
        for (id, pass) in passes
            .iter()
            .filter_map(|id| Some((*id, self.passes.get(&id.0)?)))
        {
            // Ids fetched since an unfinished pass began are not pending, even where nothing stays fresh.
            let began = Some(pass.started_at).filter(|_| pass.end.is_none());
            let fresh_since = began.map_or(query.fresh_since, |began| began.min(query.fresh_since));
            let mut seen: HashSet<Arc<str>> = HashSet::new();
            // Adds the ids that a record names, and returns since when all of them are fetched; `None` if not all are fresh.
            let mut add = |record: &Arc<str>| {
                let mut since = Some(Timestamp::from_micros(i64::MAX));
                for named in names.of(record).iter() {
                    let at = fetched.at(named).filter(|at| *at >= fresh_since);
                    since = since.zip(at).map(|(since, at)| since.min(at));
                    if at.is_none() && seen.insert(Arc::clone(named)) {
                        pending.push(PendingId {
                            id: named.to_string(),
                            pass: id,
                            began: pass.started_at,
                        });
                    }
                }
                since
            };
            let is_source =
                |one: &&SimulatedListing| one.call == query.listed_by && one.kind == place.0;
            for listing in pass.listings.iter().filter(is_source) {
                for record in &listing.ids {
                    add(record);
                }
                for page in &listing.pages {
                    if fresh.get(page).is_some_and(|since| *since >= fresh_since) {
                        continue;
                    }
                    let all = snapshot.ids(*page).iter().map(&mut add);
                    let since = all.reduce(|all, one| all.zip(one).map(|(all, one)| all.min(one)));
                    fresh.extend(since.flatten().map(|since| (*page, since)));
                }
            }
        }
        self.fresh.insert(key, fresh);
        pending
    }
}

impl SimulatedPass {
    fn pages(&self) -> PagesByStep {
        let positions = self.positions.iter();
        positions.map(|at| (at.step, at.pages)).collect()
    }

    fn advance(&mut self, landing: &Landing) {
        let is_same = |at: &StepPosition| at.step == landing.step;
        let before = self.positions.iter().position(is_same);
        let before = before.map(|place| self.positions.swap_remove(place));
        self.positions.push(StepPosition {
            step: landing.step,
            pages: before.map_or(0, |at| at.pages) + 1,
            cursor: landing.next.clone(),
            request: Some(landing.request.clone()),
            empty_pages: landing.empty_pages,
        });
    }

    fn rearrange(&mut self, change: &Rearrangement) {
        let moved: HashMap<usize, usize> = change.moved.iter().copied().collect();
        let place = |step: usize| moved.get(&step).copied().unwrap_or(step);
        self.positions
            .retain(|at| !change.dropped.contains(&at.step));
        for at in &mut self.positions {
            at.step = place(at.step);
        }
        for batch in &mut self.batches {
            batch.step = place(batch.step);
        }
    }

    fn keep(&mut self, batch: Option<&OpenBatch>) {
        let Some(batch) = batch else { return };
        self.batches
            .retain(|one| (one.step, &one.ids) != (batch.step, &batch.ids));
        self.batches.extend(
            Some(batch)
                .filter(|batch| batch.cursor().is_some())
                .cloned(),
        );
    }

    /// The listing of a call and a kind, which there is.
    fn listing(&mut self, call: &str, kind: RecordKind) -> Option<&mut SimulatedListing> {
        let is_same = |one: &SimulatedListing| one.call == call && one.kind == kind;
        let found = self.listings.iter().position(is_same);
        let last = self.listings.len();
        if found.is_none() {
            self.listings.push(SimulatedListing {
                call: call.to_owned(),
                kind,
                ids: Vec::new(),
                pages: Vec::new(),
            });
        }
        self.listings.get_mut(found.unwrap_or(last))
    }
}

/// An unfinished pass: its cursors become page numbers, as the simulation's upstream knows them.
fn open(snapshot: &CatalogSnapshot, upstream: &str, job: &str, pass: &OpenPass) -> SimulatedPass {
    let numbered = |at: &StepPosition| StepPosition {
        cursor: at.cursor.as_ref().map(|_| at.pages.to_string()),
        ..at.clone()
    };
    let numbered_batch = |batch: &OpenBatch| {
        let cursors = (1..=batch.cursors.len())
            .map(|page| page.to_string())
            .collect();
        OpenBatch {
            cursors,
            ..batch.clone()
        }
    };
    SimulatedPass {
        job: job.to_owned(),
        region: pass.region.clone(),
        slice: pass.slice,
        started_at: pass.started_at,
        end: None,
        ended_at: pass.started_at,
        cut: false,
        positions: pass.steps.iter().map(numbered).collect(),
        batches: pass.batches.iter().map(numbered_batch).collect(),
        listings: listings(snapshot, upstream, pass.id),
    }
}

fn listings(snapshot: &CatalogSnapshot, upstream: &str, pass: PassId) -> Vec<SimulatedListing> {
    let mut blank = SimulatedPass {
        job: String::new(),
        region: String::new(),
        slice: None,
        started_at: Timestamp::from_micros(0),
        end: None,
        ended_at: Timestamp::from_micros(0),
        cut: false,
        positions: Vec::new(),
        batches: Vec::new(),
        listings: Vec::new(),
    };
    for StepListing {
        call, kind, ids, ..
    } in snapshot.listings.get(&pass).into_iter().flatten()
    {
        let listing = blank.listing(call, (upstream.to_owned(), kind.clone()));
        listing
            .into_iter()
            .for_each(|one| one.ids.extend(ids.iter().cloned()));
    }
    blank.listings
}

#[async_trait]
impl PassReader for SimulatedCatalog {
    async fn region_states(
        &self,
        job: &str,
        regions: &[String],
        _: Timestamp,
    ) -> Result<Vec<RegionState>, CatalogError> {
        let state = self.state();
        Ok(regions
            .iter()
            .map(|region| state.region_state(job, region))
            .collect())
    }

    async fn slices(
        &self,
        job: &str,
        regions: &[String],
        _: Timestamp,
    ) -> Result<Vec<SliceState>, CatalogError> {
        let state = self.state();
        let slices = |region: &String| state.slices(job, region);
        Ok(regions.iter().flat_map(slices).collect())
    }

    async fn slice(
        &self,
        job: &str,
        region: &str,
        slice: Slice,
        _: Timestamp,
    ) -> Result<Option<SliceState>, CatalogError> {
        Ok(self.state().slice(job, region, slice))
    }

    async fn last_pages(
        &self,
        job: &str,
        regions: &[String],
        _: u32,
    ) -> Result<Vec<LastPages>, CatalogError> {
        let state = self.state();
        let last = |region: &String| state.last_pages(job, region).into_iter().collect();
        Ok(regions.iter().map(last).collect())
    }

    async fn open_passes(&self, job: &str) -> Result<Vec<OpenPass>, CatalogError> {
        Ok(open_passes(self.state().open(job)))
    }

    async fn listings(&self, passes: &[PassId]) -> Result<Listed, CatalogError> {
        let known = |pass: &PassId| self.snapshot.listings.get(pass).cloned();
        let listed = passes
            .iter()
            .map(|pass| (*pass, known(pass).unwrap_or_default()));
        Ok(listed.collect())
    }

    async fn pending_ids(&self, query: PendingQuery) -> Result<Vec<PendingId>, CatalogError> {
        Ok(self.state().pending(&self.snapshot, &query))
    }

    async fn named_ids(
        &self,
        records: RecordIds,
        at: &Pointer,
    ) -> Result<Vec<NamedIds>, CatalogError> {
        let place = ((records.upstream, records.kind), at.as_str().to_owned());
        let names = self.snapshot.names(&place);
        let named = |id: Arc<str>| {
            let named = names.of(&id).into_owned();
            (id, named)
        };
        Ok(records.ids.into_iter().map(named).collect())
    }

    /// What a simulated list returns depends on no time.
    async fn id_sinces(
        &self,
        _: &str,
        _: &str,
        _: &[String],
    ) -> Result<Vec<IdSince>, CatalogError> {
        Ok(Vec::new())
    }

    async fn last_fetched(
        &self,
        records: RecordIds,
    ) -> Result<Vec<(Arc<str>, Timestamp)>, CatalogError> {
        let state = self.state();
        let fetched = state.fetched(&self.snapshot, &(records.upstream, records.kind));
        let at = |id: Arc<str>| fetched.at(&id).map(|at| (id, at));
        Ok(records.ids.into_iter().filter_map(at).collect())
    }

    async fn cached_page(
        &self,
        _: &str,
        _: &str,
        _: &str,
    ) -> Result<Option<CachedPage>, CatalogError> {
        Ok(None)
    }

    async fn tags(&self, _: &str) -> Result<Vec<Tag>, CatalogError> {
        Ok(Vec::new())
    }

    async fn call_facts(&self) -> Result<Vec<CallFacts>, CatalogError> {
        Ok(self.state().call_facts.clone())
    }

    async fn estimates(&self) -> Result<Vec<Estimate>, CatalogError> {
        Ok(Vec::new())
    }

    async fn unseen(&self, _: &str, _: Timestamp) -> Result<u64, CatalogError> {
        Ok(0)
    }
}

#[async_trait]
impl PassStore for SimulatedCatalog {
    async fn land(&self, landing: Arc<Landing>) -> Result<Landed, CatalogError> {
        Ok(self.state().land(&landing))
    }

    async fn restart_step(&self, _: PassId, _: usize) -> Result<bool, CatalogError> {
        Ok(false)
    }

    async fn rearrange(&self, pass: PassId, change: &Rearrangement) -> Result<(), CatalogError> {
        if let Some(pass) = self.state().passes.get_mut(&pass.0) {
            pass.rearrange(change);
        }
        Ok(())
    }

    async fn link_parents(&self, _: PassId, _: usize, _: PendingQuery) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn mark_gone(&self, _: PassId, _: &[usize], _: Timestamp) -> Result<u64, CatalogError> {
        Ok(0)
    }

    async fn end_step(&self, pass: PassId, step: usize, cut: bool) -> Result<(), CatalogError> {
        if let Some(pass) = self.state().passes.get_mut(&pass.0) {
            pass.cut |= cut;
            for at in pass.positions.iter_mut().filter(|at| at.step == step) {
                at.cursor = None;
            }
        }
        Ok(())
    }

    async fn finish(
        &self,
        pass: &PassRef,
        end: PassEnd,
        now: Timestamp,
    ) -> Result<PassId, CatalogError> {
        Ok(self.state().finish(pass, end, now))
    }

    async fn count_unproductive(
        &self,
        _: &PassRef,
        _: u64,
        _: &Cost,
        _: Timestamp,
    ) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn store_call_facts(&self, facts: CallFacts) -> Result<(), CatalogError> {
        let all = &mut self.state().call_facts;
        all.retain(|one| (&one.upstream, &one.call) != (&facts.upstream, &facts.call));
        all.push(facts);
        Ok(())
    }

    async fn learn(&self, _: Estimate) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn forget_tags(&self, _: &str, _: &str) -> Result<(), CatalogError> {
        Ok(())
    }

    async fn drop_unseen(&self, _: &str, _: Timestamp) -> Result<u64, CatalogError> {
        Ok(0)
    }
}

/// A simulation is one run alone, so every resource is free.
#[async_trait]
impl Leases for SimulatedCatalog {
    async fn take(&self, _: &Resource) -> Result<Taken, CatalogError> {
        Ok(Taken::Granted(Lease::new(())))
    }

    fn check(&self, _: &Resource) -> Result<(), CatalogError> {
        Ok(())
    }
}
