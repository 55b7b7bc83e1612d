use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{directory, names};
use crate::support::world::World;

#[test]
fn init_writes_every_preset_that_presets_lists_and_it_is_right() {
    let world = World::new();
    let listed = world.json(&["presets"]);
    let listed: Vec<&str> = listed["presets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(listed, names());
    for name in listed {
        let file = world.directory.path().join(format!("{name}.toml"));
        let ran = world.ingest(&["init", "--preset", name, file.to_str().unwrap()]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), written(name));
    }
}

/// A preset as `init` writes it: its first line names the schema where `ingest schema` is written, beside the file.
fn written(name: &str) -> String {
    let shipped = std::fs::read_to_string(directory().join(format!("{name}.toml"))).unwrap();
    let lines = shipped
        .lines()
        .filter(|line| !line.starts_with("#:schema "));
    let lines = std::iter::once("#:schema ./quotas.schema.json").chain(lines);
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn every_configuration_that_is_shipped_or_written_names_the_schema_that_is_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let presets = std::fs::read_dir(directory()).unwrap();
    let presets = presets.map(|entry| entry.unwrap().path());
    let own = presets.filter(|path| path.is_file() && !path.is_symlink());
    for file in own.chain([root.join("quotas.toml")]) {
        let text = std::fs::read_to_string(&file).unwrap();
        let schema = text.lines().next().unwrap().strip_prefix("#:schema ");
        let schema = schema.unwrap_or_else(|| panic!("{} names no schema", file.display()));
        assert!(file.parent().unwrap().join(schema).exists(), "{schema}");
    }
    let world = World::new();
    let response = root.join("docs/tutorial/page-1.json");
    let drafted = ["--answer", response.to_str().unwrap()];
    for more in [&drafted[..], &[]] {
        let ran = world.ingest(&[&["init", "-"], more].concat());
        assert!(
            ran.stdout.starts_with("#:schema ./quotas.schema.json\n"),
            "{ran:?}"
        );
    }
}

/// What lets a test be short; a person waits a few seconds.
fn short(preset: &str) -> &'static [&'static str] {
    match preset {
        "gnews" => {
            &["credentials.gnews.limits.pace={ quota = 9, window = \"50ms\", wait = \"5s\" }"]
        }
        "wikimedia" => &["credentials.wikimedia.limits.pace={ quota = 9, window = \"1h\" }"],
        "google-analytics" => &["upstreams.google-analytics.calls.runReport.page.size=10"],
        _ => &[],
    }
}

#[test]
fn what_init_wrote_runs_at_once_in_an_empty_directory() {
    let runs = |name: String| {
        let directory = tempfile::tempdir().unwrap();
        let ingest = |arguments: &[&str]| {
            let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
            let home = ("HOME", directory.path());
            command
                .current_dir(directory.path())
                .env_clear()
                .envs([home])
                .args(arguments)
                .output()
                .unwrap()
        };
        let written = ingest(&["init", "--preset", &name]);
        let said = String::from_utf8(written.stdout).unwrap();
        assert!(
            said.starts_with("Wrote quotas.toml. Try it with `ingest --region all --sandbox`;"),
            "{said}"
        );
        let sets: Vec<&str> = short(&name).iter().flat_map(|set| ["--set", set]).collect();
        let ran = ingest(
            &[
                &["--region", "all", "--sandbox", "--format", "json"],
                &*sets,
            ]
            .concat(),
        );
        let run: serde_json::Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{name}: {ran:?}"));
        assert_eq!(
            (ran.status.code(), run["outcome"].as_str()),
            (Some(0), Some("complete")),
            "{name}: {run}"
        );
        assert!(
            run["passes"]
                .as_array()
                .unwrap()
                .iter()
                .all(|pass| pass["records"] != 0),
            "{name}: {run}"
        );
    };
    let all: Vec<_> = names()
        .into_iter()
        .map(|name| std::thread::spawn(move || runs(name)))
        .collect();
    all.into_iter().for_each(|one| one.join().unwrap());
}

#[test]
fn check_finds_nothing_to_complain_of_in_any_preset() {
    for name in names() {
        let check = World::preset(&name, &[]).json(&["check"]);
        let findings = check["findings"].as_array().unwrap();
        assert!(
            findings.iter().all(|finding| finding["verdict"] == "good"),
            "{name}: {check}"
        );
    }
}

#[test]
fn a_file_whose_name_is_no_text_is_written_and_told() {
    let world = World::new();
    let name = OsStr::from_bytes(b"quotas\xff.toml");
    let ran = world
        .command(&["init", "--format", "json"])
        .arg(name)
        .output()
        .unwrap();
    assert!(
        ran.status.success() && world.directory.path().join(name).exists(),
        "{ran:?}"
    );
    let told: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(told["file"], "quotas\u{fffd}.toml");
}

#[test]
fn init_writes_the_configuration_alone_to_stdout_where_the_file_is_a_dash() {
    let world = World::new();
    let ran = world.ingest(&["init", "--preset", "github", "-"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!((ran.stdout, ran.stderr.as_str()), (written("github"), ""));
    assert!(!world.directory.path().join("-").exists());
}
