//! The catalog as runs and other programs see it. `ingest-catalog` tests the stores.

mod parents;
mod readers;
mod restored;
