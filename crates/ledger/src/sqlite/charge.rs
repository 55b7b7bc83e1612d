//! One charge: decided by `quota::admission` and recorded in the same transaction.

use rusqlite::{Connection, Result};

use super::super::Charge;
use super::rows::{LimitRows, LogPosition, Rows, signed};
use super::{Moment, merge};
use ingest_quota::admission::{Claim, ClosingState, LimitState};
use ingest_quota::{Decision, Grant, Timestamp};

/// Decides on a charge, and records it if it is granted.
pub fn charge(connection: &Connection, charge: Charge<'_>, callers: Timestamp) -> Result<Decision> {
    let Charge { account, cost, .. } = charge;
    let rows = Rows::new(connection, &account.name);
    let moment = Moment::read(rows, callers)?;
    let now = moment.now;
    let claim = Claim {
        account,
        cost,
        leave: charge.leave,
    };
    let limits = account
        .charged(cost)
        .map(|(name, limit)| LimitState::read(name, limit, rows.limit(name, moment.newest), now))
        .collect::<Result<Vec<_>>>()?;
    // Before the decision: a repeated id is granted again, whatever else holds (L11).
    if let Some(place) = rows.known(account, charge.id, now)? {
        return Ok(claim.decide_repeated(&limits, rows.held(account, place)?));
    }
    let decision = claim.decide(&limits, moment.callers)?;
    if let Decision::Granted(grant) = &decision {
        record(rows, charge, &limits, moment)?;
        close_for_probes(rows, grant, moment)?;
        merge::merge(rows, account, now)?;
    }
    Ok(decision)
}

fn record(
    rows: Rows<'_>,
    charge: Charge<'_>,
    limits: &[LimitState<'_, LimitRows<'_>>],
    moment: Moment,
) -> Result<()> {
    let place = LogPosition {
        at: moment.now,
        n: moment.n,
    };
    rows.add_charge(place, charge.id, Some(charge.purpose))?;
    for limit in limits {
        let units = charge.cost.of(limit.name);
        let total = signed(limit.total() + units).unwrap_or(i64::MAX);
        rows.take(limit.name, place, units, total)?;
    }
    Ok(())
}

/// Closes again, for a while, the limits that this charge probes.
fn close_for_probes(rows: Rows<'_>, grant: &Grant, moment: Moment) -> Result<()> {
    grant.probing.iter().try_for_each(|(limit, interval)| {
        rows.close(limit, ClosingState::after_probe(*interval, moment.now))
    })
}
