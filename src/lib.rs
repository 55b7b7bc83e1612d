//! A worker that pulls from metered upstream APIs and never overspends their quota. ARCHITECTURE.md maps the modules.

pub mod apart;
pub mod catalog;
pub mod cli;
pub mod clock;
pub mod commands;
pub mod config;
pub mod exit;
pub mod fnv;
pub mod ledger;
pub mod plain;
pub mod private;
pub mod quota;
pub mod record;
pub mod run;
#[cfg(feature = "sandbox")]
pub mod sandbox;
pub mod saved_response;
pub mod secret;
#[cfg(feature = "serve")]
pub mod serve;
pub mod sqlite;
pub mod upstream;
