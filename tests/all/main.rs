//! Every test of the program, in one binary: one file a feature.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr
)]

mod benches;
mod catalog;
mod config;
mod documents;
mod economy;
mod fuzz;
mod insight;
mod ledger;
mod lists;
mod operate;
mod postgres;
mod presets;
mod quota;
mod reach;
mod readme;
mod recipes;
mod run;
mod sandbox;
mod serve;
mod site;
mod soak;
mod support;
mod upstream;
mod worlds;
