//! Records that no list has any more.
//!
//! A list is a job, a region and a step that lists everything there is. A record that a list had is gone when no list has it. A
//! list whose passes begin with a cursor of the last one, or stop at what is known, names what changed: it has every record that it
//! ever named, until it says that one was removed, or a pass lists everything again.

use super::PassId;
use super::page::LandingPage;
use super::sql::{Query, Row, StoreError, Tx, values};
use ingest_quota::Timestamp;

/// The last complete pass of the same region of the job, the step in it that requested the same, and that request unless this pass
/// began at the cursor of that one.
// The edges of a slice are null outside of slices.
const BEFORE: &str = "select former.id, checkpoint.step, case when pass.relists = true or not exists (
        select 1 from lasting_cursor own {join} lasting_cursor last on last.pass = former.id and last.request = own.request
        where own.pass = pass.id and own.step = ?2 and own.cursor is not null and last.cursor is not null)
    then checkpoint.request end
    from pass join pass former on former.job = pass.job and former.region = pass.region
        and former.slice_from is not distinct from pass.slice_from and former.slice_to is not distinct from pass.slice_to
        and former.outcome = 'complete' and former.id <> pass.id
    left join checkpoint on checkpoint.pass = former.id and checkpoint.request = (
        select request from checkpoint own where own.pass = ?1 and own.step = ?2 and own.request is not null limit 1)
    where pass.id = ?1
    order by former.started_at desc, former.id desc limit 1";
/// The passes behind the last complete one that did not complete, and the step in each that requested the same: what these saw is
/// gone too once a whole list lacks it.
const INCOMPLETE: &str = "select distinct former.id, checkpoint.step
    from pass join pass former on former.job = pass.job and former.region = pass.region
        and former.slice_from is not distinct from pass.slice_from and former.slice_to is not distinct from pass.slice_to
        and former.outcome <> 'complete' and former.id <> pass.id
    join checkpoint on checkpoint.pass = former.id and checkpoint.request = (
        select request from checkpoint own where own.pass = ?1 and own.step = ?2 and own.request is not null limit 1)
    where pass.id = ?1 and not exists (
        select 1 from pass whole where whole.job = pass.job and whole.region = pass.region
            and whole.slice_from is not distinct from pass.slice_from
            and whole.slice_to is not distinct from pass.slice_to
            and whole.outcome = 'complete' and whole.id <> pass.id and whole.started_at > former.started_at)";
/// The records of a list, by their numbers; null for those that are gone, or were seen since the step `?4` of the pass `?3` began,
/// as all are that it has listed. What it saw before it was started over proves nothing.
const MISSING: &str = "select (select number from record
        where upstream = listing.upstream and kind = listing.kind and id = listing.id and gone_at is null
            and last_seen < (select coalesce((select at from restart where restart.pass = ?3 and step = ?4), started_at)
                from pass where id = ?3))
    from listing where listing.pass = ?1 and listing.step = ?2";
/// Releases what earlier passes named: it no longer counts as in the list.
const RELEASE: &str = "delete from lasting_cursor where request = ?2 and pass < ?1 and exists (
    select 1 from pass {join} pass former on former.job = pass.job and former.region = pass.region
    where pass.id = ?1 and former.id = lasting_cursor.pass)
    returning pass, step";
/// Keeps what a pass named until it is released.
const KEEP: &str = "insert into lasting_cursor (pass, step, request) values (?1, ?2, ?3)
    on conflict (pass, request) do nothing";
/// Keeps what the pass itself named.
const KEEP_OWN: &str = "insert into lasting_cursor (pass, step, request)
    select distinct pass, step, request from checkpoint where pass = ?1 and step = ?2 and request is not null
    on conflict (pass, request) do nothing";
/// The passes that tell what each list has now: its newest complete one, and those that are open.
const CURRENT: &str = "select id from (select id, row_number() over (
        partition by job, region, slice_from, slice_to order by started_at desc, id desc) place
    from pass where outcome = 'complete') newest where place = 1
    union all select id from pass where finished_at is null";
