//! The responses that a simulated upstream gives: those of the last passes again.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::run::Candidate;
use crate::run::estimate::pages_of_pass;
use crate::run::steps::listing_steps;
use ingest_catalog::{CallFacts, CatalogError, PassId, PassReader, RecordIds, StepListing};
use ingest_config::{Etag, Job, Region, Step};
use ingest_quota::Timestamp;

/// Records of one kind of one upstream.
pub type RecordKind = (String, String);

/// What a step of a region lists, page by page.
type Pages = Vec<Vec<Arc<str>>>;

/// A page that a step of a region lists, by its place among all such pages. In a simulation it travels as one record with this
/// number for an id: what a page costs does not depend on its records.
pub type PageNumber = usize;

/// The ids that records of one kind name at one place.
#[derive(Clone, Copy)]
pub struct Names<'w> {
    named: Option<&'w HashMap<Arc<str>, Vec<Arc<str>>>>,
    place: &'w str,
}

impl<'w> Names<'w> {
    /// Returns the ids that a record names. An invented record names one invented id.
    pub fn of(self, id: &str) -> Cow<'w, [Arc<str>]> {
        match self.named.and_then(|named| named.get(id)) {
            Some(named) => Cow::Borrowed(named),
            None => Cow::Owned(vec![format!("{}{id}", self.place).into()]),
        }
    }
}

/// The ids that records name, by the record's own.
type Named = HashMap<Arc<str>, Vec<Arc<str>>>;

/// The expected responses, and what of them the catalog has.
#[derive(Debug, Default)]
pub struct CatalogSnapshot {
    /// By job, region and slice, and the step's index.
    pages: HashMap<(String, String, usize), Vec<PageNumber>>,
    /// The kind of each page, and the ids on it.
    listed: Vec<(RecordKind, Vec<Arc<str>>)>,
    /// The pages on which an id is, for the kinds that a step requests by id.
    pages_with: HashMap<RecordKind, HashMap<Arc<str>, Vec<PageNumber>>>,
    /// The ids that a record names, by its kind, the place and its id.
    names: HashMap<(RecordKind, String), Named>,
    /// When ids were fetched before the simulation, by kind.
    pub fetched: HashMap<RecordKind, HashMap<Arc<str>, Timestamp>>,
    /// Requests whose page is cached, with the cursor of the next page; by upstream.
    pub tags: HashMap<String, HashMap<String, Option<String>>>,
    /// The page number and cursor at which unfinished steps resume, by job, region and the step's index.
    pub cursors: HashMap<(String, String, usize), (usize, String)>,
    /// What the lists of each call showed.
    pub call_facts: Vec<CallFacts>,
    /// The listings of passes in the catalog.
    pub listings: HashMap<PassId, Vec<StepListing>>,
}

impl CatalogSnapshot {
    /// Reads it from a catalog.
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub async fn learn(
        catalog: &dyn PassReader,
        candidates: &[Candidate],
    ) -> Result<Self, CatalogError> {
        let mut snapshot = Self {
            call_facts: catalog.call_facts().await?,
            ..Self::default()
        };
        let mut jobs: BTreeMap<&str, &Arc<Job>> = BTreeMap::new();
        let mut passes: Vec<PassId> = Vec::new();
        for candidate in candidates {
            jobs.insert(&candidate.job.name, &candidate.job);
            let unfinished = candidate.state.unfinished.as_ref().map(|pass| pass.id);
            passes.extend(
                candidate
                    .state
                    .last_complete_pass
                    .into_iter()
                    .chain(unfinished),
            );
        }
        for job in jobs.values() {
            let open = catalog.open_passes(&job.name).await?;
            let shared = open.iter().filter(|pass| pass.region == Region::SHARED);
            passes.extend(shared.map(|pass| pass.id));
        }
        snapshot.listings = catalog.listings(&passes).await?;
        candidates
            .iter()
            .for_each(|candidate| snapshot.foresee(candidate));
        for job in jobs.into_values() {
            snapshot.learn_names(catalog, job).await?;
            snapshot.learn_tags(catalog, job).await?;
            for step in job.steps.iter().filter(|step| step.ids.is_some()) {
                snapshot.find_pages(record_kind(job, step));
            }
        }
        Ok(snapshot)
    }

    /// Notes on which pages each id of a kind is.
    fn find_pages(&mut self, kind: RecordKind) {
        let mut pages: HashMap<Arc<str>, Vec<PageNumber>> = HashMap::new();
        for (number, (_, ids)) in self
            .listed
            .iter()
            .enumerate()
            .filter(|(_, page)| page.0 == kind)
        {
            for id in ids {
                pages.entry(Arc::clone(id)).or_default().push(number);
            }
        }
        self.pages_with.insert(kind, pages);
    }

    /// The pages on which each id of a kind is; `None` where no step requests the kind by id.
    pub fn pages_with(&self, kind: &RecordKind) -> Option<&HashMap<Arc<str>, Vec<PageNumber>>> {
        self.pages_with.get(kind)
    }

    /// How many pages all steps list.
    pub const fn page_count(&self) -> usize {
        self.listed.len()
    }

    /// The ids on a page.
    pub fn ids(&self, page: PageNumber) -> &[Arc<str>] {
        self.listed.get(page).map_or(&[], |(_, ids)| ids)
    }

    /// The pages that a step lists for a region. A slice that appears later has the pages of another one.
    pub fn pages(&self, job: &str, region: &Region, step: usize) -> &[PageNumber] {
        let of = |key: String| self.pages.get(&(job.to_owned(), key, step));
        of(region.key())
            .or_else(|| of(region.code.clone()))
            .map_or(&[], Vec::as_slice)
    }

