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

mod apis;
mod benches;
mod cases;
mod catalog;
mod console;
mod documents;
mod fuzz;
mod lists;
mod manual;
mod one_liners;
mod operate;
mod postgres;
mod presets;
mod readme;
mod recipes;
mod reports;
mod requests;
mod run;
mod sandbox;
mod serve;
mod site;
mod soak;
mod support;
mod worlds;

#[path = "../../crates"]
#[allow(dead_code, unused, reason = "the tests of those packages use the rest")]
mod of_packages {
    #[path = "ledger/tests/all/books.rs"]
    pub(crate) mod books;
    #[path = "catalog/tests/all/fixture.rs"]
    pub(crate) mod fixture;
    #[path = "ledger/tests/all/shared_as_ledger.rs"]
    pub(crate) mod shared_as_ledger;
}
use of_packages::{books, fixture, shared_as_ledger};
