//! Passes: which are open and where they stopped, how they started over and how they ended.

use std::borrow::Cow;
use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::fence::{LeaseKey, walked};
use super::sql::{Columns, Values, all_stored, as_is, parameters, restored, stored, time};
use super::turns::{COMPLETE, STATES};
use super::{PostgresError, Transaction, lock_pass};
use crate::either::{ended_slice_where, open_pass_where, pass_where};
use crate::rows::{self, ended_slice, pass_record};
use crate::values::{self, integer};
use crate::{
    DoubtfulPass, EndedSlice, Landing, LastPages, OpenBatch, OpenPass, PassEnd, PassId, PassRecord,
    PassRef, Rearrangement, RegionState, SliceState, StepPosition, UncutPass, filled, pages,
    slice_states,
};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Doubted;
use ingest_config::Slice;
use ingest_quota::{Cost, Timestamp};

const OPEN: &str = open_pass_where!("job = $1 order by started_at, id");
const OPEN_SLICES: &str = open_pass_where!(
    "job = $1 and region = any($2) and slice_from is not null order by started_at, id"
);
const OPEN_SLICE: &str = open_pass_where!(
    "job = $1 and region = any($2) and slice_from = $3 and slice_to = $4 order by started_at, id"
);
const ENDED_SLICES: &str = ended_slice_where!(
    "job = $1 and region = any($2) and started_at <= $3 and slice_from is not null order by started_at, id"
);
const ENDED_SLICE: &str = ended_slice_where!(
    "job = $1 and region = any($2) and started_at <= $3 and slice_from = $4 and slice_to = $5 order by started_at, id"
);
const LAST_COMPLETE: &str =
    "select region.place, last.id from unnest($2) with ordinality region (name, place)
    cross join lateral (select id, started_at from pass
        where job = $1 and pass.region = region.name and outcome = 'complete'
        order by started_at desc, id desc limit $3) last
    order by region.place, last.started_at desc, last.id desc";
const POSITIONS: &str =
    "select distinct on (pass, step) step, page, cursor, request, empty_pages, list, pass
    from checkpoint where pass = any($1) order by pass, step, page desc";
const BATCHES: &str =
    "select step, ids, missing, cursors, began, empty_pages, greatest, pass from batch
    where pass = any($1) order by pass, step, ids";
const RESTART: &str = "insert into restart (pass, step) values ($1, $2) on conflict do nothing";
const UNLIST: &str = "delete from listing where pass = $1 and step = $2";
const FORGET: &str = "delete from checkpoint where pass = $1 and step = $2";
const UNCOUNT: &str = "update pass set pages = pages - $2, records = records - $3 where id = $1";
const END_STEP: &str =
    "update checkpoint set cursor = null, cut = $3, list = $4 where pass = $1 and step = $2
    and page = (select max(page) from checkpoint where pass = $1 and step = $2)";
// Locked, because the sum is computed here.
const UNITS: &str = "select units from pass where id = $1 for update";
// A sum beyond the greatest integer would fail, and the page with it: `requests` stays there.
pub const COUNT: &str = "update pass set pages = pages + $2, records = records + $3, units = $5,
        requests = least(requests, 9223372036854775807 - $4) + $4, greatest = coalesce($6, greatest)
    where id = $1";
const END_WITHOUT_PAGE: &str =
    "insert into pass (job, region, started_at, outcome, finished_at, slice_from, slice_to, left_at, failed)
    values ($1, $2, $3, $4, $5, $6, $7, $5, $4 <> 'complete') returning id";
const FINISH: &str = "with fetched as (delete from batch where pass = $1)
    update pass set outcome = $2, finished_at = $3, left_at = $3, failed = $2 <> 'complete',
        notes = case when $2 <> 'complete' then notes end,
        cut = exists (select 1 from checkpoint where checkpoint.pass = $1 and checkpoint.cut)
    where id = $1 and finished_at is null";
const STORE_OUTCOME: &str = "update pass set left_at = $2, failed = $3, notes = $4 where id = $1";
// One statement, since none that is sent with the commit may wait for another: both are lists in JSON.
const STORE_DOUBTS: &str =
    "update pass set doubts = coalesce(left(doubts, -1) || ',' || substr($2, 2), $2) where id = $1";
