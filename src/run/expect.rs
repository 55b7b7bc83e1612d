//! What a pass is expected to take: one estimate for runs and previews.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::due::Candidate;
use super::pass::listing_steps;
use super::range::Range;
use crate::catalog::{Catalog, CatalogError, IdsQuestion, Naming, PassId, StepPosition};
use crate::config::{Ids, Job, Paging, Region, Step};
use crate::quota::{Cost, Timestamp};

/// What one pass is expected to take.
#[derive(Debug, Clone, Default)]
pub struct Expectation {
    /// Pages to come of each step that lists, by its index.
    pub pages: BTreeMap<usize, Range>,
    /// Ids to come for each step that asks for ids, by its index.
    pub ids: BTreeMap<usize, ExpectedIds>,
}

/// Ids that a pass is expected to bring for a step.
#[derive(Debug, Clone, Default)]
pub struct ExpectedIds {
    /// Named by pages that are landed and to be fetched.
    pub pending: BTreeSet<String>,
    /// Named by the region's last complete pass and to be fetched again by now.
    pub likely: BTreeSet<String>,
    /// How many its pages to come can name, where no earlier pass tells which.
    pub unknown: u64,
    /// How many its pages to come can name at most.
    pub most: Option<u64>,
}

/// What each of these candidates, all of one job, is expected to take.
///
/// # Errors
/// When the catalog cannot be asked.
pub async fn expect(
    catalog: &dyn Catalog,
    job: &Job,
    candidates: &[&Candidate],
    now: Timestamp,
) -> Result<Vec<Expectation>, CatalogError> {
    let mut expectations: Vec<Expectation> = candidates
        .iter()
        .map(|candidate| Expectation {
            pages: pages(candidate, now),
            ids: BTreeMap::new(),
        })
        .collect();
    let complete: Vec<PassId> = candidates
        .iter()
        .filter_map(|candidate| candidate.standing.last_complete_pass)
        .collect();
    let shared: HashSet<PassId> = match job.steps.iter().any(|step| step.ids.is_some()) {
        true => shared_passes(catalog, job).await?,
        false => HashSet::new(),
    };
    for (index, step) in job.steps.iter().enumerate() {
        let Some(ids) = &step.ids else { continue };
        let open = named(catalog, job, step, ids, Naming::Open, now).await?;
        let last = named(catalog, job, step, ids, Naming::Passes(&complete), now).await?;
        let of_shared = open.iter().filter(|(pass, _)| shared.contains(pass));
        let of_shared: BTreeSet<String> = of_shared.flat_map(|(_, ids)| ids.clone()).collect();
        for (candidate, expectation) in candidates.iter().zip(&mut expectations) {
            let mut expected = expected_ids(job, candidate, expectation, ids, &open, &last, now);
            expected.pending.extend(of_shared.iter().cloned());
            if let Some(source) = chained(job, ids).and_then(|source| expectation.ids.get(&source))
            {
                expected
                    .likely
                    .extend(named_by(catalog, job, step, ids, source, now).await?);
            }
            expectation.ids.insert(index, expected);
        }
    }
    Ok(expectations)
}

