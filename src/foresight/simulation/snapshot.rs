//! The responses that a simulated upstream gives: those of the last passes again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::run::Candidate;
use crate::run::estimate::pages_of_pass;
use crate::run::steps::listing_steps;
use ingest_catalog::memory::{Contents, PageNumber, PageRecords, RecordKind};
use ingest_catalog::{CatalogError, CatalogReader, PassId, RecordIds};
use ingest_config::{Etag, Job, Region, Step};

/// A step of a job over a region: their names, and the step's index.
pub type ListKey = (String, String, usize);

/// The expected responses, and what of them the catalog has.
#[derive(Debug, Default)]
pub struct CatalogSnapshot {
    /// What the catalog in memory begins with.
    pub contents: Arc<Contents>,
    /// By job, region and slice, and the step's index.
    pages: HashMap<ListKey, Vec<PageNumber>>,
    /// Requests whose page is cached, with the cursor of the next page; by upstream.
    pub tags: HashMap<String, HashMap<String, Option<String>>>,
    /// The page number and cursor at which unfinished steps resume, by job, region and the step's index.
    pub cursors: HashMap<ListKey, (usize, String)>,
}

impl CatalogSnapshot {
    /// Reads it from a catalog; `shared` are the unfinished passes of batches.
    ///
    /// # Errors
    /// When the catalog cannot be read.
    pub async fn learn(
        catalog: &CatalogReader,
        candidates: &[Candidate],
        shared: &[PassId],
    ) -> Result<Self, CatalogError> {
        let mut snapshot = Self::default();
        let mut contents = Contents::default();
        let mut jobs: BTreeMap<&str, &Arc<Job>> = BTreeMap::new();
        let mut passes = shared.to_vec();
        for candidate in candidates {
            jobs.insert(&candidate.job.name, &candidate.job);
            let unfinished = candidate.state.unfinished.as_ref().map(|pass| pass.id);
            passes.extend(
                candidate
                    .state
                    .last_complete_pass
                    .into_iter()
                    .chain(unfinished)
                    .chain(candidate.known.values().map(|list| list.pass)),
            );
        }
        contents.listings = catalog.listings(&passes).await?;
        for candidate in candidates {
            snapshot.foresee(&mut contents, candidate);
        }
        for job in jobs.into_values() {
            learn_names(&mut contents, catalog, job).await?;
            snapshot.learn_tags(catalog, job).await?;
            for step in job.steps.iter().filter(|step| step.ids.is_some()) {
                contents.find_pages(record_kind(job, step));
            }
        }
        Ok(Self {
            contents: Arc::new(contents),
            ..snapshot
        })
    }

    /// The pages that a step lists for a region. A slice that appears later has the pages of another one.
    pub fn pages(&self, job: &str, region: &Region, step: usize) -> &[PageNumber] {
        let of = |key: String| self.pages.get(&(job.to_owned(), key, step));
        of(region.key())
            .or_else(|| of(region.code.clone()))
            .map_or(&[], Vec::as_slice)
    }

    /// Reads the cached pages. A simulation assumes that they have not changed.
    async fn learn_tags(&mut self, catalog: &CatalogReader, job: &Job) -> Result<(), CatalogError> {
        let upstream = &job.credential.upstream.name;
        if job.steps.iter().any(|step| step.call.etag == Etag::Free)
            // Jobs of one upstream share its cached pages.
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

    fn foresee(&mut self, contents: &mut Contents, candidate: &Candidate) {
        let (job, region) = (&candidate.job, &candidate.region.key());
        for (index, step) in listing_steps(job) {
            let pages = pages_of_pass(candidate, index, step);
            let pages = match last(contents, candidate, index, step) {
                Some(ids) => dealt(ids, pages),
                None => invented(job, region, index, pages, step),
            };
            let pages = contents.add_pages(&record_kind(job, step), pages);
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
}

/// Returns the ids that a step listed in the last complete pass, and behind them those of the last one that read its list to the end.
fn last(
    contents: &Contents,
    candidate: &Candidate,
    index: usize,
    step: &Step,
) -> Option<Vec<Arc<str>>> {
    let last = candidate.state.last_complete_pass?;
    let whole = candidate.known_list(step).map(|list| list.pass);
    let passes = std::iter::once(last).chain(whole.filter(|whole| *whole != last));
    let listed = passes.filter_map(|pass| contents.listings.get(&pass));
    let listed = listed.flatten().filter(|one| one.step == index);
    let mut seen = HashSet::new();
    let ids = listed.flat_map(|one| &one.ids);
    Some(
        ids.filter(|id| seen.insert(Arc::clone(id)))
            .cloned()
            .collect(),
    )
}

/// Reads the ids that the records of each step name, and when these were fetched.
async fn learn_names(
    contents: &mut Contents,
    catalog: &CatalogReader,
    job: &Job,
) -> Result<(), CatalogError> {
    let upstream = &job.credential.upstream.name;
    let mut sources: HashMap<&str, BTreeSet<Arc<str>>> = HashMap::new();
    for listed in contents.listings.values().flatten() {
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
        contents.fetched.entry(kind).or_default().extend(fetched);
        sources.entry(&step.call.name).or_default().extend(all);
        let place = (
            (upstream.clone(), ids.from_kind.clone()),
            ids.at.to_string(),
        );
        // An id that was requested without a record is absent: it names nothing, now as then.
        contents.add_names(place, named, from);
    }
    Ok(())
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
fn dealt(ids: Vec<Arc<str>>, pages: u64) -> Vec<PageRecords> {
    let pages = usize::try_from(pages).unwrap_or(usize::MAX);
    let mut dealt: Vec<PageRecords> = ids
        .chunks(ids.len().div_ceil(pages).max(1))
        .map(|ids| PageRecords::Listed(ids.to_vec()))
        .collect();
    dealt.resize(pages, PageRecords::Listed(Vec::new()));
    dealt
}

/// Invents pages of a list that was never fetched: full ones, of records that no other region lists.
fn invented(job: &Job, region: &str, step: usize, pages: u64, of: &Step) -> Vec<PageRecords> {
    let size = of.call.paging.page_size();
    let page = |page: u64| PageRecords::Invented {
        name: format!("?{}/{region}/{step}/{page}/", job.name),
        count: usize::try_from(size).unwrap_or(usize::MAX),
    };
    (0..pages).map(page).collect()
}
