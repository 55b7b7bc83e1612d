//! `[jobs.NAME]`: what to fetch for each region, in steps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::body::{self, Body, PARAMS, Param, Params, STEP_BODY};
use super::declare::{
    COUNT, DURATION, DURATION_OR_ZERO, LEAVE, Later, ListOf, Optional, Or, POINTER, Place,
    Required, TEXT, Table, Type, keys, table,
};
use super::item::{self, Item};
use super::names::{Named, advice};
use super::since::{SINCE, Since};
use super::slices::{SLICES, Slices};
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
    /// The units of each limit that it leaves to others.
    pub leave: Cost,
    /// Whether it leaves what the other jobs of its account need: a backfill whose `leave` is not configured.
    pub leaves_needed: bool,
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
    #[must_use]
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
    #[must_use]
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
    #[must_use]
    pub fn names(&self, step: &Step, variable: &Variable) -> bool {
        let mut headers = self.credential.upstream.headers.values();
        step.names(variable) || headers.any(|template| template.names(variable))
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
    #[must_use]
    pub fn timed_since(&self, step: &Step) -> Option<String> {
        let templates = self.templates_of_since(step);
        templates
            .into_iter()
            .find_map(|template| template.timed_since())
    }
}

impl Step {
    /// Whether its path, parameters, body or own headers use a variable.
    #[must_use]
    pub fn names(&self, variable: &Variable) -> bool {
        self.templates().any(|template| template.names(variable))
    }

