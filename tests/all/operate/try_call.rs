//! `ingest try`: one request, and what its response contains and does not contain.

use serde_json::json;

use crate::support::json::has;
use crate::support::world::World;
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
    has(&renewed, &json!({ "status": 401, "rule": null }));
    let message = renewed["message"].as_str().unwrap();
    assert!(message.contains("fetched a new secret"), "{renewed}");
}
