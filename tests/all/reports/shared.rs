//! What can be seen and done over a ledger that many machines share.

use serde_json::Value;

use super::promises::LISTING_ONLY;
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

const RUN: [&str; 4] = ["--region", "US,GB", "--job", "trending"];

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
fn status_tells_spend_by_job_region_and_call_from_this_machines_journal() {
    let server = RedisServer::start();
    let world = world(&server, &[]);
    world.json(&RUN);
    world.json(&["charge", "youtube", "search.list"]);
    let status = world.json(&["status"]);
    let spend: Vec<Value> = status["spend"].as_array().unwrap().clone();
    let of = |region: &str| spend.iter().find(|one| one["region"] == region).unwrap();
    assert_eq!(
        (&of("US")["units"]["daily"], &of("US")["charges"]),
        (&4.into(), &4.into())
    );
    assert_eq!(
        (&of("GB")["call"], &of("GB")["told_by"]),
        (&"videos.list".into(), &"journal".into())
    );
    let by_hand = spend.iter().find(|one| one["job"].is_null()).unwrap();
    assert_eq!(
        (&by_hand["call"], &by_hand["units"]["daily"]),
        (&"search.list".into(), &100.into())
    );
    let daily = daily(&status);
    assert_eq!(
        (&daily["used"], &daily["since_reset"]),
        (&108.into(), &108.into())
    );
    assert_eq!(
        daily["returns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|back| back["units"].as_u64().unwrap())
            .sum::<u64>(),
        108
    );
    let text = world.ingest(&["status"]).stdout;
    assert!(
        text.contains("the purpose of other machines' charges"),
        "{text}"
    );
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

#[test]
fn history_over_redis_tells_what_passes_spent_and_what_was_charged_by_hand() {
    let server = RedisServer::start();
    let world = world(&server, &[]);
    world.json(&RUN);
    world.json(&["charge", "youtube", "search.list"]);
    let rows = world.json(&["history"])["rows"].as_array().unwrap().clone();
    let spent: u64 = rows
        .iter()
        .filter_map(|row| row["units"]["daily"].as_u64())
        .sum();
    assert_eq!(spent, world.charged("daily"));
}

#[test]
fn what_went_unmetered_is_shown_until_it_is_repaid() {
    let mut server = RedisServer::start();
    let world = world(&server, &[]);
    server.kill();
    for _ in 0..2 {
        assert_eq!(
            world.json(&["charge", "youtube", "videos.list", "--times", "2"])["decision"],
            "unmetered"
        );
    }
    let status = world.json(&["status"]);
    assert_eq!(
        (&daily(&status)["unrepaid"], &daily(&status)["used"]),
        (&4.into(), &Value::Null)
    );
    assert_eq!(status["spend"][0]["units"]["daily"], 4);
    let text = world.ingest(&["status"]).stdout;
    assert!(
        text.contains("4 units went unmetered from this machine, not yet charged"),
        "{text}"
    );

    server.restart();
    let before = world.json(&["status"]);
    assert_eq!(
        (&daily(&before)["unrepaid"], &daily(&before)["used"]),
        (&4.into(), &4.into()),
        "looking repays nothing"
    );
    world.json(&["charge", "youtube", "videos.list"]);
    let status = world.json(&["status"]);
    assert_eq!(
        (&daily(&status)["unrepaid"], &daily(&status)["used"]),
        (&0.into(), &5.into())
    );
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
fn a_charge_of_this_machine_is_released_by_its_id_alone() {
    let mut server = RedisServer::start();
    let world = world(&server, &[SECOND_ACCOUNT]);
    let charge = ["charge", "youtube", "search.list", "--id", "mine"];
    assert_eq!(world.json(&charge)["decision"], "granted");
    let released = world.json(&["release", "mine"]);
    assert_eq!(
        (&released["account"], &released["released"]),
        (&"youtube".into(), &true.into())
    );
    assert_eq!(searches(&world), 0);
    assert_eq!(world.json(&["release", "mine"])["released"], true);
    assert_eq!(
        world.json(&charge)["id"],
        "mine~1",
        "what was taken back charges anew"
    );
    assert_eq!(searches(&world), 1);
    world.json(&["release", "mine"]);
    assert_eq!(searches(&world), 0);

    for account in [&[][..], &["--account", "other"]] {
        let nowhere = world.ingest(&[&["release", "nobodys"], account].concat());
        let why = "charge `nobodys` in its window";
        assert!(nowhere.stderr.contains(why), "{nowhere:?}");
    }
    server.kill();
    let away = world.ingest(&["release", "of-another-machine"]);
    assert!(away.stderr.contains("add --account"), "{away:?}");
}

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

#[test]
fn an_id_that_was_charged_otherwise_on_another_machine_is_refused() {
    let server = RedisServer::start();
    let [here, there] = [world(&server, &[]), world(&server, &[])];
    assert_eq!(
        here.json(&["charge", "youtube", "search.list", "--id", "mine"])["decision"],
        "granted"
    );
    let other = there.ingest(&[
        "charge",
        "youtube",
        "search.list",
        "--id",
        "mine",
        "--times",
        "50",
    ]);
    assert_eq!(other.code, 1, "{other:?}");
    assert!(
        other
            .stdout
            .contains("id `mine` already holds a charge of 100 daily, 1 search"),
        "{other:?}"
    );
    assert_eq!(searches(&there), 1);
}
