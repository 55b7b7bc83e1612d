//! `ingest try`: one request, and what its response contains and does not contain.

use serde_json::{Value, json};

use crate::support::world::{SECRET, World};
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};

const SHOP: &str = r#"
[regions.US]
shop = "north"
[regions.GB]
shop = "south"
[upstreams.shop]
base_url = "https://shop.example.com/v1"
auth = { bearer = true }
errors = [
    { status = 403, text = "suspended", class = "denied" },
    { status = 429, class = "slow_down" },
]
[upstreams.shop.calls.list]
path = "orders"
cost = 1
settle = { daily = "/meta/cost" }
page = { kind = "token", param = "after", next = "/meta/nxt", size_param = "limit", size = 3 }
records = { at = "/data", kind = "order", id = "/id", text = ["/note"], columns = { total = "/amount", buyer = "/byer/name" } }
[upstreams.shop.calls.get]
path = "order"
cost = 2
records = { at = "/data", kind = "detail", id = "/id" }
[upstreams.shop.calls.spare]
path = "spare"
cost = 1
records = { at = "/data", kind = "spare", id = "/id" }
[credentials.shop]
upstream = "shop"
secret = { env = "YOUTUBE_API_KEY" }
[credentials.shop.limits]
daily = { quota = 40, window = "24h", reported = { remaining = "x-remaining" } }
[jobs.orders]
credential = "shop"
[[jobs.orders.steps]]
call = "list"
params = { shop = "{shop}", kind = "paid" }
[[jobs.orders.steps]]
call = "get"
params = { ids = "{ids}" }
ids = { from = "list", at = "/id", batch = 5 }
"#;

fn shop() -> World {
    World::written(SHOP, &[])
}

/// Saves a response, and returns its path.
fn save(world: &World, text: &str) -> String {
    let path = world.directory.path().join("saved.http");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A full page whose records lack a buyer, whose next page is elsewhere, and which has an id twice.
const PAGE: &str = r#"{
    "data": [
        { "id": 7, "amount": 12.5, "note": "gift" },
        { "id": 7, "amount": 1, "note": null },
        { "id": 8, "amount": 3 }
    ],
    "meta": { "next": "tok_2" }
}"#;

