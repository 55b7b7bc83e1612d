//! What changes charges after they were made: settlements, charges made elsewhere, closings.

use std::collections::BTreeMap;

use rusqlite::Result;

use super::Moment;
use super::rows::{LogPosition, Rows, signed};
use crate::{Found, fresh_id};
use ingest_quota::admission::{History, kept_from};
use ingest_quota::{Account, ChargeId, Closing, Cost, Entry, Floor, Origin, Timestamp, Units};

/// The end of time.
const END: Timestamp = Timestamp::from_micros(i64::MAX);

/// Sets the true cost of a charge, at its own time (L14), or records it for a charge that has not arrived yet (L15). A release is
/// final.
pub fn settle(
    rows: Rows<'_>,
    account: &Account,
    id: &ChargeId,
    cost: &Cost,
    now: Timestamp,
) -> Result<()> {
    let place = match rows.known(account, id, now)? {
        Some(known) if known.is_released => return Ok(()),
        Some(known) => known.place,
        None => add(rows, (id, Origin::CarriedOver), now)?,
    };
    if cost.is_none() {
        rows.release(place)?;
    }
    let mut limits = rows.limits_of(account, place)?;
    // The true cost can take from limits that the charge did not.
    limits.extend(account.charged(cost).map(|(limit, _)| limit));
    for limit in limits {
        let units = cost.of(limit).counted();
        if rows.taken(limit, place)?.unwrap_or_default() != units {
            rows.take(limit, place, units, 0)?;
            // The totals of all later charges contain this one.
            rows.total_again(limit, place.at, END)?;
        }
    }
    Ok(())
}

/// Returns what became of the charge of an id, or of one made from it: an id that was taken back names no charge any more (L12).
pub fn find(rows: Rows<'_>, account: &Account, id: &ChargeId, now: Timestamp) -> Result<Found> {
    let (mut candidate, mut taken_back) = (id.clone(), 0);
    while let Some(known) = rows.known(account, &candidate, now)? {
        if !rows.held(account, known.place)?.is_none() {
            return Ok(Found::Counting(candidate));
        }
        taken_back += 1;
        candidate = id.again(taken_back);
    }
    Ok(match taken_back {
        0 => Found::Unknown,
        _ => Found::TakenBack,
    })
}

/// Sets the true cost of a charge that counts, and returns what had become of it.
pub fn correct(
    rows: Rows<'_>,
    account: &Account,
    id: &ChargeId,
    cost: &Cost,
    now: Timestamp,
) -> Result<Found> {
    let found = find(rows, account, id, now)?;
    if let Found::Counting(id) = &found {
        settle(rows, account, id, cost, now)?;
    }
    Ok(found)
}

/// Adds charges that the ledger does not have yet, and floors (L17, L40).
pub fn absorb(
    rows: Rows<'_>,
    account: &Account,
    entries: &[Entry],
    floors: &[Floor],
    now: Timestamp,
) -> Result<()> {
    let mut changed = BTreeMap::new();
    for entry in entries {
        // The newest charge is the ledger's time: one from a clock that is ahead would carry it along.
        let at = entry.at.min(now);
        if at > kept_from(account, now) && rows.known(account, &entry.id, now)?.is_none() {
            let place = add(rows, (&entry.id, entry.origin), at)?;
            if entry.cost.is_none() {
                rows.release(place)?;
            }
            for (limit, _) in account.charged(&entry.cost) {
                rows.take(limit, place, entry.cost.of(limit), 0)?;
                changed
                    .entry(limit)
                    .and_modify(|first: &mut Timestamp| *first = at.min(*first))
                    .or_insert(at);
            }
        }
    }
    changed
        .into_iter()
        .try_for_each(|(limit, first)| rows.total_again(limit, first, END))?;
    floors.iter().try_for_each(|floor| {
        rows.add_floor(&Floor {
            at: floor.at.min(now),
            ..floor.clone()
        })
    })
}

/// Counts charges of a limit, oldest first, where nothing of it counts yet: by their times and units alone.
pub fn fill(rows: Rows<'_>, limit: &str, charges: &[(Timestamp, Units)]) -> Result<()> {
    let mut total = Units::ZERO;
    let mut last: Option<LogPosition> = None;
    for (at, units) in charges {
        let n = last.filter(|last| last.at == *at);
        let n = n.map_or(0, |last| last.n.saturating_add(1));
        let place = LogPosition { at: *at, n };
        total += *units;
        rows.take(limit, place, *units, signed(total)?)?;
        last = Some(place);
    }
    // The ledger's time is that of the newest charge.
    match last {
        Some(place) if rows.newest()?.charge < last => {
            rows.add_charge(place, &fresh_id(), (Origin::CarriedOver, None))
        }
        _ => Ok(()),
    }
}

fn add(rows: Rows<'_>, (id, origin): (&ChargeId, Origin), at: Timestamp) -> Result<LogPosition> {
    let place = rows.place_at(at)?;
    rows.add_charge(place, id, (origin, None))?;
    Ok(place)
}

/// Closes a limit, unless it is closed for longer.
pub fn close(rows: Rows<'_>, limit: &str, closing: Closing, moment: Moment) -> Result<()> {
    let existing = rows.limit(limit, moment.newest).closing()?;
    rows.close(limit, closing.over(existing, moment.now))
}
