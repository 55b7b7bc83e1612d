//! Charging over HTTP: the same ledger, the same ids, and an answer for every outcome.

use std::thread;

use serde_json::{Value, json};

use super::{CLIENT, Served, TOKEN};
use crate::support::world::World;
use ingest_testing::redis_server::RedisServer;

const MANY: &str = "serve.readers={ quota = 100_000, window = \"1min\" }";

fn served(more: &[&str]) -> Served {
    Served::new(&[&[MANY, CLIENT], more].concat())
}

fn call(times: u64) -> Value {
    json!({ "credential": "youtube", "call": "videos.list", "times": times })
}

const QUOTA: u64 = 1100;

/// A server whose daily limit has this many units left.
fn nearly_spent(left: u64) -> Served {
    let quota = format!("credentials.youtube.limits.daily.quota={QUOTA}");
    let served = served(&[
        &quota,
        "credentials.youtube.limits.daily.headroom=0",
        "jobs.discover.leave={}",
    ]);
    assert_eq!(served.post(CHARGE, None, &call(QUOTA - left)).status, 200);
    served
}

const CHARGE: &str = "/api/v1/charge";

#[test]
fn a_charge_is_that_of_the_command() {
    let served = served(&[]);
    let answer = served.post(CHARGE, Some("one"), &call(3));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let command = served.world.json(&[
        "charge",
        "youtube",
        "videos.list",
        "--times",
        "3",
        "--id",
        "one",
    ]);
    assert_eq!(answer.json(), command, "the same id, the same charge");
    assert_eq!(served.world.charged("daily"), 3);
    let units = served.post(
        CHARGE,
        None,
        &json!({ "credential": "youtube", "cost": { "daily": 7 }, "times": 2 }),
    );
    assert_eq!(
        (units.status, &units.json()["decision"]),
        (200, &json!("granted"))
    );
    let daily = served.post(CHARGE, None, &json!({ "credential": "youtube", "cost": 1 }));
    assert_eq!(daily.json()["units"], json!({ "daily": 1 }));
    assert_eq!(served.world.charged("daily"), 18);
}

#[test]
fn a_repeated_request_is_charged_once_and_answers_what_the_ledger_says_now() {
    let served = served(&[]);
    let first = served.post(CHARGE, Some("\"k-1\""), &call(3)).json();
    served.post(CHARGE, None, &call(5));
    let again = served.post(CHARGE, Some("k-1"), &call(3));
    assert_eq!(again.status, 200);
    let again = again.json();
    for same in ["decision", "id", "units"] {
        assert_eq!(again[same], first[same], "{again}");
    }
    let left = |answer: &Value| answer["remaining"]["daily"].as_u64().unwrap();
    assert_eq!(left(&again), left(&first) - 5, "{again}");
    assert_eq!(served.world.charged("daily"), 8);
    let other = served.post(CHARGE, Some("k-1"), &call(4));
    assert_eq!(
        (other.status, other.header("content-type")),
        (422, Some("application/problem+json"))
    );
    assert_eq!(served.world.charged("daily"), 8);
}

#[test]
fn a_request_has_one_key_of_printable_characters() {
    let served = served(&[]);
    let token = format!("Authorization: Bearer {TOKEN}");
    let json = "Content-Type: application/json";
    let body = call(1).to_string();
    let charge = |keys: &[&str]| {
        let headers = [&[json, &*token], keys].concat();
        served
            .send(&format!("POST {CHARGE}"), &headers, &body)
            .status
    };
    let key = |text: &str| format!("Idempotency-Key: {text}");
    assert_eq!(charge(&[&key("one"), &key("other")]), 400);
    let wrong = [
        String::new(),
        "\"\"".to_owned(),
        "x".repeat(256),
        "a\tb".to_owned(),
        "ä".to_owned(),
    ];
    for wrong in wrong {
        assert_eq!(charge(&[&key(&wrong)]), 400, "{wrong}");
    }
    assert_eq!(served.world.charged("daily"), 0);
    assert_eq!(charge(&[&key(&"x".repeat(255))]), 200);
}

