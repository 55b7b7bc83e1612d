//! What is read from rows.

use super::pass::lasting;
use super::sql::{Row, StoreError};
use super::{
    CallFacts, EndedSlice, Estimate, IdSince, KnownList, OpenBatch, OpenPass, PassId, PassRecord,
    StepPosition, StoredRecord,
};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::Tag;

type Read<T> = Result<T, StoreError>;

pub fn pass_record(row: &Row) -> Read<PassRecord> {
    Ok(PassRecord {
        job: row.text(0)?,
        region: row.text(1)?,
        started_at: row.time(2)?,
        // The table's constraint allows no other word.
        outcome: row.optional_text(3)?.and_then(|end| end.parse().ok()),
        pages: row.count(4)?,
        records: row.count(5)?,
        requests: row.count(6)?,
        units: row.cost(7)?,
        finished_at: row.optional_time(8)?,
        slice: row.slice(9)?,
        id: PassId(row.integer(11)?),
        left_at: row.optional_time(12)?,
        failed: row.truth(13)?,
        notes: row.optional_text(14)?,
        doubts: row.doubts(15)?,
    })
}

/// An unfinished pass.
pub fn open_pass(row: &Row, steps: Vec<StepPosition>, batches: Vec<OpenBatch>) -> Read<OpenPass> {
    Ok(OpenPass {
        id: PassId(row.integer(0)?),
        region: row.text(1)?,
        started_at: row.time(2)?,
        greatest: row.optional_text(3)?,
        slice: row.slice(4)?,
        steps,
        batches,
        doubts: row.doubts(6)?,
        relists: row.truth(7)?,
        landed: row.integer(8)?,
    })
}

/// How far a list was read that stops at what is known.
pub fn known_list(row: &Row) -> Read<KnownList> {
    let pages = row.count(2)?;
    Ok(KnownList {
        pass: PassId(row.integer(0)?),
        began: row.time(1)?,
        pages,
        filled: pages.saturating_sub(row.count(3)?),
        step: row.step(4)?,
        is_whole: !ListSoFar::read(row.optional_text(5)?.as_deref()).is_partial,
    })
}

/// A pass over a slice that ended; `None` for any other pass.
pub fn ended_slice(row: &Row) -> Read<Option<EndedSlice>> {
    let (Ok(end), Some(slice)) = (row.verbatim(1)?.parse(), row.slice(4)?) else {
        return Ok(None);
    };
    Ok(Some(EndedSlice {
        slice,
        pass: PassId(row.integer(0)?),
        end,
        started_at: row.time(2)?,
        finished_at: row.time(3)?,
        request: row.optional_text(6)?,
        doubts: row.doubts(7)?,
    }))
}

/// A step, its last page, and that page's cursor, request, empty pages and list.
pub fn step_position(row: &Row) -> Read<StepPosition> {
    Ok(StepPosition {
        step: row.step(0)?,
        pages: row.count(1)?,
        cursor: row.optional_text(2)?,
        request: row.optional_text(3)?,
        empty_pages: row.count(4)?,
        list: ListSoFar::read(row.optional_text(5)?.as_deref()),
    })
}

/// A row of `batch` without its pass.
pub fn open_batch(row: &Row) -> Read<OpenBatch> {
    Ok(OpenBatch {
        step: row.step(0)?,
        ids: row.json(1)?,
        missing: row.json(2)?,
        cursors: row.json(3)?,
        began: row.time(4)?,
        empty_pages: row.count(5)?,
        greatest: row.optional_text(6)?,
    })
}

/// An id, and the end of its last complete list.
pub fn id_since(row: &Row) -> Read<IdSince> {
    Ok(IdSince {
        id: row.text(0)?,
        began: row.time(1)?,
        greatest: row.optional_text(2)?,
        lasting: lasting(row.optional_text(3)?, row.optional_text(4)?),
    })
}

pub fn stored_record(row: &Row) -> Read<StoredRecord> {
    Ok(StoredRecord {
        upstream: row.text(0)?,
        kind: row.text(1)?,
        id: row.text(2)?,
        first_seen: row.time(3)?,
        last_seen: row.time(4)?,
        body: row.verbatim(5)?.to_owned(),
        gone_at: row.optional_time(6)?,
        position: row.integer(7)?,
    })
}

pub fn estimate(row: &Row) -> Read<Estimate> {
    Ok(Estimate {
        upstream: row.text(0)?,
        call: row.text(1)?,
        cost: row.cost(2)?,
    })
}

pub fn call_facts(row: &Row) -> Read<CallFacts> {
    Ok(CallFacts {
        upstream: row.text(0)?,
        call: row.text(1)?,
        facts: row.text(2)?,
    })
}

pub fn tag(row: &Row) -> Read<Tag> {
    Ok(Tag {
        request: row.text(0)?,
        name: row.text(1)?,
        next: row.optional_text(2)?,
    })
}
