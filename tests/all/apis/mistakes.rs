//! Typical mistakes in a file: `check` rejects it, or `try` and the first run name the mistake.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::world::Ran;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

/// A right configuration of all that the API has.
const RIGHT: &str = r#"
regions = ["US", "GB"]
[upstreams.shop]
base_url = "{stub}/v1"
auth = { bearer = true }
pause = "1ms"
errors = [{ status = 429, class = "slow_down" }]
[upstreams.shop.calls.list]
path = "things"
cost = { hourly = 1 }
settle = { hourly = "/meta/cost" }
params = { region = "{region}", updated_since = "{since:%s}" }
page = { kind = "token", param = "after", next = "/meta/next", size_param = "per_page", size = 20 }
records = { at = "/data", kind = "thing", id = "/id", text = ["/name"], columns = { price = { at = "/price", type = "real" }, owner = "/owner/id" } }
[upstreams.shop.calls.detail]
path = "detail"
cost = { hourly = 1 }
records = { at = "/data", kind = "detail", id = "/id" }
[upstreams.shop.calls.numbered]
path = "numbered"
cost = { hourly = 1 }
params = { region = "{region}" }
page = { kind = "number", param = "page", size_param = "per_page", size = 20, total = "/total" }
records = { at = "/items", kind = "numbered", id = "/id" }
[upstreams.shop.calls.offset]
path = "offset"
cost = { hourly = 1 }
params = { region = "{region}" }
page = { kind = "offset", param = "start", first = 1, size_param = "per_page", size = 20, total = "/total" }
records = { at = "/items", kind = "counted", id = "/id" }
[upstreams.shop.calls.more]
path = "flagged"
cost = { hourly = 1 }
params = { region = "{region}" }
page = { kind = "number", param = "page", more = "/meta/has_more" }
records = { at = "/data", kind = "more", id = "/id" }
[upstreams.shop.calls.done]
path = "flagged"
cost = { hourly = 1 }
params = { region = "{region}" }
page = { kind = "token", param = "after", next = "/meta/next", done = "/meta/is_last" }
records = { at = "/data", kind = "done", id = "/id" }
[upstreams.shop.calls.last]
path = "flagged"
cost = { hourly = 1 }
params = { region = "{region}", mark = "end" }
page = { kind = "token", param = "after", next = "/meta/next", done = "/meta/end" }
records = { at = "/data", kind = "last", id = "/id" }
[credentials.shop]
upstream = "shop"
secret = { env = "KEY" }
[credentials.shop.limits]
hourly = { quota = 500, window = "1h", reported = { remaining = "x-left" } }
[jobs.list]
credential = "shop"
since = { at = "/updated_at", first = "2024-01-01T00:00:00Z" }
[[jobs.list.steps]]
call = "list"
[[jobs.list.steps]]
call = "detail"
params = { ids = "{ids}" }
ids = { from = "list", at = "/owner/id", batch = 50 }
[jobs.numbered]
credential = "shop"
steps = [{ call = "numbered" }]
[jobs.offset]
credential = "shop"
steps = [{ call = "offset" }]
[jobs.flags]
credential = "shop"
steps = [{ call = "more" }, { call = "done" }, { call = "last" }]
"#;

const KEY: &str = "s3cret-0123456789";
const PER_REGION: usize = 50;
/// 2024-03-01, in seconds since 1970.
const UPDATED: usize = 1_709_251_200;

fn number(request: &StubRequest, name: &str, or: usize) -> usize {
    request
        .param(name)
        .map_or(or, |text| text.parse().unwrap_or(or))
}

/// One thing of a region. Whoever asks for no region is in the US.
fn thing(request: &StubRequest, at: usize) -> Value {
    let region = request.param("region").unwrap_or("US");
    json!({ "id": format!("{region}{at}"), "name": "a thing", "price": 2.5, "owner": { "id": format!("o{at}") }, "state": "new",
        "updated_at": chrono::DateTime::from_timestamp((UPDATED + at) as i64, 0).unwrap().to_rfc3339_opts(chrono::SecondsFormat::Secs, true) })
}

fn things(request: &StubRequest, start: usize) -> (Vec<Value>, Option<usize>) {
    let end = PER_REGION.min(start + number(request, "per_page", 20));
    let things = (start.min(end)..end).map(|at| thing(request, at));
    (things.collect(), (end < PER_REGION).then_some(end))
}