#[test]
fn very_many_charges_at_once_take_turns() {
    let served = served(&[]);
    let before = served.allocated();
    let statuses: Vec<u16> = thread::scope(|scope| {
        let charge = || served.post(CHARGE, None, &call(1)).status;
        let threads: Vec<_> = (0..200).map(|_| scope.spawn(charge)).collect();
        let statuses = threads.into_iter().map(|thread| thread.join().unwrap());
        statuses.collect()
    });
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    assert_eq!(served.world.charged("daily"), 200);
    let grown = served.allocated().saturating_sub(before);
    assert!(grown < 25, "{grown} MiB more");
}

#[test]
fn a_key_is_known_after_a_restart() {
    let mut served = served(&[]);
    served.post(CHARGE, Some("k"), &call(3));
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    let (child, address) = super::start(&served.world, &["--listen", "127.0.0.1:0"]);
    (served.child, served.address) = (child, address);
    assert_eq!(served.post(CHARGE, Some("k"), &call(3)).status, 200);
    assert_eq!(served.world.charged("daily"), 3);
    assert_eq!(served.post(CHARGE, Some("k"), &call(4)).status, 422);
    assert_eq!(served.world.charged("daily"), 3);
}

#[test]
fn a_rejected_charge_says_when_it_fits_and_records_nothing() {
    let served = nearly_spent(10);
    assert_eq!(served.post(CHARGE, None, &call(8)).status, 200);
    let rejected = served.post(CHARGE, Some("later"), &call(3));
    assert_eq!(
        (rejected.status, rejected.header("content-type")),
        (429, Some("application/json"))
    );
    let body = rejected.json();
    assert_eq!(body["decision"], "rejected");
    let wait: u64 = rejected.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(
        wait,
        body["retry_after_seconds"].as_f64().unwrap().ceil() as u64
    );
    assert_eq!(
        body["retry_at"].as_str().unwrap().len(),
        "2026-11-22T08:01:27.123456Z".len()
    );
    assert_eq!(served.world.charged("daily"), QUOTA - 2);
    assert_eq!(
        served.post(CHARGE, Some("later"), &call(2)).status,
        200,
        "a rejected key is decided anew"
    );
    let never = served.post(CHARGE, None, &call(QUOTA + 1));
    assert_eq!(
        (never.status, &never.json()["decision"]),
        (400, &json!("refused"))
    );
}

#[test]
fn a_charge_is_released_and_settled_by_its_id() {
    let served = served(&[]);
    served.post(CHARGE, Some("a"), &call(9));
    let settled = served.post("/api/v1/settle", None, &json!({ "id": "a", "cost": 4 }));
    assert_eq!(
        settled.json(),
        json!({ "id": "a", "account": "youtube", "settled": true, "units": { "daily": 4 } })
    );
    assert_eq!(served.world.charged("daily"), 4);
    let released = served.post(
        "/api/v1/release",
        None,
        &json!({ "id": "a", "credential": "youtube" }),
    );
    assert_eq!(
        released.json(),
        json!({ "id": "a", "account": "youtube", "released": true })
    );
    assert_eq!(served.world.charged("daily"), 0);
    assert_eq!(
        served.post("/api/v1/release", Some("a"), &json!({})).status,
        200,
        "again"
    );
    assert_eq!(
        served
            .post("/api/v1/settle", None, &json!({ "id": "a", "cost": 4 }))
            .status,
        409
    );
    assert_eq!(
        served
            .post("/api/v1/release", None, &json!({ "id": "unknown" }))
            .status,
        404
    );
    assert_eq!(served.post("/api/v1/release", None, &json!({})).status, 400);
    assert_eq!(
        served
            .post(
                "/api/v1/settle",
                None,
                &json!({ "id": "a", "cost": { "monthly": 4 } })
            )
            .status,
        400
    );
    assert_eq!(served.post(CHARGE, Some("a"), &call(9)).status, 200);
    assert_eq!(
        served.world.charged("daily"),
        9,
        "a released key is charged anew"
    );
}

