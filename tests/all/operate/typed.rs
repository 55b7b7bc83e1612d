//! What is typed in the wrong place, or nearly right.

use std::process::Command;

use assert_cmd::cargo::cargo_bin;

use crate::support::world::{Ran, World};
use ingest_testing::not_run::not_run;

#[test]
fn what_belongs_to_a_run_is_refused_before_a_subcommand() {
    let world = World::new();
    for (options, name) in [
        (&["--region", "US"][..], "--region"),
        (&["--dry-run"], "--dry-run"),
        (&["--strict"], "--strict"),
        (&["--job", "trending"], "--job"),
        (&["--concurrency", "4"], "--concurrency"),
        (&["--metrics-file", "metrics"], "--metrics-file"),
    ] {
        for arguments in [&["release", "some-id"][..], &["repair"]] {
            let refused = world.ingest(&[options, arguments].concat());
            assert_eq!(
                (refused.code, refused.stdout.as_str()),
                (2, ""),
                "{options:?}: {refused:?}"
            );
            let said = format!(
                "{name} applies to a run; {} does not accept it",
                arguments[0]
            );
            assert!(refused.stderr.contains(&said), "{said}: {refused:?}");
        }
    }
    assert!(!world.state_dir().exists(), "something was charged");
}

#[test]
fn an_option_that_the_subcommand_has_itself_is_to_be_given_after_it() {
    let world = World::new();
    let refused = world.ingest(&["--region", "US", "search", "a"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("--region before search applies to a run; write it after search"),
        "{refused:?}"
    );
    assert_eq!(world.ingest(&["search", "a", "--region", "US"]).code, 0);
    let charge = ["--region", "US", "charge", "youtube", "search.list"];
    let refused = world.ingest(&charge);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("--region before charge applies to a run; write it after charge"),
        "{refused:?}"
    );
}

#[test]
fn commands_without_a_state_directory_do_not_accept_the_sandbox() {
    let world = World::new();
    for command in ["check", "schema", "presets"] {
        for arguments in [[command, "--sandbox"], ["--sandbox", command]] {
            let refused = world.ingest(&arguments);
            assert_eq!((refused.code, &*refused.stdout), (2, ""), "{refused:?}");
            assert!(refused.stderr.contains("--sandbox"), "{refused:?}");
        }
    }
}

#[test]
fn regions_are_optional_where_nothing_is_spent_and_where_there_are_none() {
    let world = World::new();
    let spends = world.ingest(&["--job", "trending"]);
    assert_eq!((spends.code, &*spends.stdout), (2, ""), "{spends:?}");
    assert!(spends.stderr.contains("--region all"), "{spends:?}");
    let preview = world.json(&["--dry-run", "--job", "trending"]);
    assert!(preview["steps"].as_array().unwrap().len() > 8, "{preview}");
    let practice = world.json(&["--sandbox", "--job", "trending"]);
    assert_eq!(practice["outcome"], "complete", "{practice}");
    assert_eq!(world.requests(), 0);
    let shipped = include_str!("../../../quotas.toml");
    let lines = shipped
        .lines()
        .filter(|line| !line.starts_with("regions = "));
    let steps = "credential = \"youtube\", steps = [{ call = \"videos.list\", params = { chart = \"mostPopular\" } }]";
    let [one, other] = ["trending", "discover"].map(|job| format!("jobs.{job}={{ {steps} }}"));
    let without = World::written(&lines.collect::<Vec<_>>().join("\n"), &[&one, &other]);
    let ran = without.json(&["--job", "trending"]);
    assert_eq!(ran["outcome"], "complete", "{ran}");
}

#[test]
fn what_the_environment_says_of_runs_is_no_part_of_another_command() {
    let world = World::new();
    let mut command = world.command(&["status"]);
    assert!(
        command
            .env("INGEST_METRICS_FILE", "metrics")
            .output()
            .unwrap()
            .status
            .success()
    );
}

#[test]
fn a_count_of_none_is_refused_with_what_to_give() {
    let world = World::new();
    for arguments in [
        &["charge", "youtube", "videos.list", "--times", "0"][..],
        &["search", "a", "--limit", "0"],
    ] {
        let refused = world.ingest(arguments);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(
            refused.stderr.contains(": expected 1 or more"),
            "{refused:?}"
        );
    }
}

