//! What several features' tests need.
