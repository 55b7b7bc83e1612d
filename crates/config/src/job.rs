//! `[jobs.NAME]`: what to fetch for each region, in steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::body::{BODIES, Body, JsonTemplate, Param, Params, StepGraphql, beside, only_body};
use super::document::Document;
use super::entries::Entries;
use super::error::Refusal;
use super::id_place::IdPlace;
use super::names::advice;
use super::since::Since;
use super::slices::Slices;
use super::stop_at_known::StopAtKnown;
use super::values::{AnyUnits, As, ByLimit, Count, Filled, List, Span, SpanOrZero, Table, default};
use super::{Call, Credential, Pointer, Region, Template, Then, Upstream, Variable};
use ingest_quota::{Cost, Timestamp};

/// What to fetch, as a list of calls, for each region.
#[derive(Debug, Clone)]
pub struct Job {
    pub name: String,
    /// The credential of its requests.
    pub credential: Arc<Credential>,
    /// The credentials that it uses, in this order, when the quota of the one before is exhausted.
    pub fallbacks: Vec<Arc<Credential>>,
    /// The regions that it walks.
    pub regions: Vec<Arc<Region>>,
    /// A region is due again this long after the start of its last complete pass; `None`: at every run.
    pub every: Option<Duration>,
    /// What it leaves to others.
    pub leave: Leave,
    /// Whether its passes list everything again, from the first value of `{since}` (`--relist`).
    pub relists: bool,
    /// How long after its start an unfinished pass is resumed.
    pub resume_within: Duration,
    /// The value of `{since}`.
    pub since: Since,
    /// The spans of time that it fetches, each once; `None` for a job that walks its regions again and again.
    pub slices: Option<Slices>,
    /// Its steps, in order. There is at least one, and the first lists.
    pub steps: Vec<Step>,
}

/// The units that a job leaves to others.
#[derive(Debug, Clone)]
pub enum Leave {
    /// These, by the configured names of limits.
    Units(Cost),
    /// What the other jobs of each of its accounts need, by credential. A run computes it for a backfill without `leave`.
    Needed(BTreeMap<String, Cost>),
}

impl Leave {
    /// Returns the units that stay free of the limits of a credential, by their configured names.
    pub fn of(&self, credential: &Credential) -> Cost {
        match self {
            Self::Units(units) => units.clone(),
            Self::Needed(needed) => needed.get(&credential.name).cloned().unwrap_or_default(),
        }
    }
}

/// One call of a job.
#[derive(Debug, Clone)]
pub struct Step {
    /// The call. It has a path and records.
    pub call: Arc<Call>,
    /// The query parameters of each request: the call's, overridden by the step's.
    pub params: Params,
    /// The body of each request: the call's, overridden by the step's.
    pub body: Option<Body>,
    /// The most pages of a pass; `None`: until the list ends.
    pub max_pages: Option<u64>,
    /// Where its list stops before its end; `None`: nowhere.
    pub stop_at_known: Option<StopAtKnown>,
    /// The ids that it fetches; `None` for a step that lists. A step with ids serves several regions at once.
    pub ids: Option<Ids>,
    /// Where its records have what later steps and passes read: ids, and the value of `{since}`.
    pub read_later: Vec<Pointer>,
}

impl Job {
    /// Returns all of its credentials, in the order in which it uses them. They are of one upstream.
    pub fn credentials(&self) -> impl Iterator<Item = &Arc<Credential>> {
        std::iter::once(&self.credential).chain(&self.fallbacks)
    }

    /// Returns the job with only this credential.
    pub fn with(&self, credential: &Arc<Credential>) -> Self {
        Self {
            credential: Arc::clone(credential),
            fallbacks: Vec::new(),
            ..self.clone()
        }
    }

    /// Returns the job with each of its credentials alone.
    pub fn by_credential(&self) -> impl Iterator<Item = Self> {
        self.credentials().map(|credential| self.with(credential))
    }

