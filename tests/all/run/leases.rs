//! What a run does when a lease is lost, which lock files cannot show: they hold as long as their process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ingest::run::{self, PassOutcome};
use ingest_base::clock::{Deadline, Monotonic};
use ingest_catalog::{CatalogError, Lease, Leases, Resource, Taken};

use crate::support::lab::Lab;

/// Grants every resource, and loses it after some checks.
struct Losing {
    checks: AtomicU64,
}

#[async_trait]
impl Leases for Losing {
    async fn take(&self, _: &Resource) -> Result<Taken, CatalogError> {
        Ok(Taken::Granted(Lease::new(())))
    }

    fn trusted_until(&self, _: &Resource) -> Option<Deadline> {
        let left = self
            .checks
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                left.checked_sub(1)
            });
        let within = left.map_or(Duration::ZERO, |_| Duration::from_secs(60));
        Some(Deadline::new(Monotonic::now(), within))
    }
}

#[test]
fn a_run_that_may_have_lost_its_region_sends_no_further_request_and_charges_nothing_for_it() {
    let lab = Lab::new(&["jobs.trending.regions=[\"US\"]"]);
    let mut context = lab.context();
    context.leases = Arc::new(Losing {
        // Before each charge, and before each request.
        checks: AtomicU64::new(4),
    });
    let selection = lab.selection(&["trending"]);
    let report = lab
        .runtime
        .block_on(run::run(&context, &selection))
        .unwrap();
    assert_eq!(lab.requests(), 2);
    assert_eq!(lab.count("select sum(requests) from pass"), 2);
    let pass = &report.passes[0];
    assert_eq!(pass.outcome, PassOutcome::Failed);
    let why = pass.detail.as_deref().unwrap_or_default();
    assert!(why.contains("the lease of trending US"), "{why}");
    let usage = lab.sandbox_says("usage");
    let charged = &report.limits[0];
    assert_eq!(usage["limits"][0]["used"], charged.used.unwrap().get());
}