// The cursor of a page that leads on is null where it repeats.
const STORE_IF_REPEATS: &str =
    "update pass set doubts = coalesce(left(doubts, -1) || ',' || substr($2, 2), $2) where id = $1
    and exists (select 1 from checkpoint where landing = $3 and cursor is null)";
// The function that begins a pass is older than this column.
const RELIST: &str = "update pass set relists = true where id = $1";
const STORE_REFUSAL: &str = "update pass set request = $2 where id = $1";
/// The pass that landed no page and began at this time; for a failure (`$5`) also the last one that failed before any request.
// The edge of a slice is null outside of slices, which no `=` finds.
const FAILED: &str = "select id from pass
    where job = $1 and region = $2 and slice_from is not distinct from $3 and outcome = 'failed'
        and (started_at = $4 or ($5 and requests = 0))
    order by started_at desc, id desc limit 1 for update";
const FAIL_AGAIN: &str = "update pass set started_at = $2, finished_at = $3 where id = $1";
// The condition on the id, which always holds, is that of the index by age.
const HISTORY: &str = pass_where!("started_at >= $1 and id > 0 order by started_at, id");
const FAILURES: &str =
    pass_where!("failed and left_at >= $1 order by left_at desc, id desc limit $2");
const PASS: &str = pass_where!("id = $1");

/// What is known of each region at `now`.
pub async fn region_states(
    tx: &Transaction<'_>,
    job: &str,
    regions: &[String],
    now: Timestamp,
) -> Result<Vec<RegionState>, PostgresError> {
    let rows = tx
        .query(
            STATES,
            parameters![stored(job), all_stored(regions), time(now)],
        )
        .await?;
    rows.iter().map(|row| region_state(row, 0)).collect()
}

/// A step's position as [`STATES`] has it: the pass, the step, its last page, and that page's cursor, request, empty pages and list.
type Position = (
    i64,
    usize,
    u64,
    Option<String>,
    Option<String>,
    u64,
    Option<String>,
);
/// A batch between two pages as [`STATES`] has it. It began at this time, in microseconds.
type Batch = (
    usize,
    Vec<String>,
    Vec<String>,
    Vec<String>,
    i64,
    u64,
    Option<String>,
);

/// The state of a region, whose columns begin at `first`.
pub fn region_state(row: &Row, first: usize) -> Result<RegionState, PostgresError> {
    let complete: Option<i64> = row.value(first + 1)?;
    let of_pass = positions(row, first + 20)?;
    let positions = |pass: Option<i64>| pass.and_then(|pass| of_pass.get(&pass).cloned());
    let unfinished = row.value::<Option<i64>>(first + 12)?.map(|pass| {
        let steps = positions(Some(pass)).unwrap_or_default();
        rows::open_pass(row, first + 12, steps, batches(row, first + 21)?)
    });
    let doubtful = row.optional_time(first + 9)?.map(|started_at| {
        Ok::<_, PostgresError>(DoubtfulPass {
            started_at,
            request: row.optional_text(first + 10)?,
            doubts: row.doubts(first + 11)?,
        })
    });
    let since = row.optional_time(first + 5)?.map(|began| {
        Ok::<_, PostgresError>(UncutPass {
            began,
            greatest: row.optional_text(first + 6)?,
        })
    });
    let last = positions(complete).unwrap_or_default();
    let state = RegionState {
        region: row.text(first)?,
        last_complete: row.optional_time(first + 2)?,
        last_complete_pass: complete.map(PassId),
        since: since.transpose()?,
        last_refused: row.optional_time(first + 3)?,
        refused_request: row.optional_text(first + 7)?,
        doubtful: doubtful.transpose()?,
        last_abandoned: row.optional_time(first + 4)?,
        unfinished: unfinished.transpose()?,
        last_pages: pages(&last),
        last_filled: filled(&last),
        last_notes: row.optional_text(first + 8)?,
    };
    Ok(state.current())
}