#[test]
fn a_client_charges_only_what_it_may() {
    let served = served(&[
        "serve.clients.dashboards.charge=[\"youtube\"]",
        "serve.clients.reader={ token = { env = \"OTHERS\" } }",
    ]);
    let as_reader = |path: &str| {
        let headers = [
            "Content-Type: application/json",
            "Authorization: Bearer another-token-of-16",
        ];
        served
            .send(&format!("POST {path}"), &headers, &call(1).to_string())
            .status
    };
    for path in [CHARGE, "/api/v1/release", "/api/v1/settle"] {
        assert_eq!(as_reader(path), 403, "{path}");
    }
    let other = json!({ "credential": "other", "call": "videos.list" });
    assert_eq!(served.post(CHARGE, None, &other).status, 403);
    for (body, said) in [
        (
            json!({ "credential": "youtube", "call": "videos.lst" }),
            "did you mean",
        ),
        (
            json!({ "credential": "youtube" }),
            "one of `call` and `cost`",
        ),
        (
            json!({ "credential": "youtube", "call": "videos.list", "times": 0 }),
            "1 or more",
        ),
        (
            json!({ "credential": "youtube", "cost": { "dayly": 1 } }),
            "did you mean",
        ),
        (
            json!({ "credential": "youtube", "cost": {} }),
            "at least one unit",
        ),
        (
            json!({ "credential": "youtube", "cost": -1 }),
            "expected units, such as 3",
        ),
        (
            json!({ "credential": "youtube", "cost": { "daily": 1.5 } }),
            "expected units, such as 3",
        ),
        (
            json!({ "credential": "youtube", "call": "videos.list", "tims": 3 }),
            "unknown field",
        ),
        (json!([1]), "expected a JSON object"),
        (
            json!(["youtube", "videos.list", null, 1, null]),
            "expected a JSON object",
        ),
    ] {
        let answer = served.post(CHARGE, None, &body);
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.text().contains(said), "{body}: {}", answer.text());
    }
    assert_eq!(served.world.charged("daily"), 0);
}

#[test]
fn charges_at_once_never_exceed_the_limit() {
    let served = nearly_spent(25);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    (0..5)
                        .map(|_| served.post(CHARGE, None, &call(1)).status)
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let granted = statuses.iter().filter(|status| **status == 200).count();
    assert_eq!(granted, 25, "{statuses:?}");
    assert!(
        statuses.iter().all(|status| matches!(status, 200 | 429)),
        "{statuses:?}"
    );
    assert_eq!(served.world.charged("daily"), QUOTA);
}

#[test]
fn the_same_key_at_once_is_charged_once() {
    let served = served(&[]);
    let statuses: Vec<u16> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| served.post(CHARGE, Some("same"), &call(2)).status))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    assert_eq!(served.world.charged("daily"), 2);
}

