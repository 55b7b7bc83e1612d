//! The ledger of one machine: a SQLite file.

/// The ledger of one machine.
pub struct SqliteLedger;
