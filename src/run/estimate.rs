//! Estimates what a pass takes, for the regions that a run admits and for previews.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::due::Candidate;
use super::range::Range;
use super::steps::listing_steps;
use ingest_catalog::{
    CatalogError, CatalogReader, OpenPass, PassId, PassScope, PendingQuery, RecordIds, StepPosition,
};
use ingest_config::{Ids, Job, MOST_EMPTY_PAGES, Region, Step, Variable};
use ingest_quota::{Cost, Timestamp};

/// What one pass is expected to take.
#[derive(Debug, Clone, Default)]
pub struct PassEstimate {
    pub region: Arc<Region>,
    /// The pages left of each step that lists, by its index.
    pub pages: BTreeMap<usize, Range>,
    /// The ids to fetch in each step that requests ids, by its index.
    pub ids: BTreeMap<usize, EstimatedIds>,
}

/// The ids that a pass is expected to name for a step.
#[derive(Debug, Clone, Default)]
pub struct EstimatedIds {
    /// Named by landed pages, and not fetched yet.
    pub pending: BTreeSet<String>,
    /// Named by the region's last complete pass, and no longer fresh.
    pub likely: BTreeSet<String>,
    /// How many the next pages are expected to name, where no earlier pass says which.
    pub unknown: u64,
    /// Batches of them that are between two pages. Each of these can be partial.
    pub begun: u64,
}

/// Estimates passes of one job.
#[derive(Clone, Copy)]
pub struct Estimator<'a> {
    /// Where earlier and unfinished passes are.
    pub catalog: &'a CatalogReader,
    pub job: &'a Job,
    pub now: Timestamp,
}

/// Ids to fetch, by the pass that names them.
type IdsByPass = HashMap<PassId, BTreeSet<String>>;

/// The ids to fetch in one step, as the catalog has them.
struct NamedIds {
    /// By unfinished passes.
    open: IdsByPass,
    /// By the last complete passes.
    last: IdsByPass,
    /// By the pass of the job's batches: every pass waits for these.
    shared: BTreeSet<String>,
    /// Batches that are between two pages.
    begun: u64,
}

