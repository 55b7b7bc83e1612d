//! `ingest init --preset blank`: every key once.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::world::{Ran, World};

/// What a key alone may lack: another key that it needs.
const LACKS: [&str; 19] = [
    "no step sends a parameter",
    "unknown credential",
    // Regions come from a file or a program that are not here, or are not in use at the root.
    "cannot read the regions",
    "does not define this region",
    "regions.valid_for",
    "it does not use {slice.from}",
    "is missing",
    "is not a template variable",
    "no region has values for this scope",
    "has no value for its scope",
    "the rule has no condition",
    "expected a list of rules",
    "a GET request has no body",
    "has no call of this name",
    "would never be sent",
    "no step of this job uses {since}",
    "has no such body to override",
    "has no step before it",
    "names the values of rows",
];

fn blank(world: &World) -> String {
    let file = world.directory.path().join("blank.toml");
    let ran = world.ingest(&["init", "--preset", "blank", file.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{ran:?}");
    std::fs::read_to_string(file).unwrap()
}

/// A line that is not in use, without its mark; `None` for a comment.
fn unmarked(line: &str) -> Option<&str> {
    let line = line.strip_prefix('#')?;
    (!line.starts_with(' ')).then_some(line)
}

/// The blocks of the file: each header with the lines below it.
fn blocks(text: &str) -> Vec<(String, Vec<&str>)> {
    let mut blocks = vec![(String::new(), Vec::new())];
    for line in text.lines() {
        if unmarked(line).unwrap_or(line).starts_with('[') {
            blocks.push((line.to_owned(), Vec::new()));
        } else {
            blocks.last_mut().unwrap().1.push(line);
        }
    }
    blocks
}

/// Whether the comment above a line says that its key is required.
fn is_required(lines: &[&str], at: usize) -> bool {
    let comment: Vec<&str> = lines[..at]
        .iter()
        .rev()
        .copied()
        .take_while(|line| line.starts_with("# "))
        .collect();
    comment.iter().any(|line| line.contains("Required."))
}

/// The file with one commented key in use, and the path of that key's table for the messages.
fn with_each_key(text: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for (at, (header, lines)) in blocks(text).iter().enumerate() {
        let keys: Vec<usize> = (0..lines.len())
            .filter(|at| unmarked(lines[*at]).is_some() && !lines[*at].starts_with("#:schema"))
            .collect();
        let is_needed =
            |key: &usize| is_required(lines, *key) || lines[*key].starts_with("#kind =");
        for key in &keys {
            let mut file = String::new();
            for (other, (header, lines)) in blocks(text).iter().enumerate() {
                let header = if other == at {
                    unmarked(header).unwrap_or(header)
                } else {
                    header
                };
                file.push_str(&format!("{header}\n"));
                for (number, line) in lines.iter().enumerate() {
                    let used = other == at
                        && (number == *key || (keys.contains(&number) && is_needed(&number)));
                    let line = if used { unmarked(line).unwrap() } else { line };
                    file.push_str(&format!("{line}\n"));
                }
            }
            files.push((format!("{header} {}", lines[*key]), file));
        }
    }
    files
}

/// Checks a configuration alone.
fn check(path: &std::path::Path) -> Ran {
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
    let arguments = ["check", "--config-only", "--config", path.to_str().unwrap()];
    Ran::of(command.args(arguments).output().unwrap())
}

#[test]
fn the_blank_configuration_is_valid_as_it_is() {
    let world = World::new();
    blank(&world);
    let ran = check(&world.directory.path().join("blank.toml"));
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn every_key_of_the_blank_configuration_can_be_used() {
    let world = World::new();
    let files = with_each_key(&blank(&world));
    assert!(files.len() > 100);
    let path = world.directory.path().join("one.toml");
    let (mut accepted, mut wrong) = (0, Vec::new());
    for (what, file) in &files {
        // Regions are a list or a table.
        let file = match what.starts_with("#[regions]") {
            true => file.replace("\nregions = [", "\n#regions = ["),
            false => file.clone(),
        };
        // So are the credentials of a job.
        let file = match what.ends_with("more_things\"]") {
            true => file.replace("\ncredential = ", "\n#credential = "),
            false => file,
        };
        std::fs::write(&path, file).unwrap();
        let ran = check(&path);
        accepted += usize::from(ran.code == 0);
        let refusals = ran.stderr.lines().filter(|line| line.contains("one.toml"));
        let others = refusals.filter(|refusal| !LACKS.iter().any(|lack| refusal.contains(lack)));
        wrong.extend(others.map(|refusal| format!("{what}: {refusal}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(accepted * 2 > files.len(), "{accepted} of {}", files.len());
}

/// The names of all keys in a schema.
fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(properties)) = members.get("properties") {
                found.extend(properties.keys().cloned());
            }
            members.values().for_each(|member| keys(member, found));
        }
        Value::Array(elements) => elements.iter().for_each(|element| keys(element, found)),
        _ => {}
    }
}

#[test]
fn the_blank_configuration_has_every_key_of_the_schema() {
    let world = World::new();
    let text = blank(&world);
    let mut all = BTreeSet::new();
    keys(&world.json(&["schema"]), &mut all);
    let has = |key: &String| {
        text.lines().any(|line| {
            let line = unmarked(line).unwrap_or(line);
            let table = line.trim_matches(['[', ']']);
            line.starts_with(&format!("{key} = ")) || table.split('.').any(|part| part == key)
        })
    };
    let former = ["body", "told"];
    let lacking: Vec<&String> = all
        .iter()
        .filter(|key| !has(key) && !former.contains(&key.as_str()))
        .collect();
    assert!(lacking.is_empty(), "{lacking:?}");
}
