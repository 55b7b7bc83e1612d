//! `quotas.toml`, and `--set`.

use std::fs;
use std::path::Path;

use ingest_config::{Config, RedisUrl};
use proptest::prelude::*;

use crate::support::world::shipped;
use ingest_testing::fuzz::{cases, changed, corpus, is_plain, near, text_near};

/// Whatever is in the text: right, or refused in words that a terminal can be given.
fn read(text: &str, sets: &[String]) {
    if let Err(refused) = Config::parse(text, Path::new("quotas.toml"), sets) {
        let said = refused.to_string();
        assert!(!said.is_empty() && is_plain(&said), "{said:?}");
    }
}

/// Every configuration that there is, of whatever kind.
fn all() -> Vec<Vec<u8>> {
    let presets = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("presets")).unwrap();
    let presets = presets
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file());
    let right = presets
        .chain([shipped()])
        .map(|path| fs::read(path).unwrap());
    right
        .chain(corpus("config").into_iter().map(|(_, bytes)| bytes))
        .collect()
}

#[test]
fn a_changed_configuration_is_taken_or_refused() {
    proptest!(cases(4), |(bytes in changed(all()))| {
        read(&String::from_utf8_lossy(&bytes), &[]);
    });
}

#[test]
fn a_changed_value_is_taken_or_refused() {
    let text = fs::read_to_string(shipped()).unwrap();
    proptest!(cases(4), |(set in text_near("set"), another in text_near("set"))| {
        read(&text, &[set, another]);
    });
}

proptest! {
    #[test]
    fn a_small_configuration_of_any_bytes_is_taken_or_refused(bytes in near("config")) {
        read(&String::from_utf8_lossy(&bytes), &[]);
    }

    #[test]
    fn a_changed_address_of_a_ledger_is_taken_or_refused(url in text_near("set")) {
        let url = url.trim_start_matches("ledger.url=");
        if let Err(refused) = RedisUrl::parse(url) {
            prop_assert!(is_plain(&refused.to_string()), "{:?}", refused.to_string());
        }
    }
}
