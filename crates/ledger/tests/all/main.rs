//! Every ledger passes the same suite of behaviours and the same properties. A ledger joins with a module of two lines,
//! `suite!` and `properties!`, each given an async function that opens a fresh, empty store.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stderr
)]

pub(crate) mod books;
mod boundary;
mod fuzz;
mod model;
mod properties;
mod protocol_model;
pub(crate) mod redis;
mod shared_as_ledger;
mod sqlite;
mod suite;

/// A store of charges, and any number of handles on it, as several processes have.
pub(crate) trait Store: Send + Sync {
    /// One more handle on the same store.
    fn ledger(&self) -> std::sync::Arc<dyn ingest_ledger::Ledger>;
}

mod the_model {
    use super::model::Model;
    super::suite::suite!(Model::open);
    super::properties::properties!(Model::open);
}

mod a_sqlite_file {
    use super::sqlite::File;
    super::suite::suite!(File::fresh);
    super::properties::properties!(File::fresh);
}
