//! Which regions are due, and in which order they walk. Runs, previews and forecasts share these rules. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::steps::{Edited, fit, readable, refusable, request_of};
use ingest_catalog::{AtKnown, KnownList, OpenPass, PassId, RegionState, SliceState};
use ingest_config::{Job, Recurs, Region, Step};
use ingest_quota::Timestamp;

/// How much earlier than due a region walks at most: a timer does not fire at exactly the same interval each time.
pub const LONGEST_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// How long after a refusal a slice, or after a doubt a region, is requested again by a job without `every`. At every run, it would
/// cost a unit each time.
const REFUSED_SLICE_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Returns how much earlier than `every` after the last time something is due.
pub fn tolerance(every: Duration) -> Duration {
    (every / 20).min(LONGEST_TOLERANCE)
}

/// A region of a job that may walk.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub job: Arc<Job>,
    pub region: Arc<Region>,
    /// Its passes in the catalog. The steps of an unfinished one are those that the job has now.
    pub state: RegionState,
    /// How the unfinished pass was fitted to these steps.
    pub edited: Edited,
    /// The backfill of the region; `None` in a job without slices.
    pub backfill: Option<Arc<Backfill>>,
    /// The cursors of the last complete pass with which the next one begins its lists, by the step's index.
    pub lasting: HashMap<usize, String>,
    /// Its lists that can end at what is known, by their requests.
    pub known: BTreeMap<String, KnownList>,
}

/// The slices of a job over a region.
#[derive(Debug, Default)]
pub struct Backfill {
    /// Those that are complete, by time.
    pub done: Vec<SliceState>,
    /// How many are left.
    pub left: u64,
    /// When the next slice can be walked that is not over yet; `None` if there is no further one.
    pub next_at: Option<Timestamp>,
}

impl Backfill {
    /// Returns the pass over the last complete slice: the one that began last.
    pub fn last(&self) -> Option<&SliceState> {
        self.done.iter().max_by_key(|one| one.state.last_complete)
    }
}

