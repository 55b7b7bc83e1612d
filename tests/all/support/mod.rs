//! What several features' tests need.

pub mod stub_upstream;
pub mod world;
