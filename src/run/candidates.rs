//! The regions that may walk: read with their passes in the catalog, and by job.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Selection;
use super::due::{Backfill, Candidate, LONGEST_TOLERANCE};
use super::steps::{listing_steps, request_of};
use ingest_catalog::{CatalogError, CatalogReader, LastPages, PassId, RegionState, SliceState};
use ingest_config::{Job, Region, Slice, Slices, Step};
use ingest_quota::Timestamp;

/// Returns every selected region with its state at `now`. A job with slices has a candidate for each slice that is left, or one
/// without a slice where none is.
pub async fn candidates(
    catalog: &CatalogReader,
    selection: &Selection,
    now: Timestamp,
) -> Result<Vec<Candidate>, CatalogError> {
    let mut candidates = Vec::new();
    for (job, regions) in selection {
        let codes: Vec<String> = regions.iter().map(|region| region.code.clone()).collect();
        // A clock that is kept right is set back a little now and then. A pass that began minutes later still counts.
        // One that began much later ran under a wrong clock: it must not keep its region from being due until then.
        let until = now + LONGEST_TOLERANCE;
        if let Some(slices) = &job.slices {
            let states = catalog.slices(&job.name, &codes, until).await?;
            let last = catalog.last_pages(&job.name, &codes, 1).await?;
            candidates.extend(of_slices(job, slices, regions, (states, last), now));
            continue;
        }
        let states = catalog.region_states(&job.name, &codes, until).await?;
        let found = regions.iter().zip(states);
        let found = found.map(|(region, state)| Candidate::new(job, region, state));
        let mut found: Vec<Candidate> = found.collect();
        read_lasting(catalog, job, &mut found, now).await?;
        read_known(catalog, job, &mut found, now).await?;
        candidates.append(&mut found);
    }
    Ok(candidates)
}

/// Returns a candidate as the catalog has it at `now`; `None` if its slice is complete.
pub async fn reread(
    catalog: &CatalogReader,
    candidate: &Candidate,
    now: Timestamp,
) -> Result<Option<Candidate>, CatalogError> {
    let (job, region) = (&candidate.job, &candidate.region);
    let Some(slice) = region.slice else {
        let selection = vec![(Arc::clone(job), vec![Arc::clone(region)])];
        return Ok(candidates(catalog, &selection, now).await?.pop());
    };
    let until = now + LONGEST_TOLERANCE;
    let known = catalog.slice(&job.name, &region.code, slice, until).await?;
    let state = known.map(|known| known.state).unwrap_or_default();
    let is_left = state.last_complete.is_none() || job.relists;
    Ok(is_left.then(|| {
        let state = RegionState {
            region: region.code.clone(),
            last_pages: candidate.state.last_pages.clone(),
            ..state
        };
        Candidate {
            backfill: candidate.backfill.clone(),
            ..Candidate::new(job, region, state)
        }
    }))
}

/// Reads the cursors of the last complete passes with which the next ones begin their lists.
async fn read_lasting(
    catalog: &CatalogReader,
    job: &Job,
    candidates: &mut [Candidate],
    now: Timestamp,
) -> Result<(), CatalogError> {
    let steps = listing_steps(job).filter(|(_, step)| step.call.paging.lasting.is_some());
    let steps: Vec<(usize, &Step)> = steps.collect();
    let begin = candidates.iter().filter_map(|one| one.begins_behind(now));
    let passes: Vec<PassId> = begin.filter(|_| !steps.is_empty()).collect();
    if passes.is_empty() {
        return Ok(());
    }
    let known = catalog.lasting_cursors(&passes).await?;
    for candidate in candidates {
        let before = candidate.begins_behind(now);
        let known = before.and_then(|pass| known.get(&pass));
        let cursor = |(index, step): &(usize, &Step)| {
            let request = request_of(job, step, &candidate.region);
            let found = known?.iter().find(|one| one.request == request)?;
            Some((*index, found.cursor.clone()))
        };
        candidate.lasting = steps.iter().filter_map(cursor).collect();
    }
    Ok(())
}

/// Reads how far the lists are known that can end at what is known.
async fn read_known(
    catalog: &CatalogReader,
    job: &Job,
    candidates: &mut [Candidate],
    now: Timestamp,
) -> Result<(), CatalogError> {
    let stops = |(_, step): &(usize, &Step)| step.stop_at_known.is_some();
    let steps: Vec<&Step> = listing_steps(job)
        .filter(stops)
        .map(|(_, step)| step)
        .collect();
    let lists = candidates.iter().flat_map(|one| {
        let list = |step: &&Step| (one.region.code.clone(), request_of(job, step, &one.region));
        steps.iter().map(list)
    });
    let lists: Vec<(String, String)> = lists.collect();
    if lists.is_empty() {
        return Ok(());
    }
    let known = catalog
        .known_lists(&job.name, &lists, now + LONGEST_TOLERANCE)
        .await?;
    let mut known = lists.into_iter().zip(known);
    for candidate in candidates {
        let own = known.by_ref().take(steps.len());
        candidate.known = own
            .filter_map(|((_, request), list)| Some((request, list?)))
            .collect();
    }
    Ok(())
}

