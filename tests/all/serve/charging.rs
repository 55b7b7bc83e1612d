//! Charging over HTTP: the same ledger, the same ids, and an answer for every outcome.

use std::thread;

use serde_json::{Value, json};

use super::{CLIENT, Served, TOKEN};
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
