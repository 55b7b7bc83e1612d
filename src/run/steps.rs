//! Fits an unfinished pass to the steps that its job has now. A checkpoint belongs to a call and its parameters, not to an index:
//! steps can be inserted, replaced, moved and removed while a pass is unfinished.

use std::collections::HashMap;

use ingest_base::fnv::fnv;
use ingest_catalog::{OpenPass, Rearrangement, Resource, StepPosition, UncutPass};
use ingest_config::identity::{doubt_names, set_ones};
use ingest_config::{Job, Region, Rule, SinceValue, Step, Variable};
use ingest_quota::Timestamp;
use ingest_upstream::PageRequest;
use serde_json::{Value, json};

/// Two different times, so that a step that names `{now}` differs from one that names `{since}`.
const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);
static SINCE: SinceValue = SinceValue::Time(Timestamp::from_micros(500_000_000_000_000));

/// How an unfinished pass was fitted to edited steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edited {
    /// What the catalog has to change.
    pub change: Rearrangement,
    /// Notes for people.
    pub notes: Vec<String>,
}

/// Returns what a step requests, whatever the time: its call and a hash of its parameters.
#[must_use]
pub fn request_of(job: &Job, step: &Step, region: &Region) -> String {
    request_at(job, step, region, NOW)
}

/// Returns what a step requests in a pass that began at this time.
#[must_use]
pub fn request_at(job: &Job, step: &Step, region: &Region, began: Timestamp) -> String {
    // Another first value is meant to list what is before or behind it.
    let since = job.since.first.as_ref().unwrap_or(&SINCE);
    let request = PageRequest {
        step,
        region,
        ids: &[],
        cursor: None,
        lasting: None,
        began,
        now: began,
        since: Some(since),
        known: None,
    };
    request.identity(&job.credential.upstream)
}

/// Returns a hash of everything in the configuration on which a refusal of this region can depend: the requests of all steps, where
/// and with which credentials they are sent, the rules that classify refusals, and the bounds of a response.
#[must_use]
pub fn refusable(job: &Job, region: &Region) -> String {
    let upstream = &job.credential.upstream;
    let steps: Vec<String> = job
        .steps
        .iter()
        .map(|step| request_of(job, step, region))
        .collect();
    let credentials: Vec<&str> = job.credentials().map(|one| &*one.name).collect();
    let all = upstream.errors.iter();
    let own = job.steps.iter().flat_map(|step| step.call.own_errors());
    let rules: Vec<Value> = all.chain(own).map(Rule::written).collect();
    let mut all = vec![
        json!(upstream.place()),
        json!(credentials),
        json!(steps),
        json!(rules),
    ];
    all.extend(upstream.bounds().map(|bounds| json!(bounds)));
    hash(&all.into())
}

/// Returns a hash of everything in the configuration on which a doubt about the lists of this region can depend: what
/// [`refusable`] has, and how the responses are read.
#[must_use]
pub fn readable(job: &Job, region: &Region) -> String {
    let read = |step: &Step| {
        let call = &step.call;
        set_ones(json!({
            "page": call.paging.written(),
            "records": call.records.as_ref().map(|records| records.written()),
            "trust": doubt_names(&call.trust),
            "max_pages": step.max_pages,
            "stops": step.stop_at_known.is_some(),
        }))
    };
    let steps: Vec<Value> = job.steps.iter().map(read).collect();
    hash(&json!([refusable(job, region), steps]))
}

fn hash(written: &Value) -> String {
    format!("{:032x}", fnv(&written.to_string()))
}

/// Returns the value of `{since}` for a step in the next pass over a region, or in its unfinished one; `None`: the Unix epoch. A list that
/// the `last` pass did not request begins at the first value.
#[must_use]
pub fn since_of(
    job: &Job,
    (region, step): (&Region, &Step),
    last: Option<&UncutPass>,
) -> Option<SinceValue> {
    let last = last.filter(|last| !is_edited(job, (region, step), last));
    let stored = last.and_then(|last| last.greatest.as_deref());
    let of_list = stored.and_then(|stored| {
        let mut values = job.since.read(stored);
        values.remove(&request_of(job, step, region))
    });
    job.since.value(last.map(|last| last.began), of_list)
}

/// Whether a list of the job reads only what is new since the last pass.
#[must_use]
pub fn lists_what_is_new(job: &Job) -> bool {
    listing_steps(job).any(|(_, step)| {
        let is_feed = step.stop_at_known.is_some() || step.call.paging.lasting.is_some();
        is_feed || job.names(step, &Variable::Since)
    })
}

/// The key of the values that are stored with the list of an id, which is the only one there.
pub const LIST_OF_ID: &str = "";

/// Returns the greatest value that is stored with the last list of an id.
#[must_use]
pub fn since_of_id(job: &Job, greatest: Option<&str>) -> Option<SinceValue> {
    job.since.read(greatest?).remove(LIST_OF_ID)
}

/// Whether the step's call or parameters were edited since a pass. One that landed no page does not tell.
#[must_use]
pub fn is_edited(job: &Job, (region, step): (&Region, &Step), last: &UncutPass) -> bool {
    !last.requests.is_empty() && !last.requests.contains(&request_of(job, step, region))
}

