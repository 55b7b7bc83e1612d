//! The behaviours that every ledger must show. Time is given with every call. Most are stories of `tests/cases/stories.txt`; what
//! no story tells is a function, and one that is in no list below is dead code, as the compiler says.

pub(crate) mod buckets;
pub(crate) mod many;
pub(crate) mod sharing;
pub(crate) mod stories;
pub(crate) mod usage;

/// Runs the suite over one ledger: `suite!(open)`, where `open` is an async function without arguments that gives a fresh,
/// empty `Store`.
macro_rules! suite {
    ($open:path) => {
        $crate::suite::behaviours! { $open, stories:
            every_story_is_answered_as_it_is_written
            a_story_that_is_answered_otherwise_is_found
        }
        $crate::suite::behaviours! { $open, usage:
            retry_after_is_exact_where_charges_came_unevenly
            limits_are_told_in_the_order_of_their_names
            returns_add_up_to_what_is_used
            units_return_at_the_very_instant_that_was_told
            returns_of_many_charges_are_few
            what_returns_in_an_hour_in_six_and_in_a_day_is_told_apart
        }
        $crate::suite::behaviours! { $open, buckets:
            what_is_merged_counts_as_before
            a_changed_counting_never_grants_more
        }
        $crate::suite::behaviours! { $open, many:
            each_of_many_limits_is_counted_and_returns_by_itself
            many_charges_of_one_instant_count_each_once
            a_release_frees_every_limit_of_its_charge
            a_settlement_moves_units_from_one_of_many_limits_to_another
            an_id_that_was_charged_of_another_of_many_limits_holds_that
            a_closing_of_one_of_many_limits_stops_its_value_alone
            charges_and_floors_of_many_limits_come_from_elsewhere
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
