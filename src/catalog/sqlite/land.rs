//! One page, one transaction.

use rusqlite::{Transaction, params};

use super::page::{Batch, LandingPage};
use super::passes::{Counts, count};
use super::{Failure, moment, tags, views};
use crate::catalog::{Landed, PassId, PassRef};

const BEGIN: &str = "insert into pass (job, region, started_at) values (?1, ?2, ?3)";
const NEWEST: &str = "select coalesce(max(number), 0) from record";
/// Leaves `text_hash` as it was, and so tells of what is there already which text the index holds.
const STORE: &str =
    "insert into record (upstream, kind, id, first_seen, last_seen, text_hash, body)
    values (?1, ?2, ?3, ?4, ?4, ?5, ?6)
    on conflict do update set last_seen = excluded.last_seen, body = excluded.body
    returning number, text_hash";
const REHASH: &str = "update record set text_hash = ?2 where number = ?1";
/// Nobody else writes meanwhile, so that the numbers of a page's changes follow one another.
const CHANGED: &str = "insert into text_change (number, mark) values (?1, random())";
const LAST_POSITION: &str =
    "select coalesce(max(position), 0) from listing where pass = ?1 and step = ?2";
const LIST: &str = "insert into listing (pass, step, position, call, upstream, kind, id)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7) on conflict do nothing";
const CAME: &str = "delete from absent where upstream = ?1 and kind = ?2 and id = ?3";
const ABSENT: &str = "insert into absent (upstream, kind, id, at) values (?1, ?2, ?3, ?4)
    on conflict do update set at = excluded.at";
const BEGUN: &str =
    "insert into batch (pass, step, ids, missing, cursors, began, empty_pages) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    on conflict do update set missing = excluded.missing, cursors = excluded.cursors,
        began = excluded.began, empty_pages = excluded.empty_pages";
const FETCHED: &str = "delete from batch where pass = ?1 and step = ?2 and ids = ?3";
const REPEATS: &str =
    "select exists (select 1 from checkpoint where pass = ?1 and step = ?2 and cursor = ?3)";
const CHECKPOINT: &str = "insert into checkpoint (pass, step, page, cursor, landed_at, request, empty_pages, cut)
    select ?1, ?2, coalesce(max(page), 0) + 1, ?3, ?4, ?5, ?6, ?7 from checkpoint where pass = ?1 and step = ?2";
pub const STATEMENTS: &[&str] = &[
    NEWEST,
    REHASH,
    LAST_POSITION,
    CAME,
    FETCHED,
    REPEATS,
    CHECKPOINT,
];

/// Which records of a page have another text than before: the rows of the page, in the order of the catalog's log.
#[derive(Debug, Default)]
pub struct Changes {
    /// The log's number of the last of them.
    last: i64,
    rows: Vec<usize>,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The new text of a change; the outer `None` where the change is not of this page.
    #[expect(clippy::option_option, reason = "a record without text is indexed too")]
    pub fn text<'a>(&self, page: &'a LandingPage, seq: i64) -> Option<Option<&'a str>> {
        let behind = usize::try_from(self.last.checked_sub(seq)?).ok()?;
        let place = self.rows.len().checked_sub(behind)?.checked_sub(1)?;
        let row = page.rows.get(*self.rows.get(place)?)?;
        Some(row.text.as_ref().map(|text| text.parted.as_str()))
    }
}

/// Lands a page. The texts that changed are to be indexed once that is committed.
pub fn land(tx: &Transaction<'_>, page: &LandingPage) -> Result<(Landed, Changes), Failure> {
    let pass = begin(tx, &page.pass)?;
    views::declare(tx, &page.upstream, &page.kind, &page.call, &page.shape)?;
    let changes = store(tx, page)?;
    let listed = list(tx, pass, page)?;
    remember_absent(tx, page)?;
    page.batch
        .iter()
        .try_for_each(|batch| remember_batch(tx, pass, page, batch))?;
    tags::remember(tx, page)?;
    let cursor_repeats = checkpoint(tx, pass, page)?;
    let counts = Counts {
        pages: 1,
        records: listed,
        requests: page.requests,
        units: &page.units,
    };
    count(tx, pass, &counts)?;
    let landed = Landed {
        pass,
        cursor_repeats,
    };
    Ok((landed, changes))
}