/// Fits the steps of an unfinished pass over a region, or of a job's unfinished batches, to those that the job has now.
pub fn fit(job: &Job, region: &Region, pass: &mut OpenPass) -> Edited {
    let is_shared = *region.code == *Region::SHARED;
    let steps = job.steps.iter().enumerate();
    let steps = steps.filter(|(_, step)| step.ids.is_some() == is_shared);
    let wanted: Vec<(usize, String)> = steps
        .map(|(index, step)| (index, request_of(job, step, region)))
        .collect();
    let (places, notes) = places(&wanted, &pass.steps);
    let highest = pass.steps.iter().map(|at| at.step).max().unwrap_or(0);
    let mut unused = highest.max(job.steps.len())..;
    let mut change = Rearrangement::default();
    let mut fitted = Vec::new();
    for (at, place) in std::mem::take(&mut pass.steps).into_iter().zip(places) {
        // The listing of a removed step of ids still names ids, so it is kept under an index that no step has.
        let aside = || {
            let unused = unused.by_ref().nth(1);
            unused
                .filter(|_| at.step < job.steps.len())
                .unwrap_or(at.step)
        };
        let Some(place) = place.or_else(|| is_shared.then(aside)) else {
            change.dropped.push(at.step);
            continue;
        };
        if at.step != place {
            change.moved.push((at.step, place));
        }
        fitted.push(StepPosition { step: place, ..at });
    }
    pass.steps = fitted;
    let moves: HashMap<usize, usize> = change.moved.iter().copied().collect();
    for batch in &mut pass.batches {
        batch.step = moves.get(&batch.step).copied().unwrap_or(batch.step);
    }
    Edited { change, notes }
}

/// Returns, for each position, the index of the step that requests the same; and notes on the positions without one.
fn places(
    wanted: &[(usize, String)],
    positions: &[StepPosition],
) -> (Vec<Option<usize>>, Vec<String>) {
    let mut free: Vec<&(usize, String)> = wanted.iter().collect();
    let mut places = vec![None; positions.len()];
    // A position at its old index keeps it, even if another step requests the same.
    for in_place in [true, false] {
        for (at, place) in positions.iter().zip(&mut places) {
            let same = |(index, request): &&(usize, String)| {
                let unknown = at.request.is_none();
                (at.request.as_ref() == Some(request) || (unknown && in_place))
                    && (*index == at.step || !in_place)
            };
            if place.is_none()
                && let Some(found) = free.iter().position(same)
            {
                *place = Some(free.remove(found).0);
            }
        }
    }
    let lost = positions.iter().zip(&places);
    let lost = lost.filter(|(_, place)| place.is_none());
    let notes = lost.map(|(at, _)| gone(at, &free)).collect();
    (places, notes)
}

/// Says what happened to a step that the job no longer has.
fn gone(at: &StepPosition, begins: &[&(usize, String)]) -> String {
    let call_of = |request: &str| {
        let (call, _) = request.rsplit_once(' ').unwrap_or((request, ""));
        call.to_owned()
    };
    let call = at.request.as_deref().map(call_of);
    let call = call.unwrap_or_else(|| format!("step {}", at.step + 1));
    let pages = match at.pages {
        1 => "1 stored page".to_owned(),
        more => format!("{more} stored pages"),
    };
    if begins.iter().any(|(_, request)| call_of(request) == call) {
        format!("restarted from the first page: the parameters of {call} changed after {pages}")
    } else {
        format!("{call} is no longer a step of this job; {pages} of it are not part of this pass")
    }
}

/// Returns the steps of a job that list, with their indices.
pub fn listing_steps(job: &Job) -> impl Iterator<Item = (usize, &Step)> {
    job.steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.ids.is_none())
}

/// The ids that a step requests, in all jobs: another run may be fetching the same ones, and what it has fetched when it
/// releases them is no longer pending. A run takes the ids of one step at a time, and only while it holds the batches of its
/// job, so no two runs wait for each other.
pub fn ids_of(job: &Job, step: &Step) -> Resource {
    let kind = match &step.call.records {
        Some(records) => &records.kind,
        None => &step.call.name,
    };
    Resource::ids(&job.credential.upstream.name, kind)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ingest_config::Config;

    use super::*;

    fn request(upstream: &str) -> String {
        let text = format!(
            "[upstreams.{upstream}]
            base_url = 'https://api.example.com'
            calls.list = {{ path = 'list', cost = 1, records = {{ kind = 'thing', id = '/id' }} }}
            [credentials.main]
            upstream = '{upstream}'
            limits.daily = {{ quota = 9, window = '1h' }}
            [jobs.all]
            credential = 'main'
            steps = [{{ call = 'list' }}]"
        );
        let config = Config::parse(&text, Path::new("quotas.toml"), &[]).unwrap();
        let job = config.jobs.first().unwrap();
        request_of(job, job.steps.first().unwrap(), &Region::default())
    }

    #[test]
    fn a_list_of_a_renamed_upstream_is_another_one_whose_records_are_others() {
        assert_eq!(request("one"), request("one"));
        assert_ne!(request("one"), request("other"));
    }

    #[test]
    fn a_position_keeps_its_step_though_another_one_requests_the_same() {
        let wanted = [0, 1].map(|index| (index, "list".to_owned()));
        let positions = [1, 0].map(|step| StepPosition {
            step,
            request: Some("list".to_owned()),
            ..StepPosition::default()
        });
        assert_eq!(places(&wanted, &positions).0, [Some(1), Some(0)]);
    }
}
