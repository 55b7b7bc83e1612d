//! What several features' tests need.

pub(crate) mod stub_upstream;
