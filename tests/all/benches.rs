//! Every benchmark still works: each runs once, shortened. What it measures then says nothing.
#![allow(
    dead_code,
    clippy::duplicate_mod,
    reason = "`cargo bench` calls each `main`, and several benchmarks use the same files"
)]

#[path = "../../benches/economy.rs"]
mod economy;
#[path = "../../benches/forecast.rs"]
mod forecast;
#[path = "../../benches/growth/main.rs"]
mod growth;
#[path = "../../benches/landing.rs"]
mod landing;
#[path = "../../benches/ledger/main.rs"]
mod ledger;
#[path = "../../benches/machines/main.rs"]
mod machines;
#[path = "../../benches/reading.rs"]
mod reading;
#[path = "../../benches/run/main.rs"]
mod run;
#[path = "../../benches/search.rs"]
mod search;
#[path = "../../benches/serve.rs"]
mod serve;
#[path = "../../benches/shared_landing.rs"]
mod shared_landing;

#[test]
fn economy_runs() {
    economy::shortened();
}

#[test]
fn forecast_runs() {
    forecast::shortened();
}

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
fn reading_runs() {
    reading::shortened();
}

#[test]
fn run_runs() {
    run::shortened();
}

#[test]
fn search_runs() {
    search::shortened();
}

#[test]
fn serve_runs() {
    serve::shortened();
}

#[test]
fn shared_landing_runs() {
    shared_landing::shortened();
}