fn begin(tx: &Transaction<'_>, pass: &PassRef) -> rusqlite::Result<PassId> {
    match pass {
        PassRef::Open(pass) => Ok(*pass),
        PassRef::New {
            job,
            region,
            started_at,
        } => {
            let pass =
                tx.prepare_cached(BEGIN)?
                    .insert((job, region, moment::write(*started_at)))?;
            Ok(PassId(pass))
        }
    }
}

/// A record that is not there yet gets a number above all others: nobody else writes meanwhile. The full-text index is the
/// costly part, and most of what is seen again has the same text.
fn store(tx: &Transaction<'_>, page: &LandingPage) -> rusqlite::Result<Changes> {
    let mut newest: i64 = tx.prepare_cached(NEWEST)?.query_row([], |row| row.get(0))?;
    let mut statement = tx.prepare_cached(STORE)?;
    let mut changes = Changes::default();
    for (place, row) in page.rows.iter().enumerate() {
        let values = params![
            page.upstream,
            page.kind,
            row.id,
            page.now,
            row.text_hash(),
            row.body
        ];
        let stored = statement.query_row(values, |stored| stored.try_into())?;
        let (number, indexed): (i64, Option<i64>) = stored;
        if number > newest {
            newest = number;
            if row.text.is_none() {
                continue;
            }
        } else if indexed == row.text_hash() {
            continue;
        } else {
            tx.prepare_cached(REHASH)?
                .execute((number, row.text_hash()))?;
        }
        changes.last = tx.prepare_cached(CHANGED)?.insert([number])?;
        changes.rows.push(place);
    }
    Ok(changes)
}

/// Lists the records after those that the step listed before, and says how many of them are new in it.
fn list(tx: &Transaction<'_>, pass: PassId, page: &LandingPage) -> rusqlite::Result<i64> {
    let before: i64 = tx
        .prepare_cached(LAST_POSITION)?
        .query_row((pass.0, page.step), |row| row.get(0))?;
    let mut statement = tx.prepare_cached(LIST)?;
    let mut last = before;
    for row in &page.rows {
        let place = params![
            pass.0,
            page.step,
            last.saturating_add(1),
            page.call,
            page.upstream,
            page.kind,
            row.id
        ];
        last = last.saturating_add(i64::from(statement.execute(place)? > 0));
    }
    Ok(last.saturating_sub(before))
}

fn remember_absent(tx: &Transaction<'_>, page: &LandingPage) -> rusqlite::Result<()> {
    for (id, came) in page.answers() {
        if came {
            tx.prepare_cached(CAME)?
                .execute((&page.upstream, &page.kind, id))?;
        } else {
            tx.prepare_cached(ABSENT)?
                .execute((&page.upstream, &page.kind, id, &page.now))?;
        }
    }
    Ok(())
}

/// A batch is in the catalog between its pages only.
fn remember_batch(
    tx: &Transaction<'_>,
    pass: PassId,
    page: &LandingPage,
    batch: &Batch,
) -> rusqlite::Result<()> {
    let (step, ids) = (page.step, &batch.ids);
    match &batch.cursors {
        Some(cursors) => tx.prepare_cached(BEGUN)?.execute((
            pass.0,
            step,
            ids,
            &batch.missing,
            cursors,
            &batch.began,
            batch.empty_pages,
        )),
        None => tx.prepare_cached(FETCHED)?.execute((pass.0, step, ids)),
    }
    .map(drop)
}

/// Says whether the cursor was seen before in this step; then the step is done.
fn checkpoint(tx: &Transaction<'_>, pass: PassId, page: &LandingPage) -> rusqlite::Result<bool> {
    let repeats = match &page.next {
        Some(next) => tx
            .prepare_cached(REPEATS)?
            .query_row((pass.0, page.step, next), |row| row.get(0))?,
        None => false,
    };
    let cursor = page.next.as_ref().filter(|_| !repeats);
    tx.prepare_cached(CHECKPOINT)?.execute((
        pass.0,
        page.step,
        cursor,
        &page.now,
        &page.request,
        page.empty_pages,
        page.cut,
    ))?;
    Ok(repeats)
}
