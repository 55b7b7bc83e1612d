//! A catalog that cannot be reached for a while, which a SQLite file shows only after a minute.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ingest::run::{self, RunOutcome, RunReport, Unlanded};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::{CachedPage, Doubted, Tag};
use ingest_catalog::{
    CallFacts, Catalog, CatalogError, Estimate, IdSince, KnownList, Landed, Landing, LastPages,
    LastingCursors, Listed, NamedIds, OpenPass, PassEnd, PassId, PassReader, PassRef, PassStore,
    PendingId, PendingQuery, Rearrangement, RecordIds, RegionState, SliceState,
};
use ingest_config::{IdPlace, Slice};
use ingest_quota::{Cost, Timestamp};

use crate::support::lab::Lab;

/// A catalog whose landings fail a number of times.
struct Unreliable {
    inner: Catalog,
    failures: AtomicU64,
    error: fn(String) -> CatalogError,
}

impl Unreliable {
    /// Fails a landing as often as it should.
    fn before(&self, method: &str) -> Result<(), CatalogError> {
        let count = |left: u64| left.checked_sub(1);
        let fails = method == "land"
            && self
                .failures
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, count)
                .is_ok();
        if fails {
            return Err((self.error)("away".to_owned()));
        }
        Ok(())
    }
}

/// Implements a trait by passing these methods on to the inner catalog.
macro_rules! pass_on {
    (@ids PassReader) => {};
    (@ids PassStore) => {
        fn takes_id(&self, id: &str) -> bool {
            self.inner.takes_id(id)
        }
    };
    ($trait:ident: $($method:ident($($name:ident: $type:ty),*) -> $returns:ty;)*) => {
        #[async_trait]
        impl $trait for Unreliable {
            pass_on! { @ids $trait }
            $(
                async fn $method(&self, $($name: $type),*) -> Result<$returns, CatalogError> {
                    self.before(stringify!($method))?;
                    self.inner.$method($($name),*).await
                }
            )*
        }
    };
}

pass_on! { PassReader:
    region_states(job: &str, regions: &[String], now: Timestamp) -> Vec<RegionState>;
    slices(job: &str, regions: &[String], now: Timestamp) -> Vec<SliceState>;
    slice(job: &str, region: &str, slice: Slice, now: Timestamp) -> Option<SliceState>;
    open_passes(job: &str) -> Vec<OpenPass>;
    last_pages(job: &str, regions: &[String], count: u32) -> Vec<LastPages>;
    listings(passes: &[PassId]) -> Listed;
    pending_ids(query: PendingQuery) -> Vec<PendingId>;
    named_ids(records: RecordIds, at: &IdPlace) -> Vec<NamedIds>;
    id_sinces(job: &str, call: &str, ids: &[String]) -> Vec<IdSince>;
    last_fetched(records: RecordIds) -> Vec<(Arc<str>, Timestamp)>;
    cached_page(upstream: &str, kind: &str, request: &str) -> Option<CachedPage>;
    tags(upstream: &str) -> Vec<Tag>;
    estimates() -> Vec<Estimate>;
    unseen(upstream: &str, since: Timestamp) -> u64;
    call_facts() -> Vec<CallFacts>;
    lasting_cursors(passes: &[PassId]) -> LastingCursors;
    meets_known(pass: PassId, step: usize, request: &str) -> bool;
    known_lists(job: &str, lists: &[(String, String)], now: Timestamp) -> Vec<Option<KnownList>>;
}

