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
