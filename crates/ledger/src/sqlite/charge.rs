//! One charge: decided by `quota::admission` and recorded in the same transaction.

use rusqlite::{Connection, Result};

use super::super::{Charge, repeats};
use super::rows::{LimitRows, LogPosition, Rows, signed};
use super::{Moment, Witness, merge};
use ingest_quota::admission::{Claim, ClosingState, LimitState};
use ingest_quota::{Decision, Grant, Origin, Timestamp};

/// What became of a charge.
pub enum Charged {
    /// What was decided, and the place of the charge if it was recorded.
    Decided(Decision, Option<LogPosition>),
    /// Nothing: the file lacks charges that were granted.
    Forgotten,
}

/// Decides on a charge, and records it if it is granted.
pub fn charge(
    connection: &Connection,
    witness: &Witness,
    charge: Charge<'_>,
    callers: Timestamp,
) -> Result<Charged> {
    let Charge { account, cost, .. } = charge;
    let rows = Rows::new(connection, &account.name);
    let moment = Moment::read(rows, callers)?;
    if witness.misses(&account.name, moment.newest.charge) {
        return Ok(Charged::Forgotten);
    }
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
    if let Some(known) = rows.known(account, charge.id, now)? {
        let held = rows.held(account, known.place)?;
        if known.is_lasting || repeats(account, &held, known.place.at, now) {
            let repeated = claim.decide_repeated(&limits, held);
            return Ok(Charged::Decided(repeated, None));
        }
    }
    let decision = claim.decide(&limits, moment.callers)?;
    let Decision::Granted(grant) = &decision else {
        return Ok(Charged::Decided(decision, None));
    };
    let place = record(rows, charge, &limits, moment)?;
    close_for_probes(rows, grant, moment)?;
    merge::merge(rows, account, now)?;
    Ok(Charged::Decided(decision, Some(place)))
}

fn record(
    rows: Rows<'_>,
    charge: Charge<'_>,
    limits: &[LimitState<'_, LimitRows<'_>>],
    moment: Moment,
) -> Result<LogPosition> {
    let place = LogPosition {
        at: moment.now,
        n: moment.n,
    };
    rows.add_charge(place, charge.id, (Origin::Charged, Some(charge.purpose)))?;
    for limit in limits {
        let units = charge.cost.of(limit.name);
        let total = signed(limit.total() + units).unwrap_or(i64::MAX);
        rows.take(limit.name, place, units, total)?;
    }
    Ok(place)
}

/// Closes again, for a while, the limits that this charge probes.
fn close_for_probes(rows: Rows<'_>, grant: &Grant, moment: Moment) -> Result<()> {
    grant.probing.iter().try_for_each(|(limit, interval)| {
        rows.close(limit, ClosingState::after_probe(*interval, moment.now))
    })
}
