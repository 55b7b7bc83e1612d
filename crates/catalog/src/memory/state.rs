//! The passes of a catalog in memory.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::HashSet;

use super::contents::{ById, Contents, PageNumber, Place, RecordKind, RegionAtStart};
use super::pass::{
    MemoryListing, MemoryPass, PagesByStep, ended_slices, listings, open, open_passes,
};
use crate::{
    CallFacts, DoubtfulPass, KnownList, Landed, Landing, PassEnd, PassId, PassRef, PassScope,
    PendingId, PendingQuery, RegionState, SliceState, StepPosition, UncutPass, slice_states,
};
use ingest_base::list_so_far::ListSoFar;
use ingest_config::Slice;
use ingest_quota::Timestamp;

/// What a catalog in memory has.
#[derive(Debug, Default)]
pub struct State {
    pub passes: BTreeMap<i64, MemoryPass>,
    /// The passes by job, region and slice, of which there can be thousands.
    by_region: BTreeMap<(String, String, Option<Slice>), Vec<i64>>,
    /// The unfinished passes by job, oldest first: few of all, and read for each batch.
    open: HashMap<String, BTreeSet<(Timestamp, i64)>>,
    next: i64,
    /// From when on the next pass lists, by job and region.
    since: HashMap<(String, String), UncutPass>,
    fetched: HashMap<RecordKind, ById<Timestamp>>,
    /// When pages of lists were landed, by their numbers. Their ids were fetched then, too.
    landed: Vec<Option<Timestamp>>,
    /// Since when every id that a page names is fetched, by the ids' kind, their place, and the page. Ids are only fetched again
    /// later, so a page that named nothing to fetch at that time does not until the time is too long ago.
    fresh: HashMap<(RecordKind, Place), HashMap<PageNumber, Timestamp>>,
    /// What the lists of each call showed.
    pub call_facts: Vec<CallFacts>,
    /// The lists that can end at what is known, by job, region and request.
    known: HashMap<(String, String, String), KnownList>,
    /// The slices that were complete before the simulation, by job and region, and the pages of the last one.
    backfills: HashMap<(String, String), (Vec<SliceState>, PagesByStep)>,
}

/// When the records of a kind were fetched.
pub struct Fetched<'a> {
    own: Option<&'a ById<Timestamp>>,
    pages: Option<&'a ById<Vec<PageNumber>>>,
    landed: &'a [Option<Timestamp>],
}

