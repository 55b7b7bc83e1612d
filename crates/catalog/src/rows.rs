//! Rows as either database returns them, and what is read from them.

use serde::de::DeserializeOwned;

use super::layout::KindLayout;
use super::pass::lasting;
use super::{
    CallFacts, EndedSlice, Estimate, IdSince, KnownList, OpenBatch, OpenPass, PassEnd, PassId,
    PassRecord, StepPosition, StoredRecord, values,
};
use ingest_base::list_so_far::ListSoFar;
use ingest_base::record::{Doubted, Tag};
use ingest_config::Slice;
use ingest_quota::{Cost, Timestamp};

/// Reads the columns of a row. The databases store times, truth and some texts in different forms; what a column means is the
/// same.
pub trait Columns {
    type Error;

    fn integer(&self, column: usize) -> Result<i64, Self::Error>;

    fn truth(&self, column: usize) -> Result<bool, Self::Error>;

    /// Reads a text as it was before it was stored.
    fn text(&self, column: usize) -> Result<String, Self::Error>;

    fn optional_text(&self, column: usize) -> Result<Option<String>, Self::Error>;

    /// Reads a text that both databases store as it is, such as JSON.
    fn verbatim(&self, column: usize) -> Result<&str, Self::Error>;

    fn time(&self, column: usize) -> Result<Timestamp, Self::Error>;

    fn optional_time(&self, column: usize) -> Result<Option<Timestamp>, Self::Error>;

    /// Returns the error of a column that is not JSON of its type; `what` names the column for people.
    fn unusable(column: usize, what: &str, error: serde_json::Error) -> Self::Error;

    /// Reads a number that is not negative.
    fn count(&self, column: usize) -> Result<u64, Self::Error> {
        Ok(u64::try_from(self.integer(column)?).unwrap_or(0))
    }

    /// Reads the index of a step.
    fn step(&self, column: usize) -> Result<usize, Self::Error> {
        Ok(usize::try_from(self.count(column)?).unwrap_or(usize::MAX))
    }

    fn json<T: DeserializeOwned>(&self, column: usize) -> Result<T, Self::Error> {
        let what = "a column is not the JSON that it should be";
        serde_json::from_str(self.verbatim(column)?)
            .map_err(|error| Self::unusable(column, what, error))
    }

    fn cost(&self, column: usize, what: &str) -> Result<Cost, Self::Error> {
        values::cost(self.verbatim(column)?).map_err(|error| Self::unusable(column, what, error))
    }

    /// Reads doubts, or null.
    fn doubts(&self, column: usize) -> Result<Vec<Doubted>, Self::Error> {
        Ok(values::doubts(self.optional_text(column)?.as_deref()))
    }

    /// Reads two columns that hold the edges of a slice, or null.
    fn slice(&self, column: usize) -> Result<Option<Slice>, Self::Error> {
        let edges = self.optional_time(column)?;
        let edges = edges.zip(self.optional_time(column + 1)?);
        Ok(edges.map(|(from, to)| Slice { from, to }))
    }
}

pub fn pass_record<R: Columns>(row: &R) -> Result<PassRecord, R::Error> {
    Ok(PassRecord {
        job: row.text(0)?,
        region: row.text(1)?,
        started_at: row.time(2)?,
        // The table's constraint allows no other word.
        outcome: row
            .optional_text(3)?
            .and_then(|outcome| PassEnd::parse(&outcome)),
        pages: row.count(4)?,
        records: row.count(5)?,
        requests: row.count(6)?,
        units: row.cost(7, "the units of a pass")?,
        finished_at: row.optional_time(8)?,
        slice: row.slice(9)?,
        id: PassId(row.integer(11)?),
        left_at: row.optional_time(12)?,
        failed: row.truth(13)?,
        notes: row.optional_text(14)?,
        doubts: row.doubts(15)?,
    })
}

pub const JOBS_AND_REGIONS: &str = "select distinct job, region from pass";

/// A row of [`JOBS_AND_REGIONS`].
pub fn job_and_region<R: Columns>(row: &R) -> Result<(String, String), R::Error> {
    Ok((row.text(0)?, row.text(1)?))
}

/// The unfinished pass whose columns begin at `column`.
pub fn open_pass<R: Columns>(
    row: &R,
    column: usize,
    steps: Vec<StepPosition>,
    batches: Vec<OpenBatch>,
) -> Result<OpenPass, R::Error> {
    Ok(OpenPass {
        id: PassId(row.integer(column)?),
        region: row.text(column + 1)?,
        started_at: row.time(column + 2)?,
        greatest: row.optional_text(column + 3)?,
        slice: row.slice(column + 4)?,
        steps,
        batches,
        doubts: row.doubts(column + 6)?,
        relists: row.truth(column + 7)?,
    })
}

/// How far a list was read that stops at what is known.
pub fn known_list<R: Columns>(row: &R) -> Result<KnownList, R::Error> {
    let pages = row.count(2)?;
    Ok(KnownList {
        pass: PassId(row.integer(0)?),
        began: row.time(1)?,
        pages,
        filled: pages.saturating_sub(row.count(3)?),
        can_stop: row.truth(4)?,
        step: row.step(5)?,
        is_whole: !ListSoFar::read(row.optional_text(6)?.as_deref()).is_partial,
    })
}

/// A pass over a slice that ended; `None` for any other pass.
pub fn ended_slice<R: Columns>(row: &R) -> Result<Option<EndedSlice>, R::Error> {
    let Some((end, slice)) = PassEnd::parse(row.verbatim(1)?).zip(row.slice(4)?) else {
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
pub fn step_position<R: Columns>(row: &R) -> Result<StepPosition, R::Error> {
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
pub fn open_batch<R: Columns>(row: &R) -> Result<OpenBatch, R::Error> {
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
pub fn id_since<R: Columns>(row: &R) -> Result<IdSince, R::Error> {
    Ok(IdSince {
        id: row.text(0)?,
        began: row.time(1)?,
        greatest: row.optional_text(2)?,
        lasting: lasting(row.optional_text(3)?, row.optional_text(4)?),
    })
}

pub fn stored_record<R: Columns>(row: &R) -> Result<StoredRecord, R::Error> {
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

pub fn estimate<R: Columns>(row: &R) -> Result<Estimate, R::Error> {
    Ok(Estimate {
        upstream: row.text(0)?,
        call: row.text(1)?,
        cost: row.cost(2, "an estimate")?,
    })
}

pub fn call_facts<R: Columns>(row: &R) -> Result<CallFacts, R::Error> {
    Ok(CallFacts {
        upstream: row.text(0)?,
        call: row.text(1)?,
        facts: row.text(2)?,
    })
}

pub fn tag<R: Columns>(row: &R) -> Result<Tag, R::Error> {
    Ok(Tag {
        request: row.text(0)?,
        name: row.text(1)?,
        next: row.optional_text(2)?,
    })
}

/// How records are read, in two columns.
pub fn layout<R: Columns>(row: &R, column: usize) -> Result<KindLayout, R::Error> {
    Ok(KindLayout {
        text: row.text(column)?,
        columns: row.text(column + 1)?,
    })
}
