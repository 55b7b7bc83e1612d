//! The read API: the JSON of the commands, in pages, with tags, compressed.

use std::io::Read;

use serde_json::{Value, json};

use super::Served;

const MANY: &str = "serve.readers={ quota = 100_000, window = \"1min\" }";

/// Without what differs between two moments.
fn timeless(mut value: Value) -> Value {
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
fn a_tag_that_the_client_has_is_answered_without_a_body() {
    let served = Served::after_a_run(&[MANY]);
    for path in [
        "/api/v1/status",
        "/api/v1/history",
        "/api/v1/records/video?limit=3",
        "/api/v1/search?q=a*",
    ] {
        let first = served.get(path);
        let tag = first.header("etag").unwrap().to_owned();
        let again = served.send(
            &format!("GET {path}"),
            &[&format!("If-None-Match: \"x\", {tag}")],
            "",
        );
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert_eq!(again.header("etag"), Some(tag.as_str()));
        assert_eq!(again.header("vary"), first.header("vary"), "{path}");
        let other = served.send(&format!("GET {path}"), &["If-None-Match: W/\"0123\""], "");
        assert_eq!(other.status, 200);
    }
    served.world.ingest(&["charge", "youtube", "videos.list"]);
    let tag = served
        .get("/api/v1/status")
        .header("etag")
        .unwrap()
        .to_owned();
    served.world.ingest(&["charge", "youtube", "videos.list"]);
    let changed = served.send(
        "GET /api/v1/status",
        &[&format!("If-None-Match: {tag}")],
        "",
    );
    assert_eq!(changed.status, 200);
}

#[test]
fn whatever_changes_in_a_record_changes_the_tag_of_a_search() {
    let served = Served::after_a_run(&[MANY]);
    let tags = [1, 2].map(|age| {
        let changed = format!(
            "update record set body = json_set(body, '$.age_seconds', {age}, '$.since', {age})"
        );
        served.world.catalog().execute_batch(&changed).unwrap();
        let found = served.get("/api/v1/search?q=a*");
        assert!(found.text().contains("age_seconds"), "{}", found.text());
        found.header("etag").unwrap().to_owned()
    });
    assert_ne!(tags[0], tags[1]);
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
fn wrong_parameters_are_refused_with_what_to_write() {
    let served = Served::after_a_run(&[MANY]);
    let long = format!("/api/v1/search?q={}", "x".repeat(2000));
    for (path, status, said) in [
        (
            "/api/v1/history?since=yesterday",
            400,
            "write for example 7d",
        ),
        ("/api/v1/status?colour=red", 400, "unknown field"),
        ("/api/v1/search", 400, "words"),
        ("/api/v1/search?q=a&kind=vidoe", 400, "did you mean `video`"),
        ("/api/v1/search?q=a&limit=0", 400, "from 1 to 1000"),
        (&long, 400, "at most 1024"),
        ("/api/v1/records/vidoe", 400, "did you mean `video`"),
        ("/api/v1/records/video?cursor=x", 400, "cursor"),
        ("/api/v1/records/video/nothing", 404, "no record"),
        ("/api/v1/records/%FF", 400, "percent-encoded"),
        ("/api/v1/records/video/%FF", 400, "percent-encoded"),
        ("/api/v1/plan?region=XX", 400, "unknown region"),
        ("/api/v2/status", 404, "/openapi.json"),
    ] {
        let answer = served.get(path);
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(
            answer.header("content-type"),
            Some("application/problem+json"),
            "{path}"
        );
        let problem = answer.json();
        assert_eq!(problem["status"], status);
        assert!(
            problem["detail"].as_str().unwrap().contains(said),
            "{path}: {problem}"
        );
    }
    assert_eq!(served.send("DELETE /api/v1/status", &[], "").status, 405);
}

#[test]
fn an_empty_state_is_served_and_fills_without_a_restart() {
    let served = Served::new(&[MANY]);
    assert_eq!(served.get("/api/v1/records/video").text(), "");
    assert_eq!(served.get("/api/v1/history").json()["rows"], json!([]));
    served.world.ingest(&["--region", "US"]);
    assert_ne!(served.get("/api/v1/records/video").text(), "");
    assert_ne!(served.get("/api/v1/history").json()["rows"], json!([]));
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

/// The schema of a component, or of an operation's answer, with the components that it names.
fn validator(document: &Value, pointer: &str) -> jsonschema::Validator {
    let mut schema = document
        .pointer(pointer)
        .unwrap_or_else(|| panic!("{pointer}"))
        .clone();
    schema["components"] = document["components"].clone();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn every_answer_is_as_the_openapi_document_describes_it() {
    let served = Served::after_a_run(&[MANY, super::CLIENT]);
    let document = served.get("/openapi.json").json();
    assert_eq!(document["openapi"], "3.1.0");
    let id = served.get("/api/v1/records/video?limit=1").json()["id"].clone();
    for (template, path) in [
        ("/api/v1/status", "/api/v1/status?fail_if_stale=1ms"),
        ("/api/v1/history", "/api/v1/history"),
        ("/api/v1/search", "/api/v1/search?q=a*"),
        ("/api/v1/plan", "/api/v1/plan"),
        (
            "/api/v1/records/{kind}/{id}",
            &format!("/api/v1/records/video/{}", id.as_str().unwrap()),
        ),
        ("/healthz", "/healthz"),
        ("/index.json", "/index.json"),
        ("/search.json", "/search.json?q=a"),
        ("/history.json", "/history.json?job=trending"),
        ("/pass.json", "/pass.json?id=1"),
        (
            "/record.json",
            &format!("/record.json?kind=video&id={}", id.as_str().unwrap()),
        ),
        ("/plan.json", "/plan.json?schedule=hourly&days=1"),
    ] {
        let place = format!(
            "/paths/{}/get/responses/200/content/application~1json/schema",
            template.replace('/', "~1")
        );
        let answer = served.get(path).json();
        let errors: Vec<String> = validator(&document, &place)
            .iter_errors(&answer)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(errors, Vec::<String>::new(), "{path}");
        assert_eq!(
            undescribed(&document, document.pointer(&place).unwrap(), &answer, ""),
            Vec::<String>::new(),
            "{path}"
        );
    }
    let charge = "/paths/~1api~1v1~1charge/post/responses/200/content/application~1json/schema";
    let charged = served
        .post(
            "/api/v1/charge",
            Some("k1"),
            &json!({ "credential": "youtube", "call": "videos.list" }),
        )
        .json();
    assert!(validator(&document, charge).is_valid(&charged), "{charged}");
    let body = "/paths/~1api~1v1~1charge/post/requestBody/content/application~1json/schema";
    assert!(
        validator(&document, body)
            .is_valid(&json!({ "credential": "youtube", "cost": { "daily": 3 } }))
    );
    assert!(!validator(&document, body).is_valid(&json!({ "credential": "youtube", "costs": 3 })));
    let problem = validator(&document, "/components/schemas/Problem");
    assert!(problem.is_valid(&served.get("/nothing").json()));
}

/// The members of an answer that its schema does not name.
fn undescribed(document: &Value, schema: &Value, answer: &Value, path: &str) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(reference.trim_start_matches('#')).unwrap();
        return undescribed(document, schema, answer, path);
    }
    if let Some(either) = schema["anyOf"].as_array() {
        let all = either
            .iter()
            .map(|one| undescribed(document, one, answer, path));
        return all.min_by_key(Vec::len).unwrap();
    }
    match answer {
        Value::Object(members) if schema.get("properties").is_some() => members
            .iter()
            .flat_map(|(name, value)| match schema["properties"].get(name) {
                Some(schema) => undescribed(document, schema, value, &format!("{path}/{name}")),
                None => vec![format!("{path}/{name}")],
            })
            .collect(),
        Value::Array(elements) if schema.get("items").is_some() => elements
            .iter()
            .flat_map(|element| undescribed(document, &schema["items"], element, path))
            .collect(),
        _ => Vec::new(),
    }
}
