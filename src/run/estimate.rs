//! What a pass is expected to take: one estimate for runs and previews.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::due::Candidate;
use super::pass::listing_steps;
use super::range::Range;
use crate::catalog::{
    CatalogError, OpenPass, PassId, PassReader, PassScope, PendingQuery, RecordIds, StepPosition,
};
use crate::config::{Ids, Job, Paging, Region, Step};
use crate::quota::{Cost, Timestamp};

/// What one pass is expected to take.
#[derive(Debug, Clone, Default)]
pub struct PassEstimate {
    /// Pages to come of each step that lists, by its index.
    pub pages: BTreeMap<usize, Range>,
    /// Ids to come for each step that asks for ids, by its index.
    pub ids: BTreeMap<usize, EstimatedIds>,
}

/// Ids that a pass is expected to bring for a step.
#[derive(Debug, Clone, Default)]
pub struct EstimatedIds {
    /// Named by pages that are landed and to be fetched.
    pub pending: BTreeSet<String>,
    /// Named by the region's last complete pass and to be fetched again by now.
    pub likely: BTreeSet<String>,
    /// How many its pages to come are expected to name, where no earlier pass tells which.
    pub unknown: u64,
    /// Batches of them that are between two pages: each of these can be a partial one.
    pub begun: u64,
}

/// What each of these candidates, all of one job, is expected to take.
///
/// # Errors
/// When the catalog cannot be asked.
pub async fn estimate_passes(
    catalog: &dyn PassReader,
    job: &Job,
    candidates: &[&Candidate],
    now: Timestamp,
) -> Result<Vec<PassEstimate>, CatalogError> {
    let mut estimates: Vec<PassEstimate> = candidates
        .iter()
        .map(|candidate| PassEstimate {
            pages: pages(candidate, now),
            ids: BTreeMap::new(),
        })
        .collect();
    let complete: Vec<PassId> = candidates
        .iter()
        .filter_map(|candidate| candidate.state.last_complete_pass)
        .collect();
    let shared = match job.steps.iter().any(|step| step.ids.is_some()) {
        true => shared_passes(catalog, job).await?,
        false => Vec::new(),
    };
    for (index, step) in job.steps.iter().enumerate() {
        let Some(ids) = &step.ids else { continue };
        let open = named(catalog, job, step, ids, PassScope::Open, now).await?;
        let last = named(
            catalog,
            job,
            step,
            ids,
            PassScope::Passes(complete.clone()),
            now,
        )
        .await?;
        let of_shared = shared.iter().filter_map(|pass| open.get(&pass.id));
        let of_shared: BTreeSet<String> = of_shared.flatten().cloned().collect();
        let batches = shared.iter().flat_map(|pass| &pass.batches);
        let begun = batches.filter(|batch| batch.step == index).count() as u64;
        for (candidate, pass_estimate) in candidates.iter().zip(&mut estimates) {
            let mut expected = expected_ids(job, candidate, pass_estimate, ids, &open, &last, now);
            expected.pending.extend(of_shared.iter().cloned());
            expected.begun = begun;
            if let Some(source) =
                chained(job, ids).and_then(|source| pass_estimate.ids.get(&source))
            {
                expected
                    .likely
                    .extend(named_by(catalog, job, step, ids, source, now).await?);
            }
            pass_estimate.ids.insert(index, expected);
        }
    }
    Ok(estimates)
}

/// What new passes of these candidates, all of one job, charge at most; `None` where nothing bounds it, or where something
/// unfinished names ids that the catalog would have to be asked for.
///
/// # Errors
/// When the catalog cannot be asked.
pub async fn most(
    catalog: &dyn PassReader,
    job: &Job,
    candidates: &[&Candidate],
    now: Timestamp,
) -> Result<Option<Cost>, CatalogError> {
    let names_ids = job.steps.iter().any(|step| step.ids.is_some());
    let resumes = candidates
        .iter()
        .any(|candidate| candidate.resumable(now).is_some());
    if names_ids && (resumes || !shared_passes(catalog, job).await?.is_empty()) {
        return Ok(None);
    }
    let (open, last) = (Named::new(), Named::new());
    let mut passes = Vec::new();
    for candidate in candidates {
        let mut pass = PassEstimate {
            pages: pages(candidate, now),
            ids: BTreeMap::new(),
        };
        for (index, step) in job.steps.iter().enumerate() {
            if let Some(ids) = &step.ids {
                let expected = expected_ids(job, candidate, &pass, ids, &open, &last, now);
                pass.ids.insert(index, expected);
            }
        }
        passes.push(pass);
    }
    let mut cost = Cost::none();
    for (index, range) in requests(job, &passes.iter().collect::<Vec<_>>(), ONE_GROUP) {
        let (Some(most), Some(step)) = (range.max, job.steps.get(index)) else {
            return Ok(None);
        };
        cost.add(&step.call.cost.times(most));
    }
    Ok(Some(cost))
}

/// The number of groups of a run that admits all its regions at once.
pub const ONE_GROUP: u64 = 1;

