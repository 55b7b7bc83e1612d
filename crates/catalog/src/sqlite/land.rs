//! Lands a page: records, lists and the next cursor in one transaction, so that a run that is killed has all of a page or nothing of it.

use rusqlite::{Transaction, params};

use super::passes::{self, Counts, count};
use super::{StoreError, columns, gone, id_since, lasting, tags, views};
use crate::page::{LandingPage, Text};
use crate::values::{integer, list as json_list};
use crate::{Landed, OpenBatch, PassId, PassRef};
use ingest_base::list_so_far::ListSoFar;

const BEGIN: &str = "insert into pass (job, region, started_at, slice_from, slice_to, relists) values (?1, ?2, ?3, ?4, ?5, ?6)";
const NEWEST: &str = "select coalesce(max(number), 0) from record";
// A record of more than 1 MiB counts as changed whenever it is returned: comparing would take as much memory again.
// Keeps `text_hash` of a stored record: the hash of the text that the index holds of it.
const STORE: &str =
    "insert into record (upstream, kind, id, first_seen, last_seen, changed_at, text_hash, body)
    values (?1, ?2, ?3, ?4, ?4, ?4, ?5, ?6)
    on conflict do update set last_seen = excluded.last_seen, body = excluded.body, gone_at = null,
        changed_at = case when octet_length(excluded.body) > 1048576 then excluded.last_seen
            when body = excluded.body and gone_at is null then coalesce(changed_at, last_seen)
            else excluded.last_seen end
    returning number, text_hash";
const KEEP_VERSION: &str =
    "insert into record_version (upstream, kind, id, pass, replaced_at, body)
    select upstream, kind, id, ?4, ?5, body from record
    where upstream = ?1 and kind = ?2 and id = ?3 and body <> ?6";
const REHASH: &str = "update record set text_hash = ?2 where number = ?1";
/// What the full-text index holds of a record.
const WORDS: &str = "insert into record_words (number, text) values (?1, ?2)
    on conflict do update set text = excluded.text where text <> excluded.text";
const NO_WORDS: &str = "delete from record_words where number = ?1";
const LAST_POSITION: &str =
    "select coalesce(max(position), 0) from listing where pass = ?1 and step = ?2";
/// Adds a row of a listing. One list of columns for both statements, so that neither can miss one.
macro_rules! list {
    ($row:literal) => {
        concat!(
            "insert into listing (pass, step, position, call, upstream, kind, id, requested, version) ",
            $row
        )
    };
}
const LIST: &str = list!("values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) on conflict do nothing");
// A row that the parents of its record were written to since is the same one. Names its index: SQLite would rather go through all
// rows of the step.
const LIST_REQUESTED: &str = list!(
    "select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9 where not exists (
        select 1 from listing indexed by listing_of_record
        where id = ?7 and kind = ?6 and upstream = ?5 and pass = ?1 and step = ?2 and requested = ?8)"
);
const CAME: &str = "delete from absent where upstream = ?1 and kind = ?2 and id = ?3";
const ABSENT: &str = "insert into absent (upstream, kind, id, at) values (?1, ?2, ?3, ?4)
    on conflict do update set at = excluded.at";
const BEGUN: &str =
    "insert into batch (pass, step, ids, missing, cursors, began, empty_pages, greatest)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    on conflict do update set missing = excluded.missing, cursors = excluded.cursors,
        began = excluded.began, empty_pages = excluded.empty_pages, greatest = excluded.greatest";
const FETCHED: &str = "delete from batch where pass = ?1 and step = ?2 and ids = ?3";
const REPEATS: &str =
    "select exists (select 1 from checkpoint where pass = ?1 and step = ?2 and cursor = ?3)";
/// A cursor that a step had before, and that leads on again.
const FORGET_CURSOR: &str =
    "update checkpoint set cursor = null where pass = ?1 and step = ?2 and cursor = ?3";
const CHECKPOINT: &str = "insert into checkpoint (pass, step, page, cursor, landed_at, request, empty_pages, cut, list)
    select ?1, ?2, coalesce(max(page), 0) + 1, ?3, ?4, ?5, ?6, ?7, ?8 from checkpoint where pass = ?1 and step = ?2";
