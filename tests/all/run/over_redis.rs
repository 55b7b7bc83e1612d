//! The main job over a shared ledger that misbehaves. Whatever happens, the ledger ends at the sandbox's count.

use serde_json::{Value, json};

use super::LISTING;
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;
use ingest_testing::stub_upstream::{StubAnswer, StubRequest, StubUpstream};

const RUN: &[&str] = &["--region", "all", "--job", "trending"];

fn world_over(server: &RedisServer, daily: &str) -> World {
    let limit = format!("credentials.youtube.limits.daily={daily}");
    let mut world = World::configured(&[&LISTING[..], &[&limit]].concat(), |_| {});
    world.ledger_at(server.port()).set("ledger.timeout=2s");
    world
}

fn most_in_window(world: &World) -> u64 {
    let usage = world.sandbox_says("usage");
    let limits = usage["limits"].as_array().unwrap();
    limits
        .iter()
        .find(|limit| limit["limit"] == "daily")
        .unwrap()["most_in_window"]
        .as_u64()
        .unwrap()
}

#[test]
fn sixteen_processes_over_redis_spend_exactly_what_is_left() {
    let server = RedisServer::start();
    let world = world_over(&server, "{ quota = 25, window = \"24h\" }");
    for run in world.ingest_at_once(16, RUN) {
        assert_eq!(run.code, 0, "{run:?}");
    }
    assert_eq!((world.counted("daily"), world.charged("daily")), (25, 25));
}

#[test]
fn a_sandbox_run_charges_the_redis_that_it_is_given_apart_from_the_real_charges() {
    let server = RedisServer::start();
    let world = world_over(&server, "{ quota = 40, window = \"24h\" }");
    let practice = [RUN, &["--sandbox"]].concat();
    assert_eq!(world.json(&practice)["outcome"], "complete");
    let used = |arguments: &[&str]| world.json(arguments)["limits"][0]["used"].clone();
    assert_eq!(
        (used(&["status"]), used(&["status", "--sandbox"])),
        (json!(0), json!(32))
    );
    let elsewhere = world.directory.path().join("elsewhere");
    let other = [&practice[..], &["--state-dir", elsewhere.to_str().unwrap()]].concat();
    assert_eq!(
        world.json(&other)["outcome"],
        "stopped",
        "one ledger for both machines"
    );
    assert_eq!(world.requests(), 0);
    let catalog = world.ingest(&[&practice[..], &["--set", "catalog.url=postgres://x/y"]].concat());
    assert!(
        catalog.code == 2 && catalog.stderr.contains("catalog.url"),
        "{catalog:?}"
    );
}

#[test]
fn a_redis_that_comes_back_empty_between_two_runs_is_told_what_was_spent() {
    let server = RedisServer::start();
    let world = world_over(&server, "{ quota = 40, window = \"24h\" }");
    assert_eq!(world.json(RUN)["outcome"], "complete");
    for wipe in ["FLUSHALL", "SCRIPT FLUSH", "FUNCTION FLUSH"] {
        server.tell(wipe);
        let report = world.json(RUN);
        assert_eq!(report["outcome"], "stopped", "{wipe}: {report}");
        assert_eq!(world.charged("daily"), world.counted("daily"), "{wipe}");
    }
    assert_eq!(most_in_window(&world), 40);
}

#[test]
fn a_run_without_its_redis_goes_on_with_cheap_calls_within_the_allowance_and_repays_them() {
    let mut server = RedisServer::start();
    let mut world = world_over(&server, "{ quota = 10_000, window = \"24h\" }");
    world
        .set("ledger.unmetered_max=10")
        .set("ledger.timeout=250ms");
    server.kill();
    let ran = world.ingest(&[RUN, &["--format", "json"]].concat());
    assert_eq!(ran.code, 1, "{ran:?}");
    let report = ran.json();
    assert_eq!(report["unmetered_units"], 10, "{report}");
    assert!(report["limits"][0]["used"].is_null(), "{report}");
    assert_eq!(world.counted("daily"), 10);
    let charge = world.ingest(&["charge", "youtube", "search.list", "--format", "json"]);
    assert_eq!(
        (charge.code, &charge.json()["decision"]),
        (1, &"refused".into())
    );

    server.restart();
    // A busy machine may take long to answer.
    world.set("ledger.timeout=20s");
    let report = world.json(RUN);
    assert_eq!(report["outcome"], "complete", "{report}");
    assert_eq!(world.charged("daily"), world.counted("daily"));
}