impl Fetched<'_> {
    pub fn at(&self, id: &str) -> Option<Timestamp> {
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

impl State {
    pub fn new(contents: &Contents) -> Self {
        Self {
            fetched: contents.fetched.clone(),
            landed: vec![None; contents.page_count()],
            call_facts: contents.call_facts.clone(),
            ..Self::default()
        }
    }

    pub fn begin(&mut self, contents: &Contents, region: RegionAtStart<'_>) {
        let RegionAtStart {
            job,
            upstream,
            slice,
            state,
            done,
            known,
        } = region;
        for (request, list) in known {
            let place = (job.to_owned(), state.region.clone(), request.clone());
            self.known.insert(place, *list);
        }
        let blank = |started_at, end| MemoryPass {
            job: job.to_owned(),
            region: state.region.clone(),
            slice,
            started_at,
            end: Some(end),
            ended_at: started_at,
            cut: false,
            positions: Vec::new(),
            batches: Vec::new(),
            listings: Vec::new(),
            remembers: Vec::new(),
        };
        if let Some(done) = done {
            let region = (job.to_owned(), state.region.clone());
            let known = || (done.to_vec(), state.last_pages.clone());
            self.backfills.entry(region).or_insert_with(known);
            // The whole backfill is complete.
            if slice.is_none() {
                return;
            }
        }
        if let (Some(id), Some(started_at)) = (state.last_complete_pass, state.last_complete) {
            let position = |&(step, pages): &(usize, u64)| StepPosition {
                step,
                pages,
                cursor: None,
                request: None,
                empty_pages: 0,
                list: ListSoFar::default(),
            };
            let positions = state.last_pages.iter().map(position).collect();
            let listings = listings(contents, upstream, id);
            self.put(
                id,
                MemoryPass {
                    positions,
                    listings,
                    ..blank(started_at, PassEnd::Complete)
                },
            );
        }
        let without_pages = [
            (state.last_refused, PassEnd::Refused),
            (state.doubtful_since(), PassEnd::Doubtful),
            (state.last_abandoned, PassEnd::Abandoned),
        ];
        for (ended_at, end) in without_pages {
            if let Some(at) = ended_at {
                self.put(PassId((-self.next).saturating_sub(1)), blank(at, end));
            }
        }
        if let Some(since) = state.since.clone() {
            let region = (job.to_owned(), state.region.clone());
            self.since.insert(region, since);
        }
        if let Some(pass) = &state.unfinished {
            self.put(pass.id, open(contents, upstream, job, pass));
        }
    }

    pub fn put(&mut self, id: PassId, pass: MemoryPass) {
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
    fn of_region(&self, job: &str, region: &str) -> impl Iterator<Item = (i64, &MemoryPass)> {
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
    ) -> impl Iterator<Item = (i64, &MemoryPass)> {
        let place = (job.to_owned(), region.to_owned(), slice);
        let ids = self.by_region.get(&place).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.passes.get(id)?)))
    }

    /// The newest of these passes that ended so.
    fn last<'p>(
        passes: impl Iterator<Item = (i64, &'p MemoryPass)>,
        end: PassEnd,
    ) -> Option<(i64, &'p MemoryPass)> {
        let ended = passes.filter(|(_, pass)| pass.end == Some(end));
        ended.max_by_key(|(id, pass)| (pass.started_at, *id))
    }

    pub fn region_state(&self, job: &str, region: &str) -> RegionState {
        let passes: Vec<(i64, &MemoryPass)> = self.of_slice(job, region, None).collect();
        let last = |end| Self::last(passes.iter().copied(), end);
        let complete = last(PassEnd::Complete);
        let refused = last(PassEnd::Refused).map(|(_, pass)| pass.started_at);
        let doubtful = last(PassEnd::Doubtful);
        let doubtful = doubtful.map(|(_, pass)| DoubtfulPass {
            started_at: pass.started_at,
            request: None,
            doubts: Vec::new(),
        });
        let pages = |(_, pass): (i64, &MemoryPass)| pass.pages();
        let state = RegionState {
            region: region.to_owned(),
            last_complete: complete.map(|(_, pass)| pass.started_at),
            last_complete_pass: complete.map(|(id, _)| PassId(id)),
            since: self
                .since
                .get(&(job.to_owned(), region.to_owned()))
                .cloned(),
            last_refused: refused,
            // A refusal that the configuration outdated is not part of the state that a simulation begins with.
            refused_request: None,
            doubtful,
            last_abandoned: last(PassEnd::Abandoned).map(|(_, pass)| pass.ended_at),
            unfinished: open_passes(passes.iter().copied()).pop(),
            last_pages: complete.map(pages).unwrap_or_default(),
            last_filled: complete.map(pages).unwrap_or_default(),
            last_notes: None,
        };
        state.current()
    }

    /// The slices of a region that have passes.
    pub fn slices(&self, job: &str, region: &str) -> Vec<SliceState> {
        let before = self.backfills.get(&(job.to_owned(), region.to_owned()));
        let before = before.map_or(&[][..], |(done, _)| done);
        let passes = || self.of_region(job, region);
        let now = slice_states(region, &ended_slices(passes()), open_passes(passes()));
        before.iter().cloned().chain(now).collect()
    }

    /// One of these slices, which was not complete before the simulation.
    pub fn slice(&self, job: &str, region: &str, slice: Slice) -> Option<SliceState> {
        let passes = || self.of_slice(job, region, Some(slice));
        slice_states(region, &ended_slices(passes()), open_passes(passes())).pop()
    }

    /// The pages of the last complete slice of a region.
    pub fn last_pages(&self, job: &str, region: &str) -> Option<PagesByStep> {
        let complete = |(_, pass): &(i64, &MemoryPass)| {
            pass.end == Some(PassEnd::Complete) && pass.slice.is_some()
        };
        let passes = self.of_region(job, region).filter(complete);
        let last = passes.max_by_key(|(id, pass)| (pass.started_at, *id));
        let before = || self.backfills.get(&(job.to_owned(), region.to_owned()));
        last.map(|(_, pass)| pass.pages())
            .or_else(|| before().map(|(_, pages)| pages.clone()))
    }

    /// The unfinished passes of a job, oldest first.
    pub fn open(&self, job: &str) -> impl Iterator<Item = (i64, &MemoryPass)> {
        let open = self.open.get(job).into_iter().flatten();
        open.filter_map(|(_, id)| Some((*id, self.passes.get(id)?)))
    }

    pub fn known_list(&self, job: &str, region: &str, request: &str) -> Option<KnownList> {
        let place = (job.to_owned(), region.to_owned(), request.to_owned());
        self.known.get(&place).copied()
    }

    /// Whether a page ends its list: in a simulation nothing is new.
    fn is_known(&self, landing: &Landing, pass: PassId) -> bool {
        let pass = self.passes.get(&pass.0);
        let list = pass.and_then(|pass| self.known_list(&pass.job, &pass.region, &landing.request));
        landing.can_stop() && list.is_some_and(|list| list.can_stop)
    }

    /// The lists that a pass read to their ends are known from now on.
    fn remember(&mut self, id: PassId) {
        let Some(pass) = self.passes.get(&id.0) else {
            return;
        };
        for (step, request) in &pass.remembers {
            let at = pass.positions.iter().find(|at| at.step == *step);
            let Some(at) = at.filter(|at| !at.list.is_known) else {
                continue;
            };
            let known = KnownList {
                pass: id,
                step: *step,
                // It marks nothing.
                is_whole: false,
                began: pass.started_at,
                pages: at.pages,
                filled: at.pages.saturating_sub(at.empty_pages),
                can_stop: !pass.cut,
            };
            let place = (pass.job.clone(), pass.region.clone(), request.clone());
            self.known.insert(place, known);
        }
    }

    pub fn fetched<'a>(&'a self, contents: &'a Contents, kind: &RecordKind) -> Fetched<'a> {
        Fetched {
            own: self.fetched.get(kind),
            pages: contents.pages_with(kind),
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
        let new = MemoryPass {
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
            remembers: Vec::new(),
        };
        self.put(id, new);
        id
    }

    pub fn land(&mut self, landing: &Landing) -> Landed {
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
        if landing.batch.is_some() {
            let all = self.fetched.entry(kind.clone()).or_default();
            all.extend(ids.iter().map(|id| (Arc::clone(id), landing.now)));
            for id in &landing.requested {
                // Most of them returned, and have an entry.
                match all.get_mut(&**id) {
                    Some(at) => *at = landing.now,
                    None => drop(all.insert(Arc::from(&**id), landing.now)),
                }
            }
        }
        let is_known = self.is_known(landing, id);
        if let Some(pass) = self.passes.get_mut(&id.0) {
            pass.advance(landing, is_known);
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
            is_known,
            // A simulated list lacks no record.
            listed: u64::MAX,
            lease_lost: false,
        }
    }

    pub fn finish(&mut self, pass: &PassRef, end: PassEnd, now: Timestamp) -> PassId {
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
        if end == PassEnd::Complete {
            self.remember(id);
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

    pub fn pending(&mut self, contents: &Contents, query: &PendingQuery) -> Vec<PendingId> {
        let passes: Vec<PassId> = match &query.scope {
            PassScope::Open => self.open(&query.job).map(|(id, _)| PassId(id)).collect(),
            PassScope::Passes(passes) => passes.clone(),
        };
        let requested_kind = (query.upstream.clone(), query.kind.clone());
        let from = (query.upstream.clone(), query.listed_kind.clone());
        let key = (requested_kind, (from, query.at.to_string()));
        let mut fresh = self.fresh.remove(&key).unwrap_or_default();
        let (requested_kind, place) = &key;
        let (names, fetched) = (
            contents.names(place),
            self.fetched(contents, requested_kind),
        );
        let mut pending = Vec::new();
        for (id, pass) in passes
            .iter()
            .filter_map(|id| Some((*id, self.passes.get(&id.0)?)))
        {
            // Ids fetched since an unfinished pass began are not pending, even where nothing stays fresh.
            let began = Some(pass.started_at).filter(|_| pass.end.is_none());
            let fresh_since = began.map_or(query.fresh_since, |began| began.min(query.fresh_since));
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
                            pass: id,
                            began: pass.started_at,
                        });
                    }
                }
                since
            };
            let is_source =
                |one: &&MemoryListing| one.call == query.listed_by && one.kind == place.0;
            for listing in pass.listings.iter().filter(is_source) {
                for record in &listing.ids {
                    add(names.of(record));
                }
                for page in &listing.pages {
                    if fresh.get(page).is_some_and(|since| *since >= fresh_since) {
                        continue;
                    }
                    let all = names.on(*page).map(&mut add);
                    let since = all.reduce(|all, one| all.zip(one).map(|(all, one)| all.min(one)));
                    fresh.extend(since.flatten().map(|since| (*page, since)));
                }
            }
        }
        self.fresh.insert(key, fresh);
        pending
    }
}
