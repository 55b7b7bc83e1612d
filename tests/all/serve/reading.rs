//! The read API: the JSON of the commands, in pages, with tags, compressed.

use std::io::Read;

use serde_json::Value;

use super::Served;

const MANY: &str = "serve.readers={ quota = 100_000, window = \"1min\" }";

/// Without what differs between two moments.
pub fn timeless(mut value: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                members.retain(|name, _| {
                    !matches!(name.as_str(), "age_seconds" | "retry_after_seconds")
                });
                members.values_mut().for_each(strip);
            }
            Value::Array(elements) => elements.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut value);
    value.as_object_mut().unwrap().remove("since");
    value
}

#[test]
fn an_answer_is_the_json_of_the_command() {
    let served = Served::after_a_run(&[MANY]);
    let word =
        served.get("/api/v1/records/video?limit=1").json()["body"]["snippet"]["title"].clone();
    let word = word
        .as_str()
        .unwrap()
        .split_whitespace()
        .find(|word| word.chars().all(char::is_alphanumeric))
        .unwrap()
        .to_owned();
    let encoded: String = word.bytes().map(|byte| format!("%{byte:02X}")).collect();
    for (path, command) in [
        ("/api/v1/status".to_owned(), vec!["status"]),
        (
            "/api/v1/status?fail_if_stale=1ms".to_owned(),
            vec!["status", "--fail-if-stale", "1ms"],
        ),
        (
            "/api/v1/history?since=2d".to_owned(),
            vec!["history", "--since", "2d"],
        ),
        (
            "/api/v1/history?since=yesterday".to_owned(),
            vec!["history", "--since", "yesterday"],
        ),
        (
            format!("/api/v1/search?q={encoded}&kind=video&limit=3"),
            vec!["search", &word, "--kind", "video", "--limit", "3"],
        ),
        (
            "/api/v1/plan?region=US,GB".to_owned(),
            vec!["--region", "US,GB", "--dry-run"],
        ),
    ] {
        let answer = served.get(&path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("application/json")),
            "{path}: {}",
            answer.text()
        );
        assert_eq!(
            timeless(answer.json()),
            timeless(served.world.json(&command)),
            "{path}"
        );
    }
    let search = served.get(&format!("/api/v1/search?q={encoded}")).json();
    assert!(!search["hits"].as_array().unwrap().is_empty(), "{search}");
}

#[test]
fn records_come_in_pages_that_together_are_the_export() {
    let served = Served::after_a_run(&[MANY]);
    let (mut path, mut lines, mut pages) = (
        "/api/v1/records/video?limit=7&region=US".to_owned(),
        String::new(),
        0,
    );
    loop {
        let answer = served.get(&path);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("application/x-ndjson"))
        );
        lines += &answer.text();
        pages += 1;
        let Some(link) = answer.header("link") else {
            break;
        };
        let (next, rel) = link.split_once('>').unwrap();
        assert_eq!(rel, "; rel=\"next\"");
        path = next.trim_start_matches('<').to_owned();
    }
    assert!(pages > 2, "{pages}");
    assert_eq!(
        lines,
        served
            .world
            .ingest(&["export", "--kind", "video", "--region", "US"])
            .stdout
    );
    let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let one = served.get(&format!(
        "/api/v1/records/video/{}",
        first["id"].as_str().unwrap()
    ));
    assert_eq!(one.json(), first);
}

#[test]
fn an_answer_is_compressed_for_who_can_read_it() {
    let served = Served::after_a_run(&[MANY]);
    let plain = served.get("/api/v1/records/video");
    let packed = served.send("GET /api/v1/records/video", &["Accept-Encoding: gzip"], "");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert!(packed.body.len() * 2 < plain.body.len());
    let mut text = String::new();
    flate2::read::GzDecoder::new(&*packed.body)
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, plain.text());
}

#[test]
fn metrics_are_those_of_the_metrics_file() {
    let served = Served::after_a_run(&[MANY]);
    let file = served.world.directory.path().join("ingest.prom");
    served
        .world
        .ingest(&["--region", "US", "--metrics-file", file.to_str().unwrap()]);
    let text = served.get("/metrics").text();
    let written = std::fs::read_to_string(&file).unwrap();
    for family in [
        "ingest_limit_remaining_units",
        "ingest_limit_used_units",
        "ingest_build_info",
        "ingest_job_every_seconds",
    ] {
        let of = |text: &str| {
            text.lines()
                .filter(|line| line.starts_with(family))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&text), of(&written), "{family}");
    }
}