impl Candidate {
    /// A region whose passes the catalog has as `state`. Its backfill and its lists are not known yet.
    #[must_use]
    pub fn new(job: &Arc<Job>, region: &Arc<Region>, mut state: RegionState) -> Self {
        // The refusal of a request that the configuration no longer has says nothing about the one that it has now.
        let is_outdated = |request: &String| *request != refusable(job, region);
        if state.refused_request.as_ref().is_some_and(is_outdated) {
            state.last_refused = None;
        }
        // So says a doubt.
        state.doubtful = state.doubtful.filter(|doubtful| {
            let request = doubtful.request.as_ref();
            request.is_none_or(|request| *request == readable(job, region))
        });
        if job.relists && region.slice.is_some() {
            (state.last_complete, state.last_complete_pass) = (None, None);
        }
        let pass = state.unfinished.as_mut();
        Self {
            edited: pass.map(|pass| fit(job, region, pass)).unwrap_or_default(),
            job: Arc::clone(job),
            region: Arc::clone(region),
            state,
            backfill: None,
            lasting: HashMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// Returns how far the list of a step is known; `None` if no complete pass read it to its end.
    #[must_use]
    pub fn known_list(&self, step: &Step) -> Option<&KnownList> {
        let is_read = step.stop_at_known.is_some();
        let request = is_read.then(|| request_of(&self.job, step, &self.region))?;
        self.known.get(&request)
    }

    /// Whether the list of a step can end at what is known, in its unfinished pass or in one that begins now. A list is read to its end
    /// when that is due, and by a pass that lists everything again; one that nobody knows has no page that is known.
    #[must_use]
    pub fn at_known(&self, step: &Step, now: Timestamp) -> AtKnown {
        let Some(stop) = &step.stop_at_known else {
            return AtKnown::Ignore;
        };
        let open = self.resumable(now);
        let relists = open.map_or(self.job.relists, |pass| pass.relists);
        let began = open.map_or(now, |pass| pass.started_at);
        let is_due = match (stop.complete_every, self.known_list(step)) {
            (Recurs::Every(span), Some(list)) => began >= list.began + span - tolerance(span),
            (Recurs::Every(_) | Recurs::Never, _) => false,
        };
        match relists || is_due {
            true => AtKnown::ReadOn,
            false => AtKnown::Stop,
        }
    }

    /// Whether the next pass is expected to end the list of a step at its first page, since nothing is new.
    #[must_use]
    pub fn stops(&self, step: &Step, now: Timestamp) -> bool {
        self.at_known(step, now) == AtKnown::Stop && self.known_list(step).is_some()
    }

    /// Returns the pass at whose cursors the next one begins; `None` where that lists everything again.
    #[must_use]
    pub fn begins_behind(&self, now: Timestamp) -> Option<PassId> {
        let open = self.resumable(now);
        let relists = open.map_or(self.job.relists, |pass| pass.relists);
        self.state.last_complete_pass.filter(|_| !relists)
    }

    /// Returns when its last turn began: a pass that ended, complete, doubtful or refused. If a refused pass were no turn, a region
    /// that the upstream never serves would be first in every run and cost a unit each time.
    #[must_use]
    pub fn last_turn(&self) -> Option<Timestamp> {
        let ended = self.state.last_complete.max(self.state.last_refused);
        ended.max(self.doubtful_since())
    }

    /// Returns when its last pass began, if that is doubtful.
    #[must_use]
    pub fn doubtful_since(&self) -> Option<Timestamp> {
        self.state.doubtful_since()
    }

    /// Returns how long after a refusal the region is requested again; `None`: at the next run.
    #[must_use]
    pub fn after_refusal(job: &Job, region: &Region) -> Option<Duration> {
        let of_slice = region.slice.map(|_| REFUSED_SLICE_EVERY);
        job.every.or(of_slice)
    }

    /// Returns when the last complete pass over its region, or over a slice of it, started.
    #[must_use]
    pub fn region_last_complete(&self) -> Option<Timestamp> {
        match &self.backfill {
            Some(backfill) => backfill.last()?.state.last_complete,
            None => self.state.last_complete,
        }
    }

    /// Whether all slices of its job are complete, for now.
    #[must_use]
    pub fn is_backfilled(&self) -> bool {
        self.backfill.is_some() && self.region.slice.is_none()
    }

    /// Returns when it is due next; `None` where it is due at any time, or where all slices are complete and none will follow.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        if let Some(backfill) = self.backfill.as_ref().filter(|_| self.is_backfilled()) {
            return backfill.next_at;
        }
        if self.job.relists {
            return None;
        }
        if let Some(began) = self.doubtful_since() {
            return Some(began + self.job.every.unwrap_or(REFUSED_SLICE_EVERY));
        }
        Some(self.last_turn()? + Self::after_refusal(&self.job, &self.region)?)
    }

    /// Whether it is due, or has an unfinished pass.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        if self.is_backfilled() {
            return false;
        }
        let tolerance = self.job.every.map_or(Duration::ZERO, tolerance);
        self.resumable(now).is_some() || self.due_at().is_none_or(|due| now >= due - tolerance)
    }

    /// Returns its unfinished pass, unless that is older than `resume_within`.
    #[must_use]
    pub fn resumable(&self, now: Timestamp) -> Option<&OpenPass> {
        let young = |pass: &&OpenPass| {
            now.since(pass.started_at) < self.job.resume_within && !self.job.relists
        };
        self.state.unfinished.as_ref().filter(young)
    }
}

