//! Checks of requests: templates against the variables that exist, parameters against paging.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{call_in, paging, step_in};
use crate::body::body_of;
use crate::item::Item;
use crate::names::{advice, quoted};
use crate::tree::Kind;
use crate::{Auth, Call, Config, Job, Region, Step, Template, TemplateError, Upstream, Variable};

/// A template, with where it was written.
type Written<'a> = (Item<'a>, Template);

pub fn requests(config: &Config, root: &Item<'_>) {
    let values: BTreeSet<&str> = config
        .regions
        .iter()
        .flat_map(|region| region.values.keys())
        .map(String::as_str)
        .collect();
    for upstream in config.upstreams.values() {
        let calls = upstream.calls.values();
        calls.for_each(|call| check_call(upstream, call, root, &values));
    }
    for job in &config.jobs {
        for (at, step) in job.steps.iter().enumerate() {
            if let Some(item) = step_in(root, job, at) {
                check_step(job, step, &item, &values);
            }
        }
        uses_since(job, root);
        uses_slices(job, root);
    }
}

/// A job's `since` must have a step that uses it. Each list of an id continues from its own value, so a call has one such list.
fn uses_since(job: &Job, root: &Item<'_>) {
    let mut calls = BTreeSet::new();
    for (at, step) in job.steps.iter().enumerate() {
        if step.ids.is_some()
            && job.names(step, &Variable::Since)
            && !calls.insert(&step.call.name)
            && let Some(item) = step_in(root, job, at)
        {
            item.refuse::<()>(
                format!(
                    "another step of this job has a {{since}} for each id of {}",
                    step.call.name
                ),
                "move one of the two to another job",
            );
        }
    }
    if let Some(since) = root.find(&["jobs", &job.name, "since"])
        && job.slices.is_none()
        && !job
            .steps
            .iter()
            .any(|step| job.names(step, &Variable::Since))
    {
        since.refuse::<()>(
            "no step of this job uses {since}",
            "add it to the step's params, for example updated_after = \"{since}\", or remove the key",
        );
    }
    if let Some(first) = &job.since.first
        && first.moment().is_none()
        && let Some(timed) = job.steps.iter().find_map(|step| job.timed_since(step))
    {
        root.refuse_at(
            &["jobs", &job.name, "since", "first"],
            format!("expected a time, since {timed} shifts or formats it"),
            "write for example \"2024-01-01\", or name its form, such as format = \"%d.%m.%Y\"",
        );
    }
}

/// Each step that lists must name the slice: otherwise every slice would be the same list.
fn uses_slices(job: &Job, root: &Item<'_>) {
    let Some(slices) = root.find(&["jobs", &job.name, "slices"]) else {
        return;
    };
    let edges = [Variable::SliceFrom, Variable::SliceTo];
    let names_slice = |step: &Step| edges.iter().any(|edge| job.names(step, edge));
    let mut lists = job.steps.iter().filter(|step| step.ids.is_none());
    if let Some(same) = lists.find(|step| !names_slice(step)) {
        slices.refuse::<()>(
            format!("{} would list the same in every slice: it does not use {{slice.from}}", same.call.name),
            "add the slice to the step's params, for example { from = \"{slice.from}\", to = \"{slice.to}\" }, or move the step to \
            a job without slices",
        );
    }
    root.refuse_at(
        &["jobs", &job.name, "since"],
        "a job with `slices` has no {since}: each slice has its own {slice.from}",
        "remove the key",
    );
}

fn check_call(upstream: &Upstream, call: &Call, root: &Item<'_>, values: &BTreeSet<&str>) {
    let Some(item) = call_in(root, upstream, call) else {
        return;
    };
    let params = item.find(&["params"]);
    let upstream_headers = root.find(&["upstreams", &upstream.name, "headers"]);
    let written = requested(&item, call)
        .into_iter()
        .chain(upstream_headers.iter().flat_map(parameters));
    let written = written
        .chain(params.iter().flat_map(parameters))
        .chain(in_body(Some(&item), None));
    written.for_each(|written| names_something(&written, values));
    let then = item.find(&["page", "then", "params"]);
    params
        .iter()
        .chain(&then)
        .for_each(|params| leaves_to_others(params, upstream, call));
    paging::place(&item, call);
}

