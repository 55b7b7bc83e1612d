//! The boundary proof: what `cargo run --example boundary` prints, over both ledgers.

use super::Store;
use ingest_testing::redis_server::RedisServer;

#[path = "../../../../examples/boundary/main.rs"]
#[expect(dead_code, reason = "the example's own main")]
#[allow(unreachable_pub)]
mod example;

use std::time::Duration;

use example::live::{live, most_within};
use example::{LetThrough, countings, fixed_window, picture, sliding_window, worst};

#[test]
fn a_fixed_window_lets_twice_its_limit_through() {
    assert_eq!(
        fixed_window(),
        LetThrough {
            before: 50,
            after: 50
        }
    );
}

#[tokio::test]
async fn our_window_lets_its_limit_through_over_every_ledger() {
    let file = super::sqlite::File::fresh().await;
    let redis = super::redis::Standalone::open().await;
    for ledger in [file.ledger(), redis.ledger()] {
        let let_through = sliding_window(&*ledger).await;
        let expected = LetThrough {
            before: 50,
            after: 0,
        };
        assert_eq!(let_through, expected);
    }
}

#[tokio::test]
async fn the_same_charges_by_the_clock_of_redis_pass_a_fixed_window_beyond_its_limit_and_ours_never()
 {
    const WINDOW: Duration = Duration::from_secs(1);
    let server = RedisServer::start();
    let granted = live(&format!("redis://127.0.0.1:{}", server.port()), WINDOW).await;
    let [fixed, sorted, ours] = granted.map(|(_, granted)| most_within(WINDOW, &granted));
    assert!(fixed > 50, "{fixed}");
    assert_eq!((sorted, ours), (50, 50));
}

#[test]
fn the_worst_minute_of_each_way_to_count_is_found() {
    let worst = countings().map(|(_, counting)| worst(counting).1);
    let [fixed, two_buckets, parts, log] = worst;
    assert_eq!((fixed, parts, log), (100, 50, 50));
    assert!((90..100).contains(&two_buckets), "{two_buckets}");
}

#[test]
fn the_documentation_shows_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/boundary.svg");
    let picture = picture();
    if std::env::var_os("INGEST_WRITE_DOCS").is_some() {
        std::fs::write(path, &picture).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == picture,
        "INGEST_WRITE_DOCS=1 writes docs/boundary.svg"
    );
}