    /// Whether its requests use `{since}` with an offset, so that they list records from before it too.
    #[must_use]
    pub fn shifts_since(&self) -> bool {
        self.templates()
            .any(|template| template.as_str().contains("{since:-"))
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        let params = self.params.values().flat_map(Param::templates);
        let body = self.body.iter().flat_map(Body::templates);
        let then = self
            .call
            .paging
            .then()
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
    /// Where a record contains them.
    pub at: Pointer,
    /// The number of ids in one request; at least 1.
    pub batch: u64,
    /// Ids that were fetched within this time are not requested again.
    pub fresh_for: Option<Duration>,
}

impl Ids {
    /// Ids that were fetched at or after this time are not requested again at `now`.
    #[must_use]
    pub fn fresh_since(&self, now: Timestamp) -> Timestamp {
        self.fresh_for.map_or(now, |span| now - span)
    }
}

keys! {
    partial struct JobKeys {
        /// The credential of the requests. Its upstream has the calls of the steps. Required, unless there are `credentials`.
        credential: Option<Place> = Optional(Later(TEXT), "'things'"),
        /// Several credentials of one upstream, each with its own quota. A run uses the first until its quota is exhausted or the
        /// upstream rejects it, then the next. A pass continues with another credential at the same cursor, so the upstream's cursors must not belong to one
        /// credential. Use this only if the terms of the upstream allow it: most forbid several accounts that evade one quota.
        credentials: Option<Vec<Place>> = Optional(ListOf(Later(TEXT), 1), "['things', 'more_things']"),
        /// The regions to walk. If unset, all of them.
        regions: Option<Place> = Optional(Later(ListOf(TEXT, 1)), "['US', 'GB']"),
        /// A region is due this long after the start of its last complete pass. If unset, at every run.
        every: Option<Duration> = Optional(DURATION, "'1h'"),
        /// The units of each limit that this job leaves to others. A plain number is units of the limit `daily`. If unset, none; a job
        /// with `slices` then leaves what the other jobs need.
        leave: Option<Cost> = Optional(LEAVE, "{ daily = 1_000 }"),
        /// How long an unfinished pass can be resumed. After that a new pass starts.
        resume_within: Duration = Or(DURATION, "'36h'", "'7d'"),
        /// The value of `{since}` before the first complete pass: a date or a time. Or where the records have the value of the
        /// next pass. `usage.md` has a section on it. If unset, `{since}` is the start of the last complete pass, and `1970-01-01T00:00:00Z` before that. In a step of
        /// `ids` with `batch = 1`, each id has a value of its own: a list that `max_pages` cut, or that failed or was refused, does not
        /// advance it, and an id that is new begins with the first value.
        since: Option<Since> = Optional(SINCE, "'2024-01-01'"),
        /// A backfill: the job fetches each span of time once, and its steps name the span by `{slice.from}` and `{slice.to}`. A
        /// slice is complete when its pass is; the others are fetched by the next runs, after everything else that is due. The other
        /// jobs of the account keep the units that they are going to need before units that are spent now return; with `leave`,
        /// they keep that number instead. `every` is the time after which a slice is requested again that the upstream refused; if unset, a day.
        /// What the newest slice does not contain yet is for another job.
        slices: Option<Slices> = Optional(SLICES, "{ from = '2024-01-01', step = '30d' }"),
        /// The steps, in order. The first lists; later ones list too, or fetch the ids that an earlier one listed.
        steps: Place = Required(Later(ListOf(STEP, 1)), "[{ call = 'things.list' }]"),
    }
}

pub const JOB: Table<JobKeys> = table();

keys! {
    partial struct StepKeys {
        /// The call, of the upstream of the job's credential.
        call: Place = Required(Later(TEXT), "'things.list'"),
        /// Query parameters, which override those of the call. Their values are templates; a list repeats a parameter.
        params: Params = Or(PARAMS, "{}", "{ sort = 'popular', country = '{region}' }"),
        /// What overrides the body of the call.
        body: Option<Body> = STEP_BODY,
        /// The most pages of a pass. If unset, until the list ends.
        max_pages: Option<u64> = Optional(COUNT, "4"),
        /// The ids to fetch, from the records of an earlier step. A parameter, the path or the body uses them as `{ids}`.
        ids: Option<Place> = Optional(Later(IDS), "{ from = 'things.list', at = '/owner/id', batch = 50 }"),
    }
}

const STEP: Table<StepKeys> = table();

keys! {
    partial struct IdsKeys {
        /// The call of an earlier step of this job.
        from: Place = Required(Later(TEXT), "'things.list'"),
        /// Where the records of that step have the ids.
        at: Pointer = Required(POINTER, "'/owner/id'"),
        /// The number of ids in one request.
        batch: u64 = Required(COUNT, "50"),
        /// Ids that were fetched within this time are skipped. If unset, each id is fetched once in a pass, and one that the upstream
        /// forbids once a day.
        fresh_for: Option<Duration> = Optional(DURATION_OR_ZERO, "'7d'"),
    }
}

const IDS: Table<IdsKeys> = table();

/// What a job can refer to.
pub struct Known<'a> {
    pub regions: &'a [Arc<Region>],
    pub credentials: &'a Named<Credential>,
}

pub fn job(item: Item<'_>, known: &Known<'_>) -> Option<Job> {
    let keys = JOB.read(item.clone())?;
    let root = item.root();
    let credentials = match (keys.credential?, keys.credentials?) {
        (Some(_), Some(_)) => item.find(&["credentials"]).and_then(|item| {
            item.refuse(
                "this job has `credential` too",
                "remove one of the two: `credentials` lists all of them",
            )
        }),
        (None, None) => item.lacks("credential", "\"...\""),
        (Some(place), None) => credentials(&[place], &root, known),
        (None, Some(places)) => credentials(&places, &root, known),
    };
    let credential = credentials.as_ref().and_then(|all| all.first().cloned());
    let regions = match keys.regions? {
        Some(place) => some_regions(&place.item(&root)?, known.regions),
        None => Some(all_regions(&item, known.regions)),
    };
    let upstream = credential.as_ref().map(|credential| &*credential.upstream);
    let steps = keys
        .steps
        .and_then(|place| steps(&place.item(&root)?, upstream));
    let (leave, slices, since) = (keys.leave?, keys.slices?, keys.since?.unwrap_or_default());
    Some(Job {
        name: item.name().to_owned(),
        credential: credential?,
        fallbacks: credentials?.into_iter().skip(1).collect(),
        regions: regions?,
        every: keys.every?,
        leaves_needed: slices.is_some() && leave.is_none(),
        relists: false,
        leave: leave.unwrap_or_default(),
        resume_within: keys.resume_within?,
        slices,
        steps: reading(steps?, &since),
        since,
    })
}

