//! Paths below the base URL of an upstream.

use super::Template;
use super::declare::{Leaf, TEMPLATE, Type, template};
use super::item::Item;

pub const PATH: Leaf<Template> = Leaf {
    read: path,
    shape: || TEMPLATE.shape(),
};

/// A path below the base URL. What would lead elsewhere, or into the query, is not part of one.
fn path(item: Item<'_>) -> Option<Template> {
    let text = item.text()?;
    if text.contains(['?', '#']) {
        return item.refuse(
            "expected a path without `?` and `#`",
            "move the query into `params`",
        );
    }
    if text.contains("://") || text.split('/').any(|segment| matches!(segment, "." | "..")) {
        return item.refuse(
            "expected a path below the upstream's base_url",
            "write for example \"things/{region}\"",
        );
    }
    template(item)
}
