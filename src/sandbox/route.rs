//! The calls of the configuration, by method and path.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::pattern::Pattern;
use super::shape::{Parameters, ResponseShape, UpstreamShape};
use crate::config::{Call, Config, Job, Lead, Method, Pointer, Region, Step, Template, Upstream};

/// One call of an upstream, and what the sandbox needs for its responses.
#[derive(Debug)]
pub struct Route {
    pub upstream: Arc<Upstream>,
    pub call: Arc<Call>,
    pub pattern: Pattern,
    /// The parameters of each step that requests the call.
    pub steps: Vec<BTreeMap<String, Template>>,
    /// All regions.
    pub regions: Vec<Arc<Region>>,
    /// The query parameters for ids.
    pub ids_params: Vec<String>,
    /// What its responses look like; `None` for a call that reads no records.
    pub shape: Option<ResponseShape>,
}

/// All routes of a configuration.
pub fn all(config: &Config, shapes: &[Arc<UpstreamShape>]) -> Vec<Route> {
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
) -> Option<Route> {
    let pattern = Pattern::new(call.path.as_ref()?.as_str());
    let steps = || steps_of(config, &upstream.name);
    let asking = || steps().filter(|step| step.call.name == call.name);
    let ids_params = asking()
        .flat_map(|step| &step.params)
        .filter(|(_, value)| names_ids(value.as_str()));
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
    Some(Route {
        upstream: Arc::clone(upstream),
        call: Arc::clone(call),
        pattern,
        steps: asking().map(|step| step.params.clone()).collect(),
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
    let times = times.filter_map(|job| job.since.at.as_ref());
    ids.chain(times.map(|at| (at, format!("@time:{at}"))))
        .collect()
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
    routes: &'a [Route],
    upstream: &str,
    method: &str,
    path: &str,
) -> Option<&'a Route> {
    let matching = routes.iter().filter(|route| {
        route.upstream.name == upstream
            && route.method() == method
            && route.pattern.read(path).is_some()
    });
    matching.max_by_key(|route| route.pattern.precision())
}

impl Route {
    fn method(&self) -> &'static str {
        match self.call.method {
            Method::Get => "GET",
            Method::Post => "POST",
        }
    }

    /// The parameters that turn pages: the cursor, and the size.
    pub fn page_params(&self) -> impl Iterator<Item = &str> {
        self.cursor_param().into_iter().chain(self.size_param())
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

    /// The parameter for the cursor.
    pub fn cursor_param(&self) -> Option<&str> {
        if let Some(parameters) = self.parameters() {
            return parameters.cursor.as_deref();
        }
        match self.call.paging.lead() {
            Lead::Url(_) | Lead::LinkHeader => Some(LINKED),
            Lead::Nowhere
            | Lead::Total(_)
            | Lead::Token(_)
            | Lead::TokenHeader(_)
            | Lead::LastRecord(_) => self.call.paging.cursor_param(),
        }
    }

    /// The places of ids in the body, as pointers.
    pub fn ids_in_body(&self) -> Vec<String> {
        let parts = self.in_body().into_iter();
        let ids = parts.filter(|(_, template)| names_ids(template.as_str()));
        ids.map(|(at, _)| at).collect()
    }

    /// The templates of the body, with their places as pointers.
    pub fn in_body(&self) -> Vec<(String, Template)> {
        let body = self.call.body.as_ref();
        body.map(|body| templates(body, String::new()))
            .unwrap_or_default()
    }
}

/// The cursor parameter in links of the sandbox.
pub const LINKED: &str = "after";

fn names_ids(template: &str) -> bool {
    template.contains("{ids}") || template.contains("{id}")
}

fn templates(body: &Value, at: String) -> Vec<(String, Template)> {
    match body {
        Value::String(text) => Template::parse(text)
            .map(|template| vec![(at, template)])
            .unwrap_or_default(),
        Value::Array(parts) => parts
            .iter()
            .enumerate()
            .flat_map(|(index, part)| templates(part, format!("{at}/{index}")))
            .collect(),
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, part)| {
                templates(
                    part,
                    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")),
                )
            })
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}
