//! The limits on requests of readers.

use std::time::{Duration, Instant};

use super::{CLIENT, Served, TOKEN};

#[test]
fn a_request_beyond_the_limit_says_when_the_next_one_fits() {
    let served = Served::new(&["serve.readers={ quota = 3, window = \"2s\" }"]);
    let began = Instant::now();
    for left in [2, 1, 0] {
        let answer = served.get("/api/v1/history");
        assert_eq!(answer.status, 200);
        assert_eq!(
            answer.header("ratelimit-policy"),
            Some("\"readers\";q=3;w=2")
        );
        let field = answer.header("ratelimit").unwrap();
        assert!(
            field.starts_with(&format!("\"readers\";r={left};t=")),
            "{field}"
        );
        assert_eq!(answer.header("x-ratelimit-reset"), None);
    }
    let rejected = served.get("/api/v1/history");
    assert_eq!(
        (rejected.status, rejected.header("content-type")),
        (429, Some("application/problem+json"))
    );
    let problem = rejected.json();
    assert_eq!(
        problem["type"],
        "https://iana.org/assignments/http-problem-types#quota-exceeded"
    );
    assert_eq!(problem["violated-policies"], serde_json::json!(["readers"]));
    let wait: u64 = rejected.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=3).contains(&wait), "{wait}");
    assert_eq!(
        rejected.header("ratelimit"),
        Some(&*format!("\"readers\";r=0;t={wait}"))
    );
    // Rejected requests do not count: trying again and again does not postpone the next one.
    while began.elapsed() < Duration::from_millis(1500) {
        assert_eq!(served.get("/api/v1/history").status, 429);
    }
    std::thread::sleep(Duration::from_secs(wait));
    assert_eq!(served.get("/api/v1/history").status, 200);
}

/// The name and the parameters of the only member of a list, as an independent parser of structured fields reads it.
fn member(field: &str) -> (String, Vec<(String, i64)>) {
    let list: sfv::List = sfv::Parser::new(field).parse().unwrap();
    let [sfv::ListEntry::Item(item)] = list.as_slice() else {
        panic!("{field}");
    };
    let number = |value: &sfv::BareItem| i64::from(value.as_integer().unwrap());
    let parameters = item.params.iter();
    let parameters = parameters.map(|(key, value)| (key.as_str().to_owned(), number(value)));
    let name = item.bare_item.as_string().unwrap();
    (name.as_str().to_owned(), parameters.collect())
}

#[test]
fn the_fields_of_every_answer_are_structured_fields() {
    let served = Served::new(&["serve.readers={ quota = 4, window = \"90s\" }", CLIENT]);
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let answers = [
        ("readers", served.get("/")),
        ("readers", served.get("/api/v1/search")),
        ("readers", served.send("POST /api/v1/charge", &[], "{}")),
        ("readers", served.send("GET /", &["Host: evil.example"], "")),
        ("readers", served.get("/nothing")),
        ("readers", served.get("/nothing")),
        ("client", served.send("GET /metrics", &[&bearer], "")),
        ("client", served.send("PUT /metrics", &[&bearer], "")),
    ];
    let statuses: Vec<u16> = answers.iter().map(|(_, answer)| answer.status).collect();
    assert_eq!(statuses, [200, 400, 415, 403, 404, 429, 200, 405]);
    for (name, answer) in &answers {
        let (policy, parameters) = member(answer.header("ratelimit-policy").unwrap());
        let quota = if *name == "client" { 100_000 } else { 4 };
        let window = 90;
        let expected = [("q".to_owned(), quota), ("w".to_owned(), window)];
        assert_eq!((&*policy, &*parameters), (*name, &expected[..]));
        let (limit, parameters) = member(answer.header("ratelimit").unwrap());
        assert_eq!(limit, *name);
        let keys: Vec<&str> = parameters.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["r", "t"], "{answer:?}");
        assert!(
            (0..=quota).contains(&parameters[0].1) && (0..=window + 1).contains(&parameters[1].1)
        );
    }
}

#[test]
fn a_server_that_many_read_at_once_takes_little_memory() {
    let served = Served::after_a_run(&["serve.readers={ quota = 100_000, window = \"1min\" }"]);
    let before = served.allocated();
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                for path in [
                    "/",
                    "/api/v1/status",
                    "/search?q=a",
                    "/api/v1/records/video",
                ] {
                    // A server that is too busy for a request asks its client to send it again.
                    let statuses = (0..40).map(|_| served.get(path).status);
                    let status = statuses.into_iter().find(|status| *status != 503);
                    assert_eq!(status, Some(200), "{path}");
                }
            });
        }
    });
    let grown = served.allocated().saturating_sub(before);
    assert!(grown < 25, "{grown} MiB more");
}

#[test]
fn a_query_that_takes_too_long_is_cancelled() {
    let served = Served::after_a_run(&["serve.query_timeout=10ms"]);
    let began = Instant::now();
    let answer = served.get("/plan?schedule=hourly&days=60");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert!(
        began.elapsed() < Duration::from_secs(2),
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
    let mut granted: Vec<Instant> = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(8) {
        let before = Instant::now();
        if served.get("/nothing").status == 404 {
            granted.push(before);
        }
        std::thread::sleep(Duration::from_millis(40));
    }
    assert!(granted.len() >= 10, "{}", granted.len());
    for pair in granted.windows(6) {
        assert!(
            pair[5].duration_since(pair[0]).as_millis() >= 2900,
            "{pair:?}"
        );
    }
}
