//! The boundary proof: what `cargo run --example boundary` prints, over both ledgers.

use super::Store;

#[path = "../../../examples/boundary.rs"]
#[expect(dead_code, reason = "the example's own main")]
#[allow(unreachable_pub)]
mod example;

use example::{LetThrough, fixed_window, sliding_window};

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
async fn our_window_lets_its_limit_through_over_sqlite() {
    let store = super::sqlite::File::fresh().await;
    assert_eq!(
        sliding_window(&*store.ledger()).await,
        LetThrough {
            before: 50,
            after: 0
        }
    );
}

#[tokio::test]
async fn our_window_lets_its_limit_through_over_redis() {
    let store = super::redis::Standalone::open().await;
    assert_eq!(
        sliding_window(&*store.ledger()).await,
        LetThrough {
            before: 50,
            after: 0
        }
    );
}
