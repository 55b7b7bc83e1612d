//! What a newcomer types first, what a shell completes, and what CI and monitoring call.

use std::process::{Command, Stdio};

use assert_cmd::cargo::cargo_bin;

use crate::support::world::{Ran, World};

/// The binary in an empty home, where no configuration is.
fn in_empty_home(arguments: &[&str]) -> (Ran, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(cargo_bin!("ingest"));
    command
        .args(arguments)
        .env_clear()
        .env("HOME", home.path())
        .current_dir(home.path())
        .stdin(Stdio::null());
    (Ran::of(command.output().unwrap()), home)
}

#[test]
fn the_sandbox_without_a_configuration_uses_the_built_in_one() {
    if std::path::Path::new("/etc/ingest/quotas.toml").exists() {
        return;
    }
    for more in [&[][..], &["--dry-run"]] {
        let arguments = [&["--region", "US", "--job", "trending", "--sandbox"], more].concat();
        let (ran, _home) = in_empty_home(&arguments);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.stdout.contains("trending"), "{ran:?}");
        assert!(
            ran.stderr.contains("no quotas.toml found") && ran.stderr.contains("ingest init"),
            "{ran:?}"
        );
    }
    let (real, _home) = in_empty_home(&["--region", "US"]);
    assert_eq!(
        real.code, 2,
        "a real run has no configuration to guess: {real:?}"
    );
}

#[test]
fn what_a_sandbox_run_names_next_reads_what_it_stored() {
    if std::path::Path::new("/etc/ingest/quotas.toml").exists() {
        return;
    }
    let (ran, home) = in_empty_home(&["--sandbox", "--job", "trending", "--state-dir", "state"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let (_, next) = ran.stdout.split_once("See what it stored:\n").unwrap();
    let run = |line: &str| {
        let mut command = Command::new(cargo_bin!("ingest"));
        let words = line.split_whitespace().map(|word| match word {
            "WORDS" => "puppy",
            word => word,
        });
        command.args(words).env_clear().env("HOME", home.path());
        Ran::of(command.current_dir(home.path()).output().unwrap())
    };
    let mut lines: Vec<&str> = next.lines().map(|line| line.trim()).collect();
    assert_eq!(lines.len(), 3, "{next}");
    lines.extend([
        "ingest history --sandbox --state-dir state",
        "ingest forecast --sandbox --state-dir state --schedule hourly --days 1",
        "ingest charge youtube videos.list --sandbox --state-dir state",
    ]);
    for line in lines {
        let ran = run(line.strip_prefix("ingest ").unwrap());
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        assert!(
            ran.stdout.lines().count() > 2 || line.contains("charge"),
            "{line}: {ran:?}"
        );
        assert_eq!(ran.stderr, "", "{line}");
    }
    let preview = run("--dry-run --sandbox --state-dir state --job trending");
    assert!(preview.stdout.contains("Nothing is due."), "{preview:?}");
    let quiet = run("--sandbox --state-dir state --job trending -q");
    assert_eq!(quiet.stdout, "", "{quiet:?}");
}

#[test]
fn a_wrong_configuration_is_not_replaced_by_the_built_in_one() {
    let mut world = World::new();
    world.set("ledger.cheap_max=-1");
    let ran = world.ingest(&["--region", "US", "--sandbox"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let (missing, _home) =
        in_empty_home(&["--region", "US", "--sandbox", "--config", "missing.toml"]);
    assert_eq!(missing.code, 2, "{missing:?}");
}

#[test]
fn the_program_alone_suggests_what_to_try() {
    let (ran, home) = in_empty_home(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    for command in [
        "ingest --region all --sandbox",
        "ingest --region all --dry-run",
        "ingest init",
        "ingest --help",
    ] {
        assert!(ran.stderr.contains(command), "{command}: {ran:?}");
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

/// What bash offers for the last word of a command line.
fn completed(world: &World, line: &[&str]) -> Vec<String> {
    let directory = cargo_bin!("ingest").parent().unwrap().display().to_string();
    let words = line.iter().map(|word| format!("'{word}'"));
    let script = format!(
        "source <(ingest completions bash); COMP_WORDS=({}); COMP_CWORD={}; COMP_TYPE=9; \
         function=$(complete -p ingest | sed 's/.*-F \\([^ ]*\\).*/\\1/'); $function ingest '{}'; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.collect::<Vec<_>>().join(" "),
        line.len() - 1,
        line.last().unwrap()
    );
    let ran = Command::new("bash")
        .args(["-c", &script])
        .current_dir(world.directory.path())
        .env_clear()
        .env(
            "PATH",
            format!("{directory}:{}", std::env::var("PATH").unwrap()),
        )
        .env("INGEST_CONFIG", crate::support::world::shipped())
        .output()
        .unwrap();
    let offered = String::from_utf8(ran.stdout).unwrap();
    offered.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_shell_completes_regions_jobs_presets_kinds_and_calls_of_the_configuration() {
    let world = World::new();
    let regions = completed(&world, &["ingest", "--region", ""]);
    for region in ["all", "US", "GB"] {
        assert!(regions.contains(&region.to_owned()), "{regions:?}");
    }
    let jobs = completed(&world, &["ingest", "--region", "all", "--job", "t"]);
    assert_eq!(jobs, ["trending"]);
    let kinds = completed(&world, &["ingest", "export", "--kind", ""]);
    assert!(kinds.contains(&"video".to_owned()), "{kinds:?}");
    let presets = completed(&world, &["ingest", "init", "--preset", "git"]);
    assert_eq!(presets, ["github"]);
    let calls = completed(&world, &["ingest", "charge", "youtube", "videos"]);
    assert_eq!(calls, ["videos.list"]);
    let commands = completed(&world, &["ingest", "fore"]);
    assert_eq!(commands, ["forecast"]);
}

#[test]
fn completion_with_a_broken_configuration_offers_nothing_and_says_nothing() {
    let world = World::new();
    std::fs::write(world.directory.path().join("broken.toml"), "regions = 1").unwrap();
    let offered = completed(&world, &["ingest", "--config", "broken.toml", "--job", ""]);
    assert!(!offered.contains(&"trending".to_owned()), "{offered:?}");
}
