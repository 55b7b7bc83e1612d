//! Checks of requests: templates against the variables that exist, parameters against paging.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use toml::de::DeValue;

use super::paging;
use crate::body::{BODIES, NUMBER};
use crate::document::Document;
use crate::names::{advice, quoted};
use crate::{
    Auth, Call, Config, Job, Pointer, Region, Step, Template, TemplateError, Upstream, Variable,
};

/// A template, with the path at which it was written.
type Written = (Vec<String>, Template);

pub fn variables(config: &Config, document: &Document<'_>) {
    let regions = config.regions.iter();
    let values = regions.flat_map(|region| region.values.keys());
    let check = Check {
        document,
        values: values.map(String::as_str).collect(),
    };
    each_call(config, document, |upstream, _, path| {
        check.call(upstream, path)
    });
    each_step(config, document, |job, step, path| {
        check.step(job, step, path)
    });
}

pub fn parameters(config: &Config, document: &Document<'_>) {
    each_call(config, document, |upstream, call, path| {
        let own = [&["params"][..], &["page", "then", "params"]];
        let own = own.map(|params| [path, params].concat());
        for params in own.into_iter().chain([of_all_calls(path)]) {
            leaves_to_others(&params, upstream, call, document);
        }
        paging::place(path, call, document);
        paging::leaves_the_secret(path, upstream, call, document);
    });
    each_step(config, document, |job, step, path| {
        let upstream = &job.credential.upstream;
        leaves_to_others(
            &[path, &["params"]].concat(),
            upstream,
            &step.call,
            document,
        );
    });
}

pub fn cursors(config: &Config, document: &Document<'_>) {
    each_call(config, document, |_, call, path| {
        paging::next_is_no_total(path, call, document)
    });
}

pub fn since(config: &Config, document: &Document<'_>) {
    config.jobs.iter().for_each(|job| uses_since(job, document));
}

/// Steps that request ids by one call must request the same: an id that one of them fetched is fresh for all.
pub fn ids(config: &Config, document: &Document<'_>) {
    let mut requests: BTreeMap<(&str, &str), &Step> = BTreeMap::new();
    for job in &config.jobs {
        let steps = job.steps.iter().enumerate();
        for (at, step) in steps.filter(|(_, step)| step.ids.is_some()) {
            let call = (&*job.credential.upstream.name, &*step.call.name);
            let first = requests.entry(call).or_insert(step);
            if (&first.params, &first.body) != (&step.params, &step.body) {
                document.refuse(
                    &["jobs", &job.name, "steps", &at.to_string()],
                    format!(
                        "another step requests ids by {} with other parameters, and each skips what the other one fetched",
                        step.call.name
                    ),
                    "write a call of its own, whose records have another `kind`",
                );
            }
        }
    }
}

pub fn slices(config: &Config, document: &Document<'_>) {
    config
        .jobs
        .iter()
        .for_each(|job| uses_slices(job, document));
}

/// Each call that is right, with its path.
fn each_call(config: &Config, document: &Document<'_>, check: impl Fn(&Upstream, &Call, &[&str])) {
    for upstream in config.upstreams.values() {
        for call in upstream.calls.values() {
            let path = ["upstreams", &upstream.name, "calls", &call.name];
            if document.is_right_below(&path) {
                check(upstream, call, &path);
            }
        }
    }
}

/// Each step that is right, with its path, and with a call that is right.
fn each_step(config: &Config, document: &Document<'_>, check: impl Fn(&Job, &Step, &[&str])) {
    let is_right = |job: &&Arc<Job>| document.is_right_below(&["jobs", &job.name]);
    for job in config.jobs.iter().filter(is_right) {
        let upstream = &job.credential.upstream.name;
        let headers = ["upstreams", upstream, "headers"];
        for (at, step) in job.steps.iter().enumerate() {
            let call = ["upstreams", upstream, "calls", &step.call.name];
            if document.is_right_below(&call) && document.is_right_below(&headers) {
                check(job, step, &["jobs", &job.name, "steps", &at.to_string()]);
            }
        }
    }
}

