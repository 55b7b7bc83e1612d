use rusqlite::Result;

use super::rows::Rows;
use super::standing::{Standing, difference};
use crate::quota::{Account, Limit, LimitName, LimitUsage, Return, Timestamp, Units, Window};

/// Into how many slices the window is cut to tell when units return.
const SLICES: i64 = 24;

/// How the limits of an account stand.
pub(super) fn usage(rows: Rows<'_>, account: &Account, now: Timestamp) -> Result<Vec<LimitUsage>> {
    account.limits.iter().map(|(name, limit)| limit_usage(rows, name, limit, now)).collect()
}

fn limit_usage(rows: Rows<'_>, name: &LimitName, limit: &Limit, now: Timestamp) -> Result<LimitUsage> {
    let standing = Standing::read(rows, name, limit, now)?;
    Ok(LimitUsage {
        limit: name.clone(),
        used: standing.used(),
        remaining: standing.remaining(),
        closed_until: standing.closed_until(),
        since_reset: since_reset(rows, name, limit, now)?,
        returns: returns(rows, &standing, now)?,
    })
}

fn since_reset(rows: Rows<'_>, name: &str, limit: &Limit, now: Timestamp) -> Result<Option<Units>> {
    let Some(reset) = limit.window().last_reset(now) else { return Ok(None) };
    let (total, before) = rows.totals(name, reset)?;
    Ok(Some(difference(total, before)))
}

fn returns(rows: Rows<'_>, standing: &Standing<'_>, now: Timestamp) -> Result<Vec<Return>> {
    let mut left = standing.used();
    let mut returns = Vec::new();
    for at in slice_ends(standing.limit.window(), now) {
        let still = standing.used_at(rows, at)?;
        if still < left {
            returns.push(Return { at, units: left.less(still) });
        }
        left = still;
    }
    Ok(returns)
}

/// When the charges of each slice are all gone: the charges that count now are cut into slices of equal length by
/// their time, and the end of each slice expires last.
fn slice_ends(window: &Window, now: Timestamp) -> impl Iterator<Item = Timestamp> {
    let from = window.counted_from(now);
    let length = now.micros().saturating_sub(from.micros());
    let ends = (1..=SLICES).map(move |slice| from.micros().saturating_add(length.saturating_mul(slice) / SLICES));
    ends.map(|end| window.expiry(Timestamp::from_micros(end)))
}