fn check_step(job: &Job, step: &Step, item: &Item<'_>, values: &BTreeSet<&str>) {
    let params = item.find(&["params"]);
    let own: Vec<Written<'_>> = params.iter().flat_map(parameters).collect();
    let in_own_body = in_body(None, Some(item));
    own.iter()
        .chain(&in_own_body)
        .for_each(|written| names_something(written, values));
    params
        .iter()
        .for_each(|params| leaves_to_others(params, &job.credential.upstream, &step.call));
    let all = all_of_step(job, step, item, own);
    asks_for_ids(job, step, item, &all, values);
    let of_records = record_templates(job, step, item);
    of_records
        .iter()
        .for_each(|written| names_something(written, values));
    for (written, template) in all.iter().chain(&of_records) {
        for variable in template.variables() {
            if !names_nothing(&variable, values) {
                stands_for_something(job, step, written, &variable);
                if variable == Variable::Id && step.ids.is_none() {
                    every_region_has(job, written, "id");
                }
            }
        }
    }
}

/// The templates of a call's records: parts of ids, and columns.
fn record_templates<'a>(job: &Job, step: &Step, item: &Item<'a>) -> Vec<Written<'a>> {
    let upstream = &job.credential.upstream.name;
    let records = ["upstreams", upstream, "calls", &step.call.name, "records"];
    let Some(records) = item.root().find(&records) else {
        return Vec::new();
    };
    let ids = records.find(&["id"]).and_then(|ids| ids.one_or_more());
    let columns = records
        .find(&["columns"])
        .and_then(|columns| columns.entries());
    let fields = ids.into_iter().chain(columns).flatten();
    let template = |field: Item<'a>| match field.kind() {
        Kind::Text(text) if !text.starts_with('/') => {
            Some((field.clone(), Template::parse(text).ok()?))
        }
        _ => None,
    };
    fields.filter_map(template).collect()
}

/// Every template of a step's requests: the path and headers of its call, and each parameter and each value of the body where
/// it was written last.
fn all_of_step<'a>(
    job: &Job,
    step: &Step,
    item: &Item<'a>,
    own: Vec<Written<'a>>,
) -> Vec<Written<'a>> {
    let Some(upstream) = item
        .root()
        .find(&["upstreams", &job.credential.upstream.name])
    else {
        return own;
    };
    let Some(call) = upstream.find(&["calls", &step.call.name]) else {
        return own;
    };
    let headers: Vec<_> = upstream
        .find(&["headers"])
        .iter()
        .flat_map(parameters)
        .collect();
    let overriding = item.find(&["params"]);
    let is_overridden = |written: &Item<'_>| {
        let own = overriding.as_ref();
        own.is_some_and(|own| own.find(&[written.name()]).is_some())
    };
    let always = call.find(&["params"]);
    let always = always
        .iter()
        .flat_map(|params| parameters_but(params, is_overridden));
    headers
        .into_iter()
        .chain(requested(&call, &step.call))
        .chain(always)
        .chain(own)
        .chain(in_body(Some(&call), Some(item)))
        .collect()
}

/// The templates of a call's path and headers, and of its requests behind the first page.
fn requested<'a>(item: &Item<'a>, call: &Call) -> Vec<Written<'a>> {
    let path = item.find(&["path"]).zip(call.path.clone());
    let headers = item.find(&["headers"]);
    let headers = headers.iter().flat_map(parameters);
    let then = item.find(&["page", "then"]);
    let then = then.iter().flat_map(behind_the_first);
    path.into_iter().chain(headers).chain(then).collect()
}