/// Sorts candidates by fairness: unfinished passes first, the oldest one leading, then the region that has waited longest for a
/// turn. An abandoned pass counts as a turn until it was given up, or a region that is never done in time would leave the
/// others nothing. Slices come after all of these, by the same rules and in the configured order: a backfill takes what is left.
pub fn fairest_first(candidates: &mut [Candidate], now: Timestamp) {
    let turn = |candidate: &Candidate| match candidate.resumable(now) {
        Some(pass) => (0, Some(pass.started_at), Some(pass.id)),
        None if candidate.state.unfinished.is_some() => (1, Some(now), None),
        // Of passes that began at the same instant, the first one in the catalog has waited longest.
        None => (
            1,
            candidate.last_turn().max(candidate.state.last_abandoned),
            candidate.state.last_complete_pass,
        ),
    };
    candidates.sort_by_cached_key(|candidate| {
        let slices = candidate.job.slices.as_ref().zip(candidate.region.slice);
        let rank = slices.map(|(slices, slice)| slices.rank(slice));
        (candidate.backfill.is_some(), turn(candidate), rank)
    });
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use super::*;
    use ingest_config::{Config, StopAtKnown};

    const TEXT: &str = r#"
regions = ["AA", "BB", "CC", "DD"]
[upstreams.a]
base_url = "https://a.example.com"
[upstreams.a.calls.list]
path = "list/{region}"
cost = 1
records = { kind = "row", id = "/id" }
[credentials.a]
upstream = "a"
limits = { daily = { quota = 100, window = "24h" } }
[jobs.a]
credential = "a"
every = "1h"
resume_within = "2h"
steps = [{ call = "list" }]
"#;
    const MINUTE: Duration = Duration::from_secs(60);

    fn now() -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000)
    }

    /// The regions of a job, each as its passes say.
    pub fn regions(states: [RegionState; 4]) -> Vec<Candidate> {
        let config = Config::parse(TEXT, Path::new("quotas.toml"), &[]).unwrap();
        let job = Arc::new(config.jobs[0].clone());
        let regions = job.regions.clone().into_iter().zip(states);
        regions
            .map(|(region, state)| Candidate::new(&job, &region, state))
            .collect()
    }

    fn complete(ago: Duration) -> RegionState {
        RegionState {
            last_complete: Some(now() - ago),
            ..RegionState::default()
        }
    }

    fn unfinished(ago: Duration) -> RegionState {
        let pass = OpenPass {
            id: PassId(1),
            region: String::new(),
            slice: None,
            started_at: now() - ago,
            greatest: None,
            steps: Vec::new(),
            batches: Vec::new(),
            landed: 0,
            doubts: Vec::new(),
            relists: false,
        };
        RegionState {
            unfinished: Some(pass),
            ..RegionState::default()
        }
    }

    #[test]
    fn a_region_is_due_a_little_before_every_and_with_an_unfinished_pass() {
        let states = [
            complete(58 * MINUTE),
            complete(56 * MINUTE),
            RegionState::default(),
            RegionState {
                last_complete: Some(now() - MINUTE),
                ..unfinished(MINUTE)
            },
        ];
        let due: Vec<bool> = regions(states)
            .iter()
            .map(|one| one.is_due(now()))
            .collect();
        assert_eq!(due, [true, false, true, true]);
    }

    #[test]
    fn unfinished_passes_walk_first_then_who_waited_longest() {
        let states = [
            complete(70 * MINUTE),
            unfinished(30 * MINUTE),
            complete(90 * MINUTE),
            unfinished(60 * MINUTE),
        ];
        let mut candidates = regions(states);
        fairest_first(&mut candidates, now());
        let order: Vec<&str> = candidates.iter().map(|one| &*one.region.code).collect();
        assert_eq!(order, ["DD", "BB", "CC", "AA"]);
    }

    #[test]
    fn a_pass_that_is_too_old_to_resume_counts_as_a_turn() {
        let states = [
            unfinished(120 * MINUTE),
            complete(70 * MINUTE),
            RegionState::default(),
            complete(90 * MINUTE),
        ];
        let mut candidates = regions(states);
        fairest_first(&mut candidates, now());
        let order: Vec<&str> = candidates.iter().map(|one| &*one.region.code).collect();
        assert_eq!(order, ["CC", "DD", "BB", "AA"]);
    }
    /// A list that is read to its end once a day, of which passes know what began so long ago.
    fn at_known(known: Option<Duration>) -> (AtKnown, bool) {
        let mut one = regions(Default::default()).remove(0);
        let job = Arc::make_mut(&mut one.job);
        job.steps[0].stop_at_known = Some(StopAtKnown {
            complete_every: Recurs::Every(24 * 60 * MINUTE),
        });
        let step = one.job.steps[0].clone();
        let list = known.map(|ago| KnownList {
            pass: PassId(1),
            step: 0,
            is_whole: true,
            began: now() - ago,
            pages: 1,
            filled: 1,
        });
        let request = request_of(&one.job, &step, &one.region);
        one.known = list.map(|list| (request, list)).into_iter().collect();
        (one.at_known(&step, now()), one.stops(&step, now()))
    }

    #[test]
    fn a_list_ends_at_what_is_known_until_it_is_nearly_due_to_be_read_to_its_end() {
        assert_eq!(at_known(None), (AtKnown::Stop, false));
        let due = (24 * 60 - 5) * MINUTE;
        let just_before = due - Duration::from_micros(1);
        assert_eq!(at_known(Some(just_before)), (AtKnown::Stop, true));
        assert_eq!(at_known(Some(due)), (AtKnown::ReadOn, false));
    }
}
