//! Passes: which are open and where they stopped, how they started over and how they ended.

use rusqlite::{Connection, OptionalExtension, Row, ToSql, Transaction, params};

use super::{StoreError, columns};
use crate::either::{ended_slice_where, open_pass_where, pass_where};
use crate::rows::{self, Columns};
use crate::{
    DoubtfulPass, EndedSlice, LastPages, OpenBatch, OpenPass, PassEnd, PassId, PassRecord, PassRef,
    Rearrangement, RegionState, SliceState, StepPosition, UncutPass, filled, pages, slice_states,
    values,
};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Doubted;
use ingest_config::Slice;
use ingest_quota::{Cost, Timestamp};

// `outcome is null` too, here and below: no index has open passes by region, and one has passes by region and outcome.
const OPEN_OF_REGION: &str = open_pass_where!(
    "outcome is null and job = ?1 and region = ?2 and slice_from is null
    order by started_at desc, id desc limit 1"
);
const OPEN: &str = open_pass_where!("job = ?1 order by started_at, id");
const OPEN_SLICES: &str = open_pass_where!(
    "outcome is null and job = ?1 and region = ?2 and slice_from is not null order by started_at, id"
);
const OPEN_SLICE: &str = open_pass_where!(
    "outcome is null and job = ?1 and region = ?2 and slice_from = ?3 and slice_to = ?4 order by started_at, id"
);
const ENDED_SLICES: &str = ended_slice_where!(
    "job = ?1 and region = ?2 and started_at <= ?3 and slice_from is not null order by started_at, id"
);
const ENDED_SLICE: &str = ended_slice_where!(
    "job = ?1 and region = ?2 and started_at <= ?3 and slice_from = ?4 and slice_to = ?5 order by started_at, id"
);
// The other columns are those of the row with the greatest page: SQLite promises it.
const POSITIONS: &str = "select step, max(page), cursor, request, empty_pages, list from checkpoint where pass = ?1 group by step";
// Earlier releases did not write when a batch began.
const BATCHES: &str = "select batch.step, batch.ids, batch.missing, batch.cursors,
    coalesce(batch.began, pass.started_at), batch.empty_pages, batch.greatest
    from batch join pass on pass.id = batch.pass where batch.pass = ?1 order by batch.step, batch.ids";
const END_BATCHES: &str = "delete from batch where pass = ?1";
const LAST: &str = "select id, started_at, finished_at, request, doubts, notes from pass
    where job = ?1 and region = ?2 and outcome = ?3 and started_at <= ?4 and slice_from is null
    order by started_at desc, id desc limit 1";
const SINCE: &str = "select started_at, greatest from pass
    where job = ?1 and region = ?2 and outcome = 'complete' and cut = 0 and started_at <= ?3 and slice_from is null
    order by started_at desc limit 1";
const END_STEP: &str = "update checkpoint set cursor = null, cut = ?3, list = ?4
    where pass = ?1 and step = ?2
        and page = (select max(page) from checkpoint where pass = ?1 and step = ?2)";
const LAST_COMPLETE: &str =
    "select id from pass where job = ?1 and region = ?2 and outcome = 'complete'
    order by started_at desc, id desc limit ?3";
const EXISTS: &str = "select exists (select 1 from pass where id = ?1)";
const RESTART: &str = "insert into restart (pass, step) values (?1, ?2) on conflict do nothing";
const UNLIST: &str = "delete from listing where pass = ?1 and step = ?2";
const FORGET: &str = "delete from checkpoint where pass = ?1 and step = ?2";
const UNCOUNT: &str = "update pass set pages = pages - ?2, records = records - ?3 where id = ?1";
const UNITS: &str = "select units from pass where id = ?1";
// A sum beyond the greatest integer would be a floating-point number, which the column rejects: `requests` stays there.
const COUNT: &str = "update pass set pages = pages + ?2, records = records + ?3, units = ?5,
    requests = min(requests, 9223372036854775807 - ?4) + ?4
    where id = ?1";
const END_WITHOUT_PAGE: &str =
    "insert into pass (job, region, started_at, outcome, finished_at, slice_from, slice_to, left_at, failed)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?5, ?4 <> 'complete')";