/// The credentials of a job: of one upstream, and each with limits of its own.
fn credentials(
    places: &[Place],
    root: &Item<'_>,
    known: &Known<'_>,
) -> Option<Vec<Arc<Credential>>> {
    let mut all: Vec<Arc<Credential>> = Vec::new();
    for place in places {
        let item = place.item(root)?;
        let credential: Arc<Credential> = known.credentials.named_by(&item, "credential")?;
        if let Some(first) = all.first()
            && first.upstream.name != credential.upstream.name
        {
            return item.refuse(
                format!(
                    "the other credentials are of upstream {:?}",
                    first.upstream.name
                ),
                "list credentials of one upstream",
            );
        }
        if let Some(same) = all.iter().find(|one| one.shares_limits(&credential)) {
            return item.refuse(
                format!(
                    "it has no quota of its own: {:?} uses the same account",
                    same.name
                ),
                "remove it, or give the credentials different accounts",
            );
        }
        all.push(credential);
    }
    Some(all)
}

/// All regions of the file, of a job that names none. If the file has none, the job makes one pass.
fn all_regions(job: &Item<'_>, all: &[Arc<Region>]) -> Vec<Arc<Region>> {
    if all.is_empty() && job.root().find(&["regions"]).is_none() {
        return vec![Arc::new(Region::none())];
    }
    all.to_vec()
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

fn steps(item: &Item<'_>, upstream: Option<&Upstream>) -> Option<Vec<Step>> {
    let items = item.list_of_tables()?;
    if items.is_empty() {
        return item.refuse(
            "a job needs at least one step",
            "write [{ call = \"...\" }]",
        );
    }
    let Some(upstream) = upstream else {
        // What a step says of itself is checked all the same.
        items.into_iter().for_each(|item| drop(STEP.read(item)));
        return None;
    };
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

/// The steps, each with the places of what is read later in its records.
fn reading(mut steps: Vec<Step>, since: &Since) -> Vec<Step> {
    let ids: Vec<Ids> = steps.iter().filter_map(|step| step.ids.clone()).collect();
    for step in &mut steps {
        let of_step = ids.iter().filter(|ids| ids.from == step.call.name);
        let places = of_step.map(|ids| &ids.at).chain(&since.at);
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

fn step(item: Item<'_>, upstream: &Upstream, earlier: &Earlier) -> Option<Step> {
    let root = item.root();
    let keys = STEP.read(item.clone())?;
    let call = keys
        .call
        .and_then(|place| call(&place.item(&root)?, upstream));
    let ids = match keys.ids? {
        Some(place) => ids(place.item(&root)?, earlier).map(Some),
        None => Some(None),
    };
    let (call, own) = (call?, keys.params?);
    Some(Step {
        params: call.params.clone().into_iter().chain(own).collect(),
        body: body::of_step(&item, &call, keys.body?)?,
        call,
        max_pages: keys.max_pages?,
        ids: ids?,
        read_later: Vec::new(),
    })
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
    let root = item.root();
    let keys = IDS.read(item)?;
    let from = keys
        .from
        .and_then(|place| listing(&place.item(&root)?, earlier));
    let (from, from_kind) = from?;
    Some(Ids {
        from,
        from_kind,
        at: keys.at?,
        batch: keys.batch?,
        fresh_for: keys.fresh_for?,
    })
}

/// The call of an earlier step, and the kind of its records.
fn listing(item: &Item<'_>, earlier: &Earlier) -> Option<(String, String)> {
    let name = item.text()?;
    let found = earlier.calls.iter().find(|call| call.name == name);
    match found.and_then(|call| Some((call.name.clone(), call.records.as_ref()?.kind.clone()))) {
        // Where an earlier step is wrong, its call is not known and can be this one.
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
