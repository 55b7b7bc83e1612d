//! Passes: which are open and where they stopped, how they started over and how they ended.

use std::collections::{BTreeSet, HashMap};

use super::either::{ended_slice_where, open_pass_where};
use super::sql::{Query, Row, StoreError, Tx, values};
use super::{
    CatalogError, CatalogReader, DoubtfulPass, EndedSlice, Landing, LastPages, OpenBatch, OpenPass,
    PassEnd, PassId, PassRef, RegionState, SliceState, StepPosition, UncutPass, filled, pages,
    slice_states,
};
use super::{rows, wanted};
use crate::values;
use ingest_base::record::Doubted;
use ingest_config::Slice;
use ingest_quota::{Cost, Timestamp};

// `outcome is null` too, here and below: in a file no index has open passes by region, and one has passes by region and outcome.
const OPEN_OF_REGION: &str = open_pass_where!(
    "outcome is null and job = ?1 and region = {key} and slice_from is null
    order by started_at desc, id desc limit 1"
);
const OPEN: &str = open_pass_where!("job = ?1 order by started_at, id");
const OPEN_SLICES: &str = open_pass_where!(
    "outcome is null and job = ?1 and region = {key} and slice_from is not null order by started_at, id"
);
const OPEN_SLICE: &str = open_pass_where!(
    "outcome is null and job = ?1 and region = {key} and slice_from = ?2 and slice_to = ?3 order by started_at, id"
);
const ENDED_SLICES: &str = ended_slice_where!(
    "job = ?1 and region = {key} and started_at <= ?2 and slice_from is not null order by started_at, id"
);
const ENDED_SLICE: &str = ended_slice_where!(
    "job = ?1 and region = {key} and started_at <= ?2 and slice_from = ?3 and slice_to = ?4 order by started_at, id"
);
/// Which rows of `checkpoint` are those of the last pages of a pass, by its key.
macro_rules! newest_positions {
    () => {
        "(step, page) in (select step, max(page) from checkpoint where pass = {key} group by step)"
    };
}
pub const NEWEST_POSITIONS: &str = newest_positions!();
const POSITIONS: &str = concat!(
    "select step, page, cursor, request, empty_pages, list from checkpoint where pass = {key} and ",
    newest_positions!(),
    " order by step"
);
const BATCHES: &str = "select step, ids, missing, cursors, began, empty_pages, greatest from batch
    where pass = {key} order by step, ids";
const LAST: &str = "select id, started_at, finished_at, request, doubts, notes from pass
    where job = ?1 and region = {key} and outcome = ?2 and started_at <= ?3 and slice_from is null
    order by started_at desc, id desc limit 1";
const UNCUT: &str = "select id, started_at, greatest from pass
    where job = ?1 and region = {key} and outcome = 'complete' and cut = false and started_at <= ?2 and slice_from is null
    order by started_at desc limit 1";
const LAST_COMPLETE: &str =
    "select id from pass where job = ?1 and region = {key} and outcome = 'complete'
    order by started_at desc, id desc limit ?2";
// A page that was requested before another run walked the region begins no pass, nor does one beside the open pass of another holder.
// A clock that ran ahead began passes that are later than now: they keep nobody from walking.
const BEGIN: &str =
    "insert into pass (job, region, started_at, slice_from, slice_to, relists, token, landed)
    select ?1, ?2, ?3, ?4, ?5, ?6, ?7, 1 where not exists (
        select 1 from pass where job = ?1 and region = ?2 and outcome in ('complete', 'doubtful', 'refused', 'abandoned')
            and started_at > ?3 and started_at <= ?8 and slice_from is not distinct from ?4 and slice_to is not distinct from ?5)
    on conflict (job, region, coalesce(slice_from, '-infinity'), coalesce(slice_to, '-infinity')) where finished_at is null
        do update set landed = pass.landed + 1 where pass.token = excluded.token
    returning id, landed, units";
const HOLD: &str =
    "update pass set landed = landed + 1 where id = ?1 and token = ?2 and landed >= ?3
    returning id, landed, units";
