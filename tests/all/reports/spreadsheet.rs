//! Comma-separated values that end up in a spreadsheet: no text of others is run there as a formula.

use crate::support::world::World;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const CONFIG: &str = r#"
regions = ["-2+3"]
[upstreams.api]
base_url = "https://api.example.test"
auth = "none"
[upstreams.api.calls.list]
path = "things"
cost = { daily = 1 }
records = { at = "/items", kind = "thing", id = "/id", columns = { title = "/title", count = "/count" } }
[credentials.api]
upstream = "api"
[credentials.api.limits]
daily = { quota = 100, window = "24h" }
[jobs.things]
credential = "api"
steps = [{ call = "list" }]
"#;

fn world() -> (World, StubUpstream) {
    let things = serde_json::json!({ "items": [
        { "id": "=1+1", "title": "=cmd|' /C calc'!A0", "count": -5 },
        { "id": "b", "title": "+1 (555) 1", "count": "-5" },
        { "id": "c", "title": "-bold-", "count": "+4.5e3" },
        { "id": "d", "title": "@SUM(A1)", "count": 1 },
        { "id": "e", "title": "\tx", "count": 1 },
        { "id": "f", "title": "\rx", "count": 1 },
        { "id": "g", "title": "a = b", "count": null },
        { "id": "h", "title": "a;=1+1;b", "count": "1;-5;2" },
        { "id": "i", "title": "\u{ff1d}1+1", "count": "\u{ff0b}1" },
        { "id": "j", "title": "a\n@SUM(A1)", "count": "a\t=1" },
        { "id": "k", "title": "a; \"=1+1", "count": ["a;=1+1"] },
    ] });
    let stub = StubUpstream::answering([StubAnswer::json(&things)]);
    let world = World::upon(&stub, CONFIG);
    let ran = world.ingest(&["--region", "all"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    (world, stub)
}

/// The id, the count and the title of each line.
fn cells(text: &str) -> Vec<[String; 3]> {
    let mut lines = csv::Reader::from_reader(text.as_bytes());
    let cells = |line: csv::StringRecord| [1, 4, 5].map(|at| line[at].to_owned());
    lines.records().map(|line| cells(line.unwrap())).collect()
}

#[test]
fn text_that_a_spreadsheet_would_run_has_a_quote_before_it() {
    let (world, _stub) = world();
    let export = ["export", "--kind", "thing", "--as", "csv"];
    let guarded = cells(&world.ingest(&export).stdout);
    let expected = [
        ["'=1+1", "-5", "'=cmd|' /C calc'!A0"],
        ["b", "-5", "'+1 (555) 1"],
        ["c", "+4.5e3", "'-bold-"],
        ["d", "1", "'@SUM(A1)"],
        ["e", "1", "'\tx"],
        ["f", "1", "'\rx"],
        ["g", "", "a = b"],
        ["h", "1;-5;2", "a;'=1+1;b"],
        ["i", "'\u{ff0b}1", "'\u{ff1d}1+1"],
        ["j", "a\t'=1", "a\n'@SUM(A1)"],
        ["k", "[\"a;'=1+1\"]", "a;' \"=1+1"],
    ];
    assert_eq!(guarded, expected);
}

#[test]
fn a_name_that_differs_in_what_cannot_be_seen_says_in_what() {
    let (world, _stub) = world();
    let ran = world.ingest(&["--region=-2+3\u{200b}"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(
        ran.stderr.contains("did you mean `-2+3`, without U+200B?"),
        "{ran:?}"
    );
}