const FINISH: &str =
    "update pass set outcome = ?2, finished_at = ?3, left_at = ?3, failed = ?2 <> 'complete',
    notes = case when ?2 <> 'complete' then notes end,
    cut = exists (select 1 from checkpoint where pass = ?1 and checkpoint.cut = 1)
    where id = ?1 and finished_at is null";
const STORE_OUTCOME: &str = "update pass set left_at = ?2, failed = ?3, notes = ?4 where id = ?1";
const DOUBTS: &str = "select doubts from pass where id = ?1";
const STORE_DOUBTS: &str = "update pass set doubts = ?2 where id = ?1";
const STORE_REFUSAL: &str = "update pass set request = ?2 where id = ?1";
/// The pass that landed no page and began at this time; for a failure (`?5`) also the last one that failed before any request.
// The edge of a slice is null outside of slices, which no `=` finds.
const FAILED: &str = "select id from pass
    where job = ?1 and region = ?2 and slice_from is ?3 and outcome = 'failed' and (started_at = ?4 or (?5 and requests = 0))
    order by started_at desc, id desc limit 1";
const FAIL_AGAIN: &str = "update pass set started_at = ?2, finished_at = ?3 where id = ?1";
const HISTORY: &str = pass_where!("started_at >= ?1 order by started_at, id");
const FAILURES: &str =
    pass_where!("failed = 1 and left_at >= ?1 order by left_at desc, id desc limit ?2");
const PASS: &str = pass_where!("id = ?1");
pub const STATEMENTS: &[&str] = &[
    HISTORY,
    FAILURES,
    OPEN,
    OPEN_OF_REGION,
    OPEN_SLICES,
    OPEN_SLICE,
    ENDED_SLICES,
    ENDED_SLICE,
    POSITIONS,
    BATCHES,
    END_BATCHES,
    LAST,
    SINCE,
    END_STEP,
    LAST_COMPLETE,
    EXISTS,
    UNLIST,
    FORGET,
    UNCOUNT,
    UNITS,
    COUNT,
    FINISH,
    STORE_OUTCOME,
    DOUBTS,
    STORE_DOUBTS,
    STORE_REFUSAL,
    FAILED,
    FAIL_AGAIN,
    FAILURES,
    PASS,
];

/// What is known of each region at `now`.
pub fn region_states(
    connection: &Connection,
    job: &str,
    regions: &[String],
    now: Timestamp,
) -> rusqlite::Result<Vec<RegionState>> {
    let now = columns::time(now);
    regions
        .iter()
        .map(|region| region_state(connection, job, region, &now))
        .collect()
}

fn region_state(
    connection: &Connection,
    job: &str,
    region: &str,
    now: &str,
) -> rusqlite::Result<RegionState> {
    let last = |end| last(connection, job, region, end, now);
    let complete = last(PassEnd::Complete)?;
    let (refused, doubtful) = (last(PassEnd::Refused)?, last(PassEnd::Doubtful)?);
    let steps = match &complete {
        Some(Ended { pass, .. }) => positions(connection, *pass)?,
        None => Vec::new(),
    };
    let state = RegionState {
        region: region.to_owned(),
        last_complete: complete.as_ref().map(|ended| ended.started_at),
        last_complete_pass: complete.as_ref().map(|ended| ended.pass),
        since: since(connection, job, region, now)?,
        last_refused: refused.as_ref().map(|refused| refused.started_at),
        refused_request: refused.and_then(|refused| refused.request),
        doubtful: doubtful.map(|ended| DoubtfulPass {
            started_at: ended.started_at,
            request: ended.request,
            doubts: ended.doubts,
        }),
        last_abandoned: last(PassEnd::Abandoned)?.map(|ended| ended.finished_at),
        unfinished: newest_open(connection, job, region)?,
        last_pages: pages(&steps),
        last_filled: filled(&steps),
        last_notes: complete.and_then(|ended| ended.notes),
    };
    Ok(state.current())
}

/// The unfinished pass of a region that began last.
fn newest_open(
    connection: &Connection,
    job: &str,
    region: &str,
) -> rusqlite::Result<Option<OpenPass>> {
    connection
        .prepare_cached(OPEN_OF_REGION)?
        .query_row((job, region), |row| open_pass(connection, row))
        .optional()
}