/// In the order of their keys, in which landings lock them too. `update` alone would take any order.
const LOCK: &str =
    "select number from record where number {any ?1} order by upstream, kind, id{lock}";
/// Locks records of a kind. With history it is sent in the order of their ids, so that each former body is kept once.
pub const LOCK_RECORDS: &str =
    "select number from record where upstream = ?1 and kind = ?2 and id = {key}{lock}";
/// Whether a list other than the step `?5` of the pass `?4` has a record: one of the passes `?3`, or one that counts until it is
/// released.
macro_rules! has_list {
    () => {
        "exists (select 1 from listing
        where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
            and listing.pass {any ?3} and (listing.pass <> ?4 or listing.step <> ?5) and listing.requested is null)
    or exists (select 1 from listing {join} lasting_cursor
        on lasting_cursor.pass = listing.pass and lasting_cursor.step = listing.step
        where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
            and (listing.pass <> ?4 or listing.step <> ?5) and listing.requested is null)"
    };
}
// Another machine may have seen a record meanwhile. A list of another job names what that job requested by its id; the ids of this
// job can come from the list that lost the record.
const MARK: &str = concat!(
    "update record set gone_at = ?2 where number {any ?1}
    and gone_at is null and last_seen < (select coalesce((select max(at) from restart where restart.pass = ?4), started_at)
        from pass where id = ?4)
    and not (",
    has_list!(),
    ") and not exists (select 1 from listing {join} pass on pass.id = listing.pass
        where listing.id = record.id and listing.kind = record.kind and listing.upstream = record.upstream
            and listing.requested is not null and pass.job <> (select job from pass where id = ?4))"
);
/// Takes a record out of what earlier passes of a list named.
const UNNAME: &str = "delete from listing where id = ?3 and kind = ?2 and upstream = ?1 and step = ?5 and pass in (
    select former.id from pass {join} pass former on former.job = pass.job and former.region = pass.region
    where pass.id = ?4 and former.id <> pass.id)";
const REMOVE: &str = concat!(
    "update record set gone_at = ?2 where upstream = ?1 and kind = ?6 and id = ?7 and gone_at is null and not (",
    has_list!(),
    ")"
);
pub const STATEMENTS: &[&str] = &[
    BEFORE, INCOMPLETE, MISSING, RELEASE, LOCK, MARK, UNNAME, REMOVE,
];

/// Marks the records that a page says were removed, unless another list has them: what moved from one list to another is in that.
pub fn remove(tx: &Tx<'_>, page: &LandingPage, pass: PassId) -> Result<(), StoreError> {
    let landing = &page.landing;
    if landing.removed.is_empty() {
        return Ok(());
    }
    let (upstream, kind) = (&landing.upstream, page.kind());
    // In the order in which landings lock records.
    let mut removed: Vec<&String> = landing.removed.iter().collect();
    removed.sort_unstable();
    // Behind the lock: who had it may have landed a record in another list.
    tx.each(
        LOCK_RECORDS,
        values![upstream, kind],
        removed.iter().copied(),
    )?;
    let current = current(tx)?;
    for id in removed {
        tx.later(UNNAME, values![upstream, kind, id, pass.0, page.step])?;
        let (list, step) = (current.clone(), page.step);
        tx.later(
            REMOVE,
            values![upstream, landing.now, list, pass.0, step, kind, id],
        )?;
    }
    Ok(())
}

/// The passes that tell what each list has now.
fn current(tx: &Tx<'_>) -> Result<Vec<i64>, StoreError> {
    let rows = tx.query(CURRENT, values![])?;
    rows.iter().map(|row| row.integer(0)).collect()
}

/// Lists of a pass that count as having more than the pass lists, until a whole one shows what they lack, by their steps.
#[derive(Debug, Clone, Default)]
pub struct KeptLists {
    /// Those that moved while the pass read them: they have what the pass before named.
    pub moved: Vec<usize>,
    /// Those of which the pass asked for what is new: later passes do not name what this one did.
    pub new_only: Vec<usize>,
}