impl Estimator<'_> {
    /// Estimates the pass of each candidate, in their order.
    pub async fn passes(
        self,
        candidates: &[&Candidate],
    ) -> Result<Vec<PassEstimate>, CatalogError> {
        let mut passes = self.listings(candidates);
        let shared = match names_ids(self.job) {
            true => self.shared_passes().await?,
            false => Vec::new(),
        };
        for (index, step) in self.job.steps.iter().enumerate() {
            let Some(ids) = &step.ids else { continue };
            let named = self.named(index, step, candidates, &shared).await?;
            for (candidate, pass) in candidates.iter().zip(&mut passes) {
                let mut expected = self.expected_ids(candidate, pass, ids, &named);
                let source = batches_that_name(self.job, ids);
                if let Some(source) = source.and_then(|source| pass.ids.get(&source)) {
                    expected.likely.extend(self.named_by(step, source).await?);
                }
                pass.ids.insert(index, expected);
            }
        }
        Ok(passes)
    }

    /// Returns the most that new passes of these candidates charge; `None` where nothing bounds it, or where an unfinished pass
    /// names ids that only a query could count.
    pub async fn most(self, candidates: &[&Candidate]) -> Result<Option<Cost>, CatalogError> {
        let resumes = candidates
            .iter()
            .any(|candidate| candidate.resumable(self.now).is_some());
        if names_ids(self.job) && (resumes || !self.shared_passes().await?.is_empty()) {
            return Ok(None);
        }
        let passes = self.listings(candidates);
        Ok(cost_of(self.job, &passes, |range| range.max))
    }

    /// Returns the least that passes of these candidates charge, whatever ids their pages name.
    pub fn least(self, candidates: &[&Candidate]) -> Cost {
        let passes = self.listings(candidates);
        cost_of(self.job, &passes, |range| Some(range.min)).unwrap_or_default()
    }

    /// The pages that the candidates have left to list.
    fn listings(self, candidates: &[&Candidate]) -> Vec<PassEstimate> {
        let listing = |candidate: &&Candidate| PassEstimate {
            region: Arc::clone(&candidate.region),
            pages: pages(candidate, self.now),
            ids: BTreeMap::new(),
        };
        candidates.iter().map(listing).collect()
    }

    /// The unfinished passes of the job's batches.
    async fn shared_passes(self) -> Result<Vec<OpenPass>, CatalogError> {
        let mut open = self.catalog.open_passes(&self.job.name).await?;
        open.retain(|pass| pass.region == Region::SHARED);
        Ok(open)
    }

    async fn named(
        self,
        index: usize,
        step: &Step,
        candidates: &[&Candidate],
        shared: &[OpenPass],
    ) -> Result<NamedIds, CatalogError> {
        let last: Vec<PassId> = candidates
            .iter()
            .filter_map(|candidate| candidate.state.last_complete_pass)
            .collect();
        let open = self.ids_of(step, PassScope::Open).await?;
        let last = self.ids_of(step, PassScope::Passes(last)).await?;
        let of_shared = shared.iter().filter_map(|pass| open.get(&pass.id));
        let batches = shared.iter().flat_map(|pass| &pass.batches);
        Ok(NamedIds {
            shared: of_shared.flatten().cloned().collect(),
            begun: batches.filter(|batch| batch.step == index).count() as u64,
            open,
            last,
        })
    }

    async fn ids_of(self, step: &Step, scope: PassScope) -> Result<IdsByPass, CatalogError> {
        let mut by_pass = IdsByPass::new();
        if let Some(query) = pending_query(self.job, step, scope, self.now) {
            for pending in self.catalog.pending_ids(query).await? {
                by_pass.entry(pending.pass).or_default().insert(pending.id);
            }
        }
        Ok(by_pass)
    }

    fn expected_ids(
        self,
        candidate: &Candidate,
        pass: &PassEstimate,
        ids: &Ids,
        named: &NamedIds,
    ) -> EstimatedIds {
        let of = |named: &IdsByPass, pass: Option<PassId>| {
            let ids = pass.and_then(|pass| named.get(&pass));
            ids.cloned().unwrap_or_default()
        };
        let coming = expected_names(self.job, pass, ids);
        let last_complete = candidate.state.last_complete_pass;
        let resumable = candidate.resumable(self.now).map(|pass| pass.id);
        let mut pending = of(&named.open, resumable);
        pending.extend(named.shared.iter().cloned());
        EstimatedIds {
            pending,
            likely: of(&named.last, last_complete.filter(|_| coming > 0)),
            unknown: if last_complete.is_none() { coming } else { 0 },
            begun: named.begun,
        }
    }

    /// Returns the stale ids that records name which another step of batches is about to fetch, as far as these were fetched
    /// before.
    async fn named_by(
        self,
        step: &Step,
        source: &EstimatedIds,
    ) -> Result<BTreeSet<String>, CatalogError> {
        let (Some(ids), Some(records)) = (&step.ids, &step.call.records) else {
            return Ok(BTreeSet::new());
        };
        let upstream = &self.job.credential.upstream.name;
        let coming = source.pending.union(&source.likely);
        let coming: Vec<Arc<str>> = coming.map(|id| id.as_str().into()).collect();
        let coming = RecordIds::new(upstream, &ids.from_kind, &coming);
        let named = self.catalog.named_ids(coming, &ids.at).await?;
        let named = named.into_iter().flat_map(|(_, named)| named);
        let mut named: BTreeSet<Arc<str>> = named.collect();
        let all = RecordIds::new(upstream, &records.kind, &named);
        let fresh_since = ids.fresh_since(self.now);
        for (id, at) in self.catalog.last_fetched(all).await? {
            if at >= fresh_since {
                named.remove(&id);
            }
        }
        Ok(named.iter().map(ToString::to_string).collect())
    }
}

/// Whether a job requests ids.
pub fn names_ids(job: &Job) -> bool {
    job.steps.iter().any(|step| step.ids.is_some())
}