#[test]
fn a_client_that_hangs_up_can_repeat_its_charge() {
    use std::io::Write;
    let served = served(&[]);
    for _ in 0..5 {
        let body = call(2).to_string();
        let mut stream = std::net::TcpStream::connect(served.address).unwrap();
        let head = format!(
            "POST {CHARGE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {TOKEN}\r\nIdempotency-Key: gone\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
    }
    assert_eq!(served.post(CHARGE, Some("gone"), &call(2)).status, 200);
    assert_eq!(served.world.charged("daily"), 2);
}

/// A limit of each region beside others.
const SHARED: &str = r#"
regions = ["US", "GB"]
[upstreams.things]
base_url = "http://127.0.0.1:1"
calls = { "things.list" = { cost = { daily = 1, hourly = 2 } }, "things.get" = { cost = 1 } }
[credentials.first]
upstream = "things"
limits = { burst = { quota = 100, window = "1h" }, daily = { quota = 10, window = "1h" }, hourly = { quota = 5, window = "1h", scope = "{region}" } }
[credentials.second]
upstream = "things"
limits = { burst = { quota = 100, window = "1h" }, daily = { quota = 10, window = "1h" }, hourly = { quota = 5, window = "1h", scope = "{region}" } }
"#;

#[test]
fn units_are_charged_by_the_names_of_the_configuration() {
    let served = Served::over(World::written(SHARED, &[MANY, CLIENT]));
    let units = |body: &Value| {
        let answer = served.post(CHARGE, None, body);
        let id = answer.json()["id"].clone();
        let released = served.post("/api/v1/release", None, &json!({ "id": id }));
        (
            answer.status,
            answer.json()["units"].clone(),
            released.status,
        )
    };
    for (body, expected) in [
        (
            json!({ "credential": "first", "cost": 3 }),
            json!({ "daily": 3 }),
        ),
        (
            json!({ "credential": "second", "cost": { "daily": 2, "burst": 1 } }),
            json!({ "burst": 1, "daily": 2 }),
        ),
        (
            json!({ "credential": "first", "cost": { "hourly": 2 }, "region": "GB" }),
            json!({ "hourly/GB": 2 }),
        ),
        (
            json!({ "credential": "first", "cost": { "hourly": 2, "hourly/GB": 1 }, "region": "GB" }),
            json!({ "hourly/GB": 3 }),
        ),
    ] {
        assert_eq!(units(&body), (200, expected, 200), "{body}");
    }
    for (body, said) in [
        (
            json!({ "credential": "first", "cost": { "hourly": 1 } }),
            "over HTTP `region`",
        ),
        (
            json!({ "credential": "first", "cost": 1, "region": "XX" }),
            "unknown region `XX`",
        ),
        (
            json!({ "credential": "first", "cost": { "minutely": 1 } }),
            "defined: burst, daily, hourly",
        ),
    ] {
        let answer = served.post(CHARGE, None, &body);
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.text().contains(said), "{}", answer.text());
    }
    let charged = served.post(
        CHARGE,
        Some("two"),
        &json!({ "credential": "first", "cost": 3 }),
    );
    assert_eq!(charged.status, 200);
    let settle = json!({ "id": "two", "credential": "first", "cost": 2 });
    let settled = served.post("/api/v1/settle", None, &settle);
    assert_eq!(settled.json()["units"], json!({ "daily": 2 }));
}

#[test]
fn a_key_names_one_charge_of_an_account_whoever_sends_it() {
    let others = "serve.clients.others={ token = { env = \"OTHERS\" }, may = [\"charge\"] }";
    let served = Served::over(World::written(SHARED, &[MANY, CLIENT, others]));
    let first = json!({ "credential": "first", "cost": 1 });
    let second = json!({ "credential": "second", "cost": 1 });
    assert_eq!(served.post(CHARGE, Some("one"), &first).status, 200);
    assert_eq!(served.post(CHARGE, Some("one"), &first).status, 200);
    let as_other = |body: &Value| {
        let headers = [
            "Content-Type: application/json",
            "Authorization: Bearer another-token-of-16",
            "Idempotency-Key: one",
        ];
        let sent = served.send(&format!("POST {CHARGE}"), &headers, &body.to_string());
        sent.status
    };
    let other_cost = json!({ "credential": "first", "cost": 2 });
    assert_eq!(as_other(&other_cost), 422, "an id of the account is taken");
    assert_eq!(as_other(&second), 200, "another account has its own ids");
    let recorded = |account: &str| {
        let status = served.world.json(&["status"]);
        let limits = status["limits"].as_array().unwrap().clone();
        let its = |one: &&Value| one["account"] == account && one["limit"] == "daily";
        limits.iter().find(its).unwrap()["used"].clone()
    };
    assert_eq!(
        (recorded("first"), recorded("second")),
        (json!(1), json!(1))
    );
}

