//! `Link` and `Retry-After`.

use std::time::Duration;

use ingest_quota::Timestamp;
use ingest_upstream::{next_link, retry_after};
use proptest::prelude::*;

use ingest_testing::fuzz::text_near;

proptest! {
    #[test]
    fn a_changed_link_is_a_piece_of_the_header_or_none(values in prop::collection::vec(text_near("link"), 1..3)) {
        if let Some(next) = next_link(values.iter().map(String::as_str)) {
            prop_assert!(values.iter().any(|value| value.contains(next)));
        }
    }

    #[test]
    fn a_changed_wait_is_bounded_or_none(value in text_near("retry_after"), now in any::<i64>()) {
        let wait = retry_after(&value, Timestamp::from_micros(now));
        prop_assert!(wait.is_none_or(|wait| wait <= Duration::from_secs(32 * 86_400)));
    }
}
