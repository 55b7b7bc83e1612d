//! No message of a wrong file contains what may be a secret.

use ingest_config::schema;
use serde_json::Value;

use super::{SMALL, problems};

/// The names that `SMALL` has in the place of those that the schema leaves open.
const NAMES: [(&str, &str); 5] = [
    ("upstreams", "things"),
    ("calls", "'things.list'"),
    ("credentials", "main"),
    ("limits", "daily"),
    ("jobs", "all"),
];

/// The path of every key of the schema, as `--set` takes it.
fn paths(schema: &Value, path: &str, found: &mut Vec<String>) {
    if !path.is_empty() {
        found.push(path.to_owned());
    }
    let below = |key: &str| format!("{path}.{key}").trim_start_matches('.').to_owned();
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        paths(value, &below(key), found);
    }
    if schema["additionalProperties"].is_object() {
        let table = path.rsplit('.').next().unwrap();
        let name = NAMES.iter().find(|(known, _)| *known == table);
        let name = name.map_or("name", |(_, name)| name);
        paths(&schema["additionalProperties"], &below(name), found);
    }
    if schema["items"].is_object() {
        paths(&schema["items"], &below("0"), found);
    }
    for either in schema["anyOf"].as_array().into_iter().flatten() {
        paths(either, path, found);
    }
}

/// Whether a secret can stand at a path by mistake, or in a table at it.
fn may_be_secret(path: &str) -> bool {
    let keys: Vec<&str> = path.split('.').collect();
    let at = |wanted: &[&str]| keys.iter().any(|key| wanted.contains(key));
    at(&[
        "secret",
        "secrets",
        "password",
        "sentinel_password",
        "token",
        "auth",
        "headers",
    ]) || matches!(
        keys.as_slice(),
        ["ledger" | "catalog" | "serve" | "credentials"]
    ) || matches!(
        keys.as_slice(),
        ["ledger" | "catalog", "url"] | ["credentials", _]
    ) || matches!(
        keys.as_slice(),
        ["serve", "clients"] | ["serve", "clients", _]
    )
}

#[test]
fn a_secret_at_any_place_where_one_can_stand_is_in_no_message() {
    let mut found = Vec::new();
    paths(&schema(), "", &mut found);
    found.sort();
    found.dedup();
    assert!(found.len() > 200, "{}", found.len());
    let secret = found.iter().filter(|path| may_be_secret(path));
    let (mut asked, mut told) = (0, Vec::new());
    for path in secret {
        for value in [
            "hush-hush",
            "\"hush hush\\n\"",
            "[\"hush\", \"hush\"]",
            "{ a = \"hush\", kind = \"hush\", env = \"hu sh hush\" }",
            "redis://me:hush@host:port/hush",
            "postgres://me:hush@host:port/hush",
        ] {
            let said = problems(SMALL, &[&format!("{path}={value}")]);
            let said = said.iter().map(|one| format!("{one} {one:?}"));
            let said = said.collect::<String>();
            if said.contains("hush") {
                told.push(format!("{path}={value}: {said}"));
            }
            asked += usize::from(!said.is_empty());
        }
    }
    assert!(told.is_empty(), "{}", told.join("\n"));
    assert!(asked > 150, "{asked} of them are wrong");
}

#[test]
fn any_value_at_any_place_is_taken_or_refused_with_a_place_and_a_remedy() {
    let mut found = Vec::new();
    paths(&schema(), "", &mut found);
    for path in &found {
        for value in ["x y", "7", "[[1]]", "{ a = 1 }", "nan"] {
            for problem in problems(SMALL, &[&format!("{path}={value}")]) {
                assert!(
                    !problem.expected.is_empty() && !problem.instead.is_empty(),
                    "{path}={value}: {problem:?}"
                );
                let said = problem.to_string();
                assert!(
                    !said.contains(['\u{1e}', '\u{1f}']),
                    "{path}={value}: {said:?}"
                );
            }
        }
    }
}
