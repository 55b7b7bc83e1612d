//! The manual as a site: its table of contents, its tutorial, the commands of the troubleshooting, and mdBook where it is installed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::readme::whenever;
use crate::support::world::World;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The blocks of a document with one of these marks, in their order, each with its mark.
fn blocks<'a>(document: &'a str, marks: &[&str]) -> Vec<(&'a str, &'a str)> {
    let fenced = document.split("\n```").skip(1).step_by(2);
    let blocks = fenced.filter_map(|block| block.split_once('\n'));
    blocks.filter(|(mark, _)| marks.contains(mark)).collect()
}

/// Runs a block as somebody does who has installed the program and has nothing else yet.
fn shell(home: &Path, directory: &Path, state: Option<&Path>, block: &str) -> Output {
    let tools = home.join("bin");
    fs::create_dir_all(&tools).unwrap();
    let program = tools.join("ingest");
    if !program.exists() {
        std::os::unix::fs::symlink(assert_cmd::cargo::cargo_bin!("ingest"), &program).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("sh");
    command.args(["-ec", block]).current_dir(directory);
    command.env_clear().env("HOME", home);
    command.env("PATH", format!("{}:{path}", tools.display()));
    command
        .env("CHECKOUT", root())
        .env("YOUTUBE_API_KEY", "any");
    command.envs(state.map(|state| ("INGEST_STATE_DIR", state)));
    command.output().unwrap()
}

fn linked(text: &str) -> impl Iterator<Item = &str> {
    let links = text.split("](").skip(1);
    links.filter_map(|rest| rest.split(')').next())
}

#[test]
fn every_document_has_its_place_in_the_site() {
    let summary = read("docs/SUMMARY.md");
    let listed = linked(&summary).map(|link| root().join("docs").join(link));
    let listed: BTreeSet<PathBuf> = listed
        .map(|path| {
            path.canonicalize()
                .unwrap_or_else(|_| panic!("{}", path.display()))
        })
        .collect();
    for folder in ["docs", "docs/adr", "docs/recipes"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path().canonicalize().unwrap();
            let is_document = path.extension().is_some_and(|extension| extension == "md");
            if is_document && !path.ends_with("SUMMARY.md") {
                assert!(listed.contains(&path), "{} is not listed", path.display());
            }
        }
    }
}

#[test]
fn the_tutorial_does_what_it_says_in_an_empty_directory() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("empty");
    fs::create_dir(&directory).unwrap();
    let tutorial = read("docs/tutorial.md");
    let mut printed = String::new();
    let mut ran = 0;
    for (mark, block) in blocks(&tutorial, &["sh", "text"]) {
        if mark == "text" {
            let [shown, said] = [block, printed.trim_end()].map(|text| {
                let is_summary = text.contains(" requests in ");
                if is_summary {
                    whenever(text)
                } else {
                    text.to_owned()
                }
            });
            assert!(said.ends_with(&shown), "{block}\n{printed}");
            continue;
        }
        let output = shell(home.path(), &directory, None, block);
        assert!(output.status.success(), "{block}\n{output:?}");
        printed = String::from_utf8(output.stdout).unwrap();
        ran += 1;
    }
    assert!(ran >= 6, "{ran} blocks");
    let draft = fs::read_to_string(directory.join("quotas.toml")).unwrap();
    for named in [
        r#"daily = { quota = 1_000, window = "24h" }"#,
        r#"every = "1d""#,
    ] {
        assert!(draft.contains(named), "{draft}");
    }
    let again = shell(
        home.path(),
        &directory,
        None,
        "ingest --region all --sandbox",
    );
    assert!(again.stdout.starts_with(b"Nothing was due."), "{again:?}");
}

/// A command that connects to its upstreams, with one that is here.
fn here(world: &World, line: &str) -> String {
    let sets = world.sets.iter().map(|set| format!(" --set '{set}'"));
    let sets = sets.filter(|_| line.contains("--connect"));
    line.to_owned() + &sets.collect::<String>()
}

#[test]
fn every_symptom_has_a_command_that_runs_and_prints_something() {
    let home = tempfile::tempdir().unwrap();
    let first = shell(home.path(), root(), None, "ingest --region all --sandbox");
    assert!(first.status.success(), "{first:?}");
    let state = home.path().join(".local/state/ingest/sandbox");
    let document = read("docs/troubleshooting.md");
    let symptoms: Vec<&str> = document.split("\n## ").skip(1).collect();
    assert!(symptoms.len() >= 20, "{}", symptoms.len());
    let mut run = BTreeSet::new();
    for symptom in symptoms {
        let commands = blocks(symptom, &["sh"]);
        assert!(!commands.is_empty(), "{symptom}");
        run.extend(commands.iter().flat_map(|(_, block)| block.lines()));
    }
    let world = World::new();
    for line in run {
        let line = &here(&world, line);
        let output = shell(home.path(), root(), Some(&state), line);
        assert_eq!(output.status.code(), Some(0), "{line}\n{output:?}");
        assert!(!output.stdout.is_empty(), "{line}\n{output:?}");
    }
}

#[test]
fn a_draft_from_a_response_is_tried_as_the_usage_says() {
    let world = World::new();
    let place = world.directory.path();
    let usage = read("docs/usage.md");
    let (_, section) = usage
        .split_once("## A configuration for another API")
        .unwrap();
    let section = section.split("\n## ").next().unwrap();
    let lines = blocks(section, &["console"]);
    let lines = lines.iter().flat_map(|(_, block)| block.lines());
    let commands: Vec<String> = lines
        .map(|line| {
            line.trim_start_matches("$ ")
                .replace("docs/", "$CHECKOUT/docs/")
        })
        .filter(|line| line.contains("--answer"))
        .collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in commands {
        let output = shell(place, place, None, &command);
        assert!(output.status.success(), "{command}: {output:?}");
    }
}

#[test]
fn mdbook_makes_a_site_of_the_documents() {
    if Command::new("mdbook").arg("--version").output().is_err() {
        eprintln!("mdbook is not installed: whether it makes the site is not checked");
        return;
    }
    let built = Command::new("bash")
        .arg("docs/site.sh")
        .current_dir(root())
        .output();
    let built = built.unwrap();
    assert!(built.status.success(), "{built:?}");
    assert!(
        !String::from_utf8_lossy(&built.stderr).contains("WARN"),
        "{built:?}"
    );
    let site = root().join("target/site/html");
    let mut dead = Vec::new();
    for page in [
        "index",
        "docs/tutorial",
        "docs/troubleshooting",
        "deploy/index",
    ] {
        let page = site.join(page).with_extension("html");
        let text = fs::read_to_string(&page).unwrap();
        let links = text.split(" href=\"").skip(1);
        for link in links.filter_map(|rest| rest.split('"').next()) {
            let path = link.split('#').next().unwrap();
            if !link.contains("://") && !page.parent().unwrap().join(path).exists() {
                dead.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(dead.is_empty(), "{dead:#?}");
}
