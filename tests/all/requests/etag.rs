//! Pages that did not change: asked for by their tag, renewed, and not paid for where configuration says so.

use serde_json::{Value, json};

use super::limit;
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;
use ingest_testing::stub_upstream::{StubAnswer, StubUpstream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// 35 records a region, ten a page: four requests each.
const FORGE: &str = r#"
regions = ["US", "GB"]
[upstreams.forge]
base_url = "https://forge.example.com"
auth = { bearer = true }
errors = [{ status = 400, class = "bad_cursor" }]
[upstreams.forge.calls.list]
path = "things/{region}"
cost = { core = 1 }
etag = "free"
page = { kind = "link", size = 10 }
records = { at = "/items", kind = "thing", id = "/id" }
[credentials.forge]
upstream = "forge"
secret = { env = "FORGE_TOKEN" }
limits = { core = { quota = 1000, window = "24h" } }
[jobs.things]
credential = "forge"
steps = [{ call = "list" }]
"#;

const ALL: [&str; 2] = ["--region", "all"];

fn complete(world: &World) -> Value {
    let run = world.json(&ALL);
    assert_eq!(run["outcome"], "complete", "{run}");
    assert_eq!(
        world.charged("core"),
        world.counted("core"),
        "the ledger and the upstream count the same"
    );
    run
}

/// The statuses of the requests from the one of this number on.
fn statuses(world: &World, from: u64) -> Vec<u64> {
    let requests = world.sandbox_says("requests");
    requests.as_array().unwrap()[from as usize..]
        .iter()
        .map(|one| one["status"].as_u64().unwrap())
        .collect()
}

/// What the newest pass over a region listed, in order.
fn listed(world: &World, region: &str) -> Vec<String> {
    let catalog = world.catalog();
    let question = "select id from listing where pass = (select max(id) from pass where region = ?1) order by position";
    let mut statement = catalog.prepare(question).unwrap();
    statement
        .query_map([region], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

#[test]
fn what_did_not_change_is_renewed_and_costs_nothing() {
    let world = World::written(FORGE, &[]);
    complete(&world);
    let (first, began) = (listed(&world, "US"), "select max(last_seen) from record");
    let began: String = world
        .catalog()
        .query_row(began, [], |row| row.get(0))
        .unwrap();
    let run = complete(&world);
    assert_eq!((world.requests(), world.charged("core")), (16, 8));
    assert_eq!(statuses(&world, 8), [304; 8]);
    assert_eq!(
        listed(&world, "US"),
        first,
        "the same ids in the same order"
    );
    assert_eq!(first.len(), 35);
    assert_eq!(
        world.count(&format!(
            "select count(*) from record where last_seen <= '{began}'"
        )),
        0
    );
    let pass = &run["passes"][0];
    let told = (
        pass["pages"].as_u64(),
        pass["records"].as_u64(),
        pass["requests"].as_u64(),
    );
    assert_eq!(
        (told, pass["units"]["core"].as_u64().unwrap_or(0)),
        ((Some(4), Some(35), Some(4)), 0),
        "{pass}"
    );
    assert_eq!(world.count("select sum(units ->> 'core') from pass"), 8);
}

#[test]
fn a_preview_knows_what_costs_nothing() {
    let world = World::written(FORGE, &[]);
    for wanted in [json!([1, 1, 8]), json!([0, 0, 8]), json!([0, 0, 8])] {
        // Of a region that nobody has walked a page is expected.
        let preview = world.json(&["--region", "all", "--dry-run"]);
        let core = limit(&preview, "core");
        let (before, requests) = (world.charged("core"), world.requests());
        let [min, expected] = ["min", "expected"].map(|bound| core[bound].as_u64().unwrap());
        complete(&world);
        let spent = world.charged("core") - before;
        if wanted[0] == 0 {
            assert_eq!((min, expected, spent), (0, 0, 0), "{preview}");
            assert_eq!(preview["steps"][0]["requests"]["expected"], 4, "{preview}");
        } else {
            assert_eq!((min, spent), (2, 8), "{preview}");
        }
        assert_eq!(world.requests() - requests, 8);
    }
    world.totals(&json!({ "list": 36 }));
    let preview = world.json(&["--region", "all", "--dry-run"]);
    assert_eq!(
        limit(&preview, "core")["expected"],
        0,
        "what is not known to have changed: {preview}"
    );
}

#[test]
fn only_what_changed_is_paid_for() {
    let world = World::written(FORGE, &[]);
    complete(&world);
    let items = json!({ "items": [{ "id": "new" }, { "id": "newer" }] });
    world.faults(&json!({ "call": "list", "after": 2, "times": 1, "status": 200, "body": items }));
    world.json(&["--region", "all", "--concurrency", "1"]);
    assert_eq!(world.charged("core"), 8 + 1);
    assert_eq!(
        world.count("select count(*) from record where id in ('new', 'newer')"),
        2
    );
    world.totals(&json!({ "list": 47 }));
    complete(&world);
    assert_eq!(
        world.charged("core"),
        9 + 10,
        "the stand-in's lists are others when they are longer"
    );
    assert_eq!(listed(&world, "GB").len(), 47);
    complete(&world);
    assert_eq!(world.charged("core"), 19);
}

#[test]
fn a_last_page_that_is_full_is_asked_for_anew_since_a_header_leads_on_from_it() {
    let world = World::written(FORGE, &[]);
    world.totals(&json!({ "list": 40 }));
    complete(&world);
    complete(&world);
    assert_eq!(world.charged("core"), 8 + 2);
    world.totals(&json!({ "list": 41 }));
    complete(&world);
    assert_eq!(listed(&world, "US").len(), 41);
}

#[test]
fn a_unit_that_is_left_is_enough_for_all_that_did_not_change() {
    let server = RedisServer::start();
    let redis = format!("ledger.url=\"redis://127.0.0.1:{}\"", server.port());
    for ledger in ["ledger.url=\"sqlite\"", &redis] {
        let world = World::written(
            FORGE,
            &["credentials.forge.limits.core={ quota = 9, window = \"24h\" }"],
        );
        let mut world = world;
        world.set(ledger).set("ledger.timeout=2s");
        complete(&world);
        let run = world.json(&["--region", "all", "--concurrency", "1"]);
        assert_eq!(
            (
                run["outcome"].as_str(),
                world.requests(),
                world.charged("core")
            ),
            (Some("complete"), 16, 8)
        );
        world.totals(&json!({ "list": 1 }));
        let run = world.json(&["--region", "all", "--concurrency", "1"]);
        assert_eq!(
            (
                run["outcome"].as_str(),
                world.charged("core"),
                world.counted("core")
            ),
            (Some("stopped"), 9, 9)
        );
    }
}

#[test]
fn a_page_of_which_a_record_is_gone_is_paid_for() {
    let world = World::written(FORGE, &[]);
    complete(&world);
    let (in_us, in_gb) = (listed(&world, "US"), listed(&world, "GB"));
    let gone = in_us.iter().find(|id| !in_gb.contains(id)).unwrap();
    let all = world.count("select count(*) from record");
    world
        .catalog()
        .execute("delete from record where id = ?1", [gone])
        .unwrap();
    complete(&world);
    assert_eq!(
        (
            world.charged("core"),
            world.count("select count(*) from record")
        ),
        (9, all)
    );
}

#[test]
fn records_that_are_read_another_way_are_asked_for_anew() {
    let mut world = World::written(FORGE, &[]);
    complete(&world);
    world.set("upstreams.forge.calls.list.records.kind=item");
    complete(&world);
    let of = |kind: &str| {
        world.count(&format!(
            "select count(*) from record where kind = '{kind}'"
        ))
    };
    assert_eq!((world.charged("core"), of("item")), (16, of("thing")));
}

#[test]
fn a_cursor_that_is_no_longer_taken_is_not_followed_again() {
    let world = World::written(FORGE, &["regions=[\"US\"]"]);
    complete(&world);
    world.faults(
        &json!({ "call": "list", "after": 1, "times": 1, "answer": "bad_cursor", "status": 400 }),
    );
    let run = complete(&world);
    assert!(
        run["passes"][0]["detail"]
            .as_str()
            .unwrap()
            .contains("restarted from the first page"),
        "{run}"
    );
    assert_eq!(statuses(&world, 4), [304, 400, 200, 200, 200, 200]);
    complete(&world);
    assert_eq!(statuses(&world, 10), [304; 4]);
}

#[test]
fn a_pass_that_was_stopped_half_way_goes_on_for_nothing() {
    let mut world = World::written(FORGE, &["regions=[\"US\"]"]);
    complete(&world);
    world.faults(
        &json!({ "call": "list", "after": 2, "times": 9, "answer": "backend", "status": 503 }),
    );
    world.set("upstreams.forge.attempts=1");
    assert_eq!(world.json(&ALL)["outcome"], "failed");
    assert_eq!(world.charged("core"), 4 + 1);
    let preview = world.json(&["--region", "all", "--dry-run"]);
    let step = &preview["steps"][0];
    assert_eq!(
        (
            step["requests"]["expected"].as_u64(),
            step["units"]["core"]["expected"].as_u64()
        ),
        (Some(2), Some(0))
    );
    let mut world = world;
    world.set("upstreams.forge.attempts=9");
    let run = complete(&world);
    assert_eq!(run["passes"][0]["resumed"], true, "{run}");
}

#[test]
fn whoever_does_not_say_that_it_is_free_asks_for_all_and_pays() {
    let text = FORGE.replace("etag = \"free\"\n", "");
    let world = World::written(&text, &[]);
    complete(&world);
    complete(&world);
    assert_eq!(
        (world.charged("core"), statuses(&world, 8)),
        (16, vec![200; 8])
    );
}

#[test]
fn a_post_is_never_conditional_and_a_wrong_word_is_told() {
    let world = World::written(FORGE, &[]);
    let post = world.ingest(&["check", "--set", "upstreams.forge.calls.list.method=POST"]);
    assert_eq!(post.code, 2);
    assert!(
        post.stderr.contains("`etag` works with GET requests only"),
        "{post:?}"
    );
    let paid = world.ingest(&["check", "--set", "upstreams.forge.calls.list.etag=paid"]);
    assert_eq!(paid.code, 2);
    assert!(
        paid.stderr.contains("expected one of free, unused"),
        "{paid:?}"
    );
}

#[test]
fn batches_of_ids_that_did_not_change_cost_nothing_either() {
    let text = FORGE.replace(
        "[credentials.forge]",
        "[upstreams.forge.calls.get]\npath = \"owners\"\ncost = { core = 1 }\netag = \"free\"\n\
         records = { at = \"/items\", kind = \"owner\", id = \"/id\" }\n[credentials.forge]",
    );
    let text = text.replace(
        "steps = [{ call = \"list\" }]",
        "steps = [{ call = \"list\" }, { call = \"get\", params = { id = \"{ids}\" }, ids = { from = \"list\", at = \"/owner\", batch = 50 } }]",
    );
    let world = World::written(&text, &["regions=[\"US\"]"]);
    complete(&world);
    assert_eq!(world.charged("core"), 5);
    let preview = world.json(&["--region", "all", "--dry-run"]);
    assert_eq!(limit(&preview, "core")["expected"], 0, "{preview}");
    complete(&world);
    assert_eq!((world.charged("core"), world.requests()), (5, 10));
}

#[test]
fn a_page_that_made_its_list_doubtful_is_requested_in_full_again() {
    let bad = Arc::new(AtomicBool::new(false));
    let is_bad = Arc::clone(&bad);
    let stub = StubUpstream::start(move |request| {
        let (name, body) = match is_bad.load(Ordering::Relaxed) {
            false => (
                "\"good\"",
                r#"{"items":[{"id":1},{"id":2},{"id":3}],"total":3}"#,
            ),
            true => ("\"bad\"", r#"{"items":[{"id":1}],"total":3}"#),
        };
        match request.header("if-none-match") {
            Some(known) if known == name => StubAnswer::text(304, "").header("etag", name),
            _ => StubAnswer::text(200, body).header("etag", name),
        }
    });
    let mut world = World::written(&FORGE.replace("[\"US\", \"GB\"]", "[\"US\"]"), &[]);
    world.set(&format!("upstreams.forge.base_url=\"{}\"", stub.url()));
    world.set("jobs.things.every=1ms");
    assert_eq!(world.json(&ALL)["outcome"], "complete");
    bad.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        let run = world.json(&ALL);
        assert_eq!(run["passes"][0]["outcome"], "doubtful", "{run}");
        assert_eq!(
            world.count("select count(*) from record where gone_at is not null"),
            0
        );
    }
}
