//! What holds for every ledger, whatever is asked of it and whenever.

pub(crate) mod agreement;
pub(crate) mod cases;
pub(crate) mod leaving;
pub(crate) mod overspend;
pub(crate) mod retrying;
pub(crate) mod strictness;

use std::fmt::Debug;
use std::sync::Arc;

use ingest_ledger::Ledger;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};

use super::Store;

/// Runs the properties over one ledger: `properties!(open)`, where `open` is an async function without arguments that
/// gives a fresh, empty `Store`.
macro_rules! properties {
    ($open:path) => {
        #[test]
        fn a_rejected_charge_is_rejected_until_its_retry_and_granted_at_it() {
            use $crate::properties::{cases, check, retrying};
            check($open, cases::visits(), retrying::exact);
        }

        #[test]
        fn no_window_of_any_history_holds_more_than_its_limit() {
            use $crate::properties::{cases, check, overspend};
            check($open, cases::visits(), overspend::never);
        }

        #[test]
        fn what_is_to_be_left_counts_as_if_it_were_charged() {
            use $crate::properties::{cases, check, leaving};
            check($open, cases::visits(), leaving::like_charging);
        }

        #[test]
        fn counting_in_buckets_is_at_most_one_part_of_the_window_stricter() {
            use $crate::properties::{cases, check, strictness};
            check($open, cases::visits(), strictness::of_one_part);
        }

        #[test]
        fn every_answer_is_the_models() {
            use $crate::properties::{agreement, cases, check};
            check($open, cases::stories(), agreement::with_the_model);
        }

        #[test]
        fn every_answer_is_the_models_where_limits_are_many() {
            use $crate::properties::{agreement, cases, check_some};
            let stories = cases::stories_among_many();
            check_some(24, $open, stories, agreement::with_the_model);
        }
    };
}

pub(crate) use properties;

/// Holds one property against many cases, each in an account of its own in one store. `PROPTEST_CASES` sets how many.
pub(crate) fn check<S: Store, C: Debug>(
    open: impl AsyncFnOnce() -> S,
    cases: impl Strategy<Value = C>,
    property: impl AsyncFn(&Arc<dyn Ledger>, C),
) {
    check_some(128, open, cases, property);
}

/// The same against `count` cases, unless `PROPTEST_CASES` says otherwise.
pub(crate) fn check_some<S: Store, C: Debug>(
    count: u32,
    open: impl AsyncFnOnce() -> S,
    cases: impl Strategy<Value = C>,
    property: impl AsyncFn(&Arc<dyn Ledger>, C),
) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let store = runtime.block_on(open());
    let ledger = store.ledger();
    let asked = std::env::var("PROPTEST_CASES").is_ok();
    let cases_of_one_run = if asked {
        Config::default().cases
    } else {
        count
    };
    let config = Config {
        failure_persistence: None,
        cases: cases_of_one_run,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&cases, |case| {
        runtime.block_on(property(&ledger, case));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