fn positions(row: &Row, column: usize) -> Result<HashMap<i64, Vec<StepPosition>>, PostgresError> {
    let mut of_pass: HashMap<i64, Vec<StepPosition>> = HashMap::new();
    for (pass, step, pages, cursor, request, empty_pages, list) in json::<Position>(row, column)? {
        of_pass.entry(pass).or_default().push(StepPosition {
            step,
            pages,
            cursor: cursor.as_deref().map(restored),
            request: request.as_deref().map(restored),
            empty_pages,
            list: ListSoFar::read(list.as_deref().map(restored).as_deref()),
        });
    }
    Ok(of_pass)
}

fn batches(row: &Row, column: usize) -> Result<Vec<OpenBatch>, PostgresError> {
    let batches = json::<Batch>(row, column)?.into_iter().map(
        |(step, ids, missing, cursors, began, empty_pages, greatest)| OpenBatch {
            step,
            ids,
            missing,
            cursors,
            began: Timestamp::from_micros(began),
            empty_pages,
            greatest: greatest.as_deref().map(restored),
        },
    );
    Ok(batches.collect())
}

/// Reads a list in JSON, or null.
fn json<T: DeserializeOwned>(row: &Row, column: usize) -> Result<Vec<T>, PostgresError> {
    match row.value::<Option<&str>>(column)? {
        Some(_) => Columns::json(row, column),
        None => Ok(Vec::new()),
    }
}

/// Adds doubts to a pass, each once.
pub async fn store_doubts(
    tx: &Transaction<'_>,
    pass: PassId,
    doubts: &[Doubted],
) -> Result<(), PostgresError> {
    if doubts.is_empty() {
        return Ok(());
    }
    let doubts = serde_json::json!(doubts).to_string();
    tx.execute(STORE_DOUBTS, parameters![pass.0, self::stored(&doubts)])
        .await
}

/// Where passes stand, by their ids.
struct Details {
    positions: HashMap<i64, Vec<StepPosition>>,
    batches: HashMap<i64, Vec<OpenBatch>>,
}

impl Details {
    async fn read(tx: &Transaction<'_>, passes: Vec<i64>) -> Result<Self, PostgresError> {
        let mut positions: HashMap<i64, Vec<StepPosition>> = HashMap::new();
        let mut batches: HashMap<i64, Vec<OpenBatch>> = HashMap::new();
        if passes.is_empty() {
            return Ok(Self { positions, batches });
        }
        // Sent together: one round trip for both.
        let (of_steps, of_batches) = tokio::try_join!(
            biased;
            async { tx.query(POSITIONS, parameters![passes]).await },
            async { tx.query(BATCHES, parameters![passes]).await },
        )?;
        for row in of_steps {
            let of_pass = positions.entry(row.value(6)?).or_default();
            of_pass.push(rows::step_position(&row)?);
        }
        for row in of_batches {
            let of_pass = batches.entry(row.value(7)?).or_default();
            of_pass.push(rows::open_batch(&row)?);
        }
        Ok(Self { positions, batches })
    }

    /// The unfinished pass whose columns begin at `column`.
    fn open_pass(&mut self, row: &Row, column: usize) -> Result<OpenPass, PostgresError> {
        let id: i64 = row.value(column)?;
        let steps = self.positions.get(&id).cloned().unwrap_or_default();
        let batches = self.batches.remove(&id).unwrap_or_default();
        rows::open_pass(row, column, steps, batches)
    }
}

/// The unfinished passes of a job, oldest first.
pub async fn open_passes(tx: &Transaction<'_>, job: &str) -> Result<Vec<OpenPass>, PostgresError> {
    let rows = tx.query(OPEN, parameters![stored(job)]).await?;
    with_details(tx, &rows).await
}

async fn with_details(tx: &Transaction<'_>, rows: &[Row]) -> Result<Vec<OpenPass>, PostgresError> {
    let ids = rows.iter().map(|row| row.value(0));
    let mut details = Details::read(tx, ids.collect::<Result<_, _>>()?).await?;
    rows.iter().map(|row| details.open_pass(row, 0)).collect()
}

