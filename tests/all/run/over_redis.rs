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
