//! The calls of the configuration, by method and path.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::pattern::Pattern;
use super::request::Received;
use ingest_config::{
    Body, Call, Config, Job, JsonTemplate, PageKind, Param, Params, Pointer, Region, Step,
    Template, TimeFormat, Upstream, Variable,
};

/// One call of an upstream, and what the sandbox needs for its responses.
#[derive(Debug)]
pub struct AnsweredCall {
    pub upstream: Arc<Upstream>,
    pub call: Arc<Call>,
    pub pattern: Pattern,
    /// The path of the pages behind the first one, if it is another one.
    pub then: Option<Pattern>,
    /// The parameters and the body of each step that requests the call.
    pub steps: Vec<(Params, Option<Body>)>,
    /// The `max_pages` of these steps, as far as they have one.
    pub most_pages: Vec<u64>,
    /// All regions.
    pub regions: Vec<Arc<Region>>,
    /// The query parameters for ids.
    pub ids_params: Vec<String>,
    /// Whether a step requests ids with values of the records that name them.
    pub has_parents: bool,
    /// What separates ids, besides commas.
    pub separators: Vec<String>,
    /// The bodies with which steps request it.
    pub bodies: Vec<Body>,
    /// Whether a step has `{since}` in the parameter of the cursor, with which its first page begins.
    pub begins_at_since: bool,
    /// Where jobs read something of its records.
    pub read_by_jobs: Vec<(Pointer, ReadByJobs)>,
}

/// What steps read of a record of a call.
#[derive(Debug)]
pub enum ReadByJobs {
    /// Ids of other things.
    Ids,
    /// Times, in this format.
    Times(Option<TimeFormat>),
}

/// All routes of a configuration.
pub fn all(config: &Config) -> Vec<AnsweredCall> {
    let upstreams = config.upstreams.values();
    let calls =
        upstreams.flat_map(|upstream| upstream.calls.values().map(move |call| (upstream, call)));
    calls
        .filter_map(|(upstream, call)| route(config, upstream, call))
        .collect()
}

fn route(config: &Config, upstream: &Arc<Upstream>, call: &Arc<Call>) -> Option<AnsweredCall> {
    let pattern = Pattern::new(call.path.as_ref()?.as_str());
    let asking = steps_of(config, &upstream.name).filter(|step| step.call.name == call.name);
    let asking: Vec<_> = asking.collect();
    let params = asking.iter().flat_map(|step| &step.params);
    let ids_params = params.filter(|(_, param)| param.templates().iter().any(names_ids));
    let bodies = asking.iter().filter_map(|step| step.body.clone());
    let bodies: Vec<_> = match asking.is_empty() {
        true => call.body.clone().into_iter().collect(),
        false => bodies.collect(),
    };
    let then = call.paging.then.as_ref();
    let then = then.and_then(|then| then.path.as_ref());
    let steps = asking
        .iter()
        .map(|step| (step.params.clone(), step.body.clone()));
    let mut ids = asking.iter().filter_map(|step| step.ids.as_ref());
    let begins_at_since = |step: &&Step| {
        let cursor = call.paging.param.as_deref();
        let param = cursor.and_then(|name| step.params.get(name));
        let mut templates = param.into_iter().flat_map(Param::templates);
        templates.any(|template| template.names(&Variable::Since))
    };
    Some(AnsweredCall {
        begins_at_since: asking.iter().any(begins_at_since),
        has_parents: ids.any(|ids| !ids.at.parent().is_empty()),
        separators: separators(call, &asking),
        bodies,
        upstream: Arc::clone(upstream),
        call: Arc::clone(call),
        pattern,
        then: then.map(|path| Pattern::new(path.as_str())),
        steps: steps.collect(),
        most_pages: asking.iter().filter_map(|step| step.max_pages).collect(),
        regions: config.regions.clone(),
        ids_params: ids_params.map(|(name, _)| name.clone()).collect(),
        read_by_jobs: read_by_jobs(config, upstream, call),
    })
}

/// Where jobs read something of a call's records.
fn read_by_jobs(config: &Config, upstream: &Upstream, call: &Call) -> Vec<(Pointer, ReadByJobs)> {
    let ids = steps_of(config, &upstream.name).filter_map(|step| step.ids.as_ref());
    let ids = ids.filter(|ids| ids.from == call.name);
    let ids = ids.flat_map(|ids| ids.at.parent().iter().chain([ids.at.at()]));
    let ids = ids.map(|at| (at.clone(), ReadByJobs::Ids));
    let times = jobs_of(config, &upstream.name);
    let times = times.filter(|job| job.steps.iter().any(|step| step.call.name == call.name));
    let times = times.filter_map(|job| {
        let at = job.since.at.clone()?;
        Some((at, ReadByJobs::Times(job.since.format.clone())))
    });
    ids.chain(times).collect()
}