/// The slices of these regions that have passes.
pub fn slices(
    connection: &Connection,
    job: &str,
    regions: &[String],
    now: Timestamp,
) -> rusqlite::Result<Vec<SliceState>> {
    let now = columns::time(now);
    let mut states = Vec::new();
    for region in regions {
        let ended = ended_slices(connection, ENDED_SLICES, params![job, region, now])?;
        let open = open_slices(connection, OPEN_SLICES, params![job, region])?;
        states.extend(slice_states(region, &ended, open));
    }
    Ok(states)
}

/// One of these slices; `None` if it has no pass.
pub fn slice(
    connection: &Connection,
    job: &str,
    region: &str,
    slice: Slice,
    now: Timestamp,
) -> rusqlite::Result<Option<SliceState>> {
    let [from, to, now] = [slice.from, slice.to, now].map(columns::time);
    let ended = ended_slices(connection, ENDED_SLICE, params![job, region, now, from, to])?;
    let open = open_slices(connection, OPEN_SLICE, params![job, region, from, to])?;
    Ok(slice_states(region, &ended, open).pop())
}

fn ended_slices(
    connection: &Connection,
    sql: &str,
    of: &[&dyn ToSql],
) -> rusqlite::Result<Vec<EndedSlice>> {
    let mut ended = connection.prepare_cached(sql)?;
    let ended = ended.query_map(of, |row| rows::ended_slice(row))?;
    ended.filter_map(Result::transpose).collect()
}

fn open_slices(
    connection: &Connection,
    sql: &str,
    of: &[&dyn ToSql],
) -> rusqlite::Result<Vec<OpenPass>> {
    let mut open = connection.prepare_cached(sql)?;
    open.query_map(of, |row| open_pass(connection, row))?
        .collect()
}

/// Adds doubts to a pass.
pub fn store_doubts(
    tx: &Transaction<'_>,
    pass: PassId,
    doubts: &[Doubted],
) -> rusqlite::Result<()> {
    if doubts.is_empty() {
        return Ok(());
    }
    let stored = tx
        .prepare_cached(DOUBTS)?
        .query_row([pass.0], |row| row.get::<_, Option<String>>(0))?;
    let all = values::with_doubts(stored.as_deref(), doubts);
    tx.prepare_cached(STORE_DOUBTS)?
        .execute((pass.0, all))
        .map(drop)
}

/// Pages of each step of the last complete passes of each region, newest first.
pub fn last_pages(
    connection: &Connection,
    job: &str,
    regions: &[String],
    count: u32,
) -> rusqlite::Result<Vec<LastPages>> {
    let mut statement = connection.prepare_cached(LAST_COMPLETE)?;
    let mut all = Vec::new();
    for region in regions {
        let passes = statement.query_map((job, region, count), |row| row.get(0).map(PassId))?;
        let pages = passes.map(|pass| Ok(pages(&positions(connection, pass?)?)));
        all.push(pages.collect::<rusqlite::Result<_>>()?);
    }
    Ok(all)
}

/// The unfinished passes of a job, oldest first.
pub fn open_passes(connection: &Connection, job: &str) -> rusqlite::Result<Vec<OpenPass>> {
    let mut statement = connection.prepare_cached(OPEN)?;
    let passes = statement.query_map([job], |row| open_pass(connection, row))?;
    passes.collect()
}

fn open_pass(connection: &Connection, row: &Row<'_>) -> rusqlite::Result<OpenPass> {
    let id = PassId(row.get(0)?);
    rows::open_pass(row, 0, positions(connection, id)?, batches(connection, id)?)
}

fn batches(connection: &Connection, pass: PassId) -> rusqlite::Result<Vec<OpenBatch>> {
    let mut statement = connection.prepare_cached(BATCHES)?;
    let batches = statement.query_map([pass.0], |row| rows::open_batch(row))?;
    batches.collect()
}

fn positions(connection: &Connection, pass: PassId) -> rusqlite::Result<Vec<StepPosition>> {
    let mut statement = connection.prepare_cached(POSITIONS)?;
    let positions = statement.query_map([pass.0], |row| rows::step_position(row))?;
    positions.collect()
}

/// A pass that is over.
struct Ended {
    pass: PassId,
    started_at: Timestamp,
    finished_at: Timestamp,
    request: Option<String>,
    doubts: Vec<Doubted>,
    notes: Option<String>,
}

