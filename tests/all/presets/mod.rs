//! The presets: right, complete, and run against the sandbox through the binary.

mod answer;
mod answers;
mod granular;
mod init;
mod names;
mod runs;

use std::path::{Path, PathBuf};

use ingest_config::Config;

pub(super) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("presets")
}

/// The names of all presets: of the files that stand right in their directory.
pub(super) fn names() -> Vec<String> {
    let files = std::fs::read_dir(directory())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = files
        .filter_map(|file| file.strip_suffix(".toml").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    names
}

pub(super) fn preset(name: &str) -> Config {
    let path = directory().join(format!("{name}.toml"));
    Config::parse(&std::fs::read_to_string(&path).unwrap(), &path, &[])
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_preset_is_a_right_configuration_with_a_job_and_comments() {
    for name in names() {
        assert!(!preset(&name).jobs.is_empty(), "{name}");
        let text = std::fs::read_to_string(directory().join(format!("{name}.toml"))).unwrap();
        assert!(
            text.starts_with('#') && text.matches("\n#").count() >= 5,
            "{name} explains itself"
        );
    }
}

#[test]
fn the_shipped_configuration_is_a_preset_too() {
    let shipped = include_str!("../../../quotas.toml");
    let same = |name: &String| {
        std::fs::read_to_string(directory().join(format!("{name}.toml"))).unwrap() == shipped
    };
    assert_eq!(names().iter().filter(|name| same(name)).count(), 1);
}