impl KeptLists {
    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.moved.is_empty() && self.new_only.is_empty()
    }
}

/// Keeps what passes named in these lists.
pub fn keep(tx: &Tx<'_>, pass: PassId, lists: &KeptLists) -> Result<(), StoreError> {
    for step in &lists.new_only {
        tx.later(KEEP_OWN, values![pass.0, *step])?;
    }
    for step in &lists.moved {
        for row in tx.query(BEFORE, values![pass.0, *step])? {
            let of_list = row.optional_integer(1)?.zip(row.optional_text(2)?);
            if let Some((step, request)) = of_list {
                tx.later(KEEP, values![row.integer(0)?, step, request])?;
            }
        }
    }
    Ok(())
}

/// The statements for what passes before this one had in these of its lists.
pub fn before(pass: PassId, steps: &[usize]) -> Vec<Query<'static>> {
    let of = |statement| {
        let steps = steps.iter();
        steps.map(move |step| Query::new(statement, values![pass.0, *step]))
    };
    of(BEFORE).chain(of(INCOMPLETE)).collect()
}

/// The statement for what a step of a pass lacks of the list that a row names: a pass and a step.
fn missing_of(row: &Row, (pass, own): (PassId, usize)) -> Result<Query<'static>, StoreError> {
    let (former, step) = (row.integer(0)?, row.integer(1)?);
    Ok(Query::new(MISSING, values![former, step, pass.0, own]))
}

/// Marks what these of a pass's lists lost, by the rows that [`before`] finds. Returns the number of records.
pub fn mark(
    tx: &Tx<'_>,
    (pass, steps): (PassId, &[usize]),
    found: &[Vec<Row>],
    now: Timestamp,
) -> Result<u64, StoreError> {
    let (before, incomplete) = found.split_at(steps.len().min(found.len()));
    let (mut missing, mut releases) = (Vec::new(), Vec::new());
    let mut previous = None;
    for (own, (before, incomplete)) in steps.iter().zip(before.iter().zip(incomplete)) {
        for row in incomplete {
            missing.push(missing_of(row, (pass, *own))?);
        }
        for row in before {
            let former = row.integer(0)?;
            if row.optional_integer(1)?.is_none() {
                continue;
            }
            previous = Some(former);
            missing.push(missing_of(row, (pass, *own))?);
            if let Some(request) = row.optional_text(2)? {
                releases.push((*own, Query::new(RELEASE, values![pass.0, request])));
            }
        }
    }
    // Together, since a list seldom has anything to release.
    let (owns, releases): (Vec<usize>, Vec<Query<'_>>) = releases.into_iter().unzip();
    let of_releases = releases.len();
    let mut found = tx.ask_all(&[releases, missing].concat())?;
    let mut released = Vec::new();
    for (own, rows) in owns.iter().zip(found.drain(..of_releases)) {
        for row in &rows {
            released.push(missing_of(row, (pass, *own))?);
        }
    }
    found.extend(tx.ask_all(&released)?);
    let found = found.iter().flatten().map(|row| row.optional_integer(0));
    let missing = found.filter_map(Result::transpose);
    let mut missing: Vec<i64> = missing.collect::<Result<_, _>>()?;
    if missing.is_empty() {
        return Ok(0);
    }
    // Several passes named the same record.
    missing.sort_unstable();
    missing.dedup();
    // Behind the lock: who had it may have ended another list of the records.
    let [_, current] = tx.ask([
        Query::new(LOCK, values![missing.clone()]),
        Query::new(CURRENT, values![]),
    ])?;
    let current = current.iter().map(|row| row.integer(0));
    let mut current: Vec<i64> = current.collect::<Result<_, _>>()?;
    // The pass, which is about to end, takes the place of the one before.
    current.retain(|id| Some(*id) != previous);
    current.push(pass.0);
    // The pass lists none of them, so no step of it is left out.
    let no_step = -1_i64;
    tx.execute(MARK, values![missing, now, current, pass.0, no_step])
}
