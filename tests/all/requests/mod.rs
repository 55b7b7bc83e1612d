//! Which requests a run sends, and what they cost: nothing wasted and nothing overspent, whatever an upstream's quota and pages
//! are like.

mod batches;
mod batches_over_regions;
mod begun;
mod claims;
mod concurrency;
mod etag;
mod exhausted_cap;
mod paging;
mod scopes;
mod settle;
mod spent;
mod token;
mod told;
mod told_once;
mod whole_lists;
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