/// Returns the candidates of a job with slices, from the slices that have passes and the pages of each region's last complete ones.
fn of_slices(
    job: &Arc<Job>,
    slices: &Slices,
    regions: &[Arc<Region>],
    (states, last): (Vec<SliceState>, Vec<LastPages>),
    now: Timestamp,
) -> Vec<Candidate> {
    let mut known: HashMap<String, Vec<SliceState>> = HashMap::new();
    for one in states {
        known.entry(one.state.region.clone()).or_default().push(one);
    }
    let of_region = |(region, last): (&Arc<Region>, LastPages)| {
        let known = known.remove(&region.code).filter(|_| !job.relists);
        let sliced = Sliced {
            job,
            slices,
            region,
            last_pages: last.into_iter().next().unwrap_or_default(),
            now,
        };
        sliced.candidates(known.unwrap_or_default())
    };
    regions.iter().zip(last).flat_map(of_region).collect()
}

/// A region of a job with slices.
struct Sliced<'a> {
    job: &'a Arc<Job>,
    slices: &'a Slices,
    region: &'a Region,
    /// The pages of its last complete slice: the best guess for the others.
    last_pages: Vec<(usize, u64)>,
    now: Timestamp,
}

impl Sliced<'_> {
    /// Returns a candidate for each slice that is left. An unfinished pass keeps its slice, even if `slices` was edited since.
    fn candidates(self, known: Vec<SliceState>) -> Vec<Candidate> {
        let (done, others): (Vec<SliceState>, Vec<SliceState>) = known
            .into_iter()
            .partition(|one| one.state.last_complete.is_some());
        let is_begun = |one: &&SliceState| {
            one.state.unfinished.is_some() && self.slices.contain(one.slice, self.now)
        };
        let begun: Vec<Slice> = others
            .iter()
            .filter(is_begun)
            .map(|one| one.slice)
            .collect();
        let taken: Vec<Slice> = done
            .iter()
            .map(|one| one.slice)
            .chain(begun.clone())
            .collect();
        let left = self.slices.left(self.now, &taken);
        let backfill = Arc::new(Backfill {
            left: left.count + begun.len() as u64,
            next_at: left.next_at,
            done,
        });
        let mut others: HashMap<Slice, RegionState> = others
            .into_iter()
            .map(|one| (one.slice, one.state))
            .collect();
        let mut candidates: Vec<Candidate> = begun
            .into_iter()
            .chain(left.slices)
            .map(|slice| self.candidate(Some(slice), others.remove(&slice), &backfill))
            .collect();
        if candidates.is_empty() {
            let state = backfill.last().map(|last| last.state.clone());
            candidates.push(self.candidate(None, state, &backfill));
        }
        candidates
    }

    fn candidate(
        &self,
        slice: Option<Slice>,
        state: Option<RegionState>,
        backfill: &Arc<Backfill>,
    ) -> Candidate {
        let state = RegionState {
            region: self.region.code.clone(),
            last_pages: self.last_pages.clone(),
            ..state.unwrap_or_default()
        };
        let region = Region {
            slice,
            ..self.region.clone()
        };
        Candidate {
            backfill: Some(Arc::clone(backfill)),
            ..Candidate::new(self.job, &Arc::new(region), state)
        }
    }
}

/// Returns the first candidate of each region of each job: a job with slices has several.
pub fn each_region<'c>(
    candidates: impl IntoIterator<Item = &'c Candidate>,
) -> impl Iterator<Item = &'c Candidate> {
    let mut seen = HashSet::new();
    let place = |one: &'c Candidate| (one.job.name.as_str(), one.region.code.as_str());
    candidates
        .into_iter()
        .filter(move |one| one.backfill.is_none() || seen.insert(place(one)))
}

/// Returns the jobs of these candidates, each once, in their order.
pub fn jobs<'c>(candidates: impl IntoIterator<Item = &'c Candidate>) -> Vec<Arc<Job>> {
    let jobs = by_job(candidates).into_iter();
    jobs.map(|(job, _)| job).collect()
}

/// Returns the jobs of these candidates, each once, in their order, with its candidates.
pub fn by_job<'c>(
    candidates: impl IntoIterator<Item = &'c Candidate>,
) -> Vec<(Arc<Job>, Vec<&'c Candidate>)> {
    let mut places: foldhash::HashMap<&str, usize> = foldhash::HashMap::default();
    let mut jobs: Vec<(Arc<Job>, Vec<&Candidate>)> = Vec::new();
    for candidate in candidates {
        let place = *places.entry(&candidate.job.name).or_insert(jobs.len());
        match jobs.get_mut(place) {
            Some((_, of_job)) => of_job.push(candidate),
            None => jobs.push((Arc::clone(&candidate.job), vec![candidate])),
        }
    }
    jobs
}
