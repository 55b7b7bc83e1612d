//! What `quotas.toml` may say, and what is said of a wrong one.

use std::path::Path;

use ingest::config::Config;

const SHIPPED: &str = include_str!("../../quotas.toml");

#[test]
fn the_shipped_file_is_right() {
    let config = Config::parse(SHIPPED, Path::new("quotas.toml"), &[]).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.regions.len(), 8);
}