pub const TAKE_UP: &str =
    "update pass set token = ?3 where id = ?1 and landed = ?2 and finished_at is null returning id";
pub const END_STEP: &str = "update checkpoint set cursor = null, cut = ?3, list = ?4
    where pass = ?1 and step = ?2
        and page = (select max(page) from checkpoint where pass = ?1 and step = ?2)";
const END_BATCHES: &str = "delete from batch where pass = ?1";
pub const RESTART: &str =
    "insert into restart (pass, step, at) values (?1, ?2, ?3) on conflict do nothing";
const UNLIST: &str = "delete from listing where pass = ?1 and step = ?2";
const FORGET: &str = "delete from checkpoint where pass = ?1 and step = ?2";
const UNCOUNT: &str = "update pass set pages = pages - ?2, records = records - ?3 where id = ?1";
// Locked, because the sum is computed here. After a failover another pass can have the number.
const UNITS: &str = "select id, units from pass where id = ?1 and job = ?2 and region = ?3 and started_at = ?4{lock}";
// A sum beyond the greatest integer would fail, and the page with it: `requests` stays there.
const COUNT: &str = "update pass set pages = pages + ?2, records = records + ?3, units = ?5,
    requests = case when requests > 9223372036854775807 - ?4 then 9223372036854775807 else requests + ?4 end,
    greatest = coalesce(?6, greatest)
    where id = ?1";
const END_WITHOUT_PAGE: &str =
    "insert into pass (job, region, started_at, outcome, finished_at, slice_from, slice_to, left_at, failed, token, landed)
    values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?5, ?4 <> 'complete', ?8, 1) returning id";
const FINISH: &str =
    "update pass set outcome = ?2, finished_at = ?3, left_at = ?3, failed = ?2 <> 'complete',
    notes = case when ?2 <> 'complete' then notes end,
    cut = exists (select 1 from checkpoint where pass = ?1 and checkpoint.cut = true)
    where id = ?1 and finished_at is null";
/// Stores how a run left a pass. What another process took up says how that one left it.
pub const STORE_OUTCOME: &str =
    "update pass set left_at = ?2, failed = ?3, notes = ?4 where id = ?1 and token = ?5";
// Both are lists in JSON.
const STORE_DOUBTS: &str = "update pass set doubts = coalesce(substr(doubts, 1, length(doubts) - 1) || ',' || substr(?2, 2), ?2) where id = ?1";
pub const STORE_REFUSAL: &str = "update pass set request = ?2 where id = ?1";
/// The pass that landed no page and began at this time; for a failure (`?5`) also the last one that failed before any request.
// The edge of a slice is null outside of slices, which no `=` finds.
const FAILED: &str = "select id from pass
    where job = ?1 and region = ?2 and slice_from is not distinct from ?3 and outcome = 'failed'
        and (started_at = ?4 or (?5 and requests = 0))
    order by started_at desc, id desc limit 1{lock}";
const FAIL_AGAIN: &str =
    "update pass set started_at = ?2, finished_at = ?3, token = ?4 where id = ?1";
pub const STATEMENTS: &[&str] = &[
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
    UNCUT,
    BEGIN,
    HOLD,
    TAKE_UP,
    END_STEP,
    LAST_COMPLETE,
    UNLIST,
    FORGET,
    UNCOUNT,
    UNITS,
    COUNT,
    FINISH,
    STORE_OUTCOME,
    STORE_DOUBTS,
    STORE_REFUSAL,
    FAILED,
    FAIL_AGAIN,
];

