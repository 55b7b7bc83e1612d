use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::cargo::cargo_bin;
use ingest_config::{Config, schema};
use serde_json::{Value, json};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn complaints(text: &str) -> Vec<String> {
    let document: toml::Value = toml::from_str(text).unwrap();
    let document = serde_json::to_value(document).unwrap();
    let validator = jsonschema::validator_for(&schema()).unwrap();
    validator
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

#[test]
fn the_committed_schema_is_the_one_that_the_program_prints() {
    let printed = std::process::Command::new(cargo_bin!("ingest"))
        .arg("schema")
        .output()
        .unwrap();
    let committed = fs::read_to_string(root().join("quotas.schema.json")).unwrap();
    assert!(printed.status.success());
    assert!(
        printed.stdout == committed.as_bytes(),
        "quotas.schema.json differs: cargo run -- schema > quotas.schema.json"
    );
}

fn toml_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path());
    entries
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect()
}

#[test]
fn every_shipped_configuration_fits_the_schema() {
    let presets = toml_files(&root().join("presets"));
    for path in presets.into_iter().chain([root().join("quotas.toml")]) {
        assert_eq!(
            complaints(&fs::read_to_string(&path).unwrap()),
            Vec::<String>::new(),
            "{}",
            path.display()
        );
    }
}

/// A place of the schema that takes anything is a key that a reader learnt and nobody described.
fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
    match schema {
        Value::Bool(true) => found.push(path.to_owned()),
        Value::Object(members) => {
            members
                .iter()
                .filter(|(key, _)| *key != "examples" && *key != "default")
                .for_each(|(key, value)| undescribed(value, &format!("{path}/{key}"), found));
        }
        Value::Array(elements) => elements
            .iter()
            .for_each(|element| undescribed(element, path, found)),
        _ => {}
    }
}

#[test]
fn every_key_that_the_reader_knows_is_described_in_the_schema() {
    let mut found = Vec::new();
    undescribed(&schema(), "", &mut found);
    let flags = ["/uniqueItems", "/const", "/deprecated"];
    found.retain(|path| !flags.iter().any(|flag| path.ends_with(flag)));
    assert_eq!(found, Vec::<String>::new());
}

/// Every default and every example of the schema, with its own schema and its path.
fn examples(schema: &Value, path: &str, found: &mut Vec<(String, Value, Value)>) {
    let members = match schema {
        Value::Object(members) => members,
        Value::Array(elements) => {
            return elements
                .iter()
                .for_each(|element| examples(element, path, found));
        }
        _ => return,
    };
    let own = members.get("examples").and_then(Value::as_array);
    let own = own.into_iter().flatten().chain(members.get("default"));
    found.extend(own.map(|example| (path.to_owned(), schema.clone(), example.clone())));
    for (key, value) in members {
        if key != "examples" && key != "default" {
            examples(value, &format!("{path}/{key}"), found);
        }
    }
}

#[test]
fn every_key_has_an_example_and_every_example_and_default_fits_the_schema() {
    let mut found = Vec::new();
    examples(&schema(), "", &mut found);
    assert!(found.len() > 150, "{}", found.len());
    for (path, schema, example) in found {
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(validator.is_valid(&example), "{path}: {example}");
    }
}

/// Each is refused by the program; what is refused by the schema too, an editor shows before the program runs.
#[test]
fn what_the_schema_refuses_the_program_refuses_too() {
    let right = fs::read_to_string(root().join("quotas.toml")).unwrap();
    let wrong = [
        ("timeout = \"250ms\"", "timeuot = \"250ms\""),
        ("after_loss = \"floor\"", "after_loss = \"flood\""),
        ("cheap_max = 5", "cheap_max = -5"),
        ("url = \"sqlite\"\ntimeout", "url = \"mysql://x\"\ntimeout"),
        ("attempts = 4", "attempts = 0"),
        ("quota = 10_000", "qouta = 10_000"),
        (
            "secret = { env = \"YOUTUBE_API_KEY\" }",
            "secret = \"AIza\"",
        ),
        (
            "secret = { env = \"YOUTUBE_API_KEY\" }",
            "secret = { env = \"A\", file = \"b\" }",
        ),
        ("page = { kind = \"token\"", "page = { kind = \"tokken\""),
        (
            "auth = { header = \"x-goog-api-key\" }",
            "auth = { bearer = false }",
        ),
        ("regions = [\"US\"", "regions = [\"US\", \"US\""),
        ("max_body = \"32MiB\"", "max_body = \"32 apples\""),
        ("errors = [", "errors = [\"google\","),
    ];
    for (before, after) in wrong {
        let text = right.replacen(before, after, 1);
        assert_ne!(text, right, "{before}");
        assert_ne!(
            complaints(&text),
            Vec::<String>::new(),
            "the schema takes {after}"
        );
        assert!(
            Config::parse(&text, Path::new("quotas.toml"), &[]).is_err(),
            "the program takes {after}"
        );
    }
}

#[test]
fn what_the_program_takes_the_schema_takes() {
    let text = r#"
        [regions.GB]
        city = "London"
        [ledger]
        url = "redis+cluster://a:1,b:2"
        timeout = "1s 500ms"
        [upstreams.a]
        base_url = "https://a.example"
        auth = { bearer = true }
        max_body = 1000
        errors = [{ status = [403, "5xx"], at = "/code", is = [1, "two"], class = "spent", limit_at = "/limit" }]
        [upstreams.a.calls.list]
        path = "x/{region}"
        cost = 1
        method = "POST"
        json = { query = "{ x }", first = 3 }
        page = { kind = "number", param = "p", first = 0, in = "body" }
        records = { at = "/items", kind = "x", id = ["/a", "/b"] }
        [credentials.a]
        upstream = "a"
        secret = { command = ["pass", "show", "a"] }
        limits.daily = { quota = 10, resets = "UTC", reported = { remaining = "x-left" } }
        limits.monthly = { quota = 10, window = "30d", reported = { remaining = "x-left" } }
        [jobs.a]
        credential = "a"
        leave = 2
        steps = [{ call = "list", params = { n = 3 } }]
    "#;
    let text = text.replace("{ x }", "x");
    Config::parse(&text, Path::new("quotas.toml"), &[]).unwrap();
    assert_eq!(complaints(&text), Vec::<String>::new());
    assert_eq!(schema()["additionalProperties"], json!(false));
}

#[test]
fn a_key_that_is_named_as_a_word_of_json_schema_is_in_it() {
    let text = "[upstreams.u]\nbase_url = \"https://u.example.com\"\n[upstreams.u.calls.c]\npath = \"c\"\ncost = 1\n\
                records = { kind = \"k\", id = \"/id\", format = \"csv\" }\n";
    assert_eq!(complaints(text), Vec::<String>::new());
}
