//! Costs against the limits that they are charged to.

use std::collections::BTreeSet;

use toml::de::DeValue;

use crate::document::Document;
use crate::names::advice;
use crate::{Call, Config, Credential, CredentialLimit, Job, Step, Upstream};
use ingest_quota::{Limit, LimitName, Units};

pub fn charges(config: &Config, document: &Document<'_>) {
    for credential in config.credentials.values() {
        if !document.is_right_below(&["credentials", &credential.name]) {
            continue;
        }
        for call in credential.upstream.calls.values() {
            has_limits(credential, call, document);
            settles(&credential.upstream, call, document);
        }
    }
}

pub fn grants(config: &Config, document: &Document<'_>) {
    let is_right = |one: &Job| document.is_right_below(&["credentials", &one.credential.name]);
    for job in &config.jobs {
        for job in job.by_credential().filter(is_right) {
            leave(&job, document);
            let steps = job.steps.iter().enumerate();
            steps.for_each(|(at, step)| fits(&job, at, step, document));
        }
    }
}

/// Every limit that a call charges must be one of each credential.
fn has_limits(credential: &Credential, call: &Call, document: &Document<'_>) {
    let cost = [
        "upstreams",
        &credential.upstream.name,
        "calls",
        &call.name,
        "cost",
    ];
    let is_bare = matches!(document.find(&cost), Some(DeValue::Integer(_)));
    let limits = call.cost.limits();
    for limit in limits.filter(|limit| !credential.limits.contains_key(*limit)) {
        let mut place = cost.to_vec();
        place.extend((!is_bare).then_some(limit.as_str()));
        let expected = format!("credential {:?} has no limit {limit:?}", credential.name);
        document.refuse(&place, expected, remedy(credential, limit, is_bare, call));
    }
}

/// A call must charge the limits that it settles.
fn settles(upstream: &Upstream, call: &Call, document: &Document<'_>) {
    let limits = call.settle.keys();
    for limit in limits.filter(|limit| call.cost.of(limit) == Units::ZERO) {
        document.refuse(
            &[
                "upstreams",
                &upstream.name,
                "calls",
                &call.name,
                "settle",
                limit,
            ],
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
fn leave(job: &Job, document: &Document<'_>) {
    let path = ["jobs", &job.name, "leave"];
    // A cost drops entries of zero units, and the limits that they name must exist all the same.
    let named = document.keys(&path).into_iter();
    let units = job.leave.of(&job.credential);
    let names: BTreeSet<LimitName> = named.chain(units.limits().cloned()).collect();
    for name in &names {
        let units = units.of(name);
        let own = [&path[..], &[name]].concat();
        let place = if document.has(&own) { &own[..] } else { &path };
        match job.credential.limits.get(name) {
            None => {
                let known = job.credential.limits.keys().map(String::as_str);
                let expected =
                    format!("credential {:?} has no limit {name:?}", job.credential.name);
                document.refuse(place, expected, advice(name, known));
            }
            Some(CredentialLimit { limit, .. }) if units >= limit.enforced() => {
                let most = limit.enforced();
                let expected = format!(
                    "this job can spend nothing: the limit {name:?} grants at most {most}, and `leave` reserves {units}"
                );
                document.refuse(place, expected, format!("write less than {most}"));
            }
            Some(_) => {}
        }
    }
}

/// The cost of a step must fit into its limits while nothing else is used.
fn fits(job: &Job, at: usize, step: &Step, document: &Document<'_>) {
    for (name, units) in step.call.cost.iter() {
        let Some(CredentialLimit { limit, .. }) = job.credential.limits.get(name) else {
            continue;
        };
        let leave = job.leave.of(&job.credential).of(name);
        let left = limit.enforced().saturating_sub(leave);
        // A `leave` that takes everything is reported at the job itself.
        if units > left && leave < limit.enforced() {
            document.refuse(
                &["jobs", &job.name, "steps", &at.to_string(), "call"],
                format!(
                    "the call can never be granted: it costs {units} of {name:?}, of which at most {} can be used",
                    sum(limit, leave.get())
                ),
                format!("lower headroom or leave until {units} fit, or correct the quota or the cost"),
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
