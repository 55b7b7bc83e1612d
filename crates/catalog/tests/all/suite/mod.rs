//! The behaviours that every catalog must show. A catalog joins with a type that implements `Place`, and a module with
//! `suite!`. A behaviour that is in no list below is dead code, and the compiler says so.

pub(crate) mod landing;
pub(crate) mod leases;
pub(crate) mod passes;
pub(crate) mod pending;
pub(crate) mod search;
pub(crate) mod tags;
pub(crate) mod views;

use std::sync::Arc;

use futures_util::TryStreamExt;
use ingest_catalog::{
    CatalogReader, Landed, Leases, PassId, PassRecord, PendingId, RecordIds, RecordsQuery,
    SearchQuery, StoredRecord,
};
use ingest_quota::Timestamp;

use super::fixture::{Page, at, pending_query};

/// A fresh catalog, and any number of handles on it, as several processes have.
pub(crate) trait Place: Send + Sync {
    /// Opens one more handle.
    fn open(&self) -> Handle;

    /// The rows of a query in text, with a space between two columns, and `-` where there is no value.
    fn rows(&self, sql: &str) -> Vec<String>;

    /// The query for the names of the views.
    fn views(&self) -> &'static str;
}

/// One process's handle on a catalog.
pub(crate) struct Handle {
    pub(crate) store: Arc<ingest_catalog::Catalog>,
    pub(crate) leases: Arc<dyn Leases>,
    pub(crate) archive: Arc<CatalogReader>,
}

/// The catalog that a behaviour is checked on.
pub(crate) struct Catalog {
    place: Arc<dyn Place>,
    pub(crate) store: Arc<ingest_catalog::Catalog>,
    pub(crate) leases: Arc<dyn Leases>,
    archive: Arc<CatalogReader>,
}

impl Catalog {
    pub(crate) fn new(place: Arc<dyn Place>) -> Self {
        let Handle {
            store,
            leases,
            archive,
        } = place.open();
        Self {
            place,
            store,
            leases,
            archive,
        }
    }

    /// Another handle on the same catalog.
    pub(crate) fn another(&self) -> Self {
        Self::new(Arc::clone(&self.place))
    }

    /// Continues with a new handle, as the next run does.
    pub(crate) fn reopen(&mut self) {
        *self = self.another();
    }

    /// What somebody reads who asks by SQL.
    pub(crate) fn rows(&self, sql: &str) -> Vec<String> {
        self.place.rows(sql)
    }

    pub(crate) fn views(&self) -> Vec<String> {
        self.rows(self.place.views())
    }

    pub(crate) fn archive(&self) -> &CatalogReader {
        &self.archive
    }

    pub(crate) async fn land(&self, page: &Page) -> Landed {
        page.land(&self.store).await.unwrap()
    }

    /// The channels that listed videos name at a place and that are to be fetched.
    pub(crate) async fn pending(&self, at: &str, fresh_since: Timestamp) -> Vec<(String, PassId)> {
        let query = pending_query(at, fresh_since);
        let pending = self.store.pending_ids(query).await.unwrap();
        pending
            .into_iter()
            .map(|PendingId { id, pass, .. }| (id, pass))
            .collect()
    }

    /// Ids of the records that contain the words, sorted.
    pub(crate) async fn found(&self, words: &str) -> Vec<String> {
        let query = SearchQuery {
            words: words.to_owned(),
            kind: None,
            region: None,
            since: None,
            limit: 99,
        };
        let hits = self.archive().search(query).await.unwrap().hits;
        let mut ids: Vec<String> = hits.into_iter().map(|hit| hit.id).collect();
        ids.sort();
        ids
    }

    pub(crate) fn records_query(kind: &str) -> RecordsQuery {
        RecordsQuery {
            kind: kind.to_owned(),
            region: None,
            since: None,
            changed_since: None,
        }
    }

    pub(crate) async fn records(&self, kind: &str) -> Vec<StoredRecord> {
        let pages = self.archive().records(Self::records_query(kind));
        let pages: Vec<_> = pages.try_collect().await.unwrap();
        pages.concat()
    }

    /// Ids of the records of an export, in its order.
    pub(crate) async fn exported(&self, query: RecordsQuery) -> Vec<String> {
        let pages: Vec<_> = self.archive().records(query).try_collect().await.unwrap();
        pages.concat().into_iter().map(|one| one.id).collect()
    }

    /// What a pass listed: step and id, in order.
    pub(crate) async fn listed(&self, pass: PassId) -> Vec<String> {
        let mut listed = Vec::new();
        for step in &self.store.listings(&[pass]).await.unwrap()[&pass] {
            listed.extend(step.ids.iter().map(|id| format!("{} {id}", step.step)));
        }
        listed
    }

    pub(crate) async fn history(&self) -> Vec<PassRecord> {
        let all = Timestamp::from_micros(i64::MIN);
        self.archive().history(all).await.unwrap()
    }

    /// When these channels were last fetched: id and minute.
    pub(crate) async fn last_fetched(&self, ids: &[&str]) -> Vec<String> {
        let ids: Vec<Arc<str>> = ids.iter().map(|id| Arc::from(*id)).collect();
        let ids = RecordIds::new("youtube", "channel", &ids);
        let fetched = self.store.last_fetched(ids).await.unwrap();
        let minute = |at_time: Timestamp| (at_time.micros() - at(0).micros()) / 60_000_000;
        fetched
            .into_iter()
            .map(|(id, at)| format!("{id} {}", minute(at)))
            .collect()
    }
}

