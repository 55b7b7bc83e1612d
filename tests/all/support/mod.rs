//! What several features' tests need.

pub(crate) mod proxy;
pub(crate) mod redis_server;