fn jobs_of<'a>(config: &'a Config, upstream: &'a str) -> impl Iterator<Item = &'a Arc<Job>> {
    let jobs = config.jobs.iter();
    jobs.filter(move |job| job.credential.upstream.name == upstream)
}

fn steps_of<'a>(config: &'a Config, upstream: &'a str) -> impl Iterator<Item = &'a Step> {
    jobs_of(config, upstream).flat_map(|job| &job.steps)
}

/// The route of a request; `None` for a request that is no call.
pub fn find<'a>(
    routes: &'a [AnsweredCall],
    upstream: &str,
    arrived: &Received,
) -> Option<&'a AnsweredCall> {
    let matching = routes.iter().filter(|route| {
        route.upstream.name == upstream
            && route.call.method.as_str() == arrived.method
            && route.has_path(&arrived.path)
    });
    // A body that a step sends decides before the path, which all calls of a GraphQL upstream share.
    matching.max_by_key(|route| (route.fits(&arrived.body), route.pattern.precision()))
}

impl AnsweredCall {
    fn has_path(&self, path: &str) -> bool {
        let mut patterns = std::iter::once(&self.pattern).chain(&self.then);
        patterns.any(|pattern| pattern.read(path).is_some())
    }

    /// Whether a step requests it with such a body: the calls of GraphQL differ in nothing else.
    fn fits(&self, received: &Value) -> bool {
        self.bodies.iter().any(|body| match body {
            Body::Json(json) => json.fits(received),
            Body::Form(_) => false,
        })
    }

    /// The parameters that turn pages: the cursors, and the size.
    pub fn page_params(&self) -> impl Iterator<Item = &str> {
        let cursors = self.cursor_param().into_iter().chain(self.lasting_param());
        let size = self.call.paging.size_param.as_deref();
        cursors.chain(size)
    }

    /// The parameter for the cursor with which a pass begins, if it has one of its own.
    pub fn lasting_param(&self) -> Option<&str> {
        self.call.paging.lasting_param.as_deref()
    }

    pub fn cursor_param(&self) -> Option<&str> {
        match self.call.paging.kind {
            PageKind::NextUrl | PageKind::Link => Some(LINKED),
            PageKind::Token | PageKind::Offset | PageKind::Number | PageKind::None => {
                self.call.paging.param.as_deref()
            }
        }
    }

    /// The places of ids in the body, as pointers: a list that has one element for each id is one place.
    pub fn ids_in_body(&self) -> BTreeSet<String> {
        let texts = self.bodies.iter().flat_map(texts_in);
        let naming = texts.filter(|text| names_ids(text.template));
        naming.map(|text| text.list.unwrap_or(text.at)).collect()
    }
}

/// The cursor parameter in links of the sandbox.
pub const LINKED: &str = "after";

fn separators(call: &Call, steps: &[&Step]) -> Vec<String> {
    let params = steps.iter().flat_map(|step| step.params.values());
    let params = params.flat_map(Param::templates);
    let bodies = steps.iter().flat_map(|step| &step.body);
    let templates = params.chain(bodies.flat_map(Body::templates));
    let separators = templates
        .chain(&call.path)
        .filter_map(Template::joins_ids_by);
    separators.map(str::to_owned).collect()
}

fn names_ids(template: &Template) -> bool {
    let mut variables = template.variables().into_iter();
    variables.any(|one| matches!(one, Variable::Ids | Variable::Id | Variable::Parent(_)))
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// A text of a body.
#[derive(Debug)]
pub struct TextOfBody<'a> {
    /// Its place, as a pointer.
    pub at: String,
    /// The place of the list whose element it is.
    list: Option<String>,
    pub template: &'a Template,
}

/// The texts of a body with their places.
pub fn texts_in(body: &Body) -> Vec<TextOfBody<'_>> {
    let mut texts = Vec::new();
    match body {
        Body::Json(json) => add_texts(json, String::new(), None, &mut texts),
        Body::Form(params) => {
            for (name, param) in params {
                let at = format!("/{}", escaped(name));
                let list = matches!(param, Param::Repeated(_)).then(|| at.clone());
                texts.extend(param.templates().iter().map(|template| TextOfBody {
                    at: at.clone(),
                    list: list.clone(),
                    template,
                }));
            }
        }
    }
    texts
}

fn add_texts<'a>(
    json: &'a JsonTemplate,
    at: String,
    list: Option<String>,
    texts: &mut Vec<TextOfBody<'a>>,
) {
    match json {
        JsonTemplate::Fixed(_) => {}
        JsonTemplate::Text(template) | JsonTemplate::Number(template) => {
            texts.push(TextOfBody { at, list, template })
        }
        JsonTemplate::List(parts) => {
            for (index, part) in parts.iter().enumerate() {
                add_texts(part, format!("{at}/{index}"), Some(at.clone()), texts);
            }
        }
        JsonTemplate::Object(members) => {
            for (name, part) in members {
                add_texts(part, format!("{at}/{}", escaped(name)), None, texts);
            }
        }
    }
}
