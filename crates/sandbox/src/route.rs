//! The calls of the configuration, by method and path.

use std::sync::Arc;

use serde_json::Value;

use super::pattern::Pattern;
use super::request::Received;
use super::shape::{Parameters, ResponseShape, UpstreamShape};
use ingest_config::{
    Body, Call, Config, Job, JsonTemplate, Lead, Param, Params, Pointer, Region, Step, Template,
    Upstream, Variable,
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
    /// All regions.
    pub regions: Vec<Arc<Region>>,
    /// The query parameters for ids.
    pub ids_params: Vec<String>,
    /// What separates ids, besides commas.
    pub separators: Vec<String>,
    /// The bodies with which steps request it.
    pub bodies: Vec<Body>,
    /// What its responses look like; `None` for a call that reads no records.
    pub shape: Option<ResponseShape>,
}

/// All routes of a configuration.
pub fn all(config: &Config, shapes: &[Arc<UpstreamShape>]) -> Vec<AnsweredCall> {
    let upstreams = config.upstreams.values();
    upstreams
        .flat_map(|upstream| {
            upstream
                .calls
                .values()
                .filter_map(|call| route(config, shapes, upstream, call))
        })
        .collect()
}

fn route(
    config: &Config,
    shapes: &[Arc<UpstreamShape>],
    upstream: &Arc<Upstream>,
    call: &Arc<Call>,
) -> Option<AnsweredCall> {
    let pattern = Pattern::new(call.path.as_ref()?.as_str());
    let steps = || steps_of(config, &upstream.name);
    let asking = steps().filter(|step| step.call.name == call.name);
    let asking: Vec<_> = asking.collect();
    let ids_params = asking
        .iter()
        .flat_map(|step| &step.params)
        .filter(|(_, param)| param.templates().iter().any(names_ids));
    let shape = ResponseShape::new(
        shapes,
        upstream,
        call,
        &read_by_jobs(config, upstream, call),
    );
    let described = shape.as_ref().filter(|shape| !shape.is_generated);
    let ids_params = match described.map(|shape| &shape.upstream.parameters.ids) {
        Some(ids) => ids.iter().cloned().collect(),
        None => ids_params.map(|(name, _)| name.clone()).collect(),
    };
    let bodies = asking.iter().filter_map(|step| step.body.clone());
    let bodies: Vec<_> = match asking.is_empty() {
        true => call.body.clone().into_iter().collect(),
        false => bodies.collect(),
    };
    Some(AnsweredCall {
        separators: separators(call, &asking),
        bodies,
        upstream: Arc::clone(upstream),
        call: Arc::clone(call),
        pattern,
        then: call
            .paging
            .then()
            .and_then(|then| Some(Pattern::new(then.path.as_ref()?.as_str()))),
        steps: asking
            .iter()
            .map(|step| (step.params.clone(), step.body.clone()))
            .collect(),
        regions: config.regions.clone(),
        ids_params,
        shape,
    })
}

/// Where jobs read something of a call's records, and what the sandbox puts there.
fn read_by_jobs<'a>(
    config: &'a Config,
    upstream: &'a Upstream,
    call: &Call,
) -> Vec<(&'a Pointer, String)> {
    let ids = steps_of(config, &upstream.name).filter_map(|step| step.ids.as_ref());
    let ids = ids.filter(|ids| ids.from == call.name);
    let ids = ids.map(|ids| (&ids.at, "@someone:300".to_owned()));
    let lists = |job: &&Arc<Job>| {
        job.credential.upstream.name == upstream.name
            && job.steps.iter().any(|step| step.call.name == call.name)
    };
    let times = config.jobs.iter().filter(lists);
    let times = times.filter_map(|job| {
        let at = job.since.at.as_ref()?;
        let format = job.since.format.as_ref();
        let time = format.map_or_else(|| format!("@time:{at}"), |it| format!("@formatted:{it}"));
        Some((at, time))
    });
    ids.chain(times).collect()
}

