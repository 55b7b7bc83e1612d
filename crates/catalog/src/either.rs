//! SQL that both databases understand.

/// Unfinished passes as [`open_pass`](crate::rows::open_pass) reads them.
macro_rules! open_pass_where {
    ($condition:literal) => {
        concat!(
            "select id, region, started_at, greatest, slice_from, slice_to, doubts, relists, landed
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
pub(crate) use {ended_slice_where, open_pass_where};

/// When a record changed, or was last seen by a release that did not store that.
const CHANGED_AT: &str = "coalesce(record.changed_at, record.last_seen) as changed_at";
/// The parent of a record, where it has only one in the newest pass that returned it as a child.
const PARENT: &str = "(select case when min(listing.parent) = max(listing.parent) then min(listing.parent) end from listing
    where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
        and listing.parent is not null and listing.pass = (
            select max(pass) from listing
            where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
                and listing.parent is not null)) as parent";

/// The select statement of a kind's view, with the name and the expression of each column of its own.
pub fn view_of(upstream: &str, kind: &str, own: &[(String, String)]) -> String {
    let of_all = [
        ("id", "record.id"),
        ("first_seen", "record.first_seen"),
        ("last_seen", "record.last_seen"),
        ("changed_at", CHANGED_AT),
        ("gone_at", "record.gone_at"),
        ("parent", PARENT),
    ];
    // A kind's own column takes the place of one with the same name.
    let of_all = of_all
        .into_iter()
        .filter(|(name, _)| !own.iter().any(|(own, _)| own.eq_ignore_ascii_case(name)))
        .map(|(_, selected)| selected.to_owned());
    let own = own
        .iter()
        .map(|(column, expression)| format!("{expression} as {}", name(column)));
    let selected: Vec<String> = of_all.chain(own).collect();
    format!(
        "select {} from record where upstream = {} and kind = {}",
        selected.join(", "),
        literal(upstream),
        literal(kind)
    )
}

/// The first of these values that is not null.
pub fn first_of(all: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for expression in all {
        if !distinct.contains(&expression) {
            distinct.push(expression);
        }
    }
    match distinct.as_slice() {
        [one] => one.clone(),
        several => format!("coalesce({})", several.join(", ")),
    }
}

/// Quotes a text for SQL.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\0', "\u{FFFD}").replace('\'', "''"))
}

/// Quotes a name for SQL, whatever it holds.
pub fn name(text: &str) -> String {
    format!(
        "\"{}\"",
        text.replace('\0', "\u{FFFD}").replace('"', "\"\"")
    )
}
