//! A server over a shared ledger: charges, and the limits on requests, which several servers share.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{CLIENT, Served, start};
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

const CHARGE: &str = "/api/v1/charge";

fn world_over(server: &RedisServer, sets: &[&str]) -> World {
    let url = format!("ledger.url=\"redis://127.0.0.1:{}\"", server.port());
    World::configured(&[&[url.as_str(), CLIENT], sets].concat(), |_| {})
}

#[test]
fn servers_that_share_a_redis_share_the_limits_on_requests() {
    let redis = RedisServer::start();
    let one = Served::over(world_over(
        &redis,
        &[
            "serve.readers={ quota = 4, window = \"1min\" }",
            "ledger.timeout=2s",
        ],
    ));
    let (child, address) = start(&one.world, &["--listen", "127.0.0.1:0"]);
    let other = Served {
        world: world_over(&redis, &[]),
        child,
        address,
    };
    assert_eq!(one.get("/healthz").json()["limits"], "redis");
    let statuses =
        [&one, &other, &one, &other, &one, &other].map(|server| server.get("/nothing").status);
    assert_eq!(statuses, [404, 404, 404, 404, 429, 429]);
    let rejected = other.get("/nothing");
    let wait: u64 = rejected.header("retry-after").unwrap().parse().unwrap();
    assert!((50..=61).contains(&wait), "{wait}");
}

#[test]
fn redis_forgets_an_address_soon_after_its_window() {
    let redis = RedisServer::start();
    let readers = |window: &str| format!("serve.readers={{ quota = 4, window = \"{window}\" }}");
    for (window, longest) in [("1min", 70_000), ("1s", 60_000), ("1h", 4_100_000)] {
        redis.tell("FLUSHALL");
        let served = Served::over(world_over(&redis, &[&readers(window), "ledger.timeout=2s"]));
        assert_eq!(served.get("/nothing").status, 404);
        let keys: Vec<String> = redis.ask("KEYS *reader*");
        assert!(!keys.is_empty(), "{keys:?}");
        for key in keys {
            let life: i64 = redis.ask(&format!("PTTL {key}"));
            assert!(
                (1..=longest).contains(&life),
                "{window}: {key} lives {life} ms"
            );
        }
    }
}

#[test]
fn a_redis_that_restarts_under_attack_costs_no_error_and_lets_nobody_over_its_limit() {
    let mut redis = RedisServer::start();
    let served = Served::over(world_over(
        &redis,
        &[
            "serve.readers={ quota = 40, window = \"1h\" }",
            "ledger.timeout=2s",
        ],
    ));
    let body = json!({ "credential": "youtube", "call": "videos.list" });
    let statuses: Vec<(u16, u16)> = std::thread::scope(|scope| {
        let attack = || {
            let turn = |_| {
                (
                    served.get("/nothing").status,
                    served.post(CHARGE, None, &body).status,
                )
            };
            (0..30).map(turn).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(attack)).collect();
        redis.kill();
        std::thread::sleep(Duration::from_millis(300));
        redis.restart();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let read = statuses.iter().filter(|(read, _)| *read == 404).count();
    assert!(read <= 40, "{read} of 40");
    assert!(
        statuses
            .iter()
            .all(|(read, charged)| matches!(read, 404 | 429) && matches!(charged, 200 | 503)),
        "{statuses:?}"
    );
}

#[test]
fn a_charge_without_a_ledger_from_the_start_goes_by_the_outage_policy() {
    let redis = RedisServer::start();
    let world = world_over(&redis, &["ledger.timeout=500ms"]);
    drop(redis);
    let served = Served::over(world);
    let body = json!({ "credential": "youtube", "call": "videos.list" });
    let began = Instant::now();
    let charges = std::thread::scope(|scope| {
        let charge = || served.post(CHARGE, None, &body);
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(charge)).collect();
        let charges = threads.into_iter().map(|thread| thread.join().unwrap());
        charges.collect::<Vec<_>>()
    });
    for charge in charges {
        assert_eq!(charge.status, 200, "{}", charge.text());
        assert_eq!(charge.json()["decision"], "unmetered");
    }
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_redis_that_is_away_costs_one_timeout_and_the_limits_hold() {
    let redis = RedisServer::start();
    let served = Served::over(world_over(
        &redis,
        &[
            "serve.readers={ quota = 30, window = \"1min\" }",
            "ledger.timeout=500ms",
        ],
    ));
    let statuses: Vec<u16> = (0..10).map(|_| served.get("/nothing").status).collect();
    assert_eq!(statuses, [404; 10]);
    redis.hang();
    let began = Instant::now();
    let statuses: Vec<u16> = (0..25).map(|_| served.get("/nothing").status).collect();
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        statuses.iter().filter(|status| **status == 404).count(),
        20,
        "{statuses:?}"
    );
    assert_eq!(served.get("/healthz").json()["limits"], "memory");
    redis.resume();
    let began = Instant::now();
    while served.get("/healthz").json()["limits"] != "redis" {
        assert!(began.elapsed() < Duration::from_secs(30));
        assert_eq!(served.get("/nothing").status, 429);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_release_is_final_though_another_machine_settles_the_charge_later() {
    let redis = RedisServer::start();
    let [here, there] = [(); 2].map(|()| Served::over(world_over(&redis, &["ledger.timeout=5s"])));
    let body = json!({ "credential": "youtube", "call": "videos.list", "times": 4 });
    assert_eq!(here.post(CHARGE, Some("k"), &body).status, 200);
    let named = json!({ "id": "k", "credential": "youtube" });
    assert_eq!(here.post("/api/v1/release", None, &named).status, 200);
    // This machine did not make the charge, and cannot look it up.
    let settle = json!({ "id": "k", "credential": "youtube", "cost": 7 });
    assert_eq!(there.post("/api/v1/settle", None, &settle).status, 200);
    assert_eq!(here.world.charged("daily"), 0);
}

#[test]
fn limits_are_in_memory_until_redis_replies_again() {
    let mut redis = RedisServer::start();
    let served = Served::over(world_over(&redis, &["ledger.timeout=2s"]));
    assert_eq!(served.get("/nothing").status, 404);
    redis.kill();
    assert_eq!(served.get("/nothing").status, 404);
    // Longer than the first interval between two probes.
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(served.get("/healthz").json()["limits"], "memory");
}

#[test]
fn one_request_at_a_time_tries_whether_redis_replies_again() {
    let redis = RedisServer::start();
    let served = Served::over(world_over(&redis, &["ledger.timeout=1s"]));
    assert_eq!(served.get("/nothing").status, 404);
    redis.hang();
    assert_eq!(served.get("/nothing").status, 404);
    // Longer than the first interval between two tries.
    std::thread::sleep(Duration::from_millis(400));
    let took_a_timeout = |_| {
        let began = Instant::now();
        assert_eq!(served.get("/nothing").status, 404);
        began.elapsed() >= Duration::from_secs(1)
    };
    let waited = std::thread::scope(|scope| {
        let requests: Vec<_> = (0..12)
            .map(|n| scope.spawn(move || took_a_timeout(n)))
            .collect();
        let waited = requests.into_iter().map(|request| request.join().unwrap());
        waited.filter(|waited| *waited).count()
    });
    redis.resume();
    assert!(waited <= 1, "{waited} requests waited for Redis");
}
