//! Every benchmark still works: each runs once, shortened. What it measures then says nothing.
#![allow(
    dead_code,
    clippy::duplicate_mod,
    reason = "`cargo bench` calls each `main`, and several benchmarks use the same files"
)]

#[path = "../../benches/growth/main.rs"]
mod growth;
#[path = "../../benches/landing.rs"]
mod landing;
#[path = "../../benches/ledger/main.rs"]
mod ledger;
#[path = "../../benches/machines.rs"]
mod machines;
#[path = "../../benches/reports.rs"]
mod reports;
#[path = "../../benches/run.rs"]
mod run;

#[test]
fn growth_runs() {
    growth::shortened();
}

#[test]
fn landing_runs() {
    landing::shortened();
}

#[test]
fn ledger_runs() {
    ledger::shortened();
}

#[test]
fn machines_runs() {
    machines::shortened();
}

#[test]
fn reports_runs() {
    reports::shortened();
}

#[test]
fn run_runs() {
    run::shortened();
}