fn steps_of<'a>(config: &'a Config, upstream: &'a str) -> impl Iterator<Item = &'a Step> {
    let jobs = config
        .jobs
        .iter()
        .filter(move |job| job.credential.upstream.name == upstream);
    jobs.flat_map(|job| &job.steps)
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
        cursors.chain(self.size_param())
    }

    /// The parameter for the cursor with which a pass begins, if it has one of its own.
    pub fn lasting_param(&self) -> Option<&str> {
        self.call.paging.lasting_param()
    }

    /// The upstream's own parameters, where a shape file describes the call.
    fn parameters(&self) -> Option<&Parameters> {
        let shape = self.shape.as_ref().filter(|shape| !shape.is_generated)?;
        Some(&shape.upstream.parameters)
    }

    /// The parameter for the size of a page.
    pub fn size_param(&self) -> Option<&str> {
        match self.parameters() {
            Some(parameters) => parameters.size.as_deref(),
            None => self.call.paging.size()?.param.as_deref(),
        }
    }

    pub fn cursor_param(&self) -> Option<&str> {
        if let Some(parameters) = self.parameters() {
            return parameters.cursor.as_deref();
        }
        match self.call.paging.lead() {
            Lead::Url(_) | Lead::LinkHeader => Some(LINKED),
            Lead::Nowhere
            | Lead::Total(_)
            | Lead::Pages(_)
            | Lead::Token(_)
            | Lead::TokenHeader(_)
            | Lead::LastRecord(_) => self.call.paging.cursor_param(),
        }
    }

    /// The places of ids in the body, as pointers.
    pub fn ids_in_body(&self) -> Vec<String> {
        let bodies = self.bodies.iter().flat_map(|body| match body {
            Body::Json(json) => places(json, String::new()),
            Body::Form(params) => {
                let naming = params.iter();
                let naming = naming.filter(|(_, param)| param.templates().iter().any(names_ids));
                naming
                    .map(|(name, _)| format!("/{}", escaped(name)))
                    .collect()
            }
        });
        bodies.collect()
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
        .filter_map(Template::ids_separator);
    separators.map(str::to_owned).collect()
}

fn names_ids(template: &Template) -> bool {
    template.names(&Variable::Ids) || template.names(&Variable::Id)
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The texts of a body with their places, as pointers.
pub fn texts_in(body: &Body) -> Vec<(String, &Template)> {
    match body {
        Body::Json(json) => texts_in_json(json, String::new()),
        Body::Form(params) => {
            let fields = params.iter().filter_map(|(name, param)| match param {
                Param::Once(template) => Some((format!("/{}", escaped(name)), template)),
                Param::Repeated(_) => None,
            });
            fields.collect()
        }
    }
}

fn texts_in_json(json: &JsonTemplate, at: String) -> Vec<(String, &Template)> {
    match json {
        JsonTemplate::Fixed(_) => Vec::new(),
        JsonTemplate::Text(template) => vec![(at, template)],
        JsonTemplate::List(parts) => {
            let parts = parts.iter().enumerate();
            parts
                .flat_map(|(index, part)| texts_in_json(part, format!("{at}/{index}")))
                .collect()
        }
        JsonTemplate::Object(members) => members
            .iter()
            .flat_map(|(name, part)| texts_in_json(part, format!("{at}/{}", escaped(name))))
            .collect(),
    }
}

/// Where a body names ids, as pointers: a list that has one element for each id is one place.
fn places(template: &JsonTemplate, at: String) -> Vec<String> {
    match template {
        JsonTemplate::Text(text) if names_ids(text) => vec![at],
        JsonTemplate::List(parts) => {
            let is_text =
                |part: &JsonTemplate| matches!(part, JsonTemplate::Text(text) if names_ids(text));
            if parts.iter().any(is_text) {
                return vec![at];
            }
            let parts = parts.iter().enumerate();
            parts
                .flat_map(|(index, part)| places(part, format!("{at}/{index}")))
                .collect()
        }
        JsonTemplate::Object(members) => members
            .iter()
            .flat_map(|(name, part)| places(part, format!("{at}/{}", escaped(name))))
            .collect(),
        JsonTemplate::Fixed(_) | JsonTemplate::Text(_) => Vec::new(),
    }
}
