//! `[jobs.X]`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::call::params;
use super::scalars::{self, any_duration, count, duration, pointer};
use crate::config::item::{self, Item};
use crate::config::names::{Named, advice};
use crate::config::section::Section;
use crate::config::{Call, Credential, Ids, Job, Region, Step, Template, Upstream};
use crate::quota::Cost;

pub const KEYS: [&str; 6] = [
    "credential",
    "regions",
    "every",
    "leave",
    "resume_within",
    "steps",
];
pub const STEP_KEYS: [&str; 4] = ["call", "params", "max_pages", "ids"];
pub const IDS_KEYS: [&str; 4] = ["from", "at", "batch", "fresh_for"];
const RESUME_WITHIN: Duration = Duration::from_secs(36 * 60 * 60);

/// What a job can name.
pub struct Known<'a> {
    pub regions: &'a [Arc<Region>],
    pub credentials: &'a Named<Credential>,
}

pub fn job(item: Item<'_>, known: &Known<'_>) -> Option<Job> {
    let name = item.name().to_owned();
    let section = item.table(&KEYS)?;
    let credential = section.required("credential", "\"NAME\"", |item| {
        known.credentials.named_by(&item, "credential")
    });
    let regions = regions(&section, known.regions);
    let every = section.optional("every", duration);
    let leave = section.or("leave", Cost::none(), scalars::leave);
    let resume_within = section.or("resume_within", RESUME_WITHIN, duration);
    let steps = steps(
        &section,
        credential
            .as_ref()
            .map(|credential| credential.upstream.as_ref()),
    );
    Some(Job {
        name,
        credential: credential?,
        regions: regions?,
        every: every?,
        leave: leave?,
        resume_within: resume_within?,
        steps: steps?,
    })
}

/// The regions of the job: all of the file, unless it names some.
fn regions(section: &Section<'_>, all: &[Arc<Region>]) -> Option<Vec<Arc<Region>>> {
    match section.get("regions") {
        Some(item) => some_regions(&item, all),
        None if all.is_empty() && section.0.root().find(&["regions"]).is_none() => {
            section.0.refuse(
                "a job needs regions, and none are defined",
                "write regions = [\"US\"] at the top of the file",
            )
        }
        None => Some(all.to_vec()),
    }
}

fn some_regions(item: &Item<'_>, all: &[Arc<Region>]) -> Option<Vec<Arc<Region>>> {
    let mut seen = BTreeSet::new();
    let regions: Vec<_> = item::all(item.list()?.iter().map(|item| {
        let code = item.text()?;
        if !seen.insert(code) {
            return item.refuse("duplicate region", "remove it");
        }
        let found = all.iter().find(|region| region.code == code).cloned();
        let known = all.iter().map(|region| region.code.as_str());
        found.or_else(|| item.refuse("`regions` does not define this region", advice(code, known)))
    }))?;
    if regions.is_empty() {
        return item.refuse(
            "expected at least one region",
            "remove the key to walk all regions",
        );
    }
    Some(regions)
}

fn steps(section: &Section<'_>, upstream: Option<&Upstream>) -> Option<Vec<Step>> {
    let Some(item) = section.get("steps") else {
        return section.0.refuse(
            "a job needs steps",
            format!(
                "add [[jobs.{}.steps]] with call = \"...\"",
                section.0.name()
            ),
        );
    };
    let items = item.list_of_tables()?;
    if items.is_empty() {
        return item.refuse(
            "a job needs at least one step",
            "write [{ call = \"...\" }]",
        );
    }
    let upstream = upstream?;
    let mut earlier = Earlier::default();
    item::all(items.into_iter().map(|item| {
        let step = step(item, upstream, &earlier);
        earlier.steps += 1;
        earlier
            .calls
            .extend(step.as_ref().map(|step| step.call.clone()));
        step
    }))
}

/// The steps before a step. One that is wrong itself counts, and its call is not known.
#[derive(Default)]
struct Earlier {
    steps: usize,
    calls: Vec<Arc<Call>>,
}

fn step(item: Item<'_>, upstream: &Upstream, earlier: &Earlier) -> Option<Step> {
    let section = item.table(&STEP_KEYS)?;
    let call = section.required("call", "\"things.list\"", |item| call(&item, upstream));
    let own = section.or("params", BTreeMap::new(), params);
    let max_pages = section.optional("max_pages", count);
    let ids = section.optional("ids", |item| ids(item, earlier));
    let call = call?;
    let params = merged(&section.0, upstream, &call, own?);
    Some(Step {
        call,
        params,
        max_pages: max_pages?,
        ids: ids?,
    })
}

/// The step's parameters over those that its call always has.
fn merged(
    item: &Item<'_>,
    upstream: &Upstream,
    call: &Call,
    own: BTreeMap<String, Template>,
) -> BTreeMap<String, Template> {
    let always = item
        .root()
        .find(&["upstreams", &upstream.name, "calls", &call.name, "params"])
        .and_then(params);
    always.unwrap_or_default().into_iter().chain(own).collect()
}

fn call(item: &Item<'_>, upstream: &Upstream) -> Option<Arc<Call>> {
    let name = item.text()?;
    let Some(call) = upstream.calls.get(name) else {
        let known = upstream.calls.keys().map(String::as_str);
        return item.refuse(
            format!("upstream {:?} has no call of this name", upstream.name),
            advice(name, known),
        );
    };
    let lacking = match (&call.path, &call.records) {
        (None, _) => "path",
        (_, None) => "records",
        _ => return Some(call.clone()),
    };
    item.refuse(
        format!("the call has no `{lacking}`: it can be charged by hand, but not requested"),
        format!(
            "add {lacking} to [upstreams.{}.calls.{name:?}]",
            upstream.name
        ),
    )
}

fn ids(item: Item<'_>, earlier: &Earlier) -> Option<Ids> {
    if earlier.steps == 0 {
        return item.refuse(
            "the first step of a job has no step before it to take ids from",
            "put the step that lists the ids before it",
        );
    }
    let section = item.table(&IDS_KEYS)?;
    let from = section.required("from", "\"things.list\"", |item| listing(&item, earlier));
    let at = section.required("at", "\"/id\"", pointer);
    let batch = section.required("batch", "50", count);
    let fresh_for = section.optional("fresh_for", any_duration);
    let (from, from_kind) = from?;
    Some(Ids {
        from,
        from_kind,
        at: at?,
        batch: batch?,
        fresh_for: fresh_for?,
    })
}

/// The call of an earlier step, and the kind of its records.
fn listing(item: &Item<'_>, earlier: &Earlier) -> Option<(String, String)> {
    let name = item.text()?;
    let found = earlier.calls.iter().find(|call| call.name == name);
    match found.and_then(|call| Some((call.name.clone(), call.records.as_ref()?.kind.clone()))) {
        None if earlier.calls.len() == earlier.steps => {
            let known = earlier.calls.iter().map(|call| call.name.as_str());
            item.refuse(
                "expected the call of an earlier step of this job",
                advice(name, known),
            )
        }
        found => found,
    }
}