/// The templates of the requests behind the first page.
fn behind_the_first<'a>(then: &Item<'a>) -> Vec<Written<'a>> {
    let path = then.find(&["path"]).and_then(|path| {
        let template = Template::parse(&path.as_text()?).ok()?;
        Some((path, template))
    });
    let params = then.find(&["params"]);
    let params = params.iter().flat_map(parameters);
    path.into_iter()
        .chain(params)
        .chain(in_body(Some(then), None))
        .collect()
}

/// The templates of a body, which is that of a call, or of a step that overrides it.
fn in_body<'a>(item: Option<&Item<'a>>, own: Option<&Item<'a>>) -> Vec<Written<'a>> {
    let body = |item: Option<&Item<'a>>| {
        let body = body_of(item?)?;
        match body.name() {
            // The query is no template.
            "graphql" => body.find(&["variables"]),
            _ => Some(body),
        }
    };
    texts(body(item), body(own))
}

/// The texts of a value, of which another one overrides those at the same places.
fn texts<'a>(value: Option<Item<'a>>, own: Option<Item<'a>>) -> Vec<Written<'a>> {
    let (tables, single) = match (value, own) {
        (Some(value), Some(own)) if value.is_table() && own.is_table() => (vec![value, own], None),
        (value, own) => match own.or(value) {
            Some(table) if table.is_table() => (vec![table], None),
            single => (Vec::new(), single),
        },
    };
    let Some(single) = single else {
        let entries = |table: &Item<'a>| table.entries().unwrap_or_default();
        let mut members: Vec<Vec<Item<'a>>> = Vec::new();
        for entry in tables.iter().flat_map(entries) {
            match members
                .iter_mut()
                .find(|member| member.iter().any(|one| one.name() == entry.name()))
            {
                Some(member) => member.push(entry),
                None => members.push(vec![entry]),
            }
        }
        let members = members.into_iter().map(Vec::into_iter);
        return members
            .flat_map(|mut member| texts(member.next(), member.next()))
            .collect();
    };
    match single.kind() {
        Kind::List(_) => {
            let elements = single.list().unwrap_or_default().into_iter();
            elements
                .flat_map(|element| texts(Some(element), None))
                .collect()
        }
        Kind::Text(text) => {
            let template = Template::parse(text).ok();
            template
                .map(|template| (single, template))
                .into_iter()
                .collect()
        }
        Kind::Table(_) | Kind::Integer(_) | Kind::Float(..) | Kind::Bool(_) | Kind::Date(_) => {
            Vec::new()
        }
    }
}

fn parameters<'a>(params: &Item<'a>) -> Vec<Written<'a>> {
    parameters_but(params, |_| false)
}

fn parameters_but<'a>(
    params: &Item<'a>,
    is_left_out: impl Fn(&Item<'a>) -> bool,
) -> Vec<Written<'a>> {
    let template = |item: Item<'a>| Some((item.clone(), Template::parse(&item.as_text()?).ok()?));
    let values = params.entries().unwrap_or_default().into_iter();
    values
        .filter(|item| !is_left_out(item))
        .flat_map(|item| item.one_or_more().unwrap_or_default())
        .filter_map(template)
        .collect()
}

fn names_something((item, template): &Written<'_>, values: &BTreeSet<&str>) {
    if let Some(name) = values.iter().find(|name| template.doubles(name)) {
        item.refuse::<()>(
            TemplateError::Doubled((*name).to_owned()),
            "write single braces",
        );
    }
    for variable in template.variables() {
        if let Variable::OfRegion(name) = &variable
            && names_nothing(&variable, values)
        {
            let written = match Template::variable_names().contains(&name.as_str()) {
                true => format!("{{region.{name}}}"),
                false => format!("{{{name}}}"),
            };
            item.refuse::<()>(
                format!("{written} is not a template variable"),
                instead_of(name, values),
            );
        }
    }
}