/// The requests of each step, by its index, of these passes of a job. Batches fill over the passes of one admitted group: in several
/// groups each can end with a partial batch. The bounds include no retries.
#[must_use]
pub fn requests(
    job: &Job,
    estimates: &[&PassEstimate],
    most_groups: u64,
) -> BTreeMap<usize, Range> {
    let mut requests = BTreeMap::new();
    for (index, step) in job.steps.iter().enumerate() {
        let range = match &step.ids {
            None => estimates
                .iter()
                .filter_map(|pass| pass.pages.get(&index))
                .fold(Range::exactly(0), |all, pages| all.plus(*pages)),
            Some(ids) => {
                let coming = most_ids(job, ids, &requests);
                let passes = estimates.iter().filter_map(|pass| pass.ids.get(&index));
                batches(step, ids, passes, coming, most_groups)
            }
        };
        requests.insert(index, range);
    }
    requests
}

/// What these passes of a job are expected to charge.
#[must_use]
pub fn expected_cost(job: &Job, estimates: &[&PassEstimate]) -> Cost {
    let mut cost = Cost::none();
    for (index, range) in requests(job, estimates, ONE_GROUP) {
        if let Some(step) = job.steps.get(index) {
            cost.add(&step.call.cost.times(range.expected));
        }
    }
    cost
}

/// Batches of the ids that these passes name, and of at most `coming` that nobody has named yet.
fn batches<'a>(
    step: &Step,
    ids: &Ids,
    passes: impl Iterator<Item = &'a EstimatedIds>,
    coming: Option<u64>,
    most_groups: u64,
) -> Range {
    let (mut pending, mut known) = (BTreeSet::new(), BTreeSet::new());
    let (mut unknown, mut begun) = (0_u64, 0);
    for pass in passes {
        pending.extend(&pass.pending);
        known.extend(pass.pending.iter().chain(&pass.likely));
        unknown = unknown.saturating_add(pass.unknown);
        begun = begun.max(pass.begun);
    }
    let (pending, known) = (pending.len() as u64, known.len() as u64);
    let size = ids.batch.max(1);
    let most = coming
        .map(|coming| coming.saturating_add(pending).max(known))
        .map(|ids| most_batches(ids, size, most_groups.saturating_add(begun)))
        .zip(pages_of_batch(step, ids))
        .map(|(batches, pages)| batches.saturating_mul(pages));
    Range {
        min: pending.div_ceil(size),
        expected: known.saturating_add(unknown).div_ceil(size),
        max: most,
    }
}

/// The most batches of this size that so many ids fill when they come in `groups`, the last batch of each group partial.
fn most_batches(ids: u64, size: u64, groups: u64) -> u64 {
    let partial = groups.max(1).saturating_mul(size - 1);
    (ids.saturating_add(partial) / size).min(ids)
}

/// How many ids the pages or batches to come can name at most, each record one; `None` where nothing bounds it.
fn most_ids(job: &Job, ids: &Ids, requests: &BTreeMap<usize, Range>) -> Option<u64> {
    if ids.at.tokens().iter().any(|token| token == "*") {
        return None;
    }
    let mut most = 0_u64;
    for (index, range) in requests {
        let Some(step) = job
            .steps
            .get(*index)
            .filter(|step| step.call.name == ids.from)
        else {
            continue;
        };
        let records = match &step.ids {
            Some(ids) => Some(ids.batch),
            None => step.call.paging.size().map(|size| size.size),
        };
        // Without requests no record comes, however many one would bring.
        let named = match range.max {
            Some(0) => 0,
            max => max
                .zip(records)
                .map(|(count, records)| count.saturating_mul(records))?,
        };
        most = most.saturating_add(named);
    }
    Some(most)
}

/// How many pages the answer to one batch has at most: an id brings one record.
fn pages_of_batch(step: &Step, ids: &Ids) -> Option<u64> {
    match (&step.call.paging, step.max_pages) {
        (Paging::None, _) => Some(1),
        (_, Some(most)) => Some(most),
        (paging, None) if paging.page_size() >= ids.batch => Some(1),
        _ => None,
    }
}

/// Pages to come of each step that lists.
fn pages(candidate: &Candidate, now: Timestamp) -> BTreeMap<usize, Range> {
    listing_steps(&candidate.job)
        .map(|(index, step)| (index, pages_of(candidate, index, step, now)))
        .collect()
}

fn pages_of(candidate: &Candidate, index: usize, step: &Step, now: Timestamp) -> Range {
    let position = candidate
        .resumable(now)
        .and_then(|pass| pass.steps.iter().find(|position| position.step == index));
    let goes_on = |at: &StepPosition| {
        let more = step.max_pages.is_none_or(|most| at.pages < most);
        at.cursor.is_some() && more && at.empty_pages <= step.call.paging.empty_pages()
    };
    if !position.is_none_or(goes_on) {
        return Range::exactly(0);
    }
    let landed = position.map_or(0, |position| position.pages);
    let to_come = |pages: u64| pages.saturating_sub(landed).max(1);
    Range {
        min: 1,
        expected: to_come(pages_of_pass(candidate, index, step)),
        max: most_pages(step).map(to_come),
    }
}

