//! What several features' tests need.

pub mod lab;
pub mod stub_upstream;
pub mod world;