#[test]
fn an_id_over_http_is_short_and_visible_as_on_the_command_line() {
    let served = served(&[]);
    for id in [
        "x".repeat(257),
        "a\u{202e}b".to_owned(),
        "a\u{1b}[2J".to_owned(),
        "a\u{200b}".to_owned(),
    ] {
        let body = json!({ "credential": "youtube", "id": id });
        for path in ["/api/v1/release", "/api/v1/settle"] {
            let mut body = body.clone();
            if path.ends_with("settle") {
                body["cost"] = json!({ "daily": 1 });
            }
            let answer = served.post(path, None, &body);
            assert_eq!(answer.status, 400, "{path} {id:?}: {}", answer.text());
            assert!(
                answer.text().contains("the id of a charge"),
                "{}",
                answer.text()
            );
        }
    }
}

#[test]
fn a_cost_beyond_what_a_limit_counts_is_refused_over_every_ledger() {
    let redis = RedisServer::start();
    let url = format!("ledger.url=\"redis://127.0.0.1:{}\"", redis.port());
    for sets in [&[][..], &[url.as_str(), "ledger.timeout=5s"]] {
        let served = served(sets);
        assert_eq!(served.post(CHARGE, Some("one"), &call(3)).status, 200);
        let settle = |units: u64| {
            let body = json!({ "id": "one", "cost": { "daily": units } });
            served.post("/api/v1/settle", None, &body)
        };
        for units in [(1 << 52) + 1, 1 << 63, u64::MAX] {
            let refused = settle(units);
            assert_eq!(refused.status, 400, "{units}: {}", refused.text());
            assert!(
                refused.text().contains("4503599627370496"),
                "{}",
                refused.text()
            );
            assert_eq!(served.world.charged("daily"), 3);
        }
        assert_eq!(settle(1 << 52).status, 200);
        assert_eq!(served.world.charged("daily"), 1 << 52);
        assert_eq!(settle(4).status, 200);
        assert_eq!(served.world.charged("daily"), 4);
    }
}

#[test]
fn a_release_that_was_answered_is_final() {
    let redis = RedisServer::start();
    let url = format!("ledger.url=\"redis://127.0.0.1:{}\"", redis.port());
    for sets in [&[][..], &[url.as_str(), "ledger.timeout=5s"]] {
        let served = served(sets);
        for round in 0..12 {
            let id = format!("charge-{round}");
            assert_eq!(served.post(CHARGE, Some(&id), &call(3)).status, 200);
            let correct = |settles: bool| {
                let (path, body) = match settles {
                    true => (
                        "/api/v1/settle",
                        json!({ "id": id, "cost": { "daily": 7 } }),
                    ),
                    false => ("/api/v1/release", json!({ "id": id })),
                };
                served.post(path, None, &body).status
            };
            let answers: Vec<(bool, u16)> = thread::scope(|scope| {
                let threads: Vec<_> = (0..6)
                    .map(|nth| scope.spawn(move || (nth % 3 > 0, correct(nth % 3 > 0))))
                    .collect();
                threads.into_iter().map(|one| one.join().unwrap()).collect()
            });
            for (settles, status) in answers {
                assert!(
                    status == 200 || (settles && status == 409),
                    "{settles} {status}"
                );
            }
            assert_eq!(served.world.charged("daily"), 0, "round {round}");
        }
    }
}

#[test]
fn an_id_that_this_program_could_make_is_refused() {
    let served = served(&[]);
    for wrong in ["mine~1", "mine~07"] {
        let refused = served.post(CHARGE, Some(wrong), &call(1));
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text());
    }
    assert_eq!(served.post(CHARGE, Some("mine~x"), &call(1)).status, 200);
    let body = json!({ "id": "\u{1}reported daily" });
    assert_eq!(served.post("/api/v1/release", None, &body).status, 400);
    assert_eq!(served.world.charged("daily"), 1);
}
