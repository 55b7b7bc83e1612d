//! Costs against the limits that they are charged to.

use std::collections::BTreeSet;

use super::{call_in, step_in};
use crate::item::Item;
use crate::names::advice;
use crate::{Call, Config, Credential, CredentialLimit, Job, Step, Upstream};
use ingest_quota::{Limit, LimitName, Units};

pub fn costs(config: &Config, root: &Item<'_>) {
    for credential in config.credentials.values() {
        for call in credential.upstream.calls.values() {
            charges(credential, call, root);
            settles(&credential.upstream, call, root);
        }
    }
    for job in &config.jobs {
        job.by_credential().for_each(|job| leave(&job, root));
        for (at, step) in job.steps.iter().enumerate() {
            job.by_credential()
                .for_each(|job| fits(&job, at, step, root));
        }
    }
}

/// Every limit that a call charges must be one of each credential.
fn charges(credential: &Credential, call: &Call, root: &Item<'_>) {
    let is_unknown = |limit: &&LimitName| !credential.limits.contains_key(*limit);
    // Each credential is compared with each call, so nothing is looked up in the file where all is well.
    if !call.cost.limits().any(|limit| is_unknown(&limit)) {
        return;
    }
    let call_item = call_in(root, &credential.upstream, call);
    let Some(cost) = call_item.and_then(|call| call.find(&["cost"])) else {
        return;
    };
    for limit in call.cost.limits().filter(is_unknown) {
        let item = cost.find(&[limit]).unwrap_or_else(|| cost.clone());
        let expected = format!("credential {:?} has no limit {limit:?}", credential.name);
        item.refuse::<()>(expected, remedy(credential, limit, cost.is_number(), call));
    }
}

/// A call must charge the limits that it settles.
fn settles(upstream: &Upstream, call: &Call, root: &Item<'_>) {
    if call.settle.is_empty() {
        return;
    }
    let Some(item) = call_in(root, upstream, call) else {
        return;
    };
    for limit in call
        .settle
        .keys()
        .filter(|limit| call.cost.of(limit) == Units::ZERO)
    {
        item.refuse_at(
            &["settle", limit],
            "the call does not charge this limit",
            format!("add {limit} to the call's `cost`, with its estimate"),
        );
    }
}

fn remedy(credential: &Credential, limit: &str, bare: bool, call: &Call) -> String {
    let names: Vec<&str> = credential.limits.keys().map(String::as_str).collect();
    match names.as_slice() {
        [only] if bare => format!(
            "name the limit, for example cost = {{ {only} = {} }}",
            call.cost.largest()
        ),
        [] => {
            format!(
                "write [credentials.{}.limits] with {limit} = {{ quota = ..., window = \"24h\" }}",
                credential.name
            )
        }
        _ => advice(limit, names),
    }
}

/// A job must leave less than the limit grants.
fn leave(job: &Job, root: &Item<'_>) {
    let Some(leave) = root.find(&["jobs", &job.name, "leave"]) else {
        return;
    };
    let entries = if leave.is_table() {
        leave.entries().unwrap_or_default()
    } else {
        Vec::new()
    };
    // A cost drops entries of zero units, and the limits that they name must exist all the same.
    let named = entries.iter().map(|entry| entry.name().to_owned());
    let names: BTreeSet<LimitName> = named.chain(job.leave.limits().cloned()).collect();
    for name in &names {
        let units = job.leave.of(name);
        let item = leave.find(&[name]).unwrap_or_else(|| leave.clone());
        match job.credential.limits.get(name) {
            None => {
                let known = job.credential.limits.keys().map(String::as_str);
                item.refuse::<()>(
                    format!("credential {:?} has no limit {name:?}", job.credential.name),
                    advice(name, known),
                );
            }
            Some(CredentialLimit { limit, .. }) if units >= limit.enforced() => {
                let most = limit.enforced();
                item.refuse::<()>(
                    format!(
                        "this job can spend nothing: the limit {name:?} grants at most \
                        {most}, and `leave` reserves {units}"
                    ),
                    format!("write less than {most}"),
                );
            }
            Some(_) => {}
        }
    }
}

/// The cost of a step must fit into its limits while nothing else is used.
fn fits(job: &Job, at: usize, step: &Step, root: &Item<'_>) {
    for (name, units) in step.call.cost.iter() {
        let Some(CredentialLimit { limit, .. }) = job.credential.limits.get(name) else {
            continue;
        };
        let leave = job.leave.of(name);
        let left = limit.enforced().saturating_sub(leave);
        if units > left
            // A `leave` that takes everything is reported at the job itself.
            && leave < limit.enforced()
            && let Some(step) = step_in(root, job, at)
        {
            step.refuse_at(
                &["call"],
                format!(
                    "the call can never be granted: it costs {units} of {name:?}, of which at \
                    most {} can be used",
                    sum(limit, leave.get())
                ),
                format!(
                    "lower headroom or leave until {units} fit, or correct the quota or the cost"
                ),
            );
        }
    }
}

fn sum(limit: &Limit, leave: u64) -> String {
    let (quota, headroom) = (limit.quota(), limit.headroom());
    let left = limit.enforced().saturating_sub(leave.into());
    match leave {
        0 => format!("{left} (quota {quota} less headroom {headroom})"),
        _ => format!("{left} (quota {quota} less headroom {headroom} and leave {leave})"),
    }
}
