//! A rule of class `end` for a page that the upstream refuses: behind the last page it is the end, and for a page that the upstream
//! itself named it is a cap.

use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};
use serde_json::{Value, json};

use crate::support::world::World;

/// An upstream of so many records, five to a page, that refuses pages behind this one.
fn stub(kind: &'static str, rows: usize, most: usize, says: &'static str) -> StubUpstream {
    StubUpstream::start(move |request| {
        let at: usize = request.param("at").map_or(0, |at| at.parse().unwrap());
        let start = if kind == "number" {
            at.max(1).saturating_sub(1) * 5
        } else {
            at
        };
        if start >= most * 5 || start > rows || (start == rows && rows > 0) {
            return StubAnswer::error(400, &json!({ "field": "page" }));
        }
        let end = rows.min(start + 5);
        let page: Vec<Value> = (start..end).map(|id| json!({ "id": id })).collect();
        let mut body = json!({ "rows": page });
        let url = format!("{}?at={end}", request.path);
        let goes_on = end < rows;
        match says {
            "total" => body["total"] = rows.into(),
            "more" => body["more"] = goes_on.into(),
            _ => {}
        }
        match kind {
            "token" if goes_on => body["next"] = end.to_string().into(),
            "next_url" if goes_on => body["next"] = url.clone().into(),
            _ => {}
        }
        let answer = StubAnswer::json(&body);
        match kind == "link" && goes_on {
            true => answer.header("link", &format!("<{url}>; rel=\"next\"")),
            false => answer,
        }
    })
}

fn world(stub: &StubUpstream, kind: &str, says: &str) -> World {
    let keys = match kind {
        "offset" | "number" => "param = \"at\", size = 5",
        "token" => "param = \"at\", next = \"/next\"",
        "next_url" => "next = \"/next\"",
        _ => "size = 5",
    };
    let says = match says {
        "" => String::new(),
        key => format!(", {key} = \"/{key}\""),
    };
    let text = format!(
        "regions = [\"US\"]\n[upstreams.api]\nbase_url = \"https://api.example.com\"\n\
         errors = [{{ status = 400, at = \"/field\", is = \"page\", class = \"end\" }}]\n\
         [upstreams.api.calls.list]\npath = \"list\"\ncost = 1\npage = {{ kind = \"{kind}\", {keys}{says} }}\n\
         records = {{ at = \"/rows\", kind = \"row\", id = \"/id\" }}\n\
         [credentials.api]\nupstream = \"api\"\nlimits = {{ daily = {{ quota = 10_000, headroom = 0, window = \"24h\" }} }}\n\
         [jobs.rows]\ncredential = \"api\"\nevery = \"1ms\"\nsteps = [{{ call = \"list\" }}]\n"
    );
    World::upon(stub, &text)
}

const CASES: [(&str, &str); 7] = [
    ("token", ""),
    ("link", ""),
    ("next_url", ""),
    ("offset", "total"),
    ("number", "total"),
    ("offset", "more"),
    ("number", "more"),
];

#[test]
fn a_refused_page_that_the_upstream_named_cuts_the_list_within_a_run_and_over_a_stop() {
    for (kind, says) in CASES {
        for stops in [false, true] {
            let what = format!("{kind} {says}, stops: {stops}");
            let stub = stub(kind, 30, 3, says);
            let mut world = world(&stub, kind, says);
            if stops {
                world.set("credentials.api.limits.daily.quota=3");
                let stopped = world.json(&["--region", "US"]);
                assert_eq!(
                    stopped["passes"][0]["outcome"], "stopped",
                    "{what}: {stopped}"
                );
                world.set("credentials.api.limits.daily.quota=10_000");
            }
            let ran = world.ingest(&["--region", "US", "-q"]);
            assert_eq!(ran.code, 1, "{what}: {ran:?}");
            assert!(ran.stderr.contains("(cut)"), "{what}: {ran:?}");
            assert_eq!(world.count("select count(*) from record"), 15, "{what}");
            let gone = "select count(*) from record where gone_at is not null";
            world.set("upstreams.api.calls.list.trust=[\"cut\", \"fewer-than-total\"]");
            let trusted = world.json(&["--region", "US"]);
            assert_eq!(trusted["outcome"], "complete", "{what}: {trusted}");
            assert_eq!(world.count(gone), 0, "{what}");
        }
    }
}

#[test]
fn a_refused_page_behind_a_full_last_one_or_instead_of_the_first_is_the_end() {
    for (kind, says) in [
        ("offset", ""),
        ("number", ""),
        ("offset", "total"),
        ("token", ""),
    ] {
        for rows in [15, 12] {
            let stub = stub(kind, rows, 9, says);
            let world = world(&stub, kind, says);
            let ran = world.json(&["--region", "US"]);
            assert_eq!(ran["outcome"], "complete", "{kind} {says} {rows}: {ran}");
            assert_eq!(
                ran["passes"][0]["detail"],
                Value::Null,
                "{kind} {says} {rows}: {ran}"
            );
        }
    }
    let stub = stub("token", 10, 0, "");
    let world = world(&stub, "token", "");
    let ran = world.json(&["--region", "US"]);
    assert_eq!(ran["outcome"], "complete", "{ran}");
}