/// What is known of each region at `now`.
fn region_states(
    tx: &Tx<'_>,
    job: &str,
    regions: &[String],
    now: Timestamp,
) -> Result<Vec<RegionState>, StoreError> {
    let [complete, refused, doubtful, abandoned, since, open] =
        tx.ask(last_passes(job, regions, now))?;
    let by_steps = complete.iter().chain(&since).chain(&open);
    let by_steps: Result<BTreeSet<i64>, _> = by_steps.map(|row| row.integer(0)).collect();
    let details = Details::read(tx, by_steps?.into_iter().collect())?;
    let mut states: Vec<RegionState> = regions.iter().map(|region| named(region)).collect();
    each(&mut states, &complete, |state, row| {
        let pass = PassId(row.integer(0)?);
        let steps = details.steps(pass);
        state.last_complete = Some(row.time(1)?);
        state.last_complete_pass = Some(pass);
        state.last_notes = row.optional_text(5)?;
        (state.last_pages, state.last_filled) = (pages(steps), filled(steps));
        Ok(())
    })?;
    each(&mut states, &refused, |state, row| {
        state.last_refused = Some(row.time(1)?);
        state.refused_request = row.optional_text(3)?;
        Ok(())
    })?;
    each(&mut states, &doubtful, |state, row| {
        state.doubtful = Some(DoubtfulPass {
            started_at: row.time(1)?,
            request: row.optional_text(3)?,
            doubts: row.doubts(4)?,
        });
        Ok(())
    })?;
    each(&mut states, &abandoned, |state, row| {
        state.last_abandoned = Some(row.time(2)?);
        Ok(())
    })?;
    each(&mut states, &since, |state, row| {
        let steps = details.steps(PassId(row.integer(0)?)).iter();
        state.since = Some(UncutPass {
            began: row.time(1)?,
            greatest: row.optional_text(2)?,
            requests: steps.filter_map(|at| at.request.clone()).collect(),
        });
        Ok(())
    })?;
    each(&mut states, &open, |state, row| {
        state.unfinished = Some(details.open_pass(row)?);
        Ok(())
    })?;
    Ok(states.into_iter().map(RegionState::current).collect())
}

/// The statements for the last passes of each region: the complete, refused, doubtful and abandoned one, the one that gives `{since}`,
/// and the open one.
fn last_passes<'q>(job: &'q str, regions: &'q [String], now: Timestamp) -> [Query<'q>; 6] {
    let last = |end: PassEnd| Query::each(LAST, values![job, end.as_str(), now], regions);
    [
        last(PassEnd::Complete),
        last(PassEnd::Refused),
        last(PassEnd::Doubtful),
        last(PassEnd::Abandoned),
        Query::each(UNCUT, values![job, now], regions),
        Query::each(OPEN_OF_REGION, values![job], regions),
    ]
}

/// The passes of regions of a job by which their next ones go.
pub fn read_by_next(
    tx: &Tx<'_>,
    job: &str,
    regions: &[String],
    has_slices: bool,
    until: Timestamp,
) -> Result<Vec<i64>, StoreError> {
    let found = match has_slices {
        false => tx.ask_all(&last_passes(job, regions, until))?,
        true => tx.ask_all(&[
            Query::each(ENDED_SLICES, values![job, until], regions),
            Query::each(OPEN_SLICES, values![job], regions),
        ])?,
    };
    found.iter().flatten().map(|row| row.integer(0)).collect()
}

fn named(region: &str) -> RegionState {
    RegionState {
        region: region.to_owned(),
        ..RegionState::default()
    }
}

/// Stores what each row tells in the state that it belongs to.
fn each(
    states: &mut [RegionState],
    rows: &[Row],
    store: impl Fn(&mut RegionState, &Row) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for row in rows {
        if let Some(state) = states.get_mut(row.place) {
            store(state, row)?;
        }
    }
    Ok(())
}

/// Where passes stand.
struct Details {
    steps: HashMap<PassId, Vec<StepPosition>>,
    batches: HashMap<PassId, Vec<OpenBatch>>,
}

impl Details {
    fn read(tx: &Tx<'_>, passes: Vec<i64>) -> Result<Self, StoreError> {
        let keys = || passes.iter().copied();
        let [steps, batches] = tx.ask([
            Query::each(POSITIONS, values![], keys()),
            Query::each(BATCHES, values![], keys()),
        ])?;
        Ok(Self {
            steps: by_pass(&passes, &steps, rows::step_position)?,
            batches: by_pass(&passes, &batches, rows::open_batch)?,
        })
    }