/// Regions that walk one after another fill each its own batches, and take as long as all of them.
#[test]
fn without_its_redis_a_run_takes_the_requests_that_it_takes_with_it() {
    let mut server = RedisServer::start();
    let with_ledger = World::configured(&[], |_| {}).json(RUN);
    let mut world = World::configured(&[], |_| {});
    world.ledger_at(server.port());
    world
        .set("ledger.unmetered_max=500")
        .set("ledger.timeout=250ms");
    server.kill();
    let without = world.json(RUN);
    assert_eq!(without["outcome"], "complete", "{without}");
    assert_eq!(without["requests"], with_ledger["requests"]);
    assert_eq!(without["unmetered_units"], world.counted("daily"));
}

#[test]
fn a_redis_that_wants_a_password_is_an_outage_that_names_it_and_never_a_rejection() {
    let server = RedisServer::start();
    let world = world_over(&server, "{ quota = 10_000, window = \"24h\" }");
    server.tell("CONFIG SET requirepass hidden-word");
    let expensive = world.ingest(&["charge", "youtube", "search.list", "--format", "json"]);
    assert_eq!(expensive.json()["decision"], "refused", "{expensive:?}");
    let cheap = world.ingest(&["charge", "youtube", "videos.list", "--format", "json"]);
    assert_eq!(
        (cheap.code, &cheap.json()["decision"]),
        (0, &"unmetered".into()),
        "{cheap:?}"
    );
    let mut world = world;
    world.set(&format!(
        "ledger.url=\"redis://:hidden-word@127.0.0.1:{}\"",
        server.port()
    ));
    let granted = world
        .command(&["-vvv", "charge", "youtube", "videos.list"])
        .output()
        .unwrap();
    assert!(granted.status.success());
    assert!(!String::from_utf8_lossy(&granted.stderr).contains("hidden-word"));
    assert_eq!(
        world.charged("daily"),
        2,
        "the unmetered unit was not repaid"
    );
}

#[test]
fn a_redis_that_speaks_tls_is_believed_only_with_a_certificate_that_the_system_trusts() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (
        directory.path().join("certificate.pem"),
        directory.path().join("key.pem"),
    );
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let (server, tls_port) = RedisServer::with_tls(&certificate, &key);
    let mut world = world_over(&server, "{ quota = 40, window = \"24h\" }");
    world.set(&format!("ledger.url=\"rediss://localhost:{tls_port}\""));
    let decision = |trusted: bool| {
        let mut charge = world.command(&["charge", "youtube", "videos.list", "--format", "json"]);
        if trusted {
            charge.env("SSL_CERT_FILE", &certificate);
        }
        let answer: serde_json::Value =
            serde_json::from_slice(&charge.output().unwrap().stdout).unwrap();
        answer["decision"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (decision(true), decision(false)),
        ("granted".to_owned(), "unmetered".to_owned())
    );
}

