//! The behaviours that every ledger must show. Time is given with every call. Most are stories of `tests/cases/stories.txt`; what
//! no story tells is a function, and one that is in no list below is dead code, as the compiler says.

pub(crate) mod buckets;
pub(crate) mod many;
pub(crate) mod sharing;
pub(crate) mod stories;

/// Runs the suite over one ledger: `suite!(open)`, where `open` is an async function without arguments that gives a fresh,
/// empty `Store`.
macro_rules! suite {
    ($open:path) => {
        $crate::suite::behaviours! { $open, stories:
            every_story_is_answered_as_it_is_written
            a_story_that_is_answered_otherwise_is_found
        }
        $crate::suite::behaviours! { $open, buckets:
            what_is_merged_counts_as_before
            a_changed_counting_never_grants_more
        }
        $crate::suite::behaviours! { $open, many:
            many_charges_of_one_instant_count_each_once
            what_many_limits_counted_leaves_the_log
            merged_charges_of_many_limits_count_as_those_of_few
        }
        $crate::suite::behaviours! { $open, sharing:
            what_one_handle_charges_another_sees
            many_at_once_spend_exactly_what_is_left
            many_repeating_one_id_are_counted_once
        }
    };
}

macro_rules! behaviours {
    ($open:path, $file:ident: $($behaviour:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                let store = $open().await;
                $crate::suite::$file::$behaviour(&store).await;
            }
        )*
    };
}

pub(crate) use {behaviours, suite};