    fn steps(&self, pass: PassId) -> &[StepPosition] {
        self.steps.get(&pass).map(Vec::as_slice).unwrap_or_default()
    }

    fn open_pass(&self, row: &Row) -> Result<OpenPass, StoreError> {
        let pass = PassId(row.integer(0)?);
        let batches = self.batches.get(&pass).cloned().unwrap_or_default();
        rows::open_pass(row, self.steps(pass).to_vec(), batches)
    }
}

fn by_pass<T>(
    passes: &[i64],
    rows: &[Row],
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> Result<HashMap<PassId, Vec<T>>, StoreError> {
    let mut all: HashMap<PassId, Vec<T>> = HashMap::new();
    for row in rows {
        if let Some(pass) = passes.get(row.place) {
            all.entry(PassId(*pass)).or_default().push(read(row)?);
        }
    }
    Ok(all)
}

impl CatalogReader {
    /// Returns the state of each of these regions of a job, in the order given. Ignores passes that ended and that
    /// started later than `now`: a clock that ran ahead dated them. Passes over slices do not count.
    pub async fn region_states(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<RegionState>, CatalogError> {
        let (job, regions) = (job.to_owned(), regions.to_vec());
        self.read_few(move |tx| region_states(tx, &job, &regions, now))
            .await
    }

    /// Returns the slices of these regions of a job that have passes, as `slice_states` gathers them. Ignores passes that ended
    /// and that started later than `now`.
    pub async fn slices(
        &self,
        job: &str,
        regions: &[String],
        now: Timestamp,
    ) -> Result<Vec<SliceState>, CatalogError> {
        let (job, regions) = (job.to_owned(), regions.to_vec());
        self.read(move |tx| {
            let ended = Query::each(ENDED_SLICES, values![&job, now], &regions);
            let open = Query::each(OPEN_SLICES, values![&job], &regions);
            of_slices(tx, &regions, [ended, open])
        })
        .await
    }

    /// Returns one of these slices; `None` if it has no pass.
    pub async fn slice(
        &self,
        job: &str,
        region: &str,
        slice: Slice,
        now: Timestamp,
    ) -> Result<Option<SliceState>, CatalogError> {
        let (job, region) = (job.to_owned(), [region.to_owned()]);
        self.read_few(move |tx| {
            let ended = values![&job, now, slice.from, slice.to];
            let ended = Query::each(ENDED_SLICE, ended, &region);
            let open = Query::each(OPEN_SLICE, values![&job, slice.from, slice.to], &region);
            Ok(of_slices(tx, &region, [ended, open])?.pop())
        })
        .await
    }

    /// Returns, for each of these regions of a job, the pages of each step, by the step's index, in each of its last `count`
    /// complete passes, those over slices included, newest first.
    pub async fn last_pages(
        &self,
        job: &str,
        regions: &[String],
        count: u32,
    ) -> Result<Vec<LastPages>, CatalogError> {
        let (job, regions) = (job.to_owned(), regions.to_vec());
        self.read(move |tx| {
            let passes = tx.each(LAST_COMPLETE, values![&job, i64::from(count)], &regions)?;
            let details = details_of(tx, &passes)?;
            let mut all = vec![LastPages::new(); regions.len()];
            for row in passes {
                if let Some(of_region) = all.get_mut(row.place) {
                    of_region.push(pages(details.steps(PassId(row.integer(0)?))));
                }
            }
            Ok(all)
        })
        .await
    }

    /// Returns the unfinished passes of a job, oldest first, including the one over `*`.
    pub async fn open_passes(&self, job: &str) -> Result<Vec<OpenPass>, CatalogError> {
        let job = job.to_owned();
        self.read_few(move |tx| {
            let open = tx.query(OPEN, values![&job])?;
            let details = details_of(tx, &open)?;
            open.iter().map(|row| details.open_pass(row)).collect()
        })
        .await
    }
}

/// Gathers the passes that these statements find, which ended and which are open.
fn of_slices(
    tx: &Tx<'_>,
    regions: &[String],
    queries: [Query<'_>; 2],
) -> Result<Vec<SliceState>, StoreError> {
    let [ended, open] = tx.ask(queries)?;
    let mut ended_in: HashMap<usize, Vec<EndedSlice>> = HashMap::new();
    for row in &ended {
        let of_region = ended_in.entry(row.place).or_default();
        of_region.extend(rows::ended_slice(row)?);
    }
    let mut open_in: HashMap<usize, Vec<OpenPass>> = HashMap::new();
    let details = details_of(tx, &open)?;
    for row in &open {
        let of_region = open_in.entry(row.place).or_default();
        of_region.push(details.open_pass(row)?);
    }
    let states = regions.iter().enumerate().flat_map(|(place, region)| {
        let ended = ended_in.remove(&place).unwrap_or_default();
        slice_states(region, &ended, open_in.remove(&place).unwrap_or_default())
    });
    Ok(states.collect())
}

fn details_of(tx: &Tx<'_>, passes: &[Row]) -> Result<Details, StoreError> {
    let ids = passes.iter().map(|row| row.integer(0));
    Details::read(tx, ids.collect::<Result<_, _>>()?)
}

/// Adds doubts to a pass.
pub fn store_doubts(tx: &Tx<'_>, pass: PassId, doubts: &[Doubted]) -> Result<(), StoreError> {
    if doubts.is_empty() {
        return Ok(());
    }
    let doubts = serde_json::json!(doubts).to_string();
    tx.later(STORE_DOUBTS, values![pass.0, doubts])
}

/// A pass whose write counts, which is locked until the transaction ends.
pub struct Held {
    pub pass: PassId,
    /// The writes on it, this one included.
    pub number: i64,
    /// What it spent.
    pub units: String,
}

impl Held {
    /// Reads the row of [`holding`]; `None` where there is none.
    pub fn read(rows: &[Row]) -> Result<Option<Self>, StoreError> {
        let held = |row: &Row| {
            Ok(Self {
                pass: PassId(row.integer(0)?),
                number: row.integer(1)?,
                units: row.text(2)?,
            })
        };
        rows.first().map(held).transpose()
    }
}

/// The statement with which a landing begins: it begins the pass or locks it, and finds a row if this process holds it. A first page
/// of a pass that this process began is a further one: several can have waited for the catalog. What the transaction reads behind
/// it is no earlier state.
pub fn holding(landing: &Landing) -> Query<'_> {
    let pass = &landing.pass;
    let Some(id) = pass.id else {
        let (from, to) = edges(pass.slice);
        let of = values![&pass.job, &pass.region, pass.started_at, from, to];
        let more = values![landing.relists, pass.token.to_string(), landing.latest];
        return Query::new(BEGIN, [of, more].concat());
    };
    held(id, pass)
}

fn held(id: PassId, pass: &PassRef) -> Query<'static> {
    Query::new(HOLD, values![id.0, pass.token.to_string(), pass.landed])
}

/// Locks a pass that is in the catalog, and asks statements about it in the same round trip. Fails unless this process holds it.
pub fn hold(
    tx: &Tx<'_>,
    pass: &PassRef,
    queries: Vec<Query<'_>>,
) -> Result<(Held, Vec<Vec<Row>>), StoreError> {
    let holding = pass.id.map_or(Query::never(), |id| held(id, pass));
    let mut found = tx.ask_all(&[vec![holding], queries].concat())?.into_iter();
    let held = Held::read(&found.next().unwrap_or_default())?;
    let held = held.ok_or_else(|| StoreError::lost(pass))?;
    Ok((held, found.collect()))
}

/// Forgets where a step stood and what it listed.
pub fn forget_step(tx: &Tx<'_>, pass: PassId, step: usize) -> Result<(), StoreError> {
    let records = tx.execute(UNLIST, values![pass.0, step])?;
    let pages = tx.execute(FORGET, values![pass.0, step])?;
    wanted::forget_step(tx, pass, step)?;
    tx.later(UNCOUNT, values![pass.0, pages, records])
}

/// Ends a pass. One that ended before stays as it is.
pub fn end(tx: &Tx<'_>, pass: PassId, end: PassEnd, now: Timestamp) -> Result<(), StoreError> {
    tx.later(END_BATCHES, values![pass.0])?;
    wanted::forget(tx, pass, end)?;
    tx.later(FINISH, values![pass.0, end.as_str(), now])
}

/// Stores a pass that ended without a page.
pub fn end_without_page(
    tx: &Tx<'_>,
    pass: &PassRef,
    end: PassEnd,
    now: Timestamp,
) -> Result<PassId, StoreError> {
    let (from, to) = edges(pass.slice);
    let of = values![&pass.job, &pass.region, pass.started_at];
    let ended = values![end.as_str(), now, from, to, pass.token.to_string()];
    let id = tx.one(END_WITHOUT_PAGE, [of, ended].concat(), Row::integer)?;
    Ok(PassId(id))
}

/// The edges of a slice as columns.
pub fn edges(slice: Option<Slice>) -> (Option<Timestamp>, Option<Timestamp>) {
    (slice.map(|slice| slice.from), slice.map(|slice| slice.to))
}

/// What a pass spent and got.
#[derive(Default)]
pub struct Counts<'a> {
    pub pages: u64,
    pub records: u64,
    pub requests: u64,
    /// All that it spent, as it is stored.
    pub units: String,
    /// The greatest value that it saw; `None` where that stays.
    pub greatest: Option<&'a str>,
}

