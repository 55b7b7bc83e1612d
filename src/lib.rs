//! A worker that pulls from metered upstream APIs and never overspends their quota. ARCHITECTURE.md shows the rooms.

pub mod catalog;
pub mod clock;
pub mod config;
pub mod ledger;
pub mod quota;
pub mod record;
pub mod run;
#[cfg(feature = "sandbox")]
pub mod sandbox;
pub mod sqlite;
pub mod upstream;