    /// Returns the region with the slice that a backfill fetches first at `now`; as it is in a job without slices.
    pub fn first_slice_of(&self, region: &Arc<Region>, now: Timestamp) -> Arc<Region> {
        let Some(slices) = &self.slices else {
            return Arc::clone(region);
        };
        Arc::new(Region {
            slice: slices.left(now, &[]).slices.first().copied(),
            ..(**region).clone()
        })
    }

    /// Whether a step's requests use a variable, the headers of its upstream included.
    pub fn names(&self, step: &Step, variable: &Variable) -> bool {
        let mut headers = self.credential.upstream.headers.values();
        step.names(variable) || headers.any(|template| template.names(variable))
    }

    /// Where records of a call name ids that steps request.
    pub fn named_by(&self, call: &str) -> Vec<IdPlace> {
        let ids = self.steps.iter().filter_map(|step| step.ids.as_ref());
        let ids = ids.filter(|ids| ids.from == call);
        ids.map(|ids| ids.at.clone()).collect()
    }

    /// The first variable with which a step's list is another one in every pass; `None` where all passes request the same.
    pub fn time_of(&self, step: &Step) -> Option<&'static str> {
        let times = [
            (Variable::Since, "{since}"),
            (Variable::Date, "{date}"),
            (Variable::Now, "{now}"),
            (Variable::SliceFrom, "{slice.from}"),
            (Variable::SliceTo, "{slice.to}"),
        ];
        let mut times = times.into_iter();
        times.find_map(|(time, name)| self.names(step, &time).then_some(name))
    }

    /// The templates of a step's requests that use `{since}`, those of the upstream's headers included.
    pub fn templates_of_since<'s>(&'s self, step: &'s Step) -> Vec<&'s Template> {
        let headers = self.credential.upstream.headers.values();
        let templates = step.templates().chain(headers);
        templates
            .filter(|template| template.names(&Variable::Since))
            .collect()
    }

    /// The first `{since}` of a step that has an offset or a format, as it is written: its value must be a time.
    pub fn timed_since(&self, step: &Step) -> Option<String> {
        let templates = self.templates_of_since(step);
        templates
            .into_iter()
            .find_map(|template| template.timed_since())
    }
}

impl Step {
    /// Whether its path, parameters, body or own headers use a variable.
    pub fn names(&self, variable: &Variable) -> bool {
        self.templates().any(|template| template.names(variable))
    }

    /// Whether its requests use `{since}` with an offset, so that they list records from before it too.
    pub fn shifts_since(&self) -> bool {
        self.templates()
            .any(|template| template.as_str().contains("{since:-"))
    }

    /// What its first requests join ids by.
    pub fn joins_ids_by(&self) -> impl Iterator<Item = &str> {
        let params = self.params.values().flat_map(Param::of_all_ids);
        let body = self.body.iter().flat_map(Body::of_all_ids);
        let templates = params.chain(body).chain(&self.call.path);
        templates.filter_map(Template::joins_ids_by)
    }

    /// The places of the values of a parent that its requests and its records use, each once.
    fn parents(&self, upstream: &Upstream) -> Vec<Pointer> {
        let records = self
            .call
            .records
            .iter()
            .flat_map(|records| records.templates());
        let templates = self.templates().chain(records);
        let places = templates
            .chain(upstream.headers.values())
            .flat_map(Template::parents);
        // In an order that stays when the file is rearranged: the values are a part of the id.
        let places: BTreeMap<&str, &Pointer> = places.map(|at| (at.as_str(), at)).collect();
        places.into_values().cloned().collect()
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        let params = self.params.values().flat_map(Param::templates);
        let body = self.body.iter().flat_map(Body::templates);
        let then = self
            .call
            .paging
            .then
            .as_deref()
            .into_iter()
            .flat_map(Then::templates);
        let templates = params.chain(&self.call.path).chain(body).chain(then);
        templates.chain(self.call.headers.values())
    }
}

