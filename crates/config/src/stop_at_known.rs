//! `stop_at_known` of a step: a list that has its newest records first and takes no filter is read until nothing on a page is new.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::Refusal;
use super::values::{As, Leaf, Span};
use ingest_quota::Timestamp;

/// Where the passes over a list stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopAtKnown {
    /// How long after the start of a pass that read the list to its end the next one does so, which finds the records that changed in
    /// place or are gone. `never`: only the first pass, and `--relist`. `keep` of the upstream is at least this and `every` together.
    /// Example: `complete_every = "7d"`.
    #[serde(with = "As::<Recurs>")]
    pub complete_every: Recurs,
}

/// How often something comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recurs {
    Every(Duration),
    Never,
}

const NEVER: &str = "never";

impl Leaf for Recurs {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        match raw.as_str() {
            Some(NEVER) => Ok(Self::Never),
            _ => Span::read(raw).map(Self::Every).map_err(|refusal| Refusal {
                instead: "write for example \"7d\", or \"never\"".to_owned(),
                ..refusal
            }),
        }
    }

    fn schema() -> Value {
        json!({ "title": "duration, or `\"never\"`", "anyOf": [{ "const": NEVER }, Span::schema()] })
    }
}

impl StopAtKnown {
    /// Returns from when on a pass reads the list to its end, if the last one that did began at `last`; `None`: never.
    pub fn complete_at(&self, last: Timestamp) -> Option<Timestamp> {
        match self.complete_every {
            Recurs::Every(span) => Some(last + span),
            Recurs::Never => None,
        }
    }
}