/// Returns the query for the ids that a step still has to fetch; `None` for a step that requests no ids or returns no records.
#[must_use]
pub fn pending_query(
    job: &Job,
    step: &Step,
    scope: PassScope,
    now: Timestamp,
) -> Option<PendingQuery> {
    let ids = step.ids.as_ref()?;
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

/// The step that requests ids and whose records name those of another.
fn batches_that_name(job: &Job, ids: &Ids) -> Option<usize> {
    let names = |step: &Step| step.ids.is_some() && step.call.name == ids.from;
    job.steps.iter().position(names)
}

/// The groups of a run that admits all its regions at once.
pub const ONE_GROUP: u64 = 1;

/// Returns the requests of each step, by its index, of these passes of a job. The passes of one admitted group share batches, so
/// that each group can end with a partial one. The bounds include no retries.
#[must_use]
pub fn requests(job: &Job, estimates: &[PassEstimate], most_groups: u64) -> BTreeMap<usize, Range> {
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

/// Returns what these passes of a job are expected to charge.
#[must_use]
pub fn expected_cost(job: &Job, estimates: &[PassEstimate]) -> Cost {
    cost_of(job, estimates, |range| Some(range.expected)).unwrap_or_default()
}

/// Returns what these passes of a job charge, by the names of the limits in the ledger; `None` where `count` has no number for
/// the requests of a step. Pages charge limits of their region, and batches those of all regions.
fn cost_of(
    job: &Job,
    estimates: &[PassEstimate],
    count: impl Fn(&Range) -> Option<u64>,
) -> Option<Cost> {
    let (mut cost, shared) = (Cost::none(), Region::shared());
    for (index, range) in requests(job, estimates, ONE_GROUP) {
        let step = job.steps.get(index)?;
        let mut add = |region: &Region, range: &Range| {
            let units = step.call.cost.times(count(range)?);
            cost.add(&job.credential.in_ledger(&units, region).unwrap_or(units));
            Some(())
        };
        // Without a scope, the pages of all regions charge the same limits.
        if step.ids.is_some() || !job.credential.is_scoped(&step.call.cost) {
            add(&shared, &range)?;
            continue;
        }
        for pass in estimates {
            pass.pages
                .get(&index)
                .map_or(Some(()), |pages| add(&pass.region, pages))?;
        }
    }
    Some(cost)
}

/// Returns the batches of the ids that these passes name, and of at most `coming` ids that no page has named yet.
fn batches<'a>(
    step: &Step,
    ids: &Ids,
    passes: impl Iterator<Item = &'a EstimatedIds>,
    coming: Option<u64>,
    most_groups: u64,
) -> Range {
    let (mut pending, mut named) = (BTreeSet::new(), BTreeSet::new());
    let (mut unknown, mut begun) = (0_u64, 0);
    for pass in passes {
        pending.extend(&pass.pending);
        named.extend(pass.pending.iter().chain(&pass.likely));
        unknown = unknown.saturating_add(pass.unknown);
        begun = begun.max(pass.begun);
    }
    let (pending, named) = (pending.len() as u64, named.len() as u64);
    let size = ids.batch.max(1);
    let most = coming
        .map(|coming| coming.saturating_add(pending).max(named))
        .map(|ids| most_batches(ids, size, most_groups.saturating_add(begun)))
        .zip(pages_of_batch(step, ids))
        .map(|(batches, pages)| batches.saturating_mul(pages));
    Range {
        min: pending.div_ceil(size),
        expected: named.saturating_add(unknown).div_ceil(size),
        max: most,
    }
}

/// Returns the most batches of this size that the ids fill when they come in `groups`, the last batch of each group partial.
fn most_batches(ids: u64, size: u64, groups: u64) -> u64 {
    let partial = groups.max(1).saturating_mul(size - 1);
    (ids.saturating_add(partial) / size).min(ids)
}

/// Returns how many ids the next pages or batches can name at most, each record one; `None` where nothing bounds it.
fn most_ids(job: &Job, ids: &Ids, requests: &BTreeMap<usize, Range>) -> Option<u64> {
    if ids.at.at().tokens().iter().any(|token| token == "*") {
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
            None => step.call.paging.size,
        };
        // Without requests there are no records, whatever the size of a page.
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

/// Returns how many pages one batch has at most, each id being one record; `None` where nothing bounds it.
pub fn pages_of_batch(step: &Step, ids: &Ids) -> Option<u64> {
    let paging = &step.call.paging;
    // A page of the size of a batch has its records. The list of a single id can have any number of pages.
    let fits_one = ids.batch > 1 && paging.page_size() >= ids.batch;
    most_pages(step).or(fits_one.then_some(1))
}

/// The pages left of each step that lists.
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
        let has_too_many = at.empty_pages > MOST_EMPTY_PAGES;
        let ends = has_too_many && !step.call.paging.empty_page_ends();
        at.cursor.is_some() && more && !ends
    };
    if !position.is_none_or(goes_on) {
        return Range::exactly(0);
    }
    let landed = position.map_or(0, |position| position.pages);
    let to_come = |pages: u64| pages.saturating_sub(landed).max(1);
    // A further page that tells how the lists of the call end is not one of theirs.
    let proves = step.call.paging.assumes_end() && candidate.job.names(step, &Variable::Since);
    let proof = u64::from(proves);
    Range {
        min: 1,
        expected: match candidate.stops(step, now) {
            true => 1,
            false => to_come(pages_of_pass(candidate, index, step)),
        },
        max: most_pages(step).map(|most| to_come(most).saturating_add(proof)),
    }
}

