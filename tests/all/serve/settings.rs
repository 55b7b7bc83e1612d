//! `[serve]`: what may be written there, and what a query may take.

use super::Served;

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