    /// What records of a kind name at a place.
    pub fn names<'w>(&'w self, place: &'w (RecordKind, String)) -> Names<'w> {
        Names {
            named: self.names.get(place),
            place: &place.1,
        }
    }

    /// Reads the cached pages. A simulation assumes that they have not changed.
    async fn learn_tags(
        &mut self,
        catalog: &dyn PassReader,
        job: &Job,
    ) -> Result<(), CatalogError> {
        let upstream = &job.credential.upstream.name;
        if job.steps.iter().any(|step| step.call.etag == Etag::Free)
            && !self.tags.contains_key(upstream)
        {
            let tags = catalog
                .tags(upstream)
                .await?
                .into_iter()
                .map(|tag| (tag.request, tag.next));
            self.tags.insert(upstream.clone(), tags.collect());
        }
        Ok(())
    }

    fn foresee(&mut self, candidate: &Candidate) {
        let (job, region) = (&candidate.job, &candidate.region.key());
        for (index, step) in listing_steps(job) {
            let pages = pages_of_pass(candidate, index, step);
            let pages = match self.last(candidate, index) {
                Some(ids) => dealt(ids, pages),
                None => invented(job, region, index, pages, step),
            };
            let first = self.listed.len();
            let kind = record_kind(job, step);
            self.listed
                .extend(pages.into_iter().map(|ids| (kind.clone(), ids)));
            let pages: Vec<PageNumber> = (first..self.listed.len()).collect();
            let key = (job.name.clone(), region.clone(), index);
            let unfinished = candidate
                .state
                .unfinished
                .iter()
                .flat_map(|pass| &pass.steps);
            for at in unfinished.filter(|at| at.step == index) {
                let landed = usize::try_from(at.pages).unwrap_or(usize::MAX);
                self.cursors.extend(
                    at.cursor
                        .clone()
                        .map(|cursor| (key.clone(), (landed, cursor))),
                );
            }
            if candidate.region.slice.is_some() {
                let later = (job.name.clone(), candidate.region.code.clone(), index);
                self.pages.entry(later).or_insert_with(|| pages.clone());
            }
            self.pages.insert(key, pages);
        }
    }

    /// Returns the ids that a step listed in the last complete pass.
    fn last(&self, candidate: &Candidate, step: usize) -> Option<Vec<Arc<str>>> {
        let listed = self.listings.get(&candidate.state.last_complete_pass?)?;
        Some(
            listed
                .iter()
                .filter(|one| one.step == step)
                .flat_map(|one| one.ids.iter().cloned())
                .collect(),
        )
    }

    /// Reads the ids that the records of each step name, and when these were fetched.
    async fn learn_names(
        &mut self,
        catalog: &dyn PassReader,
        job: &Job,
    ) -> Result<(), CatalogError> {
        let upstream = &job.credential.upstream.name;
        let mut sources: HashMap<&str, BTreeSet<Arc<str>>> = HashMap::new();
        for listed in self.listings.values().flatten() {
            if let Some(step) = job.steps.iter().find(|step| step.call.name == listed.call) {
                sources
                    .entry(&step.call.name)
                    .or_default()
                    .extend(listed.ids.iter().cloned());
            }
        }
        for step in &job.steps {
            let (Some(ids), Some(records)) = (&step.ids, &step.call.records) else {
                continue;
            };
            let from = sources.get(&*ids.from).into_iter().flatten();
            let from: Vec<Arc<str>> = from.cloned().collect();
            let records_of = RecordIds::new(upstream, &ids.from_kind, &from);
            let named = catalog.named_ids(records_of, &ids.at).await?;
            let all: BTreeSet<Arc<str>> = named
                .iter()
                .flat_map(|(_, named)| named.iter().cloned())
                .collect();
            let kind = (upstream.clone(), records.kind.clone());
            let fetched = RecordIds::new(upstream, &records.kind, &all);
            let fetched = catalog.last_fetched(fetched).await?;
            self.fetched.entry(kind).or_default().extend(fetched);
            sources.entry(&step.call.name).or_default().extend(all);
            let place = (
                (upstream.clone(), ids.from_kind.clone()),
                ids.at.as_str().to_owned(),
            );
            let names = self.names.entry(place).or_default();
            names.extend(named);
            // An id that was requested without a record is absent: it names nothing, now as then.
            let fetched = self.fetched.get(&(upstream.clone(), ids.from_kind.clone()));
            for id in from
                .into_iter()
                .filter(|id| fetched.is_some_and(|fetched| fetched.contains_key(id)))
            {
                names.entry(id).or_default();
            }
        }
        Ok(())
    }
}

/// The kind of the records that a step returns.
fn record_kind(job: &Job, step: &Step) -> RecordKind {
    let kind = step
        .call
        .records
        .as_ref()
        .map(|records| records.kind.clone());
    (
        job.credential.upstream.name.clone(),
        kind.unwrap_or_default(),
    )
}

/// Spreads ids over a number of pages.
fn dealt(ids: Vec<Arc<str>>, pages: u64) -> Pages {
    let pages = usize::try_from(pages).unwrap_or(usize::MAX);
    let mut dealt: Pages = ids
        .chunks(ids.len().div_ceil(pages).max(1))
        .map(<[_]>::to_vec)
        .collect();
    dealt.resize(pages, Vec::new());
    dealt
}

/// Invents pages of a list that was never fetched: full ones, of records that no other region lists.
fn invented(job: &Job, region: &str, step: usize, pages: u64, of: &Step) -> Pages {
    let size = of.call.paging.page_size();
    let name =
        |page: u64, place: u64| format!("?{}/{region}/{step}/{page}/{place}", job.name).into();
    (0..pages)
        .map(|page| (0..size).map(|place| name(page, place)).collect())
        .collect()
}