const GREATEST: &str = "update pass set greatest = ?2 where id = ?1";
pub const STATEMENTS: &[&str] = &[
    NEWEST,
    KEEP_VERSION,
    REHASH,
    NO_WORDS,
    LAST_POSITION,
    LIST_REQUESTED,
    CAME,
    FETCHED,
    REPEATS,
    FORGET_CURSOR,
    CHECKPOINT,
    GREATEST,
];

/// Stores a page.
pub fn land(tx: &Transaction<'_>, page: &LandingPage) -> Result<Landed, StoreError> {
    let landing = &*page.landing;
    let pass = begin(tx, &landing.pass, landing.relists)?;
    views::declare(tx, &landing.upstream, &landing.call, &landing.kind)?;
    store(tx, pass, page)?;
    let is_known = lasting::is_known(tx, page, pass)?;
    let (records, listed) = list(tx, pass, page)?;
    gone::remove(tx, page)?;
    store_absent(tx, page)?;
    lasting::store(tx, page, pass, is_known)?;
    if let Some(batch) = &landing.batch {
        store_batch(tx, pass, page.step, batch)?;
    }
    if let Some(since) = &landing.since {
        id_since::store(tx, pass, &landing.call, since)?;
    }
    tags::remember(tx, page)?;
    let listed = u64::try_from(listed).unwrap_or(0);
    let list = landing.list_with(listed, is_known);
    let cursor_repeats = checkpoint(tx, pass, page, (records, &list))?;
    let more = landing.if_repeats.iter().filter(|_| cursor_repeats);
    let doubts: Vec<_> = landing.doubts.iter().chain(more).cloned().collect();
    passes::store_doubts(tx, pass, &doubts)?;
    let counts = Counts {
        pages: 1,
        records,
        requests: integer(landing.requests),
        units: &landing.units,
    };
    count(tx, pass, &counts)?;
    if let Some(greatest) = &landing.greatest {
        tx.prepare_cached(GREATEST)?.execute((pass.0, greatest))?;
    }
    Ok(Landed {
        pass,
        cursor_repeats,
        is_known,
        listed,
        lease_lost: false,
    })
}

fn begin(tx: &Transaction<'_>, pass: &PassRef, relists: bool) -> rusqlite::Result<PassId> {
    match pass {
        PassRef::Open(pass) => Ok(*pass),
        PassRef::New {
            job,
            region,
            slice,
            started_at,
        } => {
            let (from, to) = columns::slice(*slice);
            let values = (job, region, columns::time(*started_at), from, to, relists);
            tx.prepare_cached(BEGIN)?.insert(values).map(PassId)
        }
    }
}

/// Stores the records, and the words of those whose text changed. Indexing is the expensive part, and most records that are seen
/// again have the same text.
fn store(tx: &Transaction<'_>, pass: PassId, page: &LandingPage) -> rusqlite::Result<()> {
    let mut newest: i64 = tx.prepare_cached(NEWEST)?.query_row([], |row| row.get(0))?;
    let mut statement = tx.prepare_cached(STORE)?;
    let now = columns::time(page.landing.now);
    for row in &page.rows {
        let (upstream, kind, hash) = (&page.landing.upstream, page.kind(), row.text_hash());
        if page.landing.kind.history {
            let former = params![upstream, kind, row.id, pass.0, now, row.body];
            tx.prepare_cached(KEEP_VERSION)?.execute(former)?;
        }
        let values = params![upstream, kind, row.id, now, hash, row.body];
        let stored = statement.query_row(values, |stored| stored.try_into())?;
        let (number, indexed): (i64, Option<i64>) = stored;
        // Only one transaction writes at a time, so a greater number means that the record is new.
        if number > newest {
            newest = number;
            if row.text.is_none() {
                continue;
            }
        } else if indexed == hash {
            continue;
        } else {
            tx.prepare_cached(REHASH)?.execute((number, hash))?;
        }
        store_words(tx, number, row.text.as_ref())?;
    }
    Ok(())
}

