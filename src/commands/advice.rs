//! Advice where a call of a job has a cheaper alternative: the configuration names it, as `cheaper` of a call.

use crate::config::{Call, Cheaper, Config, Job, Step};

/// The job, and the advice of `ingest check` for it.
pub fn advice(config: &Config) -> Vec<(String, String)> {
    let steps = config
        .jobs
        .iter()
        .flat_map(|job| job.steps.iter().map(move |step| (&**job, step)));
    steps
        .filter_map(|(job, step)| Some((format!("job {}", job.name), said(job, step)?)))
        .collect()
}

fn said(job: &Job, step: &Step) -> Option<String> {
    let cheaper = step.call.cheaper.as_ref()?;
    if cheaper
        .with
        .as_ref()
        .is_some_and(|with| !step.params.contains_key(with))
    {
        return None;
    }
    let other = job.credential.upstream.calls.get(&cheaper.call)?;
    let how = cheaper
        .how
        .as_ref()
        .map(|how| format!(": {how}"))
        .unwrap_or_default();
    let Cheaper { call, with, .. } = cheaper;
    let with = with
        .as_ref()
        .map(|with| format!(" with {with}"))
        .unwrap_or_default();
    let (costs, cost) = (cost(&step.call), cost(other));
    Some(format!(
        "{}{with} costs {costs}; {call} returns the same records for {cost}{how}",
        step.call.name
    ))
}

fn cost(call: &Call) -> String {
    let parts: Vec<String> = call
        .cost
        .iter()
        .map(|(limit, units)| format!("{units} {limit}"))
        .collect();
    parts.join(" and ")
}
