//! A worker that pulls from metered upstream APIs and never overspends their quota. ARCHITECTURE.md maps the modules.

pub mod cli;
pub mod commands;
mod doc;
pub mod exit;
pub mod foresight;
pub mod review;
pub mod run;
#[cfg(feature = "serve")]
pub mod serve;
pub mod when;