/// Adds to what a pass spent and got.
pub fn count(tx: &Tx<'_>, pass: PassId, counts: Counts<'_>) -> Result<(), StoreError> {
    let Counts {
        pages,
        records,
        requests,
        units,
        greatest,
    } = counts;
    tx.later(
        COUNT,
        values![pass.0, pages, records, requests, units, greatest],
    )
}

/// Counts requests that brought no page, or a page that is not listed since its pass is lost: they are paid for. Stores a failed pass
/// where the catalog has none. Returns the pass.
pub fn count_unproductive(
    tx: &Tx<'_>,
    pass: &PassRef,
    (requests, units): (u64, &Cost),
    now: Timestamp,
) -> Result<PassId, StoreError> {
    let PassRef {
        job,
        region,
        started_at,
        ..
    } = pass;
    let id = pass.id.map(|id| id.0);
    let stored = Query::new(UNITS, values![id, job, region, *started_at]);
    let [stored] = tx.ask([stored.when(id.is_some())])?;
    let (pass, spent) = match stored.first() {
        Some(row) => (PassId(row.integer(0)?), row.text(1)?),
        None => {
            let failed = end_without_page(tx, pass, PassEnd::Failed, now)?;
            (failed, "{}".to_owned())
        }
    };
    let counts = Counts {
        requests,
        units: values::sum(&spent, units),
        ..Counts::default()
    };
    count(tx, pass, counts)?;
    Ok(pass)
}

/// Returns a pass without a page that is stored already because its requests were counted; stores another one if it failed.
pub fn without_page(
    tx: &Tx<'_>,
    pass: &PassRef,
    failed: bool,
    now: Timestamp,
) -> Result<Option<PassId>, StoreError> {
    let PassRef {
        job,
        region,
        slice,
        started_at,
        ..
    } = pass;
    let of = values![job, region, edges(*slice).0, *started_at, failed];
    if let Some(row) = tx.first(FAILED, of)? {
        let id = row.integer(0)?;
        let token = pass.token.to_string();
        tx.later(FAIL_AGAIN, values![id, *started_at, now, token])?;
        return Ok(Some(PassId(id)));
    }
    let store = || end_without_page(tx, pass, PassEnd::Failed, now);
    failed.then(store).transpose()
}
