//! Every ledger passes the same suite of behaviours and the same properties. A ledger joins with two lines, `suite!` and
//! `properties!`, each with a name and an async function that opens a fresh, empty store.

mod books;
mod model;
mod suite;

/// A store of charges, and any number of handles on it, as several processes have.
pub(crate) trait Store: Send + Sync {
    /// One more handle on the same store.
    fn ledger(&self) -> std::sync::Arc<dyn ingest::ledger::Ledger>;
}

suite::suite!(the_model, crate::ledger::model::Model::open);