/// The ids that a step fetches: a query of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// The call of an earlier step, whose records contain them.
    pub from: String,
    /// The kind of that call's records.
    pub from_kind: String,
    /// Where a record contains them, and the values that are sent with them.
    pub at: IdPlace,
    /// The number of ids in one request; at least 1.
    pub batch: u64,
    /// Ids that were fetched within this time are not requested again.
    pub fresh_for: Option<Duration>,
}

impl Ids {
    /// Ids that were fetched at or after this time are not requested again at `now`.
    pub fn fresh_since(&self, now: Timestamp) -> Timestamp {
        self.fresh_for.map_or(now, |span| now - span)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobKeys {
    /// The credential of the requests, whose upstream has the calls. Required, unless there are `credentials`. Example: `credential = "things"`.
    #[serde(default, with = "As::<Option<Filled>>")]
    credential: Option<String>,
    /// Several credentials of one upstream, each with its own quota. A run uses the first until its quota is exhausted or the upstream
    /// rejects it, then the next, at the same cursor, which must not belong to one credential. Most upstreams forbid several accounts
    /// that evade one quota: read their terms. Example: `credentials = ["things", "more_things"]`.
    #[serde(default, with = "As::<Option<List<Filled, 1>>>")]
    credentials: Option<Vec<String>>,
    /// The regions to walk. If unset, all of them. Example: `regions = ["US", "GB"]`.
    #[serde(default, with = "As::<Option<List<Filled, 0>>>")]
    regions: Option<Vec<String>>,
    /// How long after the start of its last complete pass a region is due. If unset, at every run. Example: `every = "1h"`.
    #[serde(default, with = "As::<Option<Span>>")]
    every: Option<Duration>,
    /// The units of each limit that this job leaves to others. If unset, none; a job with `slices` then leaves what the other jobs
    /// need. Example: `leave = { daily = 1_000 }`.
    #[serde(default, with = "As::<Option<ByLimit<AnyUnits>>>")]
    leave: Option<Cost>,
    /// How long an unfinished pass can be resumed, from its start; then a new one starts. A run once a day that comes before its units return
    /// resumes it two days later. Example: `resume_within = "7d"`.
    #[serde(
        default = "default::seconds::<{ 3 * 24 * 60 * 60 }>",
        with = "As::<Span>"
    )]
    resume_within: Duration,
    /// The value of `{since}` before the first complete pass, or where the records have the value of the next pass (`usage.md` has a
    /// section on it). If unset, `{since}` is the start of the last complete pass, and `1970-01-01T00:00:00Z` before that. In a step
    /// of `ids` with `batch = 1`, each id has a value of its own, a new id the first one; a list that was cut by `max_pages`, failed
    /// or was refused does not advance it. Example: `since = "2024-01-01"`.
    since: Option<Since>,
    /// A backfill: the job fetches each span of time once, and its steps name the span by `{slice.from}` and `{slice.to}`. Slices are
    /// fetched after everything else that is due. The account's other jobs keep the units that they need before units that are spent
    /// now return; with `leave`, that number. `every` is the time after which a refused slice is requested again; if unset, a day.
    /// What the newest slice does not contain yet is for another job. Example: `slices = { from = "2024-01-01", step = "30d" }`.
    slices: Option<Table<Slices>>,
    /// The steps, in order. Each lists, or fetches the ids that an earlier one listed. Example: `steps = [{ call = "things.list" }]`.
    steps: Vec<Table<StepKeys>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct StepKeys {
    /// The call, of the upstream of the job's credential. Example: `call = "things.list"`.
    #[serde(with = "As::<Filled>")]
    call: String,
    /// Query parameters, which override those of the call. Example: `params = { sort = "popular", country = "{region}" }`.
    #[serde(default)]
    params: Params,
    /// Values of the JSON body, which override those of the call at the same places. Example: `json = { filter = { country = "US" } }`.
    json: Option<JsonTemplate>,
    /// Fields of the form, which override those of the call. Example: `form = { sort = "popular" }`.
    form: Option<Params>,
    /// What differs from the GraphQL request of the call. Example: `graphql = { variables = { sort = "POPULAR" } }`.
    graphql: Option<Table<StepGraphql>>,
    /// The most pages of a pass. If unset, no such bound. Example: `max_pages = 4`.
    #[serde(default, with = "As::<Option<Count>>")]
    max_pages: Option<u64>,
    /// For a list that has its newest records first, by when they were added or changed, and takes no `{since}`: a pass ends at the
    /// first page of which all records are known and unchanged. Nothing behind it is taken as gone; a record that changes without
    /// moving to the front is found by the passes that read the whole list. Example: `stop_at_known = { complete_every = "7d" }`.
    stop_at_known: Option<Table<StopAtKnown>>,
    /// The ids to fetch, from the records of an earlier step, for `{ids}` in a parameter, the path or the body; with `batch = 1` also
    /// for `{id}`, and `{parent:/owner/login}` is a value of the record that names it. Example: `ids = { from = "things.list", at =
    /// "/owner/id", batch = 50 }`.
    ids: Option<Table<IdsKeys>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct IdsKeys {
    /// The call of an earlier step of this job. Example: `from = "things.list"`.
    #[serde(with = "As::<Filled>")]
    from: String,
    /// Where the records of that step have the ids. Example: `at = "/owner/id"`.
    at: Pointer,
    /// The number of ids in one request. Example: `batch = 50`.
    #[serde(with = "As::<Count>")]
    batch: u64,
    /// Ids fetched within this time are skipped, except of gone records. If unset, each is fetched once a pass, a forbidden one once
    /// a day. Example: `fresh_for = "7d"`.
    #[serde(default, with = "As::<Option<SpanOrZero>>")]
    fresh_for: Option<Duration>,
}

/// What a job can refer to.
pub struct Known<'a> {
    pub regions: &'a [Arc<Region>],
    pub credentials: &'a Entries<Credential>,
}

/// Reads the job at a path, and finds what it names.
pub fn job(document: &Document<'_>, path: &[&str], known: &Known<'_>) -> Option<Job> {
    let name = path.last().copied().unwrap_or_default();
    if name.contains(',') || name.trim() != name {
        document.refuse(
            path,
            "expected a name without a comma, and without blanks around it: --job separates names by commas",
            "write another name",
        );
        return None;
    }
    let keys: JobKeys = document.table(path, &[])?;
    let credentials = credentials(document, path, keys.credential, keys.credentials, known);
    let credential = credentials.as_ref().and_then(|all| all.first().cloned());
    let regions = match &keys.regions {
        Some(codes) => some_regions(document, path, codes, known.regions),
        None if document.has(&["regions"]) => Some(known.regions.to_vec()),
        // A file without regions: the job makes one pass.
        None => Some(vec![Arc::new(Region::none())]),
    };
    let slices = keys
        .slices
        .map(|Table(slices)| slices.checked())
        .transpose();
    let slices = slices.map_err(|refusal| {
        document.report(&[path, &["slices"]].concat(), &refusal);
    });
    let credential = credential?;
    let steps = steps(document, path, keys.steps, &credential.upstream);
    let since = keys.since.unwrap_or_default();
    let slices = slices.ok()?;
    Some(Job {
        name: name.to_owned(),
        credential,
        fallbacks: credentials?.into_iter().skip(1).collect(),
        regions: regions?,
        every: keys.every,
        relists: false,
        leave: match keys.leave {
            None if slices.is_some() => Leave::Needed(BTreeMap::new()),
            units => Leave::Units(units.unwrap_or_default()),
        },
        resume_within: keys.resume_within,
        slices,
        steps: reading(steps?, &since),
        since,
    })
}

/// The credentials of a job: of one upstream, and each with limits of its own.
fn credentials(
    document: &Document<'_>,
    path: &[&str],
    one: Option<String>,
    several: Option<Vec<String>>,
    known: &Known<'_>,
) -> Option<Vec<Arc<Credential>>> {
    let names: Vec<(Vec<String>, String)> = match (one, several) {
        (Some(_), Some(_)) => {
            document.refuse(
                &[path, &["credentials"]].concat(),
                "this job has `credential` too",
                "remove one of the two: `credentials` lists all of them",
            );
            return None;
        }
        (None, None) => {
            document.report(path, &Refusal::missing("credential", "\"...\""));
            return None;
        }
        (Some(name), None) => vec![(vec!["credential".to_owned()], name)],
        (None, Some(names)) => {
            let names = names.into_iter().enumerate();
            names
                .map(|(at, name)| (vec!["credentials".to_owned(), at.to_string()], name))
                .collect()
        }
    };
    let mut all: Vec<Arc<Credential>> = Vec::new();
    for (below, name) in names {
        let below = below.iter().map(String::as_str);
        let place: Vec<&str> = path.iter().copied().chain(below).collect();
        let credential = known
            .credentials
            .named(&name, "credential", document, &place)?;
        if let Some(first) = all.first()
            && first.upstream.name != credential.upstream.name
        {
            let upstream = &first.upstream.name;
            document.refuse(
                &place,
                format!("the other credentials are of upstream {upstream:?}"),
                "list credentials of one upstream",
            );
            return None;
        }
        if let Some(same) = all.iter().find(|one| one.shares_limits(&credential)) {
            document.refuse(
                &place,
                format!(
                    "it has no quota of its own: {:?} uses the same account",
                    same.name
                ),
                "remove it, or give the credentials different accounts",
            );
            return None;
        }
        all.push(credential);
    }
    Some(all)
}

fn some_regions(
    document: &Document<'_>,
    path: &[&str],
    codes: &[String],
    all: &[Arc<Region>],
) -> Option<Vec<Arc<Region>>> {
    let place = [path, &["regions"]].concat();
    if codes.is_empty() {
        let remedy = "remove the key to walk all regions";
        document.refuse(&place, "expected at least one region", remedy);
        return None;
    }
    let mut seen = BTreeSet::new();
    let mut regions = Vec::new();
    for (at, code) in codes.iter().enumerate() {
        let at = at.to_string();
        let place = [&place[..], &[&at]].concat();
        match all.iter().find(|region| region.code == *code) {
            _ if !seen.insert(code) => document.refuse(&place, "duplicate region", "remove it"),
            Some(region) => regions.push(Arc::clone(region)),
            // Where the regions are wrong themselves, none of them is known.
            None if all.is_empty() && document.has(&["regions"]) => {}
            None => document.refuse(
                &place,
                "`regions` does not define this region",
                advice(code, all.iter().map(|region| region.code.as_str())),
            ),
        }
    }
    (regions.len() == codes.len()).then_some(regions)
}

fn steps(
    document: &Document<'_>,
    path: &[&str],
    keys: Vec<Table<StepKeys>>,
    upstream: &Upstream,
) -> Option<Vec<Step>> {
    let path = [path, &["steps"]].concat();
    if keys.is_empty() {
        document.refuse(
            &path,
            "a job needs at least one step",
            "write [{ call = \"...\" }]",
        );
        return None;
    }
    let count = keys.len();
    let mut earlier = Earlier::default();
    let mut steps = Vec::new();
    for (at, Table(keys)) in keys.into_iter().enumerate() {
        let at = at.to_string();
        let place = [&path[..], &[&at]].concat();
        let step = step(document, &place, keys, upstream, &earlier);
        earlier.steps += 1;
        let call = step.as_ref().map(|step| Arc::clone(&step.call));
        earlier.calls.extend(call);
        steps.extend(step);
    }
    (steps.len() == count).then_some(steps)
}

/// The steps, each with the places of what is read later in its records.
fn reading(mut steps: Vec<Step>, since: &Since) -> Vec<Step> {
    let ids: Vec<Ids> = steps.iter().filter_map(|step| step.ids.clone()).collect();
    for step in &mut steps {
        let of_step = ids.iter().filter(|ids| ids.from == step.call.name);
        let places = of_step.flat_map(|ids| ids.at.parent().iter().chain([ids.at.at()]));
        let places = places.chain(&since.at);
        step.read_later = places.cloned().collect();
    }
    steps
}

/// The steps before a step. One that is wrong itself counts, but its call is unknown.
#[derive(Default)]
struct Earlier {
    steps: usize,
    calls: Vec<Arc<Call>>,
}

fn step(
    document: &Document<'_>,
    path: &[&str],
    keys: StepKeys,
    upstream: &Upstream,
    earlier: &Earlier,
) -> Option<Step> {
    let call = call(document, path, &keys.call, upstream);
    let ids = keys
        .ids
        .map(|Table(keys)| ids(document, path, keys, earlier));
    let own = only_body(keys.json, keys.form, keys.graphql);
    let own = own.map_err(|refusal| document.report(path, &refusal));
    let (call, own) = (call?, own.ok()?);
    let body = match (call.body.clone(), own) {
        (body, None) => body,
        (body, Some(own)) => match body.and_then(|body| body.with(own)) {
            Some(body) => Some(body),
            None => {
                let written = BODIES
                    .iter()
                    .find(|name| document.has(&[path, &[*name]].concat()));
                document.refuse(
                    &[path, written.map_or(&[][..], std::slice::from_ref)].concat(),
                    format!("the call {:?} has no such body to override", call.name),
                    "write the whole body in the call",
                );
                return None;
            }
        },
    };
    let mut step = Step {
        params: beside(&call.params, keys.params),
        body,
        call,
        max_pages: keys.max_pages,
        stop_at_known: keys.stop_at_known.map(|Table(stop)| stop),
        ids: ids.map_or(Some(None), |ids| ids.map(Some))?,
        read_later: Vec::new(),
    };
    let parents = step.parents(upstream);
    if let Some(ids) = &mut step.ids {
        ids.at = IdPlace::new(ids.at.at().clone(), parents);
    }
    Some(step)
}

fn call(
    document: &Document<'_>,
    path: &[&str],
    name: &str,
    upstream: &Upstream,
) -> Option<Arc<Call>> {
    let place = [path, &["call"]].concat();
    let own = ["upstreams", &upstream.name, "calls"];
    let Some(call) = upstream.calls.get(name) else {
        // One that is wrong itself is known.
        if !document.has(&[&own[..], &[name]].concat()) {
            document.refuse(
                &place,
                format!("upstream {:?} has no call of this name", upstream.name),
                advice(name, document.keys(&own).iter().map(String::as_str)),
            );
        }
        return None;
    };
    let lacking = match (&call.path, &call.records) {
        (None, _) => "path",
        (_, None) => "records",
        _ => return Some(Arc::clone(call)),
    };
    if document.is_right_below(&[&own[..], &[name]].concat()) {
        document.refuse(
            &place,
            format!("the call has no `{lacking}`: it can be charged by hand, but not requested"),
            format!(
                "add {lacking} to [upstreams.{}.calls.{name:?}]",
                upstream.name
            ),
        );
    }
    None
}

fn ids(document: &Document<'_>, path: &[&str], keys: IdsKeys, earlier: &Earlier) -> Option<Ids> {
    let place = [path, &["ids"]].concat();
    if earlier.steps == 0 {
        document.refuse(
            &place,
            "the first step of a job has no step before it to take ids from",
            "put the step that lists the ids before it",
        );
        return None;
    }
    let found = earlier.calls.iter().find(|call| call.name == keys.from);
    let records = found.and_then(|call| call.records.as_ref());
    // Where an earlier step is wrong, its call is not known and can be this one.
    if found.is_none() && earlier.calls.len() == earlier.steps {
        let known = earlier.calls.iter().map(|call| call.name.as_str());
        document.refuse(
            &[&place[..], &["from"]].concat(),
            "expected the call of an earlier step of this job",
            advice(&keys.from, known),
        );
    }
    Some(Ids {
        from: keys.from,
        from_kind: records?.kind.clone(),
        at: keys.at.into(),
        batch: keys.batch,
        fresh_for: keys.fresh_for,
    })
}