fn last(
    connection: &Connection,
    job: &str,
    region: &str,
    end: PassEnd,
    now: &str,
) -> rusqlite::Result<Option<Ended>> {
    let ended = |row: &Row<'_>| {
        Ok(Ended {
            pass: PassId(row.get(0)?),
            started_at: row.time(1)?,
            finished_at: row.time(2)?,
            request: row.get(3)?,
            doubts: row.doubts(4)?,
            notes: row.get(5)?,
        })
    };
    connection
        .prepare_cached(LAST)?
        .query_row((job, region, end.as_str(), now), ended)
        .optional()
}

/// The last complete pass that `max_pages` did not cut.
fn since(
    connection: &Connection,
    job: &str,
    region: &str,
    now: &str,
) -> rusqlite::Result<Option<UncutPass>> {
    let uncut = |row: &Row<'_>| {
        Ok(UncutPass {
            began: row.time(0)?,
            greatest: row.get(1)?,
        })
    };
    connection
        .prepare_cached(SINCE)?
        .query_row((job, region, now), uncut)
        .optional()
}

/// Ends a step at its last landed page.
pub fn end_step(
    tx: &Transaction<'_>,
    pass: PassId,
    step: i64,
    (cut, list): (bool, &ListSoFar),
) -> Result<(), StoreError> {
    must_exist(tx, pass)?;
    let values = (pass.0, step, cut, list.stored());
    tx.prepare_cached(END_STEP)?.execute(values)?;
    Ok(())
}

/// Starts a step over, unless that was done before.
pub fn restart_step(tx: &Transaction<'_>, pass: PassId, step: i64) -> Result<bool, StoreError> {
    must_exist(tx, pass)?;
    if tx.prepare_cached(RESTART)?.execute((pass.0, step))? == 0 {
        return Ok(false);
    }
    forget_step(tx, pass, step)?;
    Ok(true)
}

/// Forgets where a step stood and what it listed.
fn forget_step(tx: &Transaction<'_>, pass: PassId, step: i64) -> Result<(), StoreError> {
    let records = tx.prepare_cached(UNLIST)?.execute((pass.0, step))?;
    let pages = tx.prepare_cached(FORGET)?.execute((pass.0, step))?;
    tx.prepare_cached(UNCOUNT)?.execute((
        pass.0,
        values::integer(pages as u64),
        values::integer(records as u64),
    ))?;
    Ok(())
}

/// Adapts a pass to the steps that its job has now.
pub fn rearrange(
    tx: &Transaction<'_>,
    pass: PassId,
    change: &Rearrangement,
) -> Result<(), StoreError> {
    must_exist(tx, pass)?;
    for step in &change.dropped {
        forget_step(tx, pass, values::integer(*step as u64))?;
    }
    Ok(tx.execute_batch(&change.sql(pass))?)
}

/// Ends a pass. One that ended before stays as it is.
pub fn finish(
    tx: &Transaction<'_>,
    pass: &PassRef,
    end: PassEnd,
    now: Timestamp,
) -> Result<PassId, StoreError> {
    let now = columns::time(now);
    match pass {
        PassRef::New {
            job,
            region,
            slice,
            started_at,
        } => {
            let (from, to) = columns::slice(*slice);
            let began = columns::time(*started_at);
            let ended = (job, region, began, end.as_str(), now, from, to);
            Ok(PassId(tx.prepare_cached(END_WITHOUT_PAGE)?.insert(ended)?))
        }
        PassRef::Open(pass) => {
            must_exist(tx, *pass)?;
            tx.prepare_cached(END_BATCHES)?.execute([pass.0])?;
            tx.prepare_cached(FINISH)?
                .execute((pass.0, end.as_str(), now))?;
            Ok(*pass)
        }
    }
}

/// What a pass spent and got.
pub struct Counts<'a> {
    pub pages: i64,
    pub records: i64,
    pub requests: i64,
    pub units: &'a Cost,
}

