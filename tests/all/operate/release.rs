//! What makes a release: the workflows, the scripts below `deploy/release`, and the packages' lists.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_yaml_ng::Value as Yaml;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn manifest() -> toml::Value {
    toml::from_str(&read("Cargo.toml")).unwrap()
}

fn workflow(name: &str) -> Yaml {
    serde_yaml_ng::from_str(&read(&format!(".github/workflows/{name}.yml"))).unwrap()
}

/// The steps of all jobs of a workflow.
fn steps(workflow: &Yaml) -> Vec<Yaml> {
    let jobs = workflow["jobs"].as_mapping().unwrap().values();
    jobs.flat_map(|job| job["steps"].as_sequence().unwrap().clone())
        .collect()
}

#[test]
fn the_workflows_run_scripts_that_exist_and_actions_of_a_fixed_version() {
    let mut scripts = BTreeSet::new();
    for step in ["test", "release"].map(workflow).iter().flat_map(steps) {
        if let Some(action) = step["uses"].as_str() {
            assert!(action.contains("@v") || action.contains(':'), "{action}");
        }
        let run = step["run"].as_str().unwrap_or_default().to_owned();
        let paths = run.split_whitespace().filter(|word| word.ends_with(".sh"));
        scripts.extend(paths.map(str::to_owned));
    }
    assert!(scripts.len() >= 5, "{scripts:?}");
    for script in scripts {
        let mode = fs::metadata(root().join(&script)).unwrap().permissions();
        assert_ne!(mode.mode() & 0o111, 0, "{script} is not executable");
    }
    assert_eq!(workflow("test")["permissions"]["contents"], "read");
    assert_eq!(workflow("release")["permissions"]["contents"], "read");
}

#[test]
fn tools_find_nothing_in_the_workflows_and_the_scripts() {
    let scripts = [
        "deploy/release/binary.sh",
        "deploy/release/packages.sh",
        "deploy/release/twice.sh",
        "deploy/rpm/post.sh",
        "deploy/rpm/preun.sh",
        "deploy/rpm/postun.sh",
        "tests/released.sh",
    ];
    let workflows = [
        ".github/workflows/test.yml",
        ".github/workflows/release.yml",
    ];
    for script in scripts {
        assert_finds_nothing("bash", &["-n", script]);
    }
    assert_finds_nothing("shellcheck", &[&["--shell=bash"][..], &scripts].concat());
    assert_finds_nothing("actionlint", &workflows);
}

/// The program succeeds with these arguments, where it is installed.
fn assert_finds_nothing(program: &str, arguments: &[&str]) {
    let mut command = Command::new(program);
    let command = command.args(arguments).current_dir(root());
    match command.stdin(Stdio::null()).output() {
        Ok(found) => assert!(
            found.status.success(),
            "{program}: {}{}",
            String::from_utf8_lossy(&found.stdout),
            String::from_utf8_lossy(&found.stderr)
        ),
        Err(_) => eprintln!("{program} is not installed: what it would check is not checked"),
    }
}

/// The directories of completions differ; everything else is in both.
#[test]
fn the_rpm_package_holds_what_the_debian_package_holds() {
    let metadata = manifest()["package"]["metadata"].clone();
    let deb = metadata["deb"]["assets"].as_array().unwrap().iter();
    let deb: BTreeSet<String> = deb.map(|one| one[0].as_str().unwrap().to_owned()).collect();
    let rpm = metadata["generate-rpm"]["assets"].as_array().unwrap();
    let source = |one: &toml::Value| one["source"].as_str().unwrap().to_owned();
    let rpm: BTreeSet<String> = rpm.iter().map(source).collect();
    let only_deb: Vec<_> = deb.difference(&rpm).collect();
    let only_rpm: Vec<_> = rpm.difference(&deb).collect();
    assert_eq!(only_deb, ["deploy/deb/lintian-overrides"]);
    assert_eq!(only_rpm, ["LICENSE"]);
    for script in ["post_install", "pre_uninstall", "post_uninstall"] {
        let path = metadata["generate-rpm"][format!("{script}_script")].as_str();
        assert!(root().join(path.unwrap()).exists(), "{path:?}");
    }
}

#[test]
fn the_least_version_of_rust_is_the_same_everywhere() {
    let least = manifest()["workspace"]["package"]["rust-version"]
        .as_str()
        .unwrap()
        .to_owned();
    for document in ["README.md", "CONTRIBUTING.md"] {
        let text = read(document);
        assert!(text.contains(&format!("Rust {least}")), "{document}");
    }
    assert!(read(".github/workflows/test.yml").contains("s/^rust-version = "));
}

/// Scripts and presets are links to where everybody looks for them; what `cargo install` builds must hold the files.
#[test]
fn the_packed_crates_hold_the_scripts_the_presets_and_the_shipped_configuration() {
    let packed = |package: &str| {
        let mut cargo = Command::new(std::env::var("CARGO").unwrap_or("cargo".to_owned()));
        cargo.args([
            "package",
            "--list",
            "--allow-dirty",
            "--offline",
            "--package",
        ]);
        let listed = cargo.arg(package).current_dir(root()).output().unwrap();
        assert!(listed.status.success(), "{listed:?}");
        let listed = String::from_utf8(listed.stdout).unwrap();
        listed.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let ingest = packed("ingest");
    for path in ["quotas.toml", "presets/youtube.toml", "presets/stripe.toml"] {
        assert!(ingest.contains(path), "{path}: {ingest:?}");
    }
    assert!(!ingest.iter().any(|path| path.starts_with("fuzz/")));
    let ledger = packed("ingest-ledger");
    for file in fs::read_dir(root().join("lua")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(
            ledger.contains(&format!("lua/{name}")),
            "{name} is not packed"
        );
    }
}