/// The slices of these regions that have passes.
pub async fn slices(
    tx: &Transaction<'_>,
    job: &str,
    regions: &[String],
    now: Timestamp,
) -> Result<Vec<SliceState>, PostgresError> {
    let (job, names) = (stored(job), all_stored(regions));
    let rows = tx
        .query(ENDED_SLICES, parameters![job, names, time(now)])
        .await?;
    let mut ended: HashMap<String, Vec<EndedSlice>> = HashMap::new();
    for row in rows {
        let of_region = ended.entry(row.text(8)?).or_default();
        of_region.extend(ended_slice(&row)?);
    }
    let rows = tx.query(OPEN_SLICES, parameters![job, names]).await?;
    let mut open: HashMap<String, Vec<OpenPass>> = HashMap::new();
    for pass in with_details(tx, &rows).await? {
        open.entry(pass.region.clone()).or_default().push(pass);
    }
    let states = regions.iter().flat_map(|region| {
        let ended = ended.remove(region).unwrap_or_default();
        slice_states(region, &ended, open.remove(region).unwrap_or_default())
    });
    Ok(states.collect())
}

/// One of these slices; `None` if it has no pass.
pub async fn slice(
    tx: &Transaction<'_>,
    job: &str,
    region: &str,
    slice: Slice,
    now: Timestamp,
) -> Result<Option<SliceState>, PostgresError> {
    let regions = [region.to_owned()];
    let names = all_stored(&regions);
    let (job, from, to) = (stored(job), time(slice.from), time(slice.to));
    let rows = tx
        .query(ENDED_SLICE, parameters![job, names, time(now), from, to])
        .await?;
    let ended = rows.iter().map(ended_slice);
    let ended: Vec<Option<EndedSlice>> = ended.collect::<Result<_, _>>()?;
    let ended: Vec<EndedSlice> = ended.into_iter().flatten().collect();
    let rows = tx
        .query(OPEN_SLICE, parameters![job, names, from, to])
        .await?;
    let open = with_details(tx, &rows).await?;
    Ok(slice_states(region, &ended, open).pop())
}

/// The edges of a slice as columns.
pub fn edges(slice: Option<Slice>) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
    (
        slice.map(|slice| time(slice.from)),
        slice.map(|slice| time(slice.to)),
    )
}

/// Pages of each step of the last complete passes of each region, newest first.
pub async fn last_pages(
    tx: &Transaction<'_>,
    job: &str,
    regions: &[String],
    count: u32,
) -> Result<Vec<LastPages>, PostgresError> {
    let names = all_stored(regions);
    let rows = tx
        .query(
            LAST_COMPLETE,
            parameters![stored(job), names, i64::from(count)],
        )
        .await?;
    let passes = rows.iter().map(|row| Ok((row.count(0)?, row.value(1)?)));
    let passes: Vec<(u64, i64)> = passes.collect::<Result<_, PostgresError>>()?;
    let details = Details::read(tx, passes.iter().map(|(_, id)| *id).collect()).await?;
    let mut all: HashMap<u64, LastPages> = HashMap::new();
    for (place, id) in passes {
        let steps = details.positions.get(&id);
        let pages = steps.map_or_else(Vec::new, |steps| pages(steps));
        all.entry(place).or_default().push(pages);
    }
    let places = (1..).take(regions.len());
    Ok(places
        .map(|place| all.remove(&place).unwrap_or_default())
        .collect())
}

/// Stores what a page adds to its pass beside its records and counts, which is mostly nothing. Its statements do not wait for each
/// other.
pub async fn store_review(
    tx: &Transaction<'_>,
    pass: PassId,
    landing: &Landing,
) -> Result<(), PostgresError> {
    let relists = landing.relists && matches!(landing.pass, PassRef::New { .. });
    let relist = async {
        match relists {
            true => tx.execute(RELIST, parameters![pass.0]).await,
            false => Ok(()),
        }
    };
    let if_repeats = async {
        let Some(doubt) = landing
            .if_repeats
            .as_ref()
            .filter(|_| landing.next.is_some())
        else {
            return Ok(());
        };
        let doubts = serde_json::json!([doubt]).to_string();
        tx.execute(
            STORE_IF_REPEATS,
            parameters![pass.0, self::stored(&doubts), landing.id],
        )
        .await
    };
    tokio::try_join!(
        biased;
        relist,
        store_doubts(tx, pass, &landing.doubts),
        if_repeats,
    )
    .map(drop)
}