/// Returns how many pages a step is expected to list in a whole pass: as many as the last time, up to `max_pages`. A list that can end
/// at what is known has as many as when it was last read to its end.
#[must_use]
pub fn pages_of_pass(candidate: &Candidate, index: usize, step: &Step) -> u64 {
    let last = candidate
        .state
        .last_pages
        .iter()
        .find(|(step, _)| *step == index)
        .map(|(_, pages)| *pages);
    let last = match step.stop_at_known {
        Some(_) => candidate.known_list(step).map(|list| list.pages),
        None => last,
    };
    let most = most_pages(step);
    // A list of what changed has one page mostly.
    let last = last.map(|pages| match candidate.lasting.contains_key(&index) {
        true => 1,
        false => pages,
    });
    last.or(most)
        .unwrap_or(1)
        .min(most.unwrap_or(u64::MAX))
        .max(1)
}

fn most_pages(step: &Step) -> Option<u64> {
    step.call.paging.most_pages(step.max_pages)
}

/// Returns how many records are expected to name ids for a step: those of the pages or batches of the step that it follows.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use ingest_catalog::RegionState;
    use ingest_config::Config;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    /// Returns the pages to come of a list with at most 9, of which the last complete pass had some, and the unfinished one landed
    /// some behind which it has a cursor or none.
    fn to_come(last: Option<u64>, landed: Option<(u64, Option<&str>)>) -> (u64, u64, Option<u64>) {
        let text = "
            regions = ['US']
            [upstreams.a]
            base_url = 'https://a.example.com'
            [upstreams.a.calls.list]
            path = 'list/{region}'
            cost = 1
            records = { at = '/rows', kind = 'row', id = '/id' }
            page = { kind = 'token', param = 'token', next = '/next' }
            [credentials.a]
            upstream = 'a'
            limits.daily = { quota = 100, window = '24h' }
            [jobs.a]
            credential = 'a'
            steps = [{ call = 'list', max_pages = 9 }]";
        let config = Config::parse(text, Path::new("quotas.toml"), &[]).unwrap();
        let job = Arc::clone(&config.jobs[0]);
        let unfinished = landed.map(|(pages, cursor)| OpenPass {
            id: PassId(1),
            region: "US".to_owned(),
            slice: None,
            started_at: NOW,
            greatest: None,
            steps: vec![StepPosition {
                pages,
                cursor: cursor.map(str::to_owned),
                ..StepPosition::default()
            }],
            batches: Vec::new(),
            landed: 0,
            doubts: Vec::new(),
            relists: false,
        });
        let state = RegionState {
            last_pages: last.map(|pages| (0, pages)).into_iter().collect(),
            unfinished,
            ..RegionState::default()
        };
        let candidate = Candidate::new(&job, &job.regions[0], state);
        let range = pages(&candidate, NOW)[&0];
        (range.min, range.expected, range.max)
    }

    #[test]
    fn a_pass_is_expected_to_be_as_long_as_the_last_one_within_its_bound() {
        assert_eq!(to_come(None, None), (1, 9, Some(9)));
        assert_eq!(to_come(Some(4), None), (1, 4, Some(9)));
        assert_eq!(to_come(Some(20), None), (1, 9, Some(9)));
    }

    #[test]
    fn an_unfinished_pass_has_what_is_left_and_a_list_that_ended_nothing() {
        assert_eq!(to_come(Some(4), Some((3, Some("next")))), (1, 1, Some(6)));
        assert_eq!(to_come(Some(4), Some((7, Some("next")))), (1, 1, Some(2)));
        assert_eq!(to_come(Some(4), Some((3, None))), (0, 0, Some(0)));
        assert_eq!(to_come(Some(4), Some((9, Some("next")))), (0, 0, Some(0)));
    }

    #[test]
    fn each_group_can_end_with_a_partial_batch_and_none_has_fewer_than_one_id() {
        for (ids, size, groups, most) in [
            (0, 50, 3, 0),
            (100, 50, 1, 2),
            (101, 50, 1, 3),
            // One id comes alone, and 99 together.
            (100, 50, 2, 3),
            (3, 50, 9, 3),
        ] {
            assert_eq!(
                most_batches(ids, size, groups),
                most,
                "{ids} ids in {groups} groups"
            );
        }
    }
}