/// Stores what the full-text index holds of a record. The index follows by triggers.
pub fn store_words(tx: &Transaction<'_>, number: i64, text: Option<&Text>) -> rusqlite::Result<()> {
    let stored = match text {
        Some(text) => tx.prepare_cached(WORDS)?.execute((number, &text.parted)),
        None => tx.prepare_cached(NO_WORDS)?.execute([number]),
    };
    stored.map(drop)
}

/// Lists the records after those that the step listed before. Returns the number of new rows, and of all.
fn list(tx: &Transaction<'_>, pass: PassId, page: &LandingPage) -> rusqlite::Result<(i64, i64)> {
    let before: i64 = tx
        .prepare_cached(LAST_POSITION)?
        .query_row((pass.0, page.step), |row| row.get(0))?;
    let mut statement = tx.prepare_cached(LIST)?;
    let (call, upstream) = (&page.landing.call, &page.landing.upstream);
    let mut last = before;
    for row in &page.rows {
        let position = last.saturating_add(1);
        let (kind, id, requested) = (page.kind(), &row.id, page.requested_by(row));
        let (pass, step) = (pass.0, page.step);
        let version = row.version;
        let values = params![
            pass, step, position, call, upstream, kind, id, requested, version
        ];
        let listed = match requested {
            None => statement.execute(values)?,
            Some(_) => tx.prepare_cached(LIST_REQUESTED)?.execute(values)?,
        };
        if listed > 0 {
            last = position;
        }
    }
    Ok((last.saturating_sub(before), last))
}

fn store_absent(tx: &Transaction<'_>, page: &LandingPage) -> rusqlite::Result<()> {
    let (upstream, kind) = (&page.landing.upstream, page.kind());
    let landing = &page.landing;
    let at = columns::time(landing.withheld_until.unwrap_or(landing.now));
    for (id, came) in page.answers() {
        if came {
            tx.prepare_cached(CAME)?.execute((upstream, kind, id))?;
        } else {
            let values = (upstream, kind, id, &at);
            tx.prepare_cached(ABSENT)?.execute(values)?;
        }
    }
    Ok(())
}

/// A batch is in the catalog only between its pages.
fn store_batch(
    tx: &Transaction<'_>,
    pass: PassId,
    step: i64,
    batch: &OpenBatch,
) -> rusqlite::Result<()> {
    let ids = json_list(&batch.ids);
    if batch.cursors.is_empty() {
        let stored = tx.prepare_cached(FETCHED)?.execute((pass.0, step, ids));
        return stored.map(drop);
    }
    let values = (
        pass.0,
        step,
        ids,
        json_list(&batch.missing),
        json_list(&batch.cursors),
        columns::time(batch.began),
        integer(batch.empty_pages),
        &batch.greatest,
    );
    tx.prepare_cached(BEGUN)?.execute(values).map(drop)
}

/// Stores the cursor of a page. `records`: the new records that it listed; `list`: what the list showed with it. Returns whether the
/// cursor repeats; the step is then done, as it is where the page is known.
fn checkpoint(
    tx: &Transaction<'_>,
    pass: PassId,
    page: &LandingPage,
    (records, list): (i64, &ListSoFar),
) -> rusqlite::Result<bool> {
    let landing = &*page.landing;
    let next = landing.next.as_ref().filter(|_| !list.is_known);
    let repeats = match next {
        Some(next) if records == 0 => tx
            .prepare_cached(REPEATS)?
            .query_row((pass.0, page.step, next), |row| row.get(0))?,
        Some(_) | None => false,
    };
    let cursor = next.filter(|_| !repeats);
    if let Some(cursor) = cursor {
        tx.prepare_cached(FORGET_CURSOR)?
            .execute((pass.0, page.step, cursor))?;
    }
    tx.prepare_cached(CHECKPOINT)?.execute((
        pass.0,
        page.step,
        cursor,
        columns::time(landing.now),
        &landing.request,
        integer(landing.empty_pages),
        landing.cut,
        list.stored(),
    ))?;
    Ok(repeats)
}
