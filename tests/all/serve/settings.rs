//! `[serve]`: what may be written there, and what a query may take.

use super::Served;
use crate::support::world::World;

#[test]
fn a_wrong_value_is_refused_with_what_to_write() {
    let world = World::new();
    for (set, said) in [
        ("serve.listen=8080", "expected a string"),
        (
            "serve.listen=localhost",
            "expected an IP address and a port",
        ),
        (
            "serve.hosts=[\"https://ingest.example.org\"]",
            "expected a host name",
        ),
        (
            "serve.trusted_hops=-1",
            "expected a whole number from 0 to 100",
        ),
        ("serve.readers={ window = \"1min\" }", "quota = 60"),
        ("serve.readers={ quota = 0, window = \"1min\" }", "from 1"),
        (
            "serve.readers={ quota = 5, window = \"1min\", counting = \"bucket\" }",
            "did you mean buckets",
        ),
        ("serve.query_timeout=0s", "longer than zero"),
        ("serve.clients.a={ may = [\"read\"] }", "token"),
        (
            "serve.clients.a={ token = \"secret\" }",
            "must not be in this file",
        ),
        (
            "serve.clients.a={ token = { env = \"A\" }, may = [\"write\"] }",
            "expected one of read, charge",
        ),
        (
            "serve.clients.a={ token = { env = \"A\" }, may = [\"charge\"], charge = [\"youtub\"] }",
            "did you mean youtube",
        ),
        ("serve.colour=1", "unknown key"),
    ] {
        let ran = world.ingest(&["check", "--config-only", "--set", set]);
        assert_eq!(ran.code, 2, "{set}: {ran:?}");
        let text = format!("{}{}", ran.stdout, ran.stderr);
        assert!(text.contains(said), "{set}: {text}");
        assert!(!text.contains("\"secret\""), "{text}");
    }
}

#[test]
fn two_clients_cannot_have_the_same_token() {
    let world = World::configured(
        &[
            "serve.clients.a={ token = { env = \"YOUTUBE_API_KEY\" } }",
            "serve.clients.b={ token = { env = \"YOUTUBE_API_KEY\" } }",
        ],
        |_| {},
    );
    let ran = world.ingest(&["serve"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("same token"), "{}", ran.stderr);
}

#[test]
fn a_query_that_takes_too_long_is_cancelled() {
    let served = Served::after_a_run(&["serve.query_timeout=10ms"]);
    let began = std::time::Instant::now();
    let answer = served.get("/plan?schedule=hourly&days=60");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert!(
        began.elapsed() < std::time::Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(served.get("/healthz").status, 200);
}

#[test]
fn counting_in_buckets_never_lets_more_through() {
    let served = Served::new(&[
        "serve.readers={ quota = 5, window = \"3s\", counting = \"buckets\", buckets = 3 }",
    ]);
    let mut granted: Vec<std::time::Instant> = Vec::new();
    let begin = std::time::Instant::now();
    while begin.elapsed() < std::time::Duration::from_secs(8) {
        let before = std::time::Instant::now();
        if served.get("/nothing").status == 404 {
            granted.push(before);
        }
        std::thread::sleep(std::time::Duration::from_millis(40));
    }
    assert!(granted.len() >= 10, "{}", granted.len());
    for pair in granted.windows(6) {
        assert!(
            pair[5].duration_since(pair[0]).as_millis() >= 2900,
            "{pair:?}"
        );
    }
}