#[test]
fn what_was_charged_in_one_ledger_counts_in_the_one_that_is_named_next() {
    let server = RedisServer::start();
    let redis = format!("ledger.url=redis://127.0.0.1:{}", server.port());
    let world = World::new();
    let charge = |ledger: &str, times: &str| {
        world.json(&[
            "charge",
            "youtube",
            "videos.list",
            "--times",
            times,
            "--set",
            ledger,
            "--set",
            "ledger.timeout=2s",
        ])
    };
    let left = |charged: &serde_json::Value| charged["remaining"]["daily"].as_u64().unwrap();
    assert_eq!(left(&charge("ledger.url=sqlite", "3")), 9_497);
    assert_eq!(left(&charge(&redis, "4")), 9_493, "what the file holds");
    assert_eq!(
        left(&charge("ledger.url=sqlite", "5")),
        9_488,
        "what was charged over there"
    );
    assert_eq!(left(&charge(&redis, "1")), 9_487, "and what came since");
    assert_eq!(left(&charge(&redis, "1")), 9_486, "each of it once");
    let away = world.json(&[
        "charge",
        "youtube",
        "videos.list",
        "--set",
        "ledger.url=redis://127.0.0.1:1",
    ]);
    assert_eq!(away["decision"], "unmetered");
    assert_eq!(
        left(&charge("ledger.url=sqlite", "1")),
        9_484,
        "what went unmetered too"
    );
}

#[test]
fn what_passes_and_journal_both_tell_is_charged_once_to_a_file_that_is_new() {
    let server = RedisServer::start();
    let mut world = world_over(&server, "{ quota = 100, window = \"24h\" }");
    world.json(RUN);
    world.json(&["charge", "youtube", "videos.list", "--times", "3"]);
    world.set("ledger.url=sqlite");
    world.json(&["charge", "youtube", "videos.list"]);
    assert_eq!(world.charged("daily"), world.counted("daily") + 4);
    world.ledger_at(server.port());
    world.json(&["charge", "youtube", "videos.list"]);
    assert_eq!(world.charged("daily"), world.counted("daily") + 5);
}

/// Twelve regions of four properties, each with a quota of its own.
const BY_PROPERTY: &str = r#"
[upstreams.api]
base_url = "https://api.example.com"
pause = "1ms"
[upstreams.api.calls.list]
path = "list/{region}"
cost = { hourly = 1, daily = 1 }
params = { property = "{property}" }
page = { kind = "number", param = "page", size = 1 }
records = { at = "/rows", kind = "row", id = ["{region}", "/id"] }
[credentials.main]
upstream = "api"
[credentials.main.limits]
hourly = { quota = 5, window = "1h", scope = "{property}" }
daily = { quota = 1_000, window = "24h" }
[jobs.all]
credential = "main"
steps = [{ call = "list" }]
"#;

#[test]
fn two_machines_at_the_same_time_keep_the_quota_of_each_region_over_redis() {
    let server = RedisServer::start();
    let stub = StubUpstream::start(|request| {
        let page: u64 = request.param("page").unwrap().parse().unwrap();
        let rows: Vec<Value> = (page..=page.min(3)).map(|id| json!({ "id": id })).collect();
        StubAnswer::json(&json!({ "rows": rows }))
    });
    let region = |number: u32| format!("[regions.r{number}]\nproperty = \"p{}\"\n", number % 4);
    let regions: String = (0..12).map(region).collect();
    let machine = || {
        let mut world = World::written(&format!("{regions}{BY_PROPERTY}"), &[]);
        world
            .set(&format!("upstreams.api.base_url=\"{}\"", stub.url()))
            .set(&format!(
                "ledger.url=\"redis://127.0.0.1:{}\"",
                server.port()
            ))
            .set("ledger.timeout=2s");
        world
    };
    let machines = [machine(), machine()];
    std::thread::scope(|scope| {
        for machine in &machines {
            scope.spawn(|| {
                let report = machine.json(&["--region", "all"]);
                assert_eq!(report["outcome"], "stopped", "{report}");
            });
        }
    });
    for property in ["p0", "p1", "p2", "p3"] {
        let requests = stub.requests();
        let mine = |request: &&StubRequest| request.param("property") == Some(property);
        assert_eq!(requests.iter().filter(mine).count(), 5, "{property}");
        let limit = format!("hourly/{property}");
        for machine in &machines {
            assert_eq!(machine.charged(&limit), 5, "{limit}");
        }
    }
    assert_eq!(machines[0].charged("daily"), 20);
}