/// What to write instead of an unknown variable. A name with blanks or signs is probably meant as text, such as the fields of a
/// formula, or is a variable with blanks around it.
fn instead_of(name: &str, values: &BTreeSet<&str>) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "_-.".contains(letter);
    let known = Template::variable_names().into_iter();
    let known: Vec<_> = known.chain(values.iter().copied()).collect();
    if name.chars().all(is_plain) {
        let define = format!(
            "define a value of regions as [regions.CODE] {} = \"...\"",
            quoted(name)
        );
        return match known.contains(&name) {
            true => define,
            false => format!(
                "{}; {define}, or write {{{{{name}}}}} for the text in braces",
                advice(name, known)
            ),
        };
    }
    let meant: String = name.split_whitespace().collect();
    let without_blanks = Template::parse(&format!("{{{meant}}}")).ok();
    match without_blanks.filter(|it| !it.variables().iter().any(|one| names_nothing(one, values))) {
        Some(_) => format!("write {{{meant}}}, without blanks"),
        None => format!(
            "write {{{{{name}}}}} for the text in braces, as in a formula; a value of regions has a name without blanks, braces and `:`"
        ),
    }
}

fn names_nothing(variable: &Variable, values: &BTreeSet<&str>) -> bool {
    matches!(variable, Variable::OfRegion(name) if !values.contains(name.as_str()))
}

fn names_ids(template: &Template, may_be_of_region: bool) -> bool {
    let names = |variable: &Variable| match variable {
        Variable::Ids => true,
        Variable::Id => !may_be_of_region,
        _ => false,
    };
    template.variables().iter().any(names)
}

