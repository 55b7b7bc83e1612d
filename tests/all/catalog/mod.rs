//! The catalog as runs and other programs see it, and the suite over the catalog of a simulation. `ingest-catalog` tests the
//! stores.

mod changes;
mod parents;
mod readers;
mod restored;
mod simulated;
