//! SQL that both databases understand.

use std::collections::BTreeMap;

/// Passes as [`pass_record`](crate::rows::pass_record) reads them.
macro_rules! pass_where {
    ($condition:literal) => {
        concat!(
            "select job, region, started_at, outcome, pages, records, requests, units, finished_at,
                slice_from, slice_to, id, left_at, failed, notes, doubts
            from pass where ",
            $condition
        )
    };
}

/// Unfinished passes as [`open_pass`](crate::rows::open_pass) reads them.
macro_rules! open_pass_where {
    ($condition:literal) => {
        concat!(
            "select id, region, started_at, greatest, slice_from, slice_to, doubts, relists
            from pass where finished_at is null and ",
            $condition
        )
    };
}

/// Passes over slices as [`ended_slice`](crate::rows::ended_slice) reads them.
macro_rules! ended_slice_where {
    ($condition:literal) => {
        concat!(
            "select id, outcome, started_at, finished_at, slice_from, slice_to, request, doubts, region
            from pass where outcome in ('complete', 'doubtful', 'refused', 'abandoned') and ",
            $condition
        )
    };
}
pub(crate) use {ended_slice_where, open_pass_where, pass_where};

/// When a record changed, or was last seen by a release that did not store that.
const CHANGED_AT: &str = "coalesce(record.changed_at, record.last_seen) as changed_at";
/// The parent of a record, where it has only one in the newest pass that returned it as a child.
const PARENT: &str = "(select case when min(listing.parent) = max(listing.parent) then min(listing.parent) end from listing
    where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
        and listing.parent is not null and listing.pass = (
            select max(pass) from listing
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and listing.parent is not null)) as parent";

/// What a view selects of a record, without the names that columns of its kind have.
pub fn of_every_kind<C>(columns: &BTreeMap<String, C>) -> impl Iterator<Item = String> {
    let of_all = [
        ("id", "record.id"),
        ("first_seen", "record.first_seen"),
        ("last_seen", "record.last_seen"),
        ("changed_at", CHANGED_AT),
        ("gone_at", "record.gone_at"),
        ("parent", PARENT),
    ];
    of_all
        .into_iter()
        .filter(|(name, _)| !columns.keys().any(|c| c.eq_ignore_ascii_case(name)))
        .map(|(_, selected)| selected.to_owned())
}