pass_on! { PassStore:
    land(landing: Arc<Landing>) -> Landed;
    restart_step(pass: PassId, step: usize) -> bool;
    link_parents(pass: PassId, step: usize, query: PendingQuery) -> ();
    mark_gone(pass: PassId, steps: &[usize], now: Timestamp) -> u64;
    rearrange(pass: PassId, change: &Rearrangement) -> ();
    end_step(pass: PassId, step: usize, cut: bool, list: &ListSoFar) -> ();
    finish(pass: &PassRef, end: PassEnd, now: Timestamp) -> PassId;
    count_unproductive(pass: &PassRef, requests: u64, units: &Cost, now: Timestamp) -> ();
    learn(estimate: Estimate) -> ();
    store_doubts(pass: PassId, doubts: &[Doubted]) -> ();
    store_outcome(pass: &PassRef, failed: bool, notes: Option<&str>, now: Timestamp) -> ();
    store_refusal(pass: PassId, request: &str) -> ();
    forget_lasting(job: &str, region: &str, request: &str) -> ();
    forget_lasting_of_id(job: &str, call: &str, id: &str) -> ();
    check_writable() -> ();
    store_call_facts(facts: CallFacts) -> ();
    forget_tags(upstream: &str, call: &str) -> ();
    drop_unseen(upstream: &str, since: Timestamp) -> u64;
}

/// Runs one region whose landings fail so often. Returns the outcome, the requests, and the pages that landed.
fn run_with(failures: u64, error: fn(String) -> CatalogError) -> (RunOutcome, u64, i64) {
    let lab = Lab::new(&["jobs.trending.regions=[\"US\"]"]);
    let report = run_in(&lab, failures, error);
    let pages = lab.count("select coalesce(sum(pages), 0) from pass");
    (report.outcome, lab.requests(), pages)
}

/// The same in this lab, where a page that cannot be landed can be kept.
fn run_in(lab: &Lab, failures: u64, error: fn(String) -> CatalogError) -> RunReport {
    let mut context = lab.context();
    context.unlanded = Some(Unlanded::new(lab.directory.path()));
    let path = lab.directory.path().join("catalog.db");
    context.catalog = Arc::new(Unreliable {
        inner: Catalog::open(&path).unwrap(),
        failures: AtomicU64::new(failures),
        error,
    });
    let selection = lab.selection(&["trending"]);
    let run = run::run(&context, &selection);
    lab.runtime.block_on(run).unwrap()
}

#[test]
fn a_paid_page_is_landed_once_the_catalog_is_back_and_is_not_requested_again() {
    let (outcome, requests, pages) = run_with(20, CatalogError::Unavailable);
    assert_eq!(outcome, RunOutcome::Complete);
    assert_eq!(i64::try_from(requests).unwrap(), pages);
}

#[test]
fn a_run_stops_where_the_catalog_stays_away_or_fails_for_good() {
    let (outcome, requests, pages) = run_with(u64::MAX, CatalogError::Unavailable);
    assert_eq!((outcome, requests, pages), (RunOutcome::Failed, 1, 0));
    let (outcome, requests, pages) = run_with(1, CatalogError::Failed);
    assert_eq!((outcome, requests, pages), (RunOutcome::Failed, 1, 0));
}

#[test]
fn a_page_waits_for_half_a_minute_and_is_then_kept_in_a_file() {
    let lab = Lab::new(&["jobs.trending.regions=[\"US\"]"]);
    let began = lab.now();
    let report = run_in(&lab, u64::MAX, CatalogError::Unavailable);
    assert_eq!((report.outcome, lab.requests()), (RunOutcome::Failed, 1));
    let waited = Duration::from_micros((lab.now().micros() - began.micros()).unsigned_abs());
    let half_a_minute = Duration::from_secs(30);
    assert!(
        waited >= half_a_minute && waited < half_a_minute * 2,
        "{waited:?}"
    );
    let kept = lab.directory.path().join("unlanded.jsonl");
    assert_eq!(std::fs::read_to_string(kept).unwrap().lines().count(), 1);
    let why = report.passes[0].detail.as_deref().unwrap_or_default();
    assert!(
        why.contains("the page is kept in") && why.contains("unlanded.jsonl"),
        "{why}"
    );
}

#[test]
fn a_page_that_the_catalog_takes_after_29_seconds_is_landed() {
    let lab = Lab::new(&["jobs.trending.regions=[\"US\"]"]);
    // Two attempts a second.
    let report = run_in(&lab, 58, CatalogError::Unavailable);
    assert_eq!(report.outcome, RunOutcome::Complete);
    assert!(!lab.directory.path().join("unlanded.jsonl").exists());
}