/// What new passes of these candidates, all of one job, charge at most; `None` where nothing bounds it, or where something
/// unfinished names ids that the catalog would have to be asked for.
///
/// # Errors
/// When the catalog cannot be asked.
pub async fn most(
    catalog: &dyn Catalog,
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
        let mut pass = Expectation {
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
    for (index, range) in requests(job, &passes.iter().collect::<Vec<_>>()) {
        let (Some(most), Some(step)) = (range.max, job.steps.get(index)) else {
            return Ok(None);
        };
        cost.add(&step.call.cost.times(most));
    }
    Ok(Some(cost))
}

/// The requests of each step, by its index, when these passes of a job run together: their batches fill together.
#[must_use]
pub fn requests(job: &Job, expectations: &[&Expectation]) -> BTreeMap<usize, Range> {
    let together = |(index, step): (usize, &Step)| {
        let range = match &step.ids {
            None => expectations
                .iter()
                .filter_map(|pass| pass.pages.get(&index))
                .fold(Range::exactly(0), |all, pages| all.plus(*pages)),
            Some(ids) => batches(
                step,
                ids,
                expectations.iter().filter_map(|pass| pass.ids.get(&index)),
            ),
        };
        (index, range)
    };
    job.steps.iter().enumerate().map(together).collect()
}

/// What these passes of a job are expected to charge.
#[must_use]
pub fn expected_cost(job: &Job, expectations: &[&Expectation]) -> Cost {
    let mut cost = Cost::none();
    for (index, range) in requests(job, expectations) {
        if let Some(step) = job.steps.get(index) {
            cost.add(&step.call.cost.times(range.expected));
        }
    }
    cost
}

fn batches<'a>(step: &Step, ids: &Ids, passes: impl Iterator<Item = &'a ExpectedIds>) -> Range {
    let mut pending = BTreeSet::new();
    let mut known = BTreeSet::new();
    let (mut unknown, mut most) = (0_u64, Some(0_u64));
    for pass in passes {
        pending.extend(&pass.pending);
        known.extend(pass.pending.iter().chain(&pass.likely));
        unknown = unknown.saturating_add(pass.unknown);
        most = most
            .zip(pass.most)
            .map(|(all, one)| all.saturating_add(one));
    }
    let (pending, known) = (pending.len() as u64, known.len() as u64);
    let max = most.map(|most| most.saturating_add(pending).max(known));
    let count = Range {
        min: pending,
        expected: known.saturating_add(unknown),
        max,
    };
    let batches = count.map(|ids_to_come| ids_to_come.div_ceil(ids.batch.max(1)));
    Range {
        max: batches
            .max
            .zip(pages_of_batch(step, ids))
            .map(|(batches, pages)| batches.saturating_mul(pages)),
        ..batches
    }
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
        at.cursor.is_some() && more && at.empty_pages <= step.call.empty_pages
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
        .standing
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
async fn shared_passes(catalog: &dyn Catalog, job: &Job) -> Result<HashSet<PassId>, CatalogError> {
    let open = catalog.open_passes(&job.name).await?;
    Ok(open
        .into_iter()
        .filter(|pass| pass.region == Region::SHARED)
        .map(|pass| pass.id)
        .collect())
}

/// The step that asks for ids whose records name those of another.
fn chained(job: &Job, ids: &Ids) -> Option<usize> {
    job.steps
        .iter()
        .position(|step| step.ids.is_some() && step.call.name == ids.from)
}

/// What the records name that a step is about to fetch, as far as they were fetched before.
async fn named_by(
    catalog: &dyn Catalog,
    job: &Job,
    step: &Step,
    ids: &Ids,
    source: &ExpectedIds,
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
    let named = catalog
        .named(upstream, &ids.from_kind, &coming, &ids.at)
        .await?;
    let mut named: BTreeSet<Arc<str>> = named.into_iter().flat_map(|(_, named)| named).collect();
    let all: Vec<Arc<str>> = named.iter().cloned().collect();
    let fresh_since = ids.fresh_since(now);
    for (id, at) in catalog.fetched(upstream, &records.kind, &all).await? {
        if at >= fresh_since {
            named.remove(&id);
        }
    }
    Ok(named.iter().map(ToString::to_string).collect())
}

type Named = HashMap<PassId, BTreeSet<String>>;

async fn named(
    catalog: &dyn Catalog,
    job: &Job,
    step: &Step,
    ids: &Ids,
    naming: Naming<'_>,
    now: Timestamp,
) -> Result<Named, CatalogError> {
    let Some(question) = question(job, step, ids, naming, now) else {
        return Ok(Named::new());
    };
    let mut named = Named::new();
    for pending in catalog.pending_ids(question).await? {
        named.entry(pending.pass).or_default().insert(pending.id);
    }
    Ok(named)
}

/// The question for the ids of a step; `None` for a step whose records are not described.
#[must_use]
pub fn question<'a>(
    job: &'a Job,
    step: &'a Step,
    ids: &'a Ids,
    naming: Naming<'a>,
    now: Timestamp,
) -> Option<IdsQuestion<'a>> {
    Some(IdsQuestion {
        job: &job.name,
        naming,
        upstream: &job.credential.upstream.name,
        from: (&ids.from, &ids.from_kind),
        at: &ids.at,
        kind: &step.call.records.as_ref()?.kind,
        fresh_since: ids.fresh_since(now),
    })
}

fn expected_ids(
    job: &Job,
    candidate: &Candidate,
    pass: &Expectation,
    ids: &Ids,
    open: &Named,
    last: &Named,
    now: Timestamp,
) -> ExpectedIds {
    let of = |named: &Named, id: Option<PassId>| {
        id.and_then(|id| named.get(&id))
            .cloned()
            .unwrap_or_default()
    };
    let coming = source(job, pass, ids);
    let walks_on = coming.expected > 0;
    let last_complete = candidate.standing.last_complete_pass;
    ExpectedIds {
        pending: of(open, candidate.resumable(now).map(|pass| pass.id)),
        likely: if walks_on {
            of(last, last_complete)
        } else {
            BTreeSet::new()
        },
        unknown: if last_complete.is_none() {
            coming.expected
        } else {
            0
        },
        most: coming
            .max
            .filter(|_| !ids.at.tokens().iter().any(|token| token == "*")),
    }
}

/// How many records to come can name ids for a step: those of the pages, or of the batches, of the step that it follows.
fn source(job: &Job, pass: &Expectation, ids: &Ids) -> Range {
    let named_by = |(index, step): (usize, &Step)| match (
        &step.ids,
        pass.pages.get(&index),
        pass.ids.get(&index),
    ) {
        (None, Some(pages), _) => {
            pages.map(|pages| pages.saturating_mul(step.call.paging.page_size()))
        }
        (Some(_), _, Some(ids)) => Range {
            min: 0,
            expected: ids
                .unknown
                .saturating_add((ids.pending.len() + ids.likely.len()) as u64),
            max: ids
                .most
                .map(|most| most.saturating_add(ids.pending.len() as u64)),
        },
        _ => Range::exactly(0),
    };
    let sources = job
        .steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.call.name == ids.from);
    sources.map(named_by).fold(Range::exactly(0), Range::plus)
}
