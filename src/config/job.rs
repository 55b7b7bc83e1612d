use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{Call, Credential, Pointer, Region, Template, Variable};
use crate::quota::{Cost, Timestamp};

/// What to fetch, as a list of calls, for each region.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// With what it is fetched.
    pub credential: Arc<Credential>,
    /// The regions it fans out over.
    pub regions: Vec<Arc<Region>>,
    /// A region is due again this long after the start of its last complete pass; `None`: at every run.
    pub every: Option<Duration>,
    /// It stops while this much is left.
    pub leave: Cost,
    /// An unfinished pass is continued while it is younger than this.
    pub resume_within: Duration,
    /// Its steps, in order. There is at least one, and the first lists.
    pub steps: Vec<Step>,
}

/// One call of a job.
#[derive(Debug, Clone)]
pub struct Step {
    /// What is called. Has a path and records.
    pub call: Arc<Call>,
    /// The query parameters of each request.
    pub params: BTreeMap<String, Template>,
    /// At most so many pages of a pass; `None`: until the upstream ends the list.
    pub max_pages: Option<u64>,
    /// The ids that it asks for, where it asks for ids: such a step serves several regions at once.
    pub ids: Option<Ids>,
}

impl Step {
    /// Whether its path, parameters, body or own headers name a variable.
    #[must_use]
    pub fn names(&self, variable: &Variable) -> bool {
        let templates = self.params.values().chain(&self.call.path);
        let mut templates = templates.chain(self.call.headers.values());
        templates.any(|template| template.names(variable))
            || self
                .call
                .body
                .as_ref()
                .is_some_and(|body| in_text(body, variable))
    }
}

/// Whether a text within a body is a template that names a variable.
fn in_text(body: &Value, variable: &Variable) -> bool {
    match body {
        Value::String(text) => Template::parse(text).is_ok_and(|template| template.names(variable)),
        Value::Array(elements) => elements.iter().any(|element| in_text(element, variable)),
        Value::Object(members) => members.values().any(|member| in_text(member, variable)),
        _ => false,
    }
}

/// Which ids a step asks for: a question to the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// The call of an earlier step, whose records name them.
    pub from: String,
    /// What kind of records that call lands.
    pub from_kind: String,
    /// Where a record names them.
    pub at: Pointer,
    /// So many in one request; at least 1.
    pub batch: u64,
    /// What was fetched within this is not asked for again.
    pub fresh_for: Option<Duration>,
}

impl Ids {
    /// What was fetched then or later is not asked for again at `now`.
    #[must_use]
    pub fn fresh_since(&self, now: Timestamp) -> Timestamp {
        self.fresh_for.map_or(now, |span| now - span)
    }
}