/// A job's `since` must have a step that uses it. Each list of an id continues from its own value, so a call has one such list.
fn uses_since(job: &Job, document: &Document<'_>) {
    let mut calls = BTreeSet::new();
    for (at, step) in job.steps.iter().enumerate() {
        let is_of_ids = step.ids.is_some() && job.names(step, &Variable::Since);
        if is_of_ids && !calls.insert(&step.call.name) {
            document.refuse(
                &["jobs", &job.name, "steps", &at.to_string()],
                format!(
                    "another step of this job has a {{since}} for each id of {}",
                    step.call.name
                ),
                "move one of the two to another job",
            );
        }
    }
    let since = ["jobs", &job.name, "since"];
    let uses = |step: &Step| job.names(step, &Variable::Since);
    if document.has(&since) && job.slices.is_none() && !job.steps.iter().any(uses) {
        document.refuse(
            &since,
            "no step of this job uses {since}",
            "add it to the step's params, for example updated_after = \"{since}\", or remove the key; a list without such a filter that \
            has its newest records first is read by `stop_at_known` of the step",
        );
    }
    if let Some(first) = &job.since.first
        && first.moment().is_none()
        && let Some(timed) = job.steps.iter().find_map(|step| job.timed_since(step))
    {
        document.refuse(
            &["jobs", &job.name, "since", "first"],
            format!("expected a time, since {timed} shifts or formats it"),
            "write for example \"2024-01-01\", or name its form, such as format = \"%d.%m.%Y\"",
        );
    }
}

/// Each step that lists must name the slice: otherwise every slice would be the same list.
fn uses_slices(job: &Job, document: &Document<'_>) {
    if job.slices.is_none() {
        return;
    }
    let edges = [Variable::SliceFrom, Variable::SliceTo];
    let names_slice = |step: &Step| edges.iter().any(|edge| job.names(step, edge));
    let mut lists = job.steps.iter().filter(|step| step.ids.is_none());
    if let Some(same) = lists.find(|step| !names_slice(step)) {
        document.refuse(
            &["jobs", &job.name, "slices"],
            format!("{} would list the same in every slice: it does not use {{slice.from}}", same.call.name),
            "add the slice to the step's params, for example { from = \"{slice.from}\", to = \"{slice.to}\" }, or move the step to \
            a job without slices",
        );
    }
    let since = ["jobs", &job.name, "since"];
    if document.has(&since) {
        document.refuse(
            &since,
            "a job with `slices` has no {since}: each slice has its own {slice.from}",
            "remove the key",
        );
    }
}

struct Check<'a, 't> {
    document: &'a Document<'t>,
    /// The names of all values of regions.
    values: BTreeSet<&'a str>,
}

impl Check<'_, '_> {
    fn call(&self, upstream: &Upstream, path: &[&str]) {
        let written = self.of_requests(upstream, path, None);
        written.iter().for_each(|one| self.names_something(one));
    }

    fn step(&self, job: &Job, step: &Step, path: &[&str]) {
        let upstream = &job.credential.upstream;
        let call = ["upstreams", &upstream.name, "calls", &step.call.name];
        let mut all = self.of_requests(upstream, &call, Some(path));
        self.asks_for_ids(job, step, path, &all);
        all.iter()
            .for_each(|written| self.is_number(job, step, written));
        all.extend(self.of_records(&call));
        for written in &all {
            let (place, template) = written;
            self.names_something(written);
            for variable in template.variables() {
                if !self.names_nothing(&variable) {
                    self.stands_for_something(job, step, place, &variable);
                    // Where no region has such a value, the ids are missing.
                    let may_be_of_region = step.ids.is_none() && self.values.contains("id");
                    if variable == Variable::Id && may_be_of_region {
                        self.every_region_has(job, place, "id");
                    }
                }
            }
        }
    }

    /// The templates of the requests of a call; of a step of it, if that is at `own`.
    fn of_requests(
        &self,
        upstream: &Upstream,
        call: &[&str],
        own: Option<&[&str]>,
    ) -> Vec<Written> {
        let all = ["upstreams", &upstream.name];
        let then = [call, &["page", "then"]].concat();
        let then = self.document.has(&then).then_some(&then[..]);
        let requests: Vec<&[&str]> = [Some(call), own].into_iter().flatten().collect();
        let of_all = below(&all, "params");
        let layers: [Vec<Vec<&str>>; 8] = [
            vec![below(&all, "headers")],
            vec![below(call, "path")],
            vec![below(call, "headers")],
            then.iter().map(|then| below(then, "path")).collect(),
            then.map_or_else(Vec::new, |then| vec![of_all.clone(), below(then, "params")]),
            then.and_then(|then| self.body(then)).into_iter().collect(),
            std::iter::once(of_all)
                .chain(requests.iter().map(|of| below(of, "params")))
                .collect(),
            requests.iter().filter_map(|of| self.body(of)).collect(),
        ];
        let written = layers.iter().map(|tables| self.layered(tables));
        written.flatten().collect()
    }

