//! What YouTube's calls answer, as data: `resources.json`, by path.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::thing::Class;
use crate::sandbox::route::Route;

/// One call: its parameters, and the shape of its answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// The `kind` of an item.
    #[serde(default)]
    pub kind: String,
    /// The `kind` of the answer.
    pub list_kind: String,
    pub class: Class,
    #[serde(default)]
    pub list: Listing,
    /// How many items a list holds.
    #[serde(default)]
    pub total: u64,
    /// The parameters of which one must be there; none where none must.
    #[serde(default)]
    pub filters: Vec<String>,
    /// How pages are turned; unset: one page is all.
    pub page: Option<PageRange>,
    /// The items of a fixed list: id and name.
    #[serde(default)]
    pub values: Vec<(String, String)>,
    /// Of a hundred ids that are asked for, so many are gone.
    #[serde(default)]
    pub absent: u64,
    /// Whether an answer of no items has no list either.
    #[serde(default)]
    pub list_may_be_missing: bool,
    pub may_be_off: Option<MayBeOff>,
    /// An id of a shape of its own.
    pub own_id: Option<Value>,
    /// Whether an item has no kind, etag and id.
    #[serde(default)]
    pub bare: bool,
    /// What an item holds whatever parts are asked for.
    #[serde(default)]
    pub always: Map<String, Value>,
    /// What an item holds by part. A call without parts does not ask for any.
    #[serde(default)]
    pub parts: Map<String, Value>,
    /// What the answer holds beside its items.
    #[serde(default)]
    pub extra: Map<String, Value>,
}

/// How a list is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listing {
    Chart,
    Search,
    #[default]
    Plain,
}

/// How many items a page may hold.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct PageRange {
    pub least: u64,
    pub most: u64,
    pub usual: u64,
}

/// What a list hangs on, that may be unknown or have no such list.
#[derive(Debug, Deserialize)]
pub struct MayBeOff {
    pub param: String,
    /// The reason when it is unknown.
    pub unknown: String,
    /// The reason when it has no such list.
    pub off: String,
    pub domain: String,
}

/// All of them.
#[derive(Debug)]
pub struct Resources(BTreeMap<String, Resource>);

impl Resources {
    /// Reads them.
    pub fn read() -> serde_json::Result<Self> {
        serde_json::from_str(include_str!("resources.json")).map(Self)
    }

    /// What stands in for this route: `None` where it is not one of YouTube's, or of the few that are not known here.
    pub fn of(&self, route: &Route) -> Option<&Resource> {
        let base = &route.upstream.base_url;
        let path = format!(
            "{}/{}",
            base.path().trim_end_matches('/'),
            route.call.path.as_ref()?.as_str()
        );
        let (_, path) = path.split_once("youtube/v3/")?;
        self.0.get(path.trim_matches('/'))
    }
}
