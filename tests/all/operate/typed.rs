//! What is typed in the wrong place, or nearly right.

use std::process::Command;

use crate::support::world::{Ran, World, environment_of};
use ingest_testing::not_run::not_run;

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
    command.envs(environment_of(&status));
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
