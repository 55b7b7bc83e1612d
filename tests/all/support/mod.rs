//! What several features' tests need.

pub(crate) mod browser;
pub(crate) mod lab;
pub(crate) mod not_run;
pub(crate) mod pgbouncer;
pub(crate) mod postgres;
pub(crate) mod proxy;
pub(crate) mod raw_server;
pub(crate) mod redis_server;
pub(crate) mod seeds;
pub(crate) mod shared_as_ledger;
pub(crate) mod shared_world;
pub(crate) mod stub_upstream;
pub(crate) mod world;
