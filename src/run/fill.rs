//! Which ids a step requests together: full batches over all regions, each id once. Pure.

use std::collections::HashMap;

// Each id of each region is looked up, in a simulation of many regions most of all.
use foldhash::{HashSet, HashSetExt};

use super::steps::request_at;
use ingest_catalog::{PassId, PendingId};
use ingest_config::{Job, Region, Step, Variable};
use ingest_quota::Timestamp;

/// Returns batches of the ids that `own` passes name, each with the time with which it is rendered. The last batch of each time is
/// filled with ids that only other passes name.
pub fn fill(
    job: &Job,
    step: &Step,
    pending: Vec<PendingId>,
    own: &HashSet<PassId>,
) -> Vec<(Timestamp, Vec<String>)> {
    let size = step.ids.as_ref().map_or(1, |ids| ids.batch);
    let size = usize::try_from(size).unwrap_or(usize::MAX).max(1);
    let (mine, others) = each_once(pending, own);
    let mut others = alike(job, step, others);
    let mut batches = Vec::new();
    for Alike {
        request,
        began,
        mut ids,
    } in alike(job, step, mine)
    {
        let free = ids.len().next_multiple_of(size) - ids.len();
        if let Some(same) = others.iter_mut().find(|others| others.request == request) {
            ids.extend(same.ids.drain(..free.min(same.ids.len())));
        }
        let mut ids = ids.into_iter().peekable();
        while ids.peek().is_some() {
            batches.push((began, ids.by_ref().take(size).collect()));
        }
    }
    batches
}

/// Returns each id once, in the order of the passes: those that `own` passes name, and those that only others name.
fn each_once(pending: Vec<PendingId>, own: &HashSet<PassId>) -> (Vec<PendingId>, Vec<PendingId>) {
    let is_own = |one: &PendingId| own.contains(&one.pass);
    let mut seen = HashSet::with_capacity(pending.len());
    let mut is_first = vec![false; pending.len()];
    // An id that both name is one of ours, which must be fetched, and not one that only fills a batch.
    for ours in [true, false] {
        let of_them = pending.iter().zip(&mut is_first);
        for (one, is_first) in of_them.filter(|(one, _)| is_own(one) == ours) {
            *is_first = seen.insert(&one.id);
        }
    }
    drop(seen);
    let pending = pending.into_iter().zip(is_first);
    let once = pending.filter_map(|(one, is_first)| is_first.then_some(one));
    once.partition(is_own)
}

/// Ids whose requests are rendered the same.
struct Alike {
    /// What their requests have in common.
    request: String,
    /// A time with which they are rendered so.
    began: Timestamp,
    /// In the order of their passes.
    ids: Vec<String>,
}

/// Groups the ids of a step by requests that are rendered the same: one group, unless the step names a time and the passes began at
/// different ones.
fn alike(job: &Job, step: &Step, pending: Vec<PendingId>) -> Vec<Alike> {
    let (region, times) = (Region::shared(), [Variable::Now, Variable::Date]);
    let names_time = times.iter().any(|variable| job.names(step, variable));
    let mut requests: HashMap<Timestamp, String> = HashMap::new();
    let mut groups: Vec<Alike> = Vec::new();
    for PendingId { id, began, .. } in pending {
        let request = match names_time {
            true => {
                let request = requests.entry(began);
                let render = || request_at(job, step, &region, began);
                request.or_insert_with(render).clone()
            }
            false => String::new(),
        };
        match groups.iter_mut().find(|group| group.request == request) {
            Some(group) => group.ids.push(id),
            None => groups.push(Alike {
                request,
                began,
                ids: vec![id],
            }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use ingest_config::Config;

    const DAY: i64 = 86_400_000_000;

    /// Returns the batches of ids, two a request, that passes name: each its number, the day on which it began and an id. The first
    /// pass is ours.
    fn batches(params: &str, pending: &[(i64, i64, &str)]) -> Vec<Vec<String>> {
        let text = format!(
            "[upstreams.a]
            base_url = 'https://a.example.com'
            [upstreams.a.calls.list]
            path = 'list'
            cost = 1
            records = {{ at = '/rows', kind = 'row', id = '/id' }}
            [upstreams.a.calls.get]
            path = 'get'
            cost = 1
            params = {{ id = '{{ids}}'{params} }}
            records = {{ at = '/rows', kind = 'row', id = '/id' }}
            [credentials.a]
            upstream = 'a'
            limits = {{ daily = {{ quota = 100, window = '24h' }} }}
            [jobs.a]
            credential = 'a'
            steps = [{{ call = 'list' }}, {{ call = 'get', ids = {{ from = 'list', at = '/id', batch = 2 }} }}]"
        );
        let config = Config::parse(&text, Path::new("quotas.toml"), &[]).unwrap();
        let job = &config.jobs[0];
        let pending: Vec<PendingId> = pending
            .iter()
            .map(|(pass, day, id)| PendingId {
                id: (*id).to_owned(),
                pass: PassId(*pass),
                began: Timestamp::from_micros(day * DAY),
            })
            .collect();
        let batches = fill(
            job,
            &job.steps[1],
            pending,
            &HashSet::from_iter([PassId(1)]),
        );
        batches.into_iter().map(|(_, ids)| ids).collect()
    }

    #[test]
    fn the_last_batch_is_filled_with_what_others_name_and_each_id_comes_once() {
        let pending = [
            (2, 0, "a"),
            (1, 0, "b"),
            (1, 0, "a"),
            (2, 0, "c"),
            (1, 0, "d"),
            (2, 0, "e"),
        ];
        assert_eq!(batches("", &pending), [["b", "a"], ["d", "c"]]);
        assert!(
            batches("", &[(2, 0, "a")]).is_empty(),
            "nobody here waits for it"
        );
    }

    #[test]
    fn ids_of_different_days_are_requested_together_only_where_no_time_is_named() {
        let pending = [(1, 0, "a"), (1, 1, "b"), (2, 1, "c")];
        assert_eq!(batches("", &pending), [["a", "b"]]);
        let by_day = batches(", day = '{date}'", &pending);
        assert_eq!(by_day, [vec!["a"], vec!["b", "c"]]);
    }
}