fn answer(request: &StubRequest) -> StubAnswer {
    if request.header("authorization") != Some(&format!("Bearer {KEY}")) {
        return StubAnswer::error(401, &json!({ "message": "Bad credentials" }));
    }
    if request.method != "GET" {
        return StubAnswer::error(405, &json!({ "message": "Method Not Allowed" }));
    }
    let body = match request.path.as_str() {
        "/v1/things" => {
            let is_new = UPDATED > number(request, "updated_since", 0);
            let (data, next) = match is_new {
                true => things(request, number(request, "after", 0)),
                false => (Vec::new(), None),
            };
            let next = next.map_or(Value::Null, |next| json!(next.to_string()));
            json!({ "data": data, "meta": { "next": next, "total": PER_REGION, "cost": 1 } })
        }
        "/v1/flagged" => {
            let start = match request.param("page") {
                Some(page) => (page.parse::<usize>().unwrap().max(1) - 1) * 20,
                None => number(request, "after", 0),
            };
            let (data, next) = things(request, start);
            let is_last = next.is_none();
            let next = next.map_or(Value::Null, |next| json!(next.to_string()));
            let meta = match request.param("mark") {
                None => json!({ "next": next, "has_more": !is_last, "is_last": is_last }),
                Some(mark) if is_last => json!({ "next": next, mark: true }),
                Some(_) => json!({ "next": next }),
            };
            json!({ "data": data, "meta": meta })
        }
        "/v1/detail" => {
            let ids = request.param("ids").unwrap().split(',');
            json!({ "data": ids.map(|id| json!({ "id": id })).collect::<Vec<_>>() })
        }
        "/v1/numbered" => {
            let page = number(request, "page", 1).max(1);
            let (items, _) = things(request, (page - 1) * number(request, "per_page", 20));
            json!({ "items": items, "total": PER_REGION })
        }
        "/v1/zero_based" => {
            let page = number(request, "page", 0);
            let (items, _) = things(request, page * number(request, "per_page", 20));
            json!({ "items": items, "total": PER_REGION })
        }
        "/v1/offset" => {
            let (items, _) = things(request, number(request, "start", 1).max(1) - 1);
            json!({ "items": items, "total": PER_REGION })
        }
        _ => return StubAnswer::error(404, &json!({ "message": "Not Found" })),
    };
    StubAnswer::json(&body).header("x-left", "400")
}

/// A file in a directory of its own, with its API.
struct Place {
    directory: TempDir,
    stub: StubUpstream,
}

impl Place {
    fn of(text: &str) -> Self {
        let place = Self {
            directory: tempfile::tempdir().unwrap(),
            stub: StubUpstream::start(answer),
        };
        let text = text.replace("{stub}", &place.stub.url());
        std::fs::write(place.directory.path().join("quotas.toml"), text).unwrap();
        place
    }

    fn ingest(&self, arguments: &[&str]) -> Ran {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("ingest"));
        let command = command
            .current_dir(self.directory.path())
            .env_clear()
            .env("KEY", KEY)
            .env("INGEST_STATE_DIR", self.directory.path().join("state"))
            .args(arguments)
            .stdin(Stdio::null());
        Ran::of(command.output().unwrap())
    }
}

