//! What several features' tests need.

pub(crate) mod browser;
pub(crate) mod json;
pub(crate) mod lab;
pub(crate) mod leases;
pub(crate) mod seeds;
pub(crate) mod shared_world;
pub(crate) mod world;
