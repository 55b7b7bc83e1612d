//! `regions`: a list of codes, or a table of regions with values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use super::Slice;
use super::declare::{Leaf, SCALAR, Shape, Type};
use super::item::{self, Item};
use super::region_source::RegionSource;
use super::tree::Kind;

/// The partition that a job walks, with values that templates can use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Region {
    /// Its code, such as `US`; `*` for requests that serve several regions at once.
    pub code: String,
    /// Values of its own, by name: `[regions.GB] city = "London"`.
    pub values: BTreeMap<String, String>,
    /// The span of time of a pass, in a job with `slices`.
    pub slice: Option<Slice>,
}

impl Region {
    /// The code of requests that serve several regions at once.
    pub const SHARED: &'static str = "*";

    /// The code of the only region of a configuration without `regions`.
    pub const NONE: &'static str = "-";

    /// The only region of a configuration without `regions`.
    #[must_use]
    pub fn none() -> Self {
        Self {
            code: Self::NONE.to_owned(),
            ..Self::default()
        }
    }

    /// Returns the name of what one pass walks: the code, and the slice if there is one.
    #[must_use]
    pub fn key(&self) -> String {
        Self::key_of(&self.code, self.slice)
    }

    /// Returns the same for a code and a slice.
    #[must_use]
    pub fn key_of(code: &str, slice: Option<Slice>) -> String {
        match slice {
            Some(slice) if code == Self::NONE => slice.to_string(),
            Some(slice) => format!("{code} {slice}"),
            None => code.to_owned(),
        }
    }

    /// The region of requests that serve several regions at once.
    #[must_use]
    pub fn shared() -> Self {
        Self {
            code: Self::SHARED.to_owned(),
            ..Self::default()
        }
    }
}

/// What the command line accepts for all regions.
const ALL: &str = "all";

pub const REGIONS: Leaf<Vec<Arc<Region>>> = Leaf {
    read: |item| all(&item),
    shape: || {
        let code = json!({
            "type": "string",
            "pattern": "^[^,\\s]([^,]*[^,\\s])?$",
            "not": { "enum": [Region::SHARED, ALL] },
        });
        let codes = json!({ "type": "array", "items": code, "minItems": 1, "uniqueItems": true });
        let names = json!({ "pattern": "^[^{}:]+$" });
        let values = json!({
            "type": "object",
            "propertyNames": names,
            "additionalProperties": SCALAR.shape().schema,
        });
        let regions = Shape::scalar("table", values).named("CODE");
        let listed = super::declare::table::<RegionSource>().shape();
        let regions = regions.with("minProperties", 1);
        Shape::scalar("list of strings", codes)
            .or(regions)
            .or(listed)
    },
};

fn all(item: &Item<'_>) -> Option<Vec<Arc<Region>>> {
    let regions: Vec<Arc<Region>> = match item.kind() {
        Kind::List(_) => distinct(item)?
            .into_iter()
            .map(|code| {
                Arc::new(Region {
                    code,
                    ..Region::default()
                })
            })
            .collect(),
        Kind::Table(_) => item::all(item.entries()?.iter().map(region))?,
        _ => {
            return item.refuse(
                "expected a list of codes",
                "write for example [\"US\", \"GB\"]",
            );
        }
    };
    if regions.is_empty() {
        return item.refuse(
            "expected at least one region",
            "write for example [\"US\", \"GB\"]",
        );
    }
    Some(regions)
}

/// Codes, each once.
fn distinct(item: &Item<'_>) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
    let once = |item: &Item<'_>| {
        let code = code(item, item.text()?)?;
        if seen.insert(code.clone()) {
            Some(code)
        } else {
            item.refuse("duplicate region", "remove it")
        }
    };
    item::all(item.list()?.iter().map(once))
}

fn region(item: &Item<'_>) -> Option<Arc<Region>> {
    let code = code(item, item.name());
    let values: Option<BTreeMap<String, String>> = item::all(item.entries()?.iter().map(value));
    Some(Arc::new(Region {
        code: code?,
        values: values?,
        slice: None,
    }))
}

fn code(item: &Item<'_>, code: &str) -> Option<String> {
    if code.is_empty() || code == Region::SHARED || code.chars().any(char::is_control) {
        return item.refuse(
            "expected a region code: not empty, not `*`, without control characters",
            "write for example \"US\"",
        );
    }
    if code == ALL || code.contains(',') || code.trim() != code {
        return item.refuse(
            "expected a region code that --region accepts: not `all`, without commas, without \
            leading or trailing spaces",
            "write for example \"US\"",
        );
    }
    Some(code.to_owned())
}

/// A value of a region. Its name must be one that templates can use; `{region.NAME}` names it where another variable has its name.
fn value(item: &Item<'_>) -> Option<(String, String)> {
    let name = item.name();
    if name.is_empty() || name.contains(['{', '}', ':']) {
        return item.refuse(
            "expected a name that templates can use: not empty, without braces and `:`",
            "write another name",
        );
    }
    Some((name.to_owned(), item.as_text()?))
}