/// Adds to what a pass spent and got.
pub fn count(tx: &Transaction<'_>, pass: PassId, counts: &Counts<'_>) -> Result<(), StoreError> {
    let spent: Option<String> = tx
        .prepare_cached(UNITS)?
        .query_row([pass.0], |row| row.get(0))
        .optional()?;
    let units = values::sum(&spent.ok_or(StoreError::NoSuchPass(pass))?, counts.units);
    tx.prepare_cached(COUNT)?.execute((
        pass.0,
        counts.pages,
        counts.records,
        counts.requests,
        units,
    ))?;
    Ok(())
}

/// Counts requests that brought no page.
pub fn count_unproductive(
    tx: &Transaction<'_>,
    pass: &PassRef,
    requests: i64,
    units: &Cost,
    now: Timestamp,
) -> Result<(), StoreError> {
    let pass = match pass {
        PassRef::Open(pass) => *pass,
        PassRef::New { .. } => finish(tx, pass, PassEnd::Failed, now)?,
    };
    count(
        tx,
        pass,
        &Counts {
            pages: 0,
            records: 0,
            requests,
            units,
        },
    )
}

/// Stores whether the run of a pass failed, and its notes.
pub fn store_outcome(
    tx: &Transaction<'_>,
    pass: &PassRef,
    failed: bool,
    notes: Option<&str>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let stored = match pass {
        PassRef::Open(pass) => Some(*pass),
        PassRef::New { .. } => without_page(tx, pass, failed, now)?,
    };
    let Some(pass) = stored else {
        return Ok(());
    };
    let left = (pass.0, columns::time(now), failed, notes);
    tx.prepare_cached(STORE_OUTCOME)?.execute(left)?;
    Ok(())
}

/// Stores what the job requested in a refused pass.
pub fn store_refusal(tx: &Transaction<'_>, pass: PassId, request: &str) -> Result<(), StoreError> {
    tx.prepare_cached(STORE_REFUSAL)?
        .execute((pass.0, request))?;
    Ok(())
}

/// Returns a pass without a page that is stored already because its requests were counted; stores another one if it failed.
fn without_page(
    tx: &Transaction<'_>,
    pass: &PassRef,
    failed: bool,
    now: Timestamp,
) -> Result<Option<PassId>, StoreError> {
    if let PassRef::New {
        job,
        region,
        slice,
        started_at,
    } = pass
    {
        let (from, began) = (columns::slice(*slice).0, columns::time(*started_at));
        let found: Option<i64> = tx
            .prepare_cached(FAILED)?
            .query_row((job, region, from, &began, failed), |row| row.get(0))
            .optional()?;
        if let Some(id) = found {
            tx.prepare_cached(FAIL_AGAIN)?
                .execute((id, began, columns::time(now)))?;
            return Ok(Some(PassId(id)));
        }
    }
    let store = || finish(tx, pass, PassEnd::Failed, now);
    failed.then(store).transpose()
}

fn must_exist(tx: &Transaction<'_>, pass: PassId) -> Result<(), StoreError> {
    let exists: bool = tx
        .prepare_cached(EXISTS)?
        .query_row([pass.0], |row| row.get(0))?;
    if exists {
        Ok(())
    } else {
        Err(StoreError::NoSuchPass(pass))
    }
}

/// The passes that started at `since` or later, oldest first.
pub fn history(connection: &Connection, since: Timestamp) -> rusqlite::Result<Vec<PassRecord>> {
    let mut statement = connection.prepare_cached(HISTORY)?;
    let passes = statement.query_map([columns::time(since)], |row| rows::pass_record(row))?;
    passes.collect()
}

/// The passes that failed last and were left at `since` or later, the last one first.
pub fn failures(
    connection: &Connection,
    since: Timestamp,
    most: u32,
) -> rusqlite::Result<Vec<PassRecord>> {
    let mut statement = connection.prepare_cached(FAILURES)?;
    let passes = statement.query_map((columns::time(since), most), |row| rows::pass_record(row))?;
    passes.collect()
}

pub fn jobs_and_regions(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare_cached(rows::JOBS_AND_REGIONS)?;
    let found = statement.query_map([], |row| rows::job_and_region(row))?;
    found.collect()
}

pub fn pass(connection: &Connection, pass: PassId) -> rusqlite::Result<Option<PassRecord>> {
    let mut statement = connection.prepare_cached(PASS)?;
    let pass = statement.query_row([pass.0], |row| rows::pass_record(row));
    pass.optional()
}
