//! A catalog that takes no page for a while.

use std::sync::Arc;
use std::time::Duration;

use ingest::run::{self, RunOutcome, RunReport, Unlanded};
use ingest_catalog::{Catalog, Postgres};
use ingest_config::PostgresUrl;

use crate::support::lab::Lab;
use ingest_testing::postgres::{PostgresServer, Schema, connections};

/// What a server reports that gets no lock in time, which passes; and what a constraint reports, which does not.
const UNAVAILABLE: &str = "55P03";
const FAILED: &str = "23514";
const ALWAYS: u64 = 1_000_000;

/// Runs one region whose landings fail so often. Returns the outcome, the requests, and the pages that landed.
fn run_with(failures: u64, error: &str) -> (RunOutcome, u64, i64) {
    let lab = Lab::new(&["jobs.trending.regions=[\"US\"]"]);
    let schema = PostgresServer::shared().schema();
    let report = run_in(&lab, &schema, failures, error);
    let pages = schema.count("select coalesce(sum(pages), 0)::bigint from pass");
    (report.outcome, lab.requests(), pages)
}

/// The same in this lab, where a page that cannot be landed can be kept.
fn run_in(lab: &Lab, schema: &Schema, failures: u64, error: &str) -> RunReport {
    let url = PostgresUrl::parse(&schema.url).unwrap();
    let database = Postgres::new(&url, None, &schema.name, connections());
    let catalog = lab.runtime.block_on(Catalog::connect(database)).unwrap();
    let name = &schema.name;
    let away = format!(
        "create function away() returns trigger language plpgsql as $$ begin
            if nextval('{name}.landings') <= {failures} then
                raise exception 'away' using errcode = '{error}';
            end if;
            return new;
        end $$"
    );
    // What a sequence counts stays counted when the transaction fails.
    schema.rows("create sequence landings");
    schema.rows(&away);
    schema.rows(
        "create trigger away before insert on checkpoint for each row execute function away()",
    );
    let mut context = lab.context();
    context.unlanded = Some(Unlanded::new(lab.directory.path()));
    context.catalog = Arc::new(catalog);
    let selection = lab.selection(&["trending"]);
    let run = run::run(&context, &selection);
    lab.runtime.block_on(run).unwrap()
}

#[test]
fn a_paid_page_is_landed_once_the_catalog_is_back_and_is_not_requested_again() {
    let (outcome, requests, pages) = run_with(20, UNAVAILABLE);
    assert_eq!(outcome, RunOutcome::Complete);
    assert_eq!(i64::try_from(requests).unwrap(), pages);
}

#[test]
fn a_run_stops_where_the_catalog_stays_away_or_fails_for_good() {
    let (outcome, requests, pages) = run_with(ALWAYS, UNAVAILABLE);
    assert_eq!((outcome, requests, pages), (RunOutcome::Failed, 1, 0));
    let (outcome, requests, pages) = run_with(1, FAILED);
    assert_eq!((outcome, requests, pages), (RunOutcome::Failed, 1, 0));
}

#[test]
fn a_page_waits_for_half_a_minute_and_is_then_kept_in_a_file() {
    let lab = Lab::new(&["jobs.trending.regions=[\"US\"]"]);
    let kept = lab.directory.path().join("unlanded.jsonl");
    // An earlier process ended while it wrote.
    std::fs::write(&kept, "{\"cut").unwrap();
    let began = lab.now();
    let report = run_in(
        &lab,
        &PostgresServer::shared().schema(),
        ALWAYS,
        UNAVAILABLE,
    );
    assert_eq!((report.outcome, lab.requests()), (RunOutcome::Failed, 1));
    let waited = Duration::from_micros((lab.now().micros() - began.micros()).unsigned_abs());
    let half_a_minute = Duration::from_secs(30);
    assert!(
        waited >= half_a_minute && waited < half_a_minute * 2,
        "{waited:?}"
    );
    let text = std::fs::read_to_string(kept).unwrap();
    let page = text.lines().last().unwrap();
    assert!(
        serde_json::from_str::<serde_json::Value>(page).is_ok(),
        "{text}"
    );
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
    let report = run_in(&lab, &PostgresServer::shared().schema(), 58, UNAVAILABLE);
    assert_eq!(report.outcome, RunOutcome::Complete);
    assert!(!lab.directory.path().join("unlanded.jsonl").exists());
}
