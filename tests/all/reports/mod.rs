//! See before you spend: previews, forecasts, status, charges by hand, history, exports.

mod beside_a_run;
mod bounds;
mod by_hand;
mod forecast;
mod forms;
mod paced;
mod pictured;
mod preview;
mod printed;
mod promises;
mod reserve;
mod retry;
mod several_limits;
mod spreadsheet;
mod strange;
mod untouched;
mod waited;

/// The jobs of the shipped configuration.
const JOBS: [&str; 2] = ["trending", "discover"];

/// A fifth of the records on as many pages and in as many batches: what is spent is the same, and soon.
const LEAN: [&str; 4] = [
    "upstreams.youtube.calls.\"videos.list\".page.size=10",
    "upstreams.youtube.calls.\"search.list\".page.size=10",
    "jobs.trending.steps.1.ids.batch=10",
    "jobs.discover.steps.1.ids.batch=10",
];
