use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// Each bad answer, and whether asking again can help.
fn bad_answers() -> Vec<(&'static str, Value)> {
    let kinds = ["drop", "half_body", "no_body", "html"];
    let mut faults: Vec<(&str, Value)> = kinds.map(|kind| (kind, json!({ "answer": kind }))).into();
    faults.push(("500", json!({ "answer": "backend", "status": 500 })));
    faults.push(("503", json!({ "answer": "backend", "status": 503 })));
    faults
}

#[test]
fn a_bad_answer_is_asked_again_charged_and_nothing_is_lost() {
    for (name, fault) in bad_answers() {
        let world = World::new();
        world.faults(&fault);
        let ran = world.ingest(&["--region", "US", "--job", "trending", "--format", "json"]);
        assert_eq!(ran.code, 0, "{name}: {ran:?}");
        let report = ran.json();
        assert_eq!(report["passes"][0]["pages"], 4, "{name}");
        assert_eq!(report["passes"][0]["requests"], 5, "{name}");
        assert_eq!(world.charged("daily"), world.requests(), "{name}");
    }
}

#[test]
fn a_bad_answer_that_does_not_end_fails_its_region_with_a_clear_line_and_the_next_run_goes_on() {
    for (name, mut fault) in bad_answers() {
        let mut world = World::new();
        world.set("upstreams.youtube.attempts=2");
        fault["times"] = 2.into();
        fault["after"] = 1.into();
        world.faults(&fault);
        let ran = world.ingest(&["--region", "US", "--job", "trending", "--format", "json"]);
        assert_eq!(ran.code, 1, "{name}: {ran:?}");
        let report = ran.json();
        assert_eq!(report["passes"][0]["outcome"], "failed", "{name}");
        assert!(
            report["passes"][0]["detail"]
                .as_str()
                .unwrap()
                .contains("2 attempts"),
            "{name}: {report}"
        );
        let next = world.json(&["--region", "US", "--job", "trending"]);
        assert_eq!(
            (&next["passes"][0]["resumed"], &next["passes"][0]["pages"]),
            (&true.into(), &3.into()),
            "{name}"
        );
        assert_eq!(world.charged("daily"), world.counted("daily"), "{name}");
    }
}

#[test]
fn an_answer_of_the_wrong_shape_is_requested_once_and_the_next_run_goes_on() {
    let no_ids = json!({ "items": [{ "name": "nobody" }, {}] });
    let no_token = json!({ "items": [{ "id": "a" }], "nextPageToken": { "page": 2 } });
    let faults = [
        json!({ "answer": "list", "after": 1 }),
        json!({ "answer": "null_records", "after": 1 }),
        json!({ "status": 200, "body": no_ids, "after": 1 }),
        json!({ "status": 200, "body": no_token, "after": 1 }),
        json!({ "status": 200, "body": { "items": "none" }, "after": 1 }),
    ];
    for fault in faults {
        let world = World::new();
        world.faults(&fault);
        let ran = world.ingest(&["--region", "US", "--job", "trending", "--format", "json"]);
        let pass = &ran.json()["passes"][0];
        assert_eq!(
            (ran.code, &pass["outcome"], &pass["requests"]),
            (1, &"failed".into(), &2.into()),
            "{fault}: {pass}"
        );
        assert!(
            pass["detail"].as_str().unwrap().contains("response"),
            "{pass}"
        );
        assert_eq!(
            (world.requests(), world.charged("daily")),
            (2, 2),
            "{fault}"
        );
        let next = world.json(&["--region", "US", "--job", "trending"]);
        assert_eq!(
            (&next["passes"][0]["resumed"], &next["passes"][0]["pages"]),
            (&true.into(), &3.into()),
            "{fault}"
        );
    }
}

#[test]
fn a_body_that_never_ends_is_cut_off() {
    let mut world = World::new();
    world
        .set("upstreams.youtube.attempts=1")
        .set("upstreams.youtube.max_body=1MiB");
    world.faults(&json!({ "answer": "endless" }));
    let ran = world.ingest(&["--region", "US", "--job", "trending"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("max_body"), "{ran:?}");
}

#[test]
fn a_region_that_the_upstream_refuses_is_asked_once_and_the_others_are_served() {
    let mut world = World::new();
    world.set("regions=[\"US\", \"XX\", \"GB\"]");
    let ran = world.ingest(&["--region", "all", "--job", "trending", "--format", "json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let report = ran.json();
    let outcomes: Vec<_> = report["passes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pass| &pass["outcome"])
        .collect();
    assert_eq!(outcomes, ["complete", "refused", "complete", "complete"]);
    let again = world.ingest(&["--region", "all", "--job", "trending", "--format", "json"]);
    assert_eq!(again.json()["outcome"], "nothing_due", "{again:?}");
}

#[test]
fn a_wait_that_is_not_believed_is_not_told_as_what_the_upstream_asks() {
    let world = World::new();
    let (body, headers) = (
        json!({ "error": { "message": "Busy." } }),
        json!({ "retry-after": "9999999999" }),
    );
    world.faults(&json!({ "status": 503, "body": body, "headers": headers }));
    let report = world.json(&["--region", "US", "--job", "trending"]);
    let detail = report["passes"][0]["detail"].as_str();
    let detail = detail.unwrap_or_else(|| panic!("{report}"));
    assert!(
        detail.starts_with(
            "503 Service Unavailable: Busy; the upstream requests a pause of more than 32 days;"
        ),
        "{detail}"
    );
}

/// A run against an upstream whose answers are no JSON, at most four requests for a page.
fn against(answer: impl Fn(usize) -> String + Send + Sync + 'static) -> (Value, usize) {
    let count = AtomicUsize::new(0);
    let stub = StubUpstream::start(move |_| {
        let body = answer(count.fetch_add(1, Ordering::Relaxed));
        StubAnswer::text(200, &body).header("content-type", "application/xml")
    });
    let mut world = World::new();
    world.set(&format!("upstreams.youtube.base_url=\"{}\"", stub.url()));
    world.set("upstreams.youtube.attempts=4");
    let report = world.json(&["--region", "US", "--job", "trending"]);
    (report["passes"][0].clone(), stub.requests().len())
}

#[test]
fn what_is_not_json_twice_in_a_row_is_a_refusal_that_says_what_came() {
    let xml =
        "<?xml version=\"1.0\"?><Error><Code>5</Code><Message>No such\u{7} feed</Message></Error>";
    let words = [
        "XML",
        "`application/xml`",
        "instead of JSON: 5 No such feed (2 attempts",
    ];
    let text = ["is not JSON", "`application/xml`", "Service moved"];
    for (body, words) in [(xml, words), ("Service moved", text)] {
        let (pass, requests) = against(move |_| body.to_owned());
        assert_eq!(
            (&pass["outcome"], requests),
            (&json!("failed"), 2),
            "{pass}"
        );
        let detail = pass["detail"].as_str().unwrap();
        for word in words {
            assert!(detail.contains(word), "{word}: {detail}");
        }
        assert!(!detail.contains("HTML"), "{detail}");
    }
}

#[test]
fn answers_that_are_not_json_and_differ_are_requested_as_often_as_configured() {
    let (pass, requests) = against(|number| format!("<Error>request {number}</Error>"));
    assert_eq!(
        (&pass["outcome"], requests),
        (&json!("failed"), 4),
        "{pass}"
    );
}
