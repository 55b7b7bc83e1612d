//! The manual of the configuration.

mod markdown;

use std::path::PathBuf;

/// To write the file again: `INGEST_WRITE_DOCS=1 cargo test --test all manual`.
#[test]
fn the_committed_manual_of_the_configuration_is_the_generated_one() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let committed = std::fs::read_to_string(&path).unwrap();
    let (guide, _) = committed.split_once("## All keys\n").unwrap();
    let written = format!("{guide}{}", markdown::markdown());
    if std::env::var_os("INGEST_WRITE_DOCS").is_some() {
        return std::fs::write(&path, written).unwrap();
    }
    assert!(
        committed == written,
        "docs/configuration.md is not what the program generates: run this test with INGEST_WRITE_DOCS=1"
    );
}

#[test]
fn every_key_has_an_anchor_of_its_own_and_a_place_in_the_contents_and_secrets_are_described_once() {
    let text = markdown::markdown();
    let anchors: Vec<&str> = text.split("<a id=\"").skip(1).collect();
    let anchors: Vec<&str> = anchors
        .iter()
        .filter_map(|rest| rest.split('"').next())
        .collect();
    let mut alone = anchors.clone();
    alone.sort_unstable();
    alone.dedup();
    assert_eq!(alone.len(), anchors.len(), "an anchor is there twice");
    let keys = text
        .lines()
        .filter(|line| line.contains("\"></a>**`"))
        .count();
    assert!(keys > 180, "{keys} keys");
    for anchor in anchors {
        assert!(
            text.contains(&format!("](#{anchor})")),
            "{anchor} is not in the contents"
        );
    }
    assert_eq!(text.matches("A program that prints the secret").count(), 1);
}
