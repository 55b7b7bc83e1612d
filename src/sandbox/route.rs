//! What can be asked for: the calls of the configuration, by method and path.

use std::sync::Arc;

use serde_json::Value;

use super::pattern::Pattern;
use crate::config::{Call, Config, Lead, Method, Pointer, Step, Upstream};

/// One call of an upstream, and what the stand-in needs to know to answer it.
#[derive(Debug)]
pub struct Route {
    pub upstream: Arc<Upstream>,
    pub call: Arc<Call>,
    pub pattern: Pattern,
    /// The query parameters that carry ids.
    pub ids_params: Vec<String>,
    /// What jobs read from its records beside ids, texts and columns.
    pub read_by_jobs: Vec<Pointer>,
}

/// All routes of a configuration.
pub fn all(config: &Config) -> Vec<Route> {
    let upstreams = config.upstreams.values();
    upstreams
        .flat_map(|upstream| {
            upstream
                .calls
                .values()
                .filter_map(|call| route(config, upstream, call))
        })
        .collect()
}

fn route(config: &Config, upstream: &Arc<Upstream>, call: &Arc<Call>) -> Option<Route> {
    let pattern = Pattern::new(call.path.as_ref()?.as_str());
    let steps = || steps_of(config, &upstream.name);
    let asking = steps().filter(|step| step.call.name == call.name);
    let ids_params = asking
        .flat_map(|step| &step.params)
        .filter(|(_, value)| value.as_str().contains("{ids}"));
    let reading = steps()
        .filter_map(|step| step.ids.as_ref())
        .filter(|ids| ids.from == call.name);
    Some(Route {
        upstream: Arc::clone(upstream),
        call: Arc::clone(call),
        pattern,
        ids_params: ids_params.map(|(name, _)| name.clone()).collect(),
        read_by_jobs: reading.map(|ids| ids.at.clone()).collect(),
    })
}

fn steps_of<'a>(config: &'a Config, upstream: &'a str) -> impl Iterator<Item = &'a Step> {
    let jobs = config
        .jobs
        .iter()
        .filter(move |job| job.credential.upstream.name == upstream);
    jobs.flat_map(|job| &job.steps)
}

/// The route of a request, where there is one.
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

    /// The parameters that turn pages, beside the cursor the size.
    pub fn page_params(&self) -> Vec<&str> {
        let size = self.call.paging.size();
        self.cursor_param()
            .into_iter()
            .chain(size.and_then(|size| size.param.as_deref()))
            .collect()
    }

    /// The parameter that says where to go on.
    pub fn cursor_param(&self) -> Option<&str> {
        match self.call.paging.lead() {
            Lead::Url(_) | Lead::LinkHeader => Some(LINKED),
            Lead::Nowhere | Lead::Total(_) | Lead::Token(_) => self.call.paging.cursor_param(),
        }
    }

    /// The places of the body that carry ids.
    pub fn ids_in_body(&self) -> Vec<String> {
        self.call
            .body
            .as_ref()
            .map(|body| places(body, String::new()))
            .unwrap_or_default()
    }
}

/// The parameter that links of the stand-in carry.
pub const LINKED: &str = "after";

/// Where a body's template names ids.
fn places(template: &Value, at: String) -> Vec<String> {
    match template {
        Value::String(text) if text.contains("{ids}") => vec![at],
        Value::Array(parts) => parts
            .iter()
            .enumerate()
            .flat_map(|(index, part)| places(part, format!("{at}/{index}")))
            .collect(),
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, part)| {
                places(
                    part,
                    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")),
                )
            })
            .collect(),
        _ => Vec::new(),
    }
}
