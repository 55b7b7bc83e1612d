//! Every ledger passes the same suite of behaviours and the same properties. A ledger joins with a module of two lines,
//! `suite!` and `properties!`, each given an async function that opens a fresh, empty store.

pub(crate) mod books;
mod boundary;
mod memory;
mod model;
mod properties;
mod protocol_model;
mod reads;
pub(crate) mod redis;
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

mod the_memory_ledger {
    use super::memory::Memory;
    super::suite::suite!(Memory::open);
    super::properties::properties!(Memory::open);
}

mod a_sqlite_file {
    use super::sqlite::File;
    super::suite::suite!(File::fresh);
    super::properties::properties!(File::fresh);
}
