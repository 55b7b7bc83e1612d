use rusqlite::Result;

use super::rows::Rows;
use super::standing::{Standing, difference};
use crate::quota::{Account, Limit, LimitName, LimitUsage, Return, Timestamp, Units};

/// How the limits of an account stand.
pub fn usage(rows: Rows<'_>, account: &Account, now: Timestamp) -> Result<Vec<LimitUsage>> {
    account
        .limits
        .iter()
        .map(|(name, limit)| limit_usage(rows, name, limit, now))
        .collect()
}

fn limit_usage(
    rows: Rows<'_>,
    name: &LimitName,
    limit: &Limit,
    now: Timestamp,
) -> Result<LimitUsage> {
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
    let Some(reset) = limit.window().last_reset(now) else {
        return Ok(None);
    };
    let (total, before) = rows.totals(name, reset)?;
    Ok(Some(difference(total, before)))
}

fn returns(rows: Rows<'_>, standing: &Standing<'_>, now: Timestamp) -> Result<Vec<Return>> {
    let mut left = standing.used();
    let mut returns = Vec::new();
    for end in standing.limit.window().slices(now) {
        let still = standing.used_at(rows, end)?;
        if still < left {
            returns.push(Return {
                at: standing.falls_to(rows, still)?,
                units: left.less(still),
            });
        }
        left = still;
    }
    Ok(returns)
}