/// Runs the suite over a catalog: `suite!(place)`, where `place` is a function that returns a fresh `Arc<dyn Place>`.
macro_rules! suite {
    ($place:path) => {
        $crate::suite::behaviours! { $place, passes:
            nothing_is_known_of_a_region_that_was_never_walked
            an_unfinished_pass_stands_where_it_stopped
            open_passes_come_oldest_first_with_the_shared_one_among_them
            a_slice_has_its_own_passes_which_no_region_counts
            a_complete_pass_is_dated_by_its_start_and_tells_its_pages
            the_last_complete_pass_is_the_one_that_began_last
            a_refusal_counts_until_a_later_pass_is_complete
            a_pass_ends_once
            a_step_ends_at_its_last_landed_page
            a_cut_pass_is_complete_and_no_start_for_the_next_one
            steps_move_and_are_dropped_with_the_job
            an_abandoned_pass_is_over_and_what_it_landed_stays
            a_pass_that_is_not_there_cannot_end
            a_step_of_no_pass_is_not_started_over
            a_history_has_every_pass_oldest_first_with_its_counts
            a_pass_says_why_it_got_no_further_until_it_is_complete
            of_passes_that_failed_before_any_request_the_last_is_kept
            a_pass_without_a_page_that_a_limit_stopped_is_no_failure
            what_a_pass_listed_has_a_child_of_several_parents_once
            a_holder_writes_nothing_to_a_pass_that_another_one_took_up
            a_pass_is_taken_up_only_as_it_was_read
            a_page_that_was_requested_before_another_run_walked_the_region_begins_no_pass
            first_pages_that_waited_for_each_other_are_of_one_pass
        }
        $crate::suite::behaviours! { $place, landing:
            a_body_is_kept_as_it_came
            records_of_one_id_are_apart_by_kind_and_by_upstream
            units_add_up_by_limit
            a_page_for_a_pass_that_is_not_there_brings_its_records_and_costs
            a_landing_that_is_repeated_is_stored_once
            a_page_that_was_paid_for_lands_even_after_its_pass_ended
            old_records_and_absent_ids_are_dropped_and_the_listing_stays
            pages_landed_at_once_through_several_handles_all_land
            a_complete_list_of_an_id_says_where_the_next_one_continues
            a_pass_begins_with_the_cursor_of_the_last_complete_one
            a_cursor_at_the_end_of_a_list_moves_and_is_dropped_with_its_step
            the_list_of_an_id_begins_with_the_cursor_of_its_last_one
            a_list_ends_at_a_page_that_the_passes_which_tell_about_it_returned_last
            a_record_is_not_gone_while_another_list_has_it_whatever_that_list_reads
            what_a_pass_saw_that_did_not_complete_is_gone_once_a_whole_list_lacks_it
            what_a_list_lacks_that_was_read_to_its_end_is_gone_when_the_next_pass_did_not_meet_it
            an_export_is_in_the_order_of_first_sight_and_can_be_held_to_region_and_time
            records_are_read_page_by_page_and_by_name
            a_page_of_very_long_bodies_ends_early
        }
        $crate::suite::behaviours! { $place, leases:
            a_resource_has_one_holder_at_a_time
            a_held_resource_names_its_holder
            of_several_that_take_a_new_resource_at_once_one_gets_it
            regions_jobs_and_ids_are_taken_apart
        }
        $crate::suite::behaviours! { $place, pending:
            a_record_that_its_list_lost_is_asked_for_again_however_fresh_unless_it_is_absent
            only_open_passes_of_the_job_and_listings_of_the_call_and_kind_are_asked
            a_pointer_may_name_several_ids_numbers_and_places_in_arrays
            members_of_any_name_are_found
            a_record_names_what_it_named_in_each_pass_that_listed_it
        }
        $crate::suite::behaviours! { $place, search:
            a_hit_is_the_whole_record_with_its_times_and_the_found_words_marked
            a_hit_says_since_when_a_record_is_gone
            all_words_must_be_there_whatever_their_case_and_accents
            titles_in_any_script_are_found_by_a_word_of_theirs
            the_excerpt_of_an_unspaced_script_reads_as_the_title_does
            a_long_text_is_cut_around_the_found_words
            the_record_that_is_more_about_the_words_comes_first
            hits_can_be_held_to_a_kind_a_region_and_a_time
            the_index_follows_a_text_that_changes_comes_and_goes
            the_index_follows_the_configured_fields
            query_syntax_in_the_words_is_words
            no_words_find_nothing_and_odd_ones_are_no_error
            a_title_cannot_bring_marks_of_its_own
            of_a_record_that_is_twice_in_a_page_the_later_text_is_found
            of_a_very_long_text_the_beginning_is_found
            a_star_stands_for_the_rest_of_a_word
            of_a_word_in_very_many_records_the_newest_are_ranked_and_the_result_says_so
        }
        $crate::suite::behaviours! { $place, passes:
            a_refusal_keeps_what_was_requested
        }
        $crate::suite::behaviours! { $place, views:
            a_view_follows_the_configured_columns
            calls_that_land_one_kind_share_its_view
            places_in_arrays_and_arrays_of_arrays_are_columns
            names_of_any_kind_are_taken_or_do_without_a_view
        }
        $crate::suite::behaviours! { $place, tags:
            a_page_that_came_under_a_tag_is_known_as_it_was_last_seen
            the_last_landing_is_what_is_known
            a_page_of_which_a_record_was_dropped_is_not_known
            what_was_not_asked_for_in_a_month_is_forgotten
            the_tags_of_a_call_are_forgotten_together
            a_page_whose_pass_is_lost_remembers_no_tag
        }
    };
}

macro_rules! behaviours {
    ($place:path, $file:ident: $($behaviour:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $behaviour() {
                let catalog = $crate::suite::Catalog::new($place());
                $crate::suite::$file::$behaviour(catalog).await;
            }
        )*
    };
}

pub(crate) use {behaviours, suite};