/// How many pages a step is expected to list in a whole pass: as many as the last time, but not more than are configured.
#[must_use]
pub fn pages_of_pass(candidate: &Candidate, index: usize, step: &Step) -> u64 {
    let last = candidate
        .state
        .last_pages
        .iter()
        .find(|(step, _)| *step == index)
        .map(|(_, pages)| *pages);
    let most = most_pages(step);
    last.or(most)
        .unwrap_or(1)
        .min(most.unwrap_or(u64::MAX))
        .max(1)
}

fn most_pages(step: &Step) -> Option<u64> {
    if step.call.paging == Paging::None {
        Some(1)
    } else {
        step.max_pages
    }
}

/// The unfinished passes of a job's batches.
async fn shared_passes(catalog: &dyn PassReader, job: &Job) -> Result<Vec<OpenPass>, CatalogError> {
    let mut open = catalog.open_passes(&job.name).await?;
    open.retain(|pass| pass.region == Region::SHARED);
    Ok(open)
}

/// The step that asks for ids whose records name those of another.
fn chained(job: &Job, ids: &Ids) -> Option<usize> {
    job.steps
        .iter()
        .position(|step| step.ids.is_some() && step.call.name == ids.from)
}

/// What the records name that a step is about to fetch, as far as they were fetched before.
async fn named_by(
    catalog: &dyn PassReader,
    job: &Job,
    step: &Step,
    ids: &Ids,
    source: &EstimatedIds,
    now: Timestamp,
) -> Result<BTreeSet<String>, CatalogError> {
    let Some(records) = &step.call.records else {
        return Ok(BTreeSet::new());
    };
    let upstream = &job.credential.upstream.name;
    let coming: Vec<Arc<str>> = source
        .pending
        .union(&source.likely)
        .map(|id| id.as_str().into())
        .collect();
    let coming = RecordIds::new(upstream, &ids.from_kind, &coming);
    let named = catalog.named_ids(coming, &ids.at).await?;
    let mut named: BTreeSet<Arc<str>> = named.into_iter().flat_map(|(_, named)| named).collect();
    let all = RecordIds::new(upstream, &records.kind, &named);
    let fresh_since = ids.fresh_since(now);
    for (id, at) in catalog.last_fetched(all).await? {
        if at >= fresh_since {
            named.remove(&id);
        }
    }
    Ok(named.iter().map(ToString::to_string).collect())
}

type Named = HashMap<PassId, BTreeSet<String>>;

async fn named(
    catalog: &dyn PassReader,
    job: &Job,
    step: &Step,
    ids: &Ids,
    scope: PassScope,
    now: Timestamp,
) -> Result<Named, CatalogError> {
    let Some(query) = query(job, step, ids, scope, now) else {
        return Ok(Named::new());
    };
    let mut named = Named::new();
    for pending in catalog.pending_ids(query).await? {
        named.entry(pending.pass).or_default().insert(pending.id);
    }
    Ok(named)
}

/// The query for the ids of a step; `None` for a step whose records are not described.
#[must_use]
pub fn query(
    job: &Job,
    step: &Step,
    ids: &Ids,
    scope: PassScope,
    now: Timestamp,
) -> Option<PendingQuery> {
    Some(PendingQuery {
        job: job.name.clone(),
        scope,
        upstream: job.credential.upstream.name.clone(),
        listed_by: ids.from.clone(),
        listed_kind: ids.from_kind.clone(),
        at: ids.at.clone(),
        kind: step.call.records.as_ref()?.kind.clone(),
        fresh_since: ids.fresh_since(now),
    })
}

fn expected_ids(
    job: &Job,
    candidate: &Candidate,
    pass: &PassEstimate,
    ids: &Ids,
    open: &Named,
    last: &Named,
    now: Timestamp,
) -> EstimatedIds {
    let of = |named: &Named, id: Option<PassId>| {
        id.and_then(|id| named.get(&id))
            .cloned()
            .unwrap_or_default()
    };
    let coming = expected_names(job, pass, ids);
    let last_complete = candidate.state.last_complete_pass;
    EstimatedIds {
        pending: of(open, candidate.resumable(now).map(|pass| pass.id)),
        likely: if coming > 0 {
            of(last, last_complete)
        } else {
            BTreeSet::new()
        },
        unknown: if last_complete.is_none() { coming } else { 0 },
        begun: 0,
    }
}

/// How many records to come are expected to name ids for a step: those of the pages, or of the batches, of the step that it
/// follows.
fn expected_names(job: &Job, pass: &PassEstimate, ids: &Ids) -> u64 {
    let named_by = |(index, step): (usize, &Step)| match (
        &step.ids,
        pass.pages.get(&index),
        pass.ids.get(&index),
    ) {
        (None, Some(pages), _) => pages.expected.saturating_mul(step.call.paging.page_size()),
        (Some(_), _, Some(ids)) => ids
            .unknown
            .saturating_add((ids.pending.len() + ids.likely.len()) as u64),
        _ => 0,
    };
    let steps = job.steps.iter().enumerate();
    let sources = steps.filter(|(_, step)| step.call.name == ids.from);
    sources
        .map(named_by)
        .fold(0, |all, named| all.saturating_add(named))
}