#[test]
fn a_saved_response_is_shown_with_what_it_does_not_contain_and_charges_nothing() {
    let world = shop();
    let file = save(&world, PAGE);
    let report = world.json(&["try", "shop", "list", "--answer", &file]);
    assert_eq!(
        (&report["class"], &report["status"]),
        (&json!("page"), &json!(200))
    );
    assert_eq!(report["record_count"], 2);
    assert_eq!(report["records"][0]["id"], "7");
    assert_eq!(report["records"][0]["columns"]["total"], "12.5");
    assert_eq!(report["records"][0]["texts"], json!(["gift"]));
    assert_eq!(report["next"], Value::Null);
    let missing = report["missing"].as_array().unwrap();
    let named = ["page.next", "buyer", "records.id", "settle", "reported"];
    assert_eq!(missing.len(), named.len(), "{report}");
    for (missing, named) in missing.iter().zip(named) {
        assert!(missing.as_str().unwrap().contains(named), "{report}");
    }
    assert_eq!(report["charged"], Value::Null);
    assert!(!world.state_dir().exists(), "nothing is written");

    let ran = world.ingest(&["try", "shop", "list", "--answer", &file]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for part in [
        "GET http://127.0.0.1:",
        "orders?kind=paid&limit=3&shop=north",
        "authorization: Bearer (hidden)",
        "Response: status 200, class page",
        "Next cursor: none",
        "the page is full (3 records) and has no value at `/meta/nxt` (`page.next`)",
        "no record has a value for the column `buyer` at `/byer/name`",
        "1 records repeat the id of another record",
        "does not report the limit `daily` in the header `x-remaining`",
        "does not report the cost for the limit `daily` at `/meta/cost`",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains(SECRET));
}

#[test]
fn a_complete_response_has_nothing_missing() {
    let world = World::written(
        &SHOP
            .replace("/meta/nxt", "/meta/next")
            .replace("/byer/", "/buyer/"),
        &[],
    );
    let body = r#"{ "data": [{ "id": 1, "amount": 2, "note": "a", "buyer": { "name": "Bo" } }], "meta": { "cost": 3 } }"#;
    let file = save(
        &world,
        &format!("HTTP/1.1 200 OK\r\nX-Remaining: 31\r\n\r\n{body}"),
    );
    let report = world.json(&["try", "shop", "list", "--answer", &file, "--region", "GB"]);
    assert_eq!(report["missing"], json!([]), "{report}");
    assert_eq!(report["reported"][0]["remaining"], 31);
    assert_eq!(report["reported_cost"]["daily"], 3);
    assert!(
        report["request"]["url"]
            .as_str()
            .unwrap()
            .ends_with("shop=south"),
        "{report}"
    );
}

#[test]
fn a_refusal_is_shown_with_its_class_and_the_rule_that_matched() {
    let world = shop();
    let refused = |text: &str| {
        let file = save(&world, text);
        let ran = world.ingest(&["try", "shop", "list", "--answer", &file, "--format", "json"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        let report = ran.json();
        (report["class"].clone(), report["rule"].clone())
    };
    let slow = refused("HTTP/2 429 \r\nretry-after: 3\r\n\r\n{ \"message\": \"Slow down.\" }");
    assert_eq!(slow, (json!("slow_down"), json!(2)));
    let denied = refused("HTTP/2 403 \n\n{ \"message\": \"This shop is suspended.\" }");
    assert_eq!(denied, (json!("denied"), json!(1)));
    let unknown = refused("HTTP/2 404 \n\n{ \"message\": \"Where?\" }");
    assert_eq!(unknown, (json!("skip"), Value::Null));
}

#[test]
fn one_request_is_charged_and_sent_and_lands_nothing() {
    let world = shop();
    let report = world.json(&["try", "shop", "list"]);
    assert_eq!(report["class"], "page", "{report}");
    assert_eq!(report["landed"], false);
    assert_eq!(
        (world.requests(), world.charged("daily")),
        (1, world.counted("daily"))
    );
    assert_eq!(report["charged"]["daily"], world.charged("daily"));
    assert_eq!(world.count("select count(*) from record"), 0);
    assert!(!report.to_string().contains(SECRET));
    let request = &world.sandbox_says("requests")[0];
    assert_eq!(
        request["params"],
        json!({ "shop": "north", "kind": "paid" })
    );
}

#[test]
fn a_call_that_requests_ids_needs_them() {
    let world = shop();
    let ran = world.ingest(&["try", "shop", "get"]);
    assert_eq!((ran.code, world.requests()), (2, 0), "{ran:?}");
    assert!(ran.stderr.contains("name them with --id"), "{ran:?}");
    let report = world.json(&["try", "shop", "get", "--id", "a", "--id", "b"]);
    assert_eq!(report["class"], "page", "{report}");
    assert_eq!(world.sandbox_says("requests")[0]["ids"], 2);
}

#[test]
fn a_call_that_no_job_has_is_requested_without_parameters() {
    let world = shop();
    let report = world.json(&["try", "shop", "spare"]);
    assert_eq!(
        (&report["class"], &report["job"]),
        (&json!("page"), &Value::Null)
    );
}

#[test]
fn an_exhausted_limit_stops_it_before_anything_is_sent() {
    let mut world = shop();
    world.set("credentials.shop.limits.daily.quota=2");
    assert_eq!(world.ingest(&["charge", "shop", "get"]).code, 0);
    let ran = world.ingest(&["try", "shop", "spare", "--format", "json"]);
    assert_eq!((ran.code, world.requests()), (75, 0), "{ran:?}");
    assert_eq!(ran.json()["class"], "stopped");
}

#[test]
fn a_misspelled_name_is_refused_with_the_one_that_is_close() {
    let world = shop();
    for (arguments, close) in [
        (["try", "shp", "list", "--region", "US"], "`shop`"),
        (["try", "shop", "lst", "--region", "US"], "`list`"),
        (["try", "shop", "list", "--region", "USA"], "`US`"),
    ] {
        let ran = world.ingest(&arguments);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.stderr.contains(close), "{ran:?}");
    }
    assert_eq!(world.requests(), 0);
}

#[test]
fn a_rule_is_named_only_where_it_was_applied_and_not_beside_a_renewed_token() {
    let endpoint = StubUpstream::start(|request| {
        let token = format!("t0k3n-{}", request.number);
        StubAnswer::json(
            &json!({ "access_token": token, "token_type": "Bearer", "expires_in": 3600 }),
        )
    });
    let stub = StubUpstream::answering([StubAnswer::error(401, &json!({ "message": "Who?" }))]);
    let mut world = shop();
    world.set(&format!("upstreams.shop.base_url=\"{}\"", stub.url()));
    world.set("upstreams.shop.errors=[{ status = 401, class = \"denied\" }]");
    world.set(&format!(
        "upstreams.shop.auth={{ oauth = {{ kind = \"client_credentials\", token_url = \"{}\", client_id = \"me\", \
        client_secret = \"{{secret}}\" }} }}",
        endpoint.url()
    ));
    let renewed = world.json(&["try", "shop", "list"]);
    assert_eq!(
        (&renewed["status"], &renewed["rule"]),
        (&json!(401), &Value::Null),
        "{renewed}"
    );
    let message = renewed["message"].as_str().unwrap();
    assert!(message.contains("fetched a new secret"), "{renewed}");
}
