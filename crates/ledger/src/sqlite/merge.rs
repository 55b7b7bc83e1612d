//! Merges old charges of an account whose limits count in parts: those of one part of the window and one purpose become one
//! row, at the place of the last of them. No total changes but inside the part, so no decision does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rusqlite::Result;

use super::rows::{LogPosition, MergeProgress, Rows};
use super::spent::Purposes;
use crate::Purpose;
use ingest_quota::admission::remembered_from;
use ingest_quota::{Account, Timestamp};

/// The most charges that one charge merges: about five milliseconds of work.
const MOST: usize = 1_000;

/// In this fraction of the time for which ids are remembered, old charges gather before they are merged.
const GATHERING: u32 = 8;

/// A charge, and the purpose under which it is reported.
type Charged = (LogPosition, Arc<Purpose>);

/// Merges charges whose ids are forgotten, a bounded number at a time, if it is time to.
pub fn merge(rows: Rows<'_>, account: &Account, now: Timestamp) -> Result<()> {
    if !account.forgets_ids() {
        return Ok(());
    }
    let progress = rows.merge_progress()?;
    if progress.is_some_and(|progress| progress.due > now) {
        return Ok(());
    }
    let from = progress.map_or(Timestamp::from_micros(i64::MIN), |progress| progress.from);
    let mut purposes = Purposes::default();
    let until = remembered_from(account, now);
    let charges = rows.merging(from, until, MOST, |row| purposes.read(row))?;
    let floors = rows.floors_since(from)?;
    let mut next_from = from;
    let is_one = |(earlier, _): &Charged, (later, _): &Charged| {
        let is_between = |floor: &Timestamp| earlier.at <= *floor && *floor < later.at;
        account.merges(earlier.at, later.at, now) && !floors.iter().any(is_between)
    };
    for part in charges.chunk_by(is_one) {
        next_from = merge_part(rows, account, part)?.unwrap_or(next_from);
    }
    let is_full = charges.len() == MOST;
    if is_full && next_from == from {
        // As many purposes as charges: nothing of this part can be merged with what follows.
        next_from = charges
            .last()
            .map_or(from, |(last, _)| last.at + MICROSECOND);
    }
    let due = if is_full {
        now
    } else {
        now + account.id_memory() / GATHERING
    };
    rows.set_merge_progress(MergeProgress {
        from: next_from,
        due,
    })
}

const MICROSECOND: std::time::Duration = std::time::Duration::from_micros(1);

/// Merges the charges of one part, and returns when the first was made that is left; `None` of no charges.
fn merge_part(rows: Rows<'_>, account: &Account, part: &[Charged]) -> Result<Option<Timestamp>> {
    let mut last_of = BTreeMap::new();
    for (place, purpose) in part {
        last_of.insert(Arc::clone(purpose), *place);
    }
    let mut moved = BTreeSet::new();
    for (place, purpose) in part {
        let last = last_of.get(purpose).copied().unwrap_or(*place);
        if last != *place {
            let limits = rows.limits_of(account, *place)?;
            limits
                .iter()
                .try_for_each(|limit| rows.move_taken(limit, *place, last))?;
            rows.merge_charge(*place, last)?;
            moved.extend(limits);
        }
    }
    if let (Some((first, _)), Some((last, _))) = (part.first(), part.last()) {
        for limit in moved {
            rows.total_again(limit, first.at, last.at)?;
        }
    }
    Ok(last_of.into_values().map(|place| place.at).min())
}