/// Where a mistake shows, and a part of what is said there.
enum Shows {
    /// `check` rejects the file.
    Check(&'static str),
    /// `try` of this call names it, and the first run.
    Both(&'static str, &'static str, &'static str),
    /// `check` warns of it, and `try` of this call names it.
    Lint(&'static str, &'static str),
    /// Only further pages show it: the first run of this job names it.
    Run(&'static str),
    /// Only a later `{since}` shows it: `try` of this call after the first run names it, and the second run.
    Second(&'static str, &'static str),
}

use Shows::{Both, Check, Lint, Run, Second};

/// Mistakes: what the file has instead, and where that shows.
#[rustfmt::skip]
const MISTAKES: &[(&str, &str, &str, Shows)] = &[
    ("a typo in next", r#""/meta/next""#, r#""/meta/nxt""#, Both("list", "page.next", "page.next")),
    ("a typo in next, and no size", r#"next = "/meta/next", size_param = "per_page", size = 20"#, r#"next = "/meta/nxt""#, Both("list", "`/meta/next` that looks like a next page", "`/meta/next` that looks like a next page")),
    ("no page at all", r#"page = { kind = "token", param = "after", next = "/meta/next", size_param = "per_page", size = 20 }"#, "", Both("list", "looks like a next page", "looks like a next page")),
    ("a typo in a column", r#""/owner/id" }"#, r#""/ownr/id" }"#, Both("list", "column `owner`", "column `owner`")),
    ("a column of a wrong type", r#"type = "real""#, r#"type = "boolean""#, Both("list", "column `price`", "column `price`")),
    ("a typo in at", r#"at = "/data", kind = "thing""#, r#"at = "/dta", kind = "thing""#, Both("list", "records.at", "records.at")),
    ("at names an object", r#"at = "/data", kind = "thing""#, r#"at = "/meta", kind = "thing""#, Both("list", "has an id at `/id`", "has an id at `/id`")),
    ("a typo in id", r#"kind = "thing", id = "/id""#, r#"kind = "thing", id = "/ident""#, Both("list", "has an id at `/ident`; a record has `id`, `name`", "has an id at `/ident`; a record has `id`, `name`")),
    ("an id that is not unique", r#"kind = "thing", id = "/id""#, r#"kind = "thing", id = "/state""#, Both("list", "repeat the id", "repeat the id")),
    ("an id that needs the region", r#"kind = "thing", id = "/id""#, r#"kind = "thing", id = "/owner/id""#, Run("two regions returned have different records")),
    ("a typo in text", r#"["/name"]"#, r#"["/nme"]"#, Both("list", "records.text", "records.text")),
    ("doubled braces", "{since:%s}", "{{ since }}", Check("single braces")),
    ("an unknown variable", r#"region = "{region}", updated"#, r#"region = "{regoin}", updated"#, Check("not a template variable")),
    ("a parameter without a name", r#"region = "{region}", updated"#, r#""" = "x", region = "{region}", updated"#, Check("a parameter has no name")),
    ("a wrong name of a limit", "cost = { hourly = 1 }", "cost = { hourli = 1 }", Check("hourly")),
    ("a wrong name of a limit in settle", "settle = { hourly =", "settle = { daily =", Check("daily")),
    ("a typo in settle", r#""/meta/cost""#, r#""/meta/costs""#, Both("list", "`settle`", "`settle`")),
    ("a typo in reported", r#""x-left""#, r#""x-remaining""#, Both("list", "`reported`", "`reported`")),
    ("a key that does not exist", "size_param", "sise_param", Check("size_param")),
    ("a number of records as the cursor", r#""/meta/next""#, r#""/meta/total""#, Check("number of records")),
    ("a wrong method", r#"path = "things""#, "path = \"things\"\nmethod = \"PUT\"", Both("list", "405", "405")),
    ("the secret in a wrong place", "auth = { bearer = true }", r#"auth = { query = "key" }"#, Both("list", "Bad credentials", "Bad credentials")),
    ("a wrong path", r#"path = "things""#, r#"path = "thing""#, Both("list", "404", "404")),
    ("a wrong parameter for the cursor", r#"param = "after""#, r#"param = "cursor""#, Run("the same cursor twice")),
    ("a wrong parameter for the page", r#"param = "page""#, r#"param = "p""#, Run("page.param")),
    ("a wrong parameter for the size, more than the default", r#"size_param = "per_page", size = 20, total = "/total" }
records = { at = "/items", kind = "numbered""#, r#"size_param = "limit", size = 40 }
records = { at = "/items", kind = "numbered""#, Both("numbered", "the response has 50 at `/total`", "page.size_param")),
    ("a wrong parameter for the size, less than the default", r#"size_param = "per_page", size = 20, total = "/total" }
records = { at = "/items", kind = "numbered""#, r#"size_param = "limit", size = 10 }
records = { at = "/items", kind = "numbered""#, Both("numbered", "page.size_param", "page.size_param")),
    ("pages counted from 0 that begin at 1", r#"kind = "number", param = "page""#, r#"kind = "number", param = "page", first = 0"#, Run("page.first")),
    ("pages counted from 1 that begin at 0", r#"path = "numbered""#, r#"path = "zero_based""#, Run("the response has 50 at `/total`")),
    ("an offset counted from 0 that begins at 1", "first = 1, ", "", Run("page.first")),
    ("a typo in more", r#""/meta/has_more""#, r#""/meta/hasmore""#, Both("more", "page.more", "page.more")),
    ("a typo in done", r#""/meta/is_last""#, r#""/meta/islast""#, Both("done", "`/meta/is_last` looks like it", "`/meta/is_last` looks like it")),
    ("a typo in a mark of the last page alone", r#""/meta/end""#, r#""/meta/ende""#, Run("page.done")),
    ("more in the place of done", r#"done = "/meta/is_last""#, r#"more = "/meta/is_last""#, Both("done", "looks like a next page", "looks like a next page")),
    ("a typo in total", r#"total = "/total""#, r#"total = "/totl""#, Both("offset", "page.total", "page.total")),
    ("a time in milliseconds instead of seconds", "{since:%s}", "{since:%s%3f}", Both("list", "no records", "no record since")),
    ("a wrong parameter for the time", "updated_since = \"{since:%s}\"", "changed_since = \"{since:%s}\"", Second("list", "records are older than {since}")),
    ("a typo in since.at", r#""/updated_at""#, r#""/updatedAt""#, Both("list", "since.at", "since.at")),
    ("a wrong class for too many requests", r#"class = "slow_down""#, r#"class = "skip""#, Check("429")),
    ("no parameter for the region", r#"region = "{region}", updated"#, "updated", Lint("list", "each region requests the same list")),
    ("a typo in the place of ids", r#"at = "/owner/id""#, r#"at = "/ownr/id""#, Both("list", "ids.at", "ids.at")),
    ("ids of a call that does not exist", r#"from = "list""#, r#"from = "lst""#, Check("list")),
    ("no parameter for the region, which the ids contain", r#"params = { region = "{region}" }
page = { kind = "offset", param = "start", first = 1, size_param = "per_page", size = 20, total = "/total" }
records = { at = "/items", kind = "counted", id = "/id" }"#, r#"page = { kind = "offset", param = "start", first = 1, size_param = "per_page", size = 20, total = "/total" }
records = { at = "/items", kind = "counted", id = ["{region}", "/id"] }"#, Lint("offset", "each region requests the same list")),
    ("used units as remaining ones", r#""x-left""#, r#""x-used""#, Check("write used = \"x-used\"")),
    ("the quota as the remaining units", r#""x-left""#, r#""x-ratelimit-limit""#, Check("the units that remain")),
    ("a wrong unit of a window", r#"window = "1h""#, r#"window = "60""#, Check("window")),
    ("plain http", "\"{stub}/v1\"", "\"http://api.example.com/v1\"", Check("https")),
];

fn notes(report: &Value) -> String {
    let passes = report["passes"]
        .as_array()
        .unwrap_or_else(|| panic!("{report}"));
    let details = passes.iter().filter_map(|pass| pass["detail"].as_str());
    details.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_right_file_is_noted_nowhere() {
    let place = Place::of(RIGHT);
    assert_eq!(place.ingest(&["check", "--config-only"]).code, 0);
    for call in ["list", "numbered", "offset", "more", "done", "last"] {
        let tried = place
            .ingest(&["try", "shop", call, "--format", "json"])
            .json();
        for noted in ["missing", "notes"] {
            assert_eq!(tried[noted], json!([]), "{call}: {tried}");
        }
    }
    let run = place
        .ingest(&["--region", "all", "--format", "json"])
        .json();
    assert_eq!(
        (&run["outcome"], notes(&run)),
        (&json!("complete"), String::new()),
        "{run}"
    );
}

#[test]
fn every_mistake_is_rejected_or_named_by_try_and_by_the_first_run() {
    let mut unnamed = Vec::new();
    for (mistake, right, wrong, shows) in MISTAKES {
        assert!(RIGHT.contains(right), "{mistake}");
        let place = Place::of(&RIGHT.replace(right, wrong));
        let mut check = |what: &str, text: String, expected: &str| {
            if !text.contains(expected) {
                unnamed.push(format!(
                    "{mistake}: {what} does not say {expected:?}: {text}"
                ));
            }
        };
        let checked = place.ingest(&["check", "--config-only"]);
        let (tried, ran) = match shows {
            Check(said) => {
                assert_eq!(checked.code, 2, "{mistake}");
                check("check", checked.stderr, said);
                continue;
            }
            Lint(call, said) => {
                check("check", checked.stdout, said);
                check("try", place.ingest(&["try", "shop", call]).stdout, said);
                continue;
            }
            Both(call, tried, ran) => (Some((call, tried)), ran),
            Run(ran) => (None, ran),
            Second(call, said) => {
                assert_eq!(place.ingest(&["--region", "all"]).code, 0, "{mistake}");
                (Some((call, said)), said)
            }
        };
        assert_eq!(checked.code, 0, "{mistake}: {checked:?}");
        if let Some((call, said)) = tried {
            check("try", place.ingest(&["try", "shop", call]).stdout, said);
        }
        let run = place
            .ingest(&["--region", "all", "--format", "json"])
            .json();
        check("the run", notes(&run), ran);
    }
    assert!(unnamed.is_empty(), "{}", unnamed.join("\n\n"));
}
