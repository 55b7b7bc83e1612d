//! What YouTube's calls answer, as data: `resources.json`, by path.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::thing::Class;
use crate::sandbox::route::Route;

/// One call: its parameters, and the shape of its answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::sandbox) struct Resource {
    /// The `kind` of an item.
    #[serde(default)]
    pub(super) kind: String,
    /// The `kind` of the answer.
    pub(super) list_kind: String,
    pub(super) class: Class,
    #[serde(default)]
    pub(super) list: Listing,
    /// How many items a list holds.
    #[serde(default)]
    pub(super) total: u64,
    /// The parameters of which one must be there; none where none must.
    #[serde(default)]
    pub(super) filters: Vec<String>,
    /// How pages are turned; unset: one page is all.
    pub(super) page: Option<PageRange>,
    /// The items of a fixed list: id and name.
    #[serde(default)]
    pub(super) values: Vec<(String, String)>,
    /// Of a hundred ids that are asked for, so many are gone.
    #[serde(default)]
    pub(super) absent: u64,
    /// Whether an answer of no items has no list either.
    #[serde(default)]
    pub(super) list_may_be_missing: bool,
    pub(super) may_be_off: Option<MayBeOff>,
    /// An id of a shape of its own.
    pub(super) own_id: Option<Value>,
    /// Whether an item has no kind, etag and id.
    #[serde(default)]
    pub(super) bare: bool,
    /// What an item holds whatever parts are asked for.
    #[serde(default)]
    pub(super) always: Map<String, Value>,
    /// What an item holds by part. A call without parts does not ask for any.
    #[serde(default)]
    pub(super) parts: Map<String, Value>,
    /// What the answer holds beside its items.
    #[serde(default)]
    pub(super) extra: Map<String, Value>,
}

/// How a list is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Listing {
    Chart,
    Search,
    #[default]
    Plain,
}

/// How many items a page may hold.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct PageRange {
    pub(super) least: u64,
    pub(super) most: u64,
    pub(super) usual: u64,
}

/// What a list hangs on, that may be unknown or have no such list.
#[derive(Debug, Deserialize)]
pub(super) struct MayBeOff {
    pub(super) param: String,
    /// The reason when it is unknown.
    pub(super) unknown: String,
    /// The reason when it has no such list.
    pub(super) off: String,
    pub(super) domain: String,
}

/// All of them.
#[derive(Debug)]
pub(in crate::sandbox) struct Resources(BTreeMap<String, Resource>);

impl Resources {
    /// Reads them.
    pub(in crate::sandbox) fn read() -> serde_json::Result<Self> {
        serde_json::from_str(include_str!("resources.json")).map(Self)
    }

    /// What stands in for this route: `None` where it is not one of YouTube's, or of the few that are not known here.
    pub(in crate::sandbox) fn of(&self, route: &Route) -> Option<&Resource> {
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
