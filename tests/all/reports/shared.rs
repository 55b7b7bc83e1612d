//! What can be seen and done over a ledger that many machines share.

use serde_json::Value;

use super::promises::LISTING_ONLY;
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

fn world(server: &RedisServer, sets: &[&str]) -> World {
    let mut world = World::configured(&[&LISTING_ONLY[..], sets].concat(), |_| {});
    world
        .set(&format!(
            "ledger.url=\"redis://127.0.0.1:{}\"",
            server.port()
        ))
        .set("ledger.timeout=5s");
    world
}

fn daily(status: &Value) -> &Value {
    status["limits"]
        .as_array()
        .unwrap()
        .iter()
        .find(|limit| limit["limit"] == "daily")
        .unwrap()
}

#[test]
fn a_limit_that_another_machine_counts_otherwise_is_named_once() {
    let server = RedisServer::start();
    let charge = ["charge", "youtube", "videos.list"];
    let window = "credentials.youtube.limits.daily.window=\"12h\"";
    let (one, other) = (world(&server, &[]), world(&server, &[window]));
    for (world, is_named) in [
        (&one, false),
        (&one, false),
        (&other, true),
        (&other, false),
    ] {
        let ran = world.ingest(&charge);
        assert_eq!(ran.code, 0, "{ran:?}");
        let named = ran.stderr.contains("another configuration of this limit");
        assert_eq!(named, is_named, "{}", ran.stderr);
    }
}

/// What counts of the account that is charged here.
fn searches(world: &World) -> u64 {
    let status = world.json(&["status"]);
    let all = status["limits"].as_array().unwrap();
    let limit = all
        .iter()
        .find(|limit| limit["account"] == "youtube" && limit["limit"] == "search");
    limit.unwrap()["used"].as_u64().unwrap()
}

const SECOND_ACCOUNT: &str = "credentials.other={ upstream = \"youtube\", secret = { env = \"YOUTUBE_API_KEY\" }, limits = { daily = { quota = 10000, window = \"24h\" }, search = { quota = 100, window = \"24h\" }, search_burst = { quota = 100, window = \"1h\" } } }";

#[test]
fn a_preview_over_redis_names_the_very_instant_at_which_the_run_then_fits() {
    let server = RedisServer::start();
    let quota = "credentials.youtube.limits.daily={ quota = 22, window = \"24h\", wait = \"0s\" }";
    let world = world(&server, &[quota]);
    for _ in 0..20 {
        world.json(&["charge", "youtube", "videos.list"]);
    }
    let preview = world.json(&["--region", "all", "--job", "trending", "--dry-run"]);
    let report = world.json(&["--region", "all", "--job", "trending"]);
    let unfit = &daily(&preview)["first_unfit"];
    assert_eq!(
        unfit["retry_at"], report["stopped_by"]["retry_at"],
        "{preview} {report}"
    );
    assert_eq!(
        (&unfit["region"], &daily(&preview)["fits"]),
        (&"US".into(), &"part".into())
    );
}

#[test]
fn a_charge_that_another_machine_released_charges_anew() {
    let server = RedisServer::start();
    let [here, there, elsewhere] = [
        world(&server, &[]),
        world(&server, &[SECOND_ACCOUNT]),
        world(&server, &[]),
    ];
    let charge = ["charge", "youtube", "search.list", "--id", "mine"];
    assert_eq!(here.json(&charge)["id"], "mine");
    assert_eq!(there.json(&["release", "mine"])["account"], "youtube");
    assert_eq!(searches(&here), 0);
    for world in [&here, &there, &elsewhere] {
        let again = world.json(&charge);
        assert_eq!(
            (&again["decision"], &again["id"]),
            (&"granted".into(), &"mine~1".into())
        );
        assert_eq!(searches(world), 1, "counted once");
    }
}
