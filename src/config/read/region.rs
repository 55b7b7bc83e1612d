//! `regions`: a list of codes, or a table of regions with values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::config::item::{self, Item};
use crate::config::tree::Kind;
use crate::config::{Region, Template};

/// What stands for all regions on the command line.
pub const ALL: &str = "all";

pub fn all(item: &Item<'_>) -> Option<Vec<Arc<Region>>> {
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

/// A value of a region. Its name must be one that a template can say, and not one that says something else.
fn value(item: &Item<'_>) -> Option<(String, String)> {
    let name = item.name();
    if Template::VARIABLES.contains(&name) || name.is_empty() || name.contains(['{', '}', ':']) {
        return item.refuse(
            format!(
                "expected a name that templates can use: without braces and `:`, and none of {}",
                Template::VARIABLES.join(", ")
            ),
            "write another name",
        );
    }
    Some((name.to_owned(), item.as_text()?))
}
