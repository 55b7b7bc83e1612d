//! One page, requested outside a run: charged like any other, and not landed.

use super::attempt::fetch_page;
use super::context::Context;
use super::stats::PassStats;
use super::stop_reason::StopReason;
use ingest_config::Job;
use ingest_quota::Cost;
use ingest_upstream::{Page, PageRequest};

/// Sends the request; returns the page and what was charged.
pub async fn fetch_once(
    context: &Context,
    job: &Job,
    request: PageRequest<'_>,
) -> (Result<Page, StopReason>, Cost) {
    let mut stats = PassStats::default();
    let page = fetch_page(context, job, request, &mut stats).await;
    (page, stats.units)
}