#[test]
fn a_name_that_is_far_from_all_is_not_guessed_at() {
    let world = World::new();
    let refused = world.ingest(&["charge", "youtube", "nope.list"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("unknown call `nope.list`"),
        "{refused:?}"
    );
    assert!(!refused.stderr.contains("did you mean"), "{refused:?}");
    let close = world.ingest(&["charge", "youtube", "video.list"]);
    assert!(
        close.stderr.contains("did you mean `videos.list`?"),
        "{close:?}"
    );
}

#[test]
fn a_limit_that_was_not_closed_is_not_said_to_be_open_again() {
    let world = World::new();
    let ran = world.ingest(&["reopen", "youtube", "daily"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (0, "youtube/daily was not closed.\n"),
        "{ran:?}"
    );
    assert_eq!(
        world.json(&["reopen", "youtube", "daily"])["reopened"],
        false
    );
}

#[test]
fn a_reopened_limit_with_nothing_remaining_says_what_still_holds_it() {
    let quota = "credentials.youtube.limits.daily={ quota = 100, window = \"24h\", wait = \"0s\" }";
    let world = World::configured(
        &[quota, "jobs.trending.leave={}", "jobs.discover.leave={}"],
        |_| {},
    );
    world.ingest(&["charge", "youtube", "videos.list", "--times", "100"]);
    let ran = world.ingest(&["reopen", "youtube", "daily"]);
    assert!(
        ran.stdout.contains("grants nothing: 100 units are used")
            && ran.stdout.contains(", until "),
        "{ran:?}"
    );
    let json = world.json(&["reopen", "youtube", "daily"]);
    assert_eq!(json["used"], 100, "{json}");
    assert!(json["fits_at"].is_string(), "{json}");
}

#[test]
fn every_preset_says_what_it_fetches() {
    let shown = Command::new(cargo_bin!("ingest"))
        .arg("presets")
        .output()
        .unwrap();
    let shown = Ran::of(shown).stdout;
    let youtube = shown
        .lines()
        .find(|line| line.starts_with("youtube "))
        .unwrap();
    assert!(
        youtube.contains("YouTube") && youtube.contains("videos"),
        "{shown}"
    );
}

/// A terminal of no width, as some serial lines and containers have.
#[test]
fn a_terminal_that_does_not_know_its_width_is_taken_to_be_80_columns_wide() {
    let world = World::new();
    assert_eq!(
        world
            .ingest(&["charge", "youtube", "search.list", "-q"])
            .code,
        0
    );
    let status = world.command(&["status"]);
    let quoted =
        |text: &std::ffi::OsStr| format!("'{}'", text.to_str().unwrap().replace('\'', "'\\''"));
    let words: Vec<String> = [status.get_program()]
        .into_iter()
        .chain(status.get_args())
        .map(quoted)
        .collect();
    let mut command = Command::new("script");
    command.args([
        "-qec",
        &format!("stty cols 0 rows 0; {}", words.join(" ")),
        "/dev/null",
    ]);
    command
        .current_dir(world.directory.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("NO_COLOR", "1");
    command.envs(
        status
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let Ok(shown) = command.stdin(std::process::Stdio::null()).output() else {
        not_run("there is no `script` here: a terminal of no width is not checked");
        return;
    };
    let shown = Ran::of(shown).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    let widest = lines
        .iter()
        .map(|line| line.trim_end().chars().count())
        .max()
        .unwrap_or_default();
    assert!((40..=80).contains(&widest), "{widest}: {shown}");
    assert!(
        lines.iter().any(|line| line.contains("of the quota of")),
        "{shown}"
    );
}

/// Nothing else asks whether a new subcommand works in the state of sandbox runs: it is in `STATEFUL` of `src/cli.rs`, or here.
#[test]
fn every_subcommand_takes_sandbox_or_is_known_to_need_no_state() {
    let command = ingest::cli::command();
    let stateless = command
        .get_subcommands()
        .filter(|subcommand| {
            let mut options = subcommand.get_arguments();
            !options.any(|option| option.get_id() == "sandbox")
        })
        .map(clap::Command::get_name);
    let stateless: Vec<&str> = stateless.collect();
    assert_eq!(
        stateless.join(" "),
        "check init presets catalog schema try sandbox completions man"
    );
}

#[test]
fn settings_count_before_and_after_a_subcommand() {
    let world = World::new();
    let regions = |arguments: &[&str]| {
        let regions = world.json(arguments)["regions"].clone();
        regions
            .as_array()
            .unwrap()
            .iter()
            .filter(|region| region["job"] == "trending")
            .count()
    };
    assert_eq!(
        regions(&[
            "--set",
            "regions=[\"US\"]",
            "status",
            "--set",
            "ledger.timeout=1s"
        ]),
        1
    );
    assert_eq!(
        regions(&[
            "--set",
            "regions=[\"US\"]",
            "status",
            "--set",
            "regions=[\"US\", \"GB\"]"
        ]),
        2,
        "the last"
    );
    let wrong = world.ingest(&[
        "--set",
        "bogus.key=1",
        "status",
        "--set",
        "ledger.timeout=1s",
    ]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
    assert!(wrong.stderr.contains("bogus"), "{wrong:?}");
}

#[test]
fn to_say_more_and_to_say_nothing_exclude_each_other_wherever_they_stand() {
    let world = World::new();
    for arguments in [
        ["-q", "status", "-v"],
        ["-v", "status", "-q"],
        ["-q", "-v", "status"],
        ["status", "-q", "-v"],
    ] {
        let refused = world.ingest(&arguments);
        assert_eq!(refused.code, 2, "{arguments:?}: {refused:?}");
        assert!(refused.stderr.contains("cannot be combined"), "{refused:?}");
    }
}

#[test]
fn a_narrow_screen_breaks_nothing_into_letters() {
    let world = World::new();
    world.ingest(&["--region", "US"]);
    let narrow = world
        .command(&["status"])
        .env("COLUMNS", "30")
        .output()
        .unwrap();
    let narrow = String::from_utf8(narrow.stdout).unwrap();
    assert!(narrow.lines().count() < 60, "{narrow}");
}

#[test]
fn a_state_directory_that_is_named_and_does_not_exist_is_reported_and_not_read_as_empty() {
    let world = World::new();
    let said = "does not exist: no run has stored anything there";
    for arguments in [
        &["export", "--kind", "video"][..],
        &["search", "a"],
        &["status"],
        &["history"],
        &["repair"],
        &["reopen", "youtube", "daily"],
    ] {
        let refused = world.ingest(&[arguments, &["--state-dir", "nowhere"]].concat());
        assert_eq!((refused.code, &*refused.stdout), (2, ""), "{refused:?}");
        let named = format!("the state directory nowhere {said}");
        assert!(refused.stderr.contains(&named), "{refused:?}");
        assert!(!world.directory.path().join("nowhere").exists());
        let practice = world.ingest(&[arguments, &["--sandbox"]].concat());
        let named = "run `ingest --region all --sandbox`";
        assert!(
            practice.code == 2 && practice.stderr.contains(named),
            "{practice:?}"
        );
        let before_the_first_run = world.ingest(arguments);
        assert_eq!(before_the_first_run.code, 0, "{before_the_first_run:?}");
    }
    let release = world.ingest(&["release", "some-id", "--state-dir", "nowhere"]);
    assert!(
        release.code == 2 && release.stderr.contains(said),
        "{release:?}"
    );
}

#[test]
fn a_catalog_that_is_missing_in_a_named_state_directory_is_reported() {
    let world = World::new();
    std::fs::create_dir(world.state_dir()).unwrap();
    let export = world.ingest(&["export", "--kind", "video"]);
    assert_eq!((export.code, &*export.stdout), (0, ""), "{export:?}");
    for arguments in [&["export", "--kind", "video"][..], &["search", "a"]] {
        let refused = world.ingest(&[arguments, &["--state-dir", "state"]].concat());
        assert_eq!((refused.code, &*refused.stdout), (2, ""), "{refused:?}");
        let said = "the catalog state/catalog.db does not exist";
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
}

#[test]
fn a_state_directory_is_not_missed_where_ledger_and_catalog_are_servers() {
    let world = World::new();
    for command in [
        &["status"][..],
        &["reopen", "youtube", "daily"],
        &["history"],
    ] {
        let servers = [
            "--state-dir",
            "new",
            "--set",
            "ledger.url=redis://127.0.0.1:1",
            "--set",
            "catalog.url=postgres://ingest@127.0.0.1:1/ingest",
        ];
        let ran = world.ingest(&[command, &servers].concat());
        assert!(!ran.stderr.contains("does not exist"), "{ran:?}");
    }
}

#[test]
fn an_unknown_region_is_reported_by_what_reads_as_by_a_run() {
    let world = World::new();
    let many: Vec<String> = (0..99).map(|one| format!("\"R{one}\"")).collect();
    let (few, many) = (
        "regions=[\"US\",\"GB\"]",
        &*format!("regions=[{}]", many.join(",")),
    );
    for (typed, set, said) in [
        ("UK", few, "; defined: US, GB"),
        ("us", few, "; did you mean `US`? defined: US, GB"),
        ("UK", many, "; defined: 99 regions"),
    ] {
        for arguments in [
            &["--dry-run"][..],
            &["search", "a"],
            &["export", "--kind", "video"],
        ] {
            let refused = world.ingest(&[arguments, &["--set", set, "--region", typed]].concat());
            assert_eq!((refused.code, &*refused.stdout), (2, ""), "{refused:?}");
            let said = format!("ingest: unknown region `{typed}`{said}\n");
            assert_eq!(refused.stderr, said);
        }
    }
}

#[test]
fn a_run_typed_as_a_subcommand_is_answered_with_the_command_that_runs() {
    let refused = World::new().ingest(&["run"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.stderr.contains("`ingest --region all`"),
        "{refused:?}"
    );
}

#[test]
fn a_version_that_cannot_be_written_is_a_failure() {
    let mut command = Command::new(cargo_bin!("ingest"));
    let full = std::fs::File::options().write(true).open("/dev/full");
    let ran = Ran::of(
        command
            .arg("--version")
            .stdout(full.unwrap())
            .output()
            .unwrap(),
    );
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("cannot write to stdout"), "{ran:?}");
}

#[test]
fn a_span_that_cannot_be_read_is_answered_with_how_to_write_one() {
    let refused = World::new().ingest(&["history", "--since", "last week"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("such as 36h or 7d"), "{refused:?}");
}

#[test]
fn settings_count_behind_a_subcommand_of_a_subcommand() {
    let copy = ["catalog", "copy", "--from", "sqlite", "--to", "sqlite"];
    let set = World::new().ingest(&[&copy[..], &["--set", "nothing=1"]].concat());
    assert_eq!(set.code, 2, "{set:?}");
    assert!(set.stderr.contains("unknown key"), "{set:?}");
}
