//! Headers with several values, of which a pattern reads the parts, and what cannot be read of a report.

use serde_json::{Value, json};

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

/// A world whose responses have these headers, and whose limit of 15,000 units reads them like this.
fn world(headers: &'static [(&str, &str)], reported: &str) -> (StubUpstream, World) {
    let stub = StubUpstream::start(move |_| {
        let answer = StubAnswer::json(&json!({ "items": [{ "id": 1 }] }));
        let add = |answer: StubAnswer, (name, value): &(&str, &str)| answer.header(name, value);
        headers.iter().fold(answer, add)
    });
    let text = format!(
        "regions = [\"US\"]\n[upstreams.rows]\nbase_url = \"https://rows.example.com\"\n\
         [upstreams.rows.calls.list]\npath = \"list/{{region}}\"\ncost = 1\n\
         records = {{ at = \"/items\", kind = \"row\", id = \"/id\" }}\n\
         [jobs.rows]\ncredential = \"rows\"\nsteps = [{{ call = \"list\" }}]\n\
         [credentials.rows]\nupstream = \"rows\"\n\
         limits = {{ daily = {{ quota = 15_000, window = \"24h\", reported = {{ {reported} }} }} }}\n"
    );
    let mut world = World::written(&text, &[]);
    world.set(&format!("upstreams.rows.base_url=\"{}\"", stub.url()));
    (stub, world)
}

/// What a request says about the limit: the remaining units, and whether it names a reset.
fn said(headers: &'static [(&str, &str)], reported: &str) -> (Value, bool) {
    let (_stub, world) = world(headers, reported);
    let tried = world.json(&["try", "rows", "list"]);
    let limit = &tried["reported"][0];
    assert_eq!(tried["missing"], json!([]), "{reported}: {tried}");
    (limit["remaining"].clone(), limit["reset"].is_string())
}

#[test]
fn a_pattern_reads_the_parts_of_a_header() {
    type Case = (&'static [(&'static str, &'static str)], &'static str);
    let cases: [(Case, (Value, bool)); 6] = [
        (
            (
                &[("sforce-limit-info", "api-usage=25/15000; per-app=1/2")],
                "pattern = 'Sforce-Limit-Info: api-usage={used}/{quota}'",
            ),
            (json!(14_975), false),
        ),
        (
            (
                &[("x-index", "total=10; remaining=9; resets=54")],
                "pattern = 'X-Index: *remaining={remaining}; resets={reset}'",
            ),
            (json!(9), true),
        ),
        (
            (
                &[("ratelimit", "\"burst\";r=3;t=1, \"default\"; r=50;t=30")],
                "pattern = 'ratelimit: *\"default\";r={remaining};t={reset}'",
            ),
            (json!(50), true),
        ),
        (
            (
                &[
                    ("ratelimit", "\"burst\";r=3;t=1"),
                    ("ratelimit", "\"default\";r=0;t=2"),
                ],
                "pattern = 'ratelimit: *\"default\";r={remaining}'",
            ),
            (json!(0), false),
        ),
        (
            (
                &[("x-of", "7 of 20"), ("x-reset", "2999-11-23T08:04Z")],
                "pattern = 'x-of: {remaining} of {quota}', reset = 'x-reset'",
            ),
            (json!(7), true),
        ),
        (
            (
                &[("x-left", "4"), ("x-reset", "0")],
                "remaining = 'x-left', reset = 'x-reset'",
            ),
            // A reset in 0 s is now.
            (json!(4), true),
        ),
    ];
    for ((headers, reported), expected) in cases {
        assert_eq!(said(headers, reported), expected, "{reported}");
    }
}

#[test]
fn a_run_quotes_what_it_cannot_read_of_a_report() {
    type Case = (
        &'static [(&'static str, &'static str)],
        &'static str,
        &'static str,
    );
    let cases: [Case; 4] = [
        (
            &[("x-left", "many\u{9b}2J")],
            "remaining = 'x-left'",
            "does not report the limit `daily` in the header `x-left`, which holds",
        ),
        (
            &[("x-usage", "25 of 15000")],
            "pattern = 'x-usage: {used}/{quota}'",
            "does not report the limit `daily` in the header `x-usage`, which holds \"25 of 15000\" (`reported`)",
        ),
        (
            &[("x-left", "4"), ("x-reset", "soon")],
            "remaining = 'x-left', reset = 'x-reset'",
            "does not report the reset of the limit `daily` in the header `x-reset`, which holds \"soon\" (`reported`)",
        ),
        (
            &[("x-left", "4")],
            "remaining = 'x-left', reset = 'x-reset'",
            "does not report the reset of the limit `daily` in the header `x-reset` (`reported`)",
        ),
    ];
    for (headers, reported, expected) in cases {
        let (_stub, world) = world(headers, reported);
        let report = world.json(&["--region", "US"]);
        let detail = report["passes"][0]["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(expected), "{expected}: {report}");
    }
}

#[test]
fn a_pattern_that_reads_nothing_is_refused_with_an_example() {
    for (reported, said) in [
        ("pattern = 'x-usage'", "expected a header line"),
        ("pattern = 'x-usage: 25/15000'", "expected {remaining}"),
        (
            "pattern = 'x-usage: {left}'",
            "{remaining}, {used}, {quota}",
        ),
        (
            "pattern = 'x-usage: {used}', remaining = 'x-left'",
            "remove one of them",
        ),
    ] {
        let (_stub, mut world) = world(&[], "remaining = 'x-left'");
        world.set(&format!(
            "credentials.rows.limits.daily.reported={{ {reported} }}"
        ));
        let checked = world.ingest(&["check", "--config-only"]);
        let printed = format!("{}{}", checked.stdout, checked.stderr);
        assert!(
            checked.code != 0 && printed.contains(said),
            "{said}: {printed}"
        );
    }
}