    /// The path of the body of a call, a step or a `then`.
    fn body<'p>(&self, of: &[&'p str]) -> Option<Vec<&'p str>> {
        let mut bodies = BODIES.iter().map(|name| below(of, name));
        bodies.find(|body| self.document.has(body))
    }

    /// The templates of tables, each with its path, without those that a table behind theirs replaces.
    fn layered(&self, tables: &[Vec<&str>]) -> Vec<Written> {
        let mut written = Vec::new();
        for (at, table) in tables.iter().enumerate() {
            if matches!(table.last(), Some(&"params" | &"form")) {
                self.names_its_parameters(table);
            }
            let behind = tables.get(at + 1..).unwrap_or_default();
            for (place, text) in self.document.texts_with("{", table) {
                let below = place.get(table.len()..).unwrap_or_default();
                // No template: the braces of a query are its own.
                let is_query = table.last() == Some(&"graphql") && below == ["query"];
                let is_replaced = |own: &Vec<&str>| self.document.replaces(own, table, below);
                if !is_query && !behind.iter().any(is_replaced) {
                    written.extend(Template::parse(text).ok().map(|template| (place, template)));
                }
            }
        }
        written
    }

    fn names_its_parameters(&self, table: &[&str]) {
        let place = [table, &[""]].concat();
        if self.document.has(&place) {
            let remedy = "write the name of the parameter in the quotes";
            self.document
                .refuse(&place, "a parameter has no name", remedy);
        }
    }

    /// The templates of a call's records: parts of ids, and columns.
    fn of_records(&self, call: &[&str]) -> impl Iterator<Item = Written> {
        let records = below(call, "records");
        let written = ["id", "columns"].map(|key| self.layered(&[below(&records, key)]));
        let written = written.into_iter().flatten();
        // The others are places.
        written.filter(|(_, template)| !template.as_str().starts_with('/'))
    }

    fn names_something(&self, (place, template): &Written) {
        if let Some(name) = self.values.iter().find(|name| template.doubles(name)) {
            let error = TemplateError::Doubled((*name).to_owned());
            self.document.refuse(place, error, "write single braces");
        }
        for variable in template.variables() {
            if let Variable::OfRegion(name) = &variable
                && self.names_nothing(&variable)
            {
                let written = match Template::variable_names().contains(&name.as_str()) {
                    true => format!("{{region.{name}}}"),
                    false => format!("{{{name}}}"),
                };
                self.document.refuse(
                    place,
                    format!("{written} is not a template variable"),
                    instead_of(name, &self.values),
                );
            }
        }
    }

    fn names_nothing(&self, variable: &Variable) -> bool {
        names_nothing(variable, &self.values)
    }

    fn asks_for_ids(&self, job: &Job, step: &Step, path: &[&str], all: &[Written]) {
        // A region may have a value named `id`, which only a step with ids hides.
        let may_be_of_region = step.ids.is_none() && self.values.contains("id");
        let is_asking = |variable: &Variable| match variable {
            Variable::Ids | Variable::Parent(_) => true,
            Variable::Id => !may_be_of_region,
            _ => false,
        };
        let asking = all.iter().find_map(|(place, template)| {
            let variables = template.variables();
            let asking = variables.into_iter().find(|one| is_asking(one));
            asking.map(|variable| (place, variable))
        });
        match (&step.ids, asking) {
            (Some(_), None) => self.document.refuse(
                &[path, &["ids"]].concat(),
                "no parameter of this step uses the ids",
                "write for example params = { id = \"{ids}\" }",
            ),
            (None, Some((place, variable))) => self.document.refuse(
                place,
                format!(
                    "{} has no value: this step of job {:?} has no `ids`",
                    match &variable {
                        Variable::Parent(at) => of_parent(at),
                        Variable::Id => "{id}".to_owned(),
                        _ => "{ids}".to_owned(),
                    },
                    job.name
                ),
                match variable {
                    Variable::Id => {
                        "add ids = { from = \"...\", at = \"/id\", batch = 1 } to the step"
                    }
                    _ => "add ids = { from = \"...\", at = \"/id\", batch = 50 } to the step",
                },
            ),
            _ => {}
        }
    }

    /// A number of a body must be one with the values of each region.
    fn is_number(&self, job: &Job, step: &Step, (place, template): &Written) {
        let Some((table, Some(DeValue::Table(members)))) = place
            .split_last()
            .filter(|(key, _)| *key == NUMBER)
            .map(|(_, table)| (table, self.document.find(table)))
        else {
            return;
        };
        let of_region =
            |variable: &Variable| matches!(variable, Variable::Region | Variable::OfRegion(_));
        let is_known = template.variables().iter().all(of_region)
            && step.ids.is_none()
            && members.len() == 1
            && table.iter().any(|key| matches!(&**key, "json" | "graphql"));
        let mut regions = job.regions.iter().filter(|_| is_known);
        let is_wrong = |region: &&Arc<Region>| {
            let text = template.of_region(region);
            region.code != Region::NONE
                && !text.is_empty()
                && text.parse::<serde_json::Number>().is_err()
        };
        if let Some(region) = regions.find(is_wrong) {
            self.document.refuse(
                place,
                format!("it is no number in region {:?} of job {:?}", region.code, job.name),
                "write the text without { number = ... }, or a value of the region that is a number",
            );
        }
    }

    /// A variable must have a value for each region, and the same one for all regions of a batch.
    fn stands_for_something(&self, job: &Job, step: &Step, place: &[String], variable: &Variable) {
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
            Variable::OfRegion(name) => return self.every_region_has(job, place, name),
            Variable::Region => (!self.document.has(&["regions"])).then(|| {
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
            Variable::Parent(at) => has_several_ids.then(|| {
                (
                    format!(
                        "{} is a value of one record, and this step requests several ids at once",
                        of_parent(at)
                    ),
                    "write batch = 1",
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
            self.document.refuse(place, why, instead);
        }
    }

    fn every_region_has(&self, job: &Job, place: &[String], name: &str) {
        let has = |region: &&Arc<Region>| region.values.contains_key(name);
        let lacking = job.regions.iter().filter(|region| !has(region));
        let lacking: Vec<&str> = lacking.map(|region| region.code.as_str()).collect();
        if let Some(first) = lacking.first() {
            let names = some_of(&lacking);
            self.document.refuse(
                place,
                format!("{name} has no value in these regions of job {:?}: {names}", job.name),
                format!(
                    "add [regions.{}] {name} = \"...\", or restrict the job's `regions` to those that have one",
                    quoted(first)
                ),
            );
        }
    }
}

/// Parameters must not set the secret or the page. Only `page` sets the cursor, except that a list may begin at `{since}`. A step
/// may set another page size.
fn leaves_to_others(params: &[&str], upstream: &Upstream, call: &Call, document: &Document<'_>) {
    let place = |name: Option<&str>| {
        let place = owned(params, &[name?]);
        document.has(&place).then_some(place)
    };
    if let Auth::Query(name) = &upstream.auth
        && let Some(place) = place(Some(name))
    {
        document.refuse_unseen(
            &place,
            "auth sets this parameter already",
            "remove it here: a secret must not be in this file",
        );
    }
    let is_start = |place: &Vec<String>| {
        let texts = document.find(place).and_then(DeValue::as_str);
        texts.is_some_and(|text| text.contains("{since")) && call.paging.has_no_first_token()
    };
    if let Some(place) = place(call.paging.param.as_deref()).filter(|place| !is_start(place)) {
        document.refuse(
            &place,
            format!(
                "page.param of call {:?} sets this parameter already",
                call.name
            ),
            "remove it here, or change `page`",
        );
    }
    let size = call.paging.size_param.as_deref();
    let Some(place) = place(size) else { return };
    let text = match document.find(&place) {
        Some(DeValue::String(text)) => text.to_string(),
        Some(DeValue::Integer(number)) => number.to_string(),
        _ => String::new(),
    };
    if !text.parse().is_ok_and(|size: u64| size > 0) {
        document.refuse(
            &place,
            "expected the page size, a whole number of 1 or more",
            "remove it to use the size of the call",
        );
    }
}

/// The parameters of all calls of the upstream to which a path leads.
fn of_all_calls<'p>(path: &[&'p str]) -> Vec<&'p str> {
    let upstream = path.iter().copied().take(2);
    upstream.chain(["params"]).collect()
}

/// A value of a parent as it is written.
fn of_parent(at: &Pointer) -> String {
    format!("{{parent:{at}}}")
}

fn below<'p>(path: &[&'p str], key: &'p str) -> Vec<&'p str> {
    [path, &[key]].concat()
}

fn owned(path: &[&str], below: &[&str]) -> Vec<String> {
    let path = path.iter().chain(below);
    path.map(|key| (*key).to_owned()).collect()
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

/// The first names of a list that can have thousands.
fn some_of(names: &[&str]) -> String {
    const MOST: usize = 20;
    let shown: Vec<&str> = names.iter().copied().take(MOST).collect();
    match names.len().saturating_sub(MOST) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
