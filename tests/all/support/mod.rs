//! What several features' tests need.

pub(crate) mod redis_server;
