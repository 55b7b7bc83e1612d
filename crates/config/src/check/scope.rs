//! Limits with a scope, against the regions, names and steps that they apply to.

use std::collections::BTreeSet;

use super::step_in;
use crate::item::Item;
use crate::names::choice;
use crate::{Config, Credential, Job, Limits, Step};

/// The longest name of a limit in the ledger, in bytes.
const LONGEST: usize = 200;

pub fn scopes(config: &Config, root: &Item<'_>) {
    for credential in config.credentials.values() {
        of_credential(config, credential, root);
    }
    for job in &config.jobs {
        for (at, step) in job.steps.iter().enumerate() {
            job.by_credential()
                .for_each(|job| charges(&job, at, step, root));
        }
    }
}

fn of_credential(config: &Config, credential: &Credential, root: &Item<'_>) {
    let Some(item) = root.find(&["credentials", &credential.name]) else {
        return;
    };
    let has_scope = credential
        .limits
        .values()
        .any(|limit| limit.scope.is_some());
    if let Some(limits) = item.find(&["limits"]) {
        matches_regions(config, &credential.limits, &limits);
        names(has_scope, &credential.limits, &limits);
    }
}

/// A scope must have a value for some region.
fn matches_regions(config: &Config, limits: &Limits, section: &Item<'_>) {
    for (name, limit) in limits {
        let Some(item) = section.find(&[name, "scope"]) else {
            continue;
        };
        let regions = &config.regions;
        if regions
            .iter()
            .all(|region| limit.name_for(region).is_none())
        {
            let values: BTreeSet<&str> = regions
                .iter()
                .flat_map(|region| region.values.keys())
                .map(String::as_str)
                .collect();
            let known: Vec<&str> = std::iter::once("region").chain(values).collect();
            item.refuse::<()>(
                "no region has values for this scope",
                format!("use a variable of regions: {}", choice(&known)),
            );
        }
    }
}

/// Names in the ledger join a limit with a value by a slash, so the limit has none.
fn names(are_joined: bool, limits: &Limits, section: &Item<'_>) {
    for name in limits.keys().filter(|_| are_joined) {
        if let Some(item) = section.find(&[name]) {
            without_separator(&item, Some(name));
        }
    }
}

fn without_separator(item: &Item<'_>, name: Option<&str>) {
    if name.is_some_and(|name| name.contains('/')) {
        item.refuse::<()>(
            "expected a name without `/`, which the names of limits with a scope contain",
            "write another name",
        );
    }
}

/// Whose quota a request uses must be known before it is sent.
fn charges(job: &Job, at: usize, step: &Step, root: &Item<'_>) {
    let Some(item) = step_in(root, job, at) else {
        return;
    };
    for name in step.call.cost.limits() {
        let Some(limit) = job.credential.limits.get(name) else {
            continue;
        };
        if limit.scope.is_some() && step.ids.is_some() {
            let ids = item.find(&["ids"]).unwrap_or_else(|| item.clone());
            ids.refuse::<()>(
                format!(
                    "the call charges the limit {name:?}, which has a scope: a request for ids \
                    serves several regions, so it belongs to none of its values"
                ),
                "charge a limit without a scope, or list without ids",
            );
            continue;
        }
        let is_fit = |name: String| name.len() <= LONGEST && !name.contains(['{', '}']);
        let mut regions = job.regions.iter();
        if let Some(region) = regions.find(|region| !limit.name_for(region).is_some_and(is_fit)) {
            let call = item.find(&["call"]).unwrap_or_else(|| item.clone());
            call.refuse::<()>(
                format!(
                    "the call charges the limit {name:?}, and region {:?} has no value for its \
                    scope, or one with braces or of more than {LONGEST} bytes",
                    region.code
                ),
                "define the value in [regions.CODE], or list the job's `regions`",
            );
        }
    }
}
