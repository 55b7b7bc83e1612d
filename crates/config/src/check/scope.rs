//! Limits with a scope, against the regions, names and steps that they apply to.

use std::collections::BTreeSet;

use crate::document::Document;
use crate::names::choice;
use crate::{Config, Credential, Job, Step};

/// The longest name of a limit in the ledger, in bytes.
const LONGEST: usize = 200;

pub fn scopes(config: &Config, document: &Document<'_>) {
    for credential in config.credentials.values() {
        matches_regions(config, credential, document);
        names(credential, document);
    }
    for job in &config.jobs {
        let is_right = |one: &Job| document.is_right_below(&["credentials", &one.credential.name]);
        for job in job.by_credential().filter(is_right) {
            let steps = job.steps.iter().enumerate();
            steps.for_each(|(at, step)| charges(&job, at, step, document));
        }
    }
}

/// A scope must have a value for some region.
fn matches_regions(config: &Config, credential: &Credential, document: &Document<'_>) {
    let regions = &config.regions;
    for (name, limit) in &credential.limits {
        let place = ["credentials", &credential.name, "limits", name, "scope"];
        let is_known = regions
            .iter()
            .any(|region| limit.name_for(region).is_some());
        if is_known || !document.has(&place) {
            continue;
        }
        let values = regions.iter().flat_map(|region| region.values.keys());
        let values: BTreeSet<&str> = values.map(String::as_str).collect();
        let known: Vec<&str> = std::iter::once("region").chain(values).collect();
        document.refuse(
            &place,
            "no region has values for this scope",
            format!("use a variable of regions: {}", choice(&known)),
        );
    }
}

/// Names in the ledger join a limit with a value by a slash, so the limit has none.
fn names(credential: &Credential, document: &Document<'_>) {
    let mut limits = credential.limits.values();
    if !limits.any(|limit| limit.scope.is_some()) {
        return;
    }
    for name in credential.limits.keys().filter(|name| name.contains('/')) {
        document.refuse(
            &["credentials", &credential.name, "limits", name],
            "expected a name without `/`, which the names of limits with a scope contain",
            "write another name",
        );
    }
}

/// Whose quota a request uses must be known before it is sent.
fn charges(job: &Job, at: usize, step: &Step, document: &Document<'_>) {
    let at = at.to_string();
    let place = |key| ["jobs", &job.name, "steps", &at, key];
    for name in step.call.cost.limits() {
        let Some(limit) = job.credential.limits.get(name) else {
            continue;
        };
        if limit.scope.is_some() && step.ids.is_some() {
            document.refuse(
                &place("ids"),
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
            document.refuse(
                &place("call"),
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
