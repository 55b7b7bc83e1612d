//! Every catalog passes the suite. A plain model and random histories hold it to its rules; the other modules test
//! what only a file has, or only PostgreSQL.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr
)]

mod both;
mod copying;
mod fence;
mod files;
mod fixture;
mod hostile;
mod index;
pub(crate) mod places;
mod properties;
mod prune;
mod shared_views;
mod statistics;
mod suite;
mod together;

mod a_sqlite_file {
    super::suite::suite!(super::places::sqlite_file);
}

mod a_postgres_schema {
    super::suite::suite!(super::places::postgres_schema);
}