/// Starts a step over, unless that was done before.
pub async fn restart_step(
    tx: &Transaction<'_>,
    pass: PassId,
    step: i64,
) -> Result<bool, PostgresError> {
    let region = lock_pass(tx, pass).await?;
    if tx.affected(RESTART, parameters![pass.0, step]).await? == 0 {
        return Ok(false);
    }
    // The fence must not demand a page that is deleted here.
    tx.postgres().terms().set_last_landing(&region, None);
    forget_step(tx, pass, step).await?;
    Ok(true)
}

/// Forgets where a step stood and what it listed.
async fn forget_step(tx: &Transaction<'_>, pass: PassId, step: i64) -> Result<(), PostgresError> {
    let records = tx.affected(UNLIST, parameters![pass.0, step]).await?;
    let pages = tx.affected(FORGET, parameters![pass.0, step]).await?;
    tx.execute(
        UNCOUNT,
        parameters![pass.0, integer(pages), integer(records)],
    )
    .await
}

/// Adapts a pass to the steps that its job has now.
pub async fn rearrange(
    tx: &Transaction<'_>,
    pass: PassId,
    change: &Rearrangement,
) -> Result<(), PostgresError> {
    let region = lock_pass(tx, pass).await?;
    tx.postgres().terms().set_last_landing(&region, None);
    for step in &change.dropped {
        forget_step(tx, pass, integer(*step as u64)).await?;
    }
    tx.batch(&change.sql(pass)).await
}

/// Ends a step at its last landed page.
pub async fn end_step(
    tx: &Transaction<'_>,
    pass: PassId,
    step: i64,
    (cut, list): (bool, &ListSoFar),
) -> Result<(), PostgresError> {
    lock_pass(tx, pass).await?;
    let list = list.stored();
    tx.execute(
        END_STEP,
        parameters![pass.0, step, cut, self::stored(&list)],
    )
    .await
}

/// Ends a pass. One that ended before stays as it is.
pub async fn finish(
    tx: &Transaction<'_>,
    pass: &PassRef,
    end_of: PassEnd,
    at: Timestamp,
) -> Result<PassId, PostgresError> {
    let (outcome, now) = (as_is(end_of.as_str()), time(at));
    match pass {
        PassRef::New {
            job,
            region,
            slice,
            started_at,
        } => {
            let (from, to) = edges(*slice);
            let rows = tx
                .query(
                    END_WITHOUT_PAGE,
                    parameters![
                        stored(job),
                        stored(region),
                        time(*started_at),
                        outcome,
                        now,
                        from,
                        to
                    ],
                )
                .await?;
            let id = rows.first().map(|row| row.value(0)).transpose()?;
            Ok(PassId(id.unwrap_or_default()))
        }
        PassRef::Open(pass) => {
            lock_pass(tx, *pass).await?;
            end(tx, *pass, end_of, at).await?;
            Ok(*pass)
        }
    }
}

/// Ends a pass that is locked.
async fn end(
    tx: &Transaction<'_>,
    pass: PassId,
    end: PassEnd,
    now: Timestamp,
) -> Result<(), PostgresError> {
    let (outcome, now) = (as_is(end.as_str()), time(now));
    tx.execute(FINISH, parameters![pass.0, outcome, now]).await
}

/// Ends a pass as complete and commits, in one round trip. Returns how many records its lists lost.
pub async fn complete(
    tx: &Transaction<'_>,
    pass: PassId,
    steps: &[i64],
    now: Timestamp,
) -> Result<u64, PostgresError> {
    let resource = walked(tx, pass).await?;
    let terms = tx.postgres().terms();
    let term = terms.of(&resource);
    let key = LeaseKey::new(terms, term.as_ref());
    let completed = async {
        tx.query(
            COMPLETE,
            parameters![
                pass.0,
                key.job,
                key.region,
                key.holder,
                key.term,
                key.landing,
                steps.to_vec(),
                time(now)
            ],
        )
        .await
    };
    let rows = tx.commit_after(completed).await?;
    // Without the pass or its lease, the function changed nothing.
    let row = rows.first().ok_or(PostgresError::NoSuchPass(pass))?;
    if row.value::<Option<bool>>(0)?.is_none() {
        return Err(PostgresError::NoSuchPass(pass));
    }
    match term.is_none() || row.value::<Option<bool>>(1)?.is_some() {
        true => row.count(2),
        false => Err(PostgresError::LeaseLost(resource)),
    }
}

