//! The catalog of one machine: a SQLite file.

/// The catalog of one machine.
pub struct SqliteCatalog;
