//! The behaviours that every ledger must show. Time is given with every call. A behaviour that is in no list below is
//! dead code, and the compiler says so.

pub(crate) mod afterwards;
pub(crate) mod buckets;
pub(crate) mod charges;
pub(crate) mod closings;
pub(crate) mod many;
pub(crate) mod retry;
pub(crate) mod sharing;
pub(crate) mod usage;

/// Runs the suite over one ledger: `suite!(open)`, where `open` is an async function without arguments that gives a fresh,
/// empty `Store`.
macro_rules! suite {
    ($open:path) => {
        $crate::suite::behaviours! { $open, charges:
            a_charge_is_granted_and_counted
            a_charge_that_fills_the_limit_is_granted
            a_rejected_charge_records_nothing
            a_charge_takes_from_all_of_its_limits_or_from_none
            a_charge_of_no_limit_is_granted
            a_repeated_id_is_granted_again_and_counted_once
            a_repeated_id_is_granted_where_nothing_is_left
            an_id_names_a_new_charge_once_it_is_forgotten
            an_id_names_a_new_charge_once_its_calendar_period_is_over
            an_id_is_remembered_as_long_as_the_limits_that_its_charge_took
            an_id_that_was_charged_again_names_its_newest_charge
            one_id_in_two_accounts_is_two_charges
            what_can_never_fit_is_told_apart
            what_is_to_be_left_counts_as_used
            accounts_are_apart
            time_never_runs_backwards
            however_many_charges_leave_at_once_none_counts_any_more
            charges_of_one_instant_leave_together
            what_left_a_limit_while_it_was_not_charged_counts_no_more
            what_a_longer_window_holds_outlives_charges_by_a_shorter_one
        }
        $crate::suite::behaviours! { $open, retry:
            a_unit_counts_for_its_window_and_the_grace
            retry_after_frees_enough_for_this_very_cost
            retry_after_counts_what_must_be_left
            retry_after_looks_past_a_release
            retry_after_counts_no_charge_twice_before_those_of_another_limit
            retry_after_is_told_by_the_callers_clock
            the_limit_that_fits_last_is_named
            the_first_by_name_is_named_where_two_fit_at_once
            a_calendar_limit_returns_all_at_midnight
            a_day_of_twenty_three_hours_ends_at_its_own_midnight
            a_day_of_twenty_five_hours_ends_at_its_own_midnight
            an_hour_ends_at_its_own_end_after_the_clock_went_back_by_hours
            a_charge_just_before_midnight_counts_for_the_next_day_too
            a_window_that_slides_and_resets_holds_both
            an_unsettled_past_is_exact_to_the_microsecond
            retry_after_is_exact_where_charges_came_unevenly
        }
        $crate::suite::behaviours! { $open, afterwards:
            a_release_gives_all_units_back
            a_settled_cost_counts_at_the_time_of_its_charge
            a_settled_cost_may_go_beyond_the_limit
            a_settled_cost_may_name_another_limit
            a_settled_cost_may_name_a_limit_that_was_added_later
            the_later_of_two_settlings_holds
            a_release_is_final
            a_charge_of_nothing_can_be_settled
            a_release_before_its_charge_wins
            an_unknown_id_is_settled_at_now
            a_settlement_counts_no_more_than_any_ledger_can
            what_is_absorbed_counts_at_its_own_time
            what_is_absorbed_counts_once
            what_is_absorbed_may_go_beyond_the_limit
            what_is_absorbed_from_the_future_counts_from_now
            what_is_absorbed_too_late_counts_for_nothing
            a_settled_id_stays_settled_when_absorbed
            an_absorbed_id_can_be_settled
            an_absorbed_id_is_not_counted_when_its_charge_arrives
            a_floor_counts_what_the_ledger_no_longer_knows
            a_floor_and_the_charges_it_stands_for_are_not_added_up
            a_floor_holds_until_its_time_leaves_the_window
            a_charge_drops_no_floor_that_still_counts
            a_floor_of_another_configuration_is_kept
            the_highest_of_several_floors_holds
            a_charge_at_the_instant_of_a_floor_comes_after_it
            retry_after_waits_for_a_floor
        }
        $crate::suite::behaviours! { $open, closings:
            a_closed_limit_rejects_until_it_opens
            a_closed_limit_stops_only_what_needs_it
            a_reopened_limit_grants_at_once
            the_later_of_two_closings_holds
            a_full_limit_that_is_closed_waits_for_both
            a_closing_without_a_reset_lets_one_charge_try_after_an_hour
            closings_that_follow_declined_probes_last_twice_as_long_up_to_a_day
            a_reopened_limit_that_is_closed_again_is_closed_for_an_hour
            refusals_of_requests_sent_before_a_closing_do_not_lengthen_its_interval
            a_known_reset_ends_the_probes
            a_copied_closing_keeps_its_end_and_its_interval
            a_copied_closing_that_is_over_grants_a_probe
            a_copied_closing_that_ends_with_one_that_is_over_changes_nothing
            a_try_that_another_limit_rejects_is_not_used_up
            a_reopened_limit_needs_no_more_tries
            a_known_id_is_granted_though_its_limit_is_closed
        }
        $crate::suite::behaviours! { $open, usage:
            an_unknown_account_has_used_nothing
            limits_are_told_in_the_order_of_their_names
            returns_add_up_to_what_is_used
            units_return_at_the_very_instant_that_was_told
            a_calendar_limit_returns_everything_in_one
            what_returns_in_an_hour_in_six_and_in_a_day_is_told_apart
            since_reset_counts_the_calendar_day_alone
            what_is_charged_at_a_reset_counts_since_then
            a_limit_that_was_not_charged_for_long_has_used_nothing
            returns_of_many_charges_are_few
            a_closed_limit_has_nothing_remaining
        }
        $crate::suite::behaviours! { $open, buckets:
            charges_of_a_part_count_as_if_made_at_its_end
            parts_return_one_after_another
            an_id_is_remembered_for_ten_minutes_and_counts_once
            a_release_of_a_forgotten_id_frees_nothing
            a_settlement_of_a_forgotten_id_counts_in_full
            a_settlement_that_names_an_unknown_limit_keeps_no_id_for_longer
            a_settlement_corrects_the_part_of_its_charge
            an_absorbed_id_is_remembered_while_it_counts
            a_limit_that_counts_exactly_keeps_the_ids_of_its_account
            what_is_merged_counts_as_before
            a_shorter_limit_counts_as_before_where_its_past_is_merged
            a_limit_that_was_charged_among_what_is_merged_counts_as_before
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
            a_charge_counts_by_a_longer_window_though_a_shorter_one_let_it_go
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