/// Counts requests that brought no page.
pub async fn count_unproductive(
    tx: &Transaction<'_>,
    pass: &PassRef,
    requests: u64,
    units: &Cost,
    now: Timestamp,
) -> Result<(), PostgresError> {
    let pass = match pass {
        PassRef::Open(pass) => *pass,
        PassRef::New { .. } => finish(tx, pass, PassEnd::Failed, now).await?,
    };
    let rows = tx.query(UNITS, parameters![pass.0]).await?;
    let row = rows.first().ok_or(PostgresError::NoSuchPass(pass))?;
    let units = values::sum(row.value(0)?, units);
    let (pages, records, greatest) = (0_i64, 0_i64, None::<Cow<'_, str>>);
    tx.execute(
        COUNT,
        parameters![
            pass.0,
            pages,
            records,
            integer(requests),
            as_is(&units),
            greatest
        ],
    )
    .await
}

/// The passes that started at `since` or later, oldest first.
pub async fn history(
    tx: &Transaction<'_>,
    since: Timestamp,
) -> Result<Vec<PassRecord>, PostgresError> {
    let rows = tx.query(HISTORY, parameters![time(since)]).await?;
    rows.iter().map(pass_record).collect()
}

/// Stores whether the run of a pass failed, and its notes.
pub async fn store_outcome(
    tx: &Transaction<'_>,
    pass: &PassRef,
    failed: bool,
    notes: Option<&str>,
    now: Timestamp,
) -> Result<(), PostgresError> {
    let found = match pass {
        PassRef::Open(pass) => Some(*pass),
        PassRef::New { .. } => without_page(tx, pass, failed, now).await?,
    };
    let Some(pass) = found else {
        return Ok(());
    };
    let notes = notes.map(stored);
    tx.execute(STORE_OUTCOME, parameters![pass.0, time(now), failed, notes])
        .await
}

/// Stores what the job requested in a refused pass.
pub async fn store_refusal(
    tx: &Transaction<'_>,
    pass: PassId,
    request: &str,
) -> Result<(), PostgresError> {
    tx.execute(STORE_REFUSAL, parameters![pass.0, stored(request)])
        .await
}

/// Returns a pass without a page that is stored already because its requests were counted; stores another one if it failed.
async fn without_page(
    tx: &Transaction<'_>,
    pass: &PassRef,
    failed: bool,
    now: Timestamp,
) -> Result<Option<PassId>, PostgresError> {
    if let PassRef::New {
        job,
        region,
        slice,
        started_at,
    } = pass
    {
        let (from, began) = (edges(*slice).0, time(*started_at));
        let rows = tx
            .query(
                FAILED,
                parameters![stored(job), stored(region), from, began, failed],
            )
            .await?;
        if let Some(id) = rows.first().map(|row| row.value(0)).transpose()? {
            tx.execute(FAIL_AGAIN, parameters![id, began, time(now)])
                .await?;
            return Ok(Some(PassId(id)));
        }
    }
    match failed {
        true => finish(tx, pass, PassEnd::Failed, now).await.map(Some),
        false => Ok(None),
    }
}

/// The passes that failed last and were left at `since` or later, the last one first.
pub async fn failures(
    tx: &Transaction<'_>,
    since: Timestamp,
    most: u32,
) -> Result<Vec<PassRecord>, PostgresError> {
    let rows = tx
        .query(FAILURES, parameters![time(since), i64::from(most)])
        .await?;
    rows.iter().map(pass_record).collect()
}

pub async fn jobs_and_regions(
    tx: &Transaction<'_>,
) -> Result<Vec<(String, String)>, PostgresError> {
    let rows = tx.query(rows::JOBS_AND_REGIONS, parameters![]).await?;
    rows.iter().map(rows::job_and_region).collect()
}

pub async fn pass(tx: &Transaction<'_>, pass: PassId) -> Result<Option<PassRecord>, PostgresError> {
    let rows = tx.query(PASS, parameters![pass.0]).await?;
    rows.first().map(pass_record).transpose()
}
