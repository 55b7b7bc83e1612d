//! What several features' tests need.

pub mod lab;
pub(crate) mod proxy;
pub(crate) mod redis_server;
pub mod stub_upstream;
pub(crate) mod stub_upstream;
pub mod world;
pub(crate) mod world;