fn asks_for_ids(
    job: &Job,
    step: &Step,
    item: &Item<'_>,
    all: &[Written<'_>],
    values: &BTreeSet<&str>,
) {
    // A region may have a value named `id`, which only a step with ids hides.
    let may_be_of_region = step.ids.is_none() && values.contains("id");
    let names = |(_, template): &&Written<'_>| names_ids(template, may_be_of_region);
    let asking = all.iter().find(names);
    match (&step.ids, asking) {
        (Some(_), None) => item.refuse_at(
            &["ids"],
            "no parameter of this step uses the ids",
            "write for example params = { id = \"{ids}\" }",
        ),
        (None, Some((written, _))) => {
            written.refuse::<()>(
                format!(
                    "{{ids}} has no value: this step of job {:?} has no `ids`",
                    job.name
                ),
                "add ids = { from = \"...\", at = \"/id\", batch = 50 } to the step",
            );
        }
        _ => {}
    }
}

/// A variable must have a value for each region, and the same one for all regions of a batch.
fn stands_for_something(job: &Job, step: &Step, item: &Item<'_>, variable: &Variable) {
    let is_shared = step.ids.is_some();
    let has_several_ids = step.ids.as_ref().is_some_and(|ids| ids.batch > 1);
    let no_value = match variable {
        Variable::SliceFrom | Variable::SliceTo => no_slice(job, is_shared),
        Variable::Since => no_since(job, has_several_ids),
        Variable::Region | Variable::OfRegion(_) if is_shared => Some((
            format!(
                "the region has no value: a batch of ids of job {:?} serves several regions",
                job.name
            ),
            "remove the region",
        )),
        Variable::OfRegion(name) => return every_region_has(job, item, name),
        Variable::Region => item.root().find(&["regions"]).is_none().then(|| {
            (
                "{region} has no value: the configuration has no regions".to_owned(),
                "write regions = [\"US\"] at the top of the file, or remove {region}",
            )
        }),
        Variable::Id => has_several_ids.then(|| {
            (
                "{id} is the only id of a request, and this step requests several".to_owned(),
                "write batch = 1, or {ids}",
            )
        }),
        Variable::Cursor => (step.call.paging.most_pages(None) == Some(1)).then(|| {
            (
                "{cursor} has no value: the call has no `page`".to_owned(),
                "add page = { kind = ... }",
            )
        }),
        Variable::Ids | Variable::Now | Variable::Date | Variable::Secret(_) => None,
    };
    if let Some((why, instead)) = no_value {
        item.refuse::<()>(why, instead);
    }
}

/// Why the slice has no value, and what to write instead; `None` if it has one.
fn no_slice(job: &Job, is_shared: bool) -> Option<(String, &'static str)> {
    if job.slices.is_none() {
        return Some((
            format!("the slice has no value: job {:?} has no `slices`", job.name),
            "add slices = { from = \"2024-01-01\", step = \"30d\" } to the job",
        ));
    }
    is_shared.then(|| {
        (
            format!(
                "the slice has no value: a batch of ids of job {:?} serves several slices",
                job.name
            ),
            "remove the slice",
        )
    })
}

/// Why `{since}` has no value, and what to write instead; `None` if it has one.
fn no_since(job: &Job, has_several_ids: bool) -> Option<(String, &'static str)> {
    if job.slices.is_some() {
        return Some((
            "a job with `slices` has no {since}: each slice has its own {slice.from}".to_owned(),
            "write {slice.from}, or move the step to a job without slices",
        ));
    }
    has_several_ids.then(|| {
        (
            "{since} is the value of one id, and this step requests several at once".to_owned(),
            "write batch = 1",
        )
    })
}

fn every_region_has(job: &Job, item: &Item<'_>, name: &str) {
    let has = |region: &&Arc<Region>| region.values.contains_key(name);
    let lacking: Vec<&str> = job
        .regions
        .iter()
        .filter(|region| !has(region))
        .map(|region| region.code.as_str())
        .collect();
    if let Some(first) = lacking.first() {
        item.refuse::<()>(
            format!(
                "{name} has no value in these regions of job {:?}: {}",
                job.name,
                some_of(&lacking)
            ),
            format!(
                "add [regions.{}] {name} = \"...\", or restrict the job's `regions` to those that \
                have one",
                quoted(first)
            ),
        );
    }
}

/// The first names of a list that can have thousands.
fn some_of(names: &[&str]) -> String {
    const MOST: usize = 20;
    let shown: Vec<&str> = names.iter().copied().take(MOST).collect();
    match names.len().saturating_sub(MOST) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Parameters must not set the secret or the page.
fn leaves_to_others(params: &Item<'_>, upstream: &Upstream, call: &Call) {
    if let Auth::Query(name) = &upstream.auth
        && let Some(item) = params.find(&[name])
    {
        item.refuse_unseen::<()>(
            "auth sets this parameter already",
            "remove it here: a secret must not be in this file",
        );
    }
    leaves_paging_alone(params, call);
}

/// Only `page` sets the cursor, except that a list may begin at `{since}`. A step may set another page size.
fn leaves_paging_alone(params: &Item<'_>, call: &Call) {
    let size = call.paging.size().and_then(|size| size.param.as_deref());
    let cursor = call.paging.cursor_param();
    let is_start = |item: &Item<'_>| {
        let text = item.as_text().unwrap_or_default();
        text.contains("{since") && call.paging.has_no_first_token()
    };
    let cursor = cursor.and_then(|cursor| params.find(&[cursor]));
    if let Some(item) = cursor.filter(|item| !is_start(item)) {
        let expected = format!(
            "page.param of call {:?} sets this parameter already",
            call.name
        );
        item.refuse::<()>(expected, "remove it here, or change `page`");
    }
    if let Some(item) = size.and_then(|size| params.find(&[size]))
        && item
            .as_text()
            .is_some_and(|text| !text.parse().is_ok_and(|size: u64| size > 0))
    {
        item.refuse::<()>(
            "expected the page size, a whole number of 1 or more",
            "remove it to use the size of the call",
        );
    }
}
