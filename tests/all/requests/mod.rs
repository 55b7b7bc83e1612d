//! Which requests a run sends, and what they cost: nothing wasted and nothing overspent, whatever an upstream's quota and pages
//! are like.

mod batches_over_regions;
mod claims;
mod concurrency;
mod paging;
mod scopes;
mod windows;

use serde_json::Value;

/// What a report or a preview says of a limit.
fn limit<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["limits"]
        .as_array()
        .unwrap()
        .iter()
        .find(|limit| limit["limit"] == name)
        .unwrap()
}
