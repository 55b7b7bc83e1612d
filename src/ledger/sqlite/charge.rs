use rusqlite::Result;

use super::super::Charge;
use super::rows::{Closed, Place, Rows, signed};
use super::standing::Standing;
use super::{Moment, remembered_from};
use crate::quota::{Closing, Cost, Decision, Grant, LimitName, Rejection, Timestamp, Units};

/// Decides on a charge, and records it if it is granted.
pub fn charge(rows: Rows<'_>, charge: Charge<'_>, moment: Moment) -> Result<Decision> {
    let now = moment.now;
    let standings = charge
        .account
        .charged(charge.cost)
        .map(|(name, limit)| Standing::read(rows, name, limit, now));
    let standings = standings.collect::<Result<Vec<_>>>()?;
    if let Some(place) = rows.known(charge.id, remembered_from(charge.account, now))? {
        return repeated(charge, &standings, rows.held(charge.account, place)?);
    }
    if let Some((limit, most)) = charge.account.never_holds(charge.cost, charge.leave) {
        return Ok(Decision::Never { limit, most });
    }
    match fits_last(rows, charge, &standings)? {
        (Some(last), retry_at) if retry_at > now => {
            Ok(Decision::Rejected(rejection(last, retry_at, moment)))
        }
        _ => record(rows, charge, &standings, moment).map(Decision::Granted),
    }
}

/// What is said of a known id, by what it was charged.
fn repeated(charge: Charge<'_>, standings: &[Standing<'_>], held: Cost) -> Result<Decision> {
    if held.is_none() && !standings.is_empty() {
        return Ok(Decision::TakenBack);
    }
    let asked = charge.account.taken(charge.cost);
    let grant = grant(standings, |_| Units::ZERO);
    Ok(Decision::Granted(Grant {
        repeated: true,
        held: (held != asked).then_some(held),
        ..grant
    }))
}

/// The limit that fits last, the first by name of several, and when.
fn fits_last<'a, 'b>(
    rows: Rows<'_>,
    charge: Charge<'_>,
    standings: &'a [Standing<'b>],
) -> Result<(Option<&'a Standing<'b>>, Timestamp)> {
    let mut last = (None, Timestamp::from_micros(i64::MIN));
    for standing in standings {
        let fits_from = standing.fits_from(
            rows,
            charge.cost.of(standing.name),
            charge.leave.of(standing.name),
        )?;
        if fits_from > last.1 {
            last = (Some(standing), fits_from);
        }
    }
    Ok(last)
}

fn rejection(last: &Standing<'_>, retry_at: Timestamp, moment: Moment) -> Rejection {
    Rejection {
        limit: last.name.clone(),
        used: last.used(),
        remaining: last.remaining(),
        retry_after: retry_at.since(moment.callers),
        retry_at,
    }
}

fn record(
    rows: Rows<'_>,
    charge: Charge<'_>,
    standings: &[Standing<'_>],
    moment: Moment,
) -> Result<Grant> {
    let place = Place {
        at: moment.now,
        n: moment.n,
    };
    rows.add_charge(place, charge.id, Some(charge.purpose))?;
    for standing in standings {
        let units = charge.cost.of(standing.name);
        rows.take(
            standing.name,
            place,
            units,
            standing.total.saturating_add(signed(units)?),
        )?;
    }
    let probing = probe(rows, standings, moment.now)?;
    Ok(Grant {
        probing,
        ..grant(standings, |limit| charge.cost.of(limit))
    })
}

/// Closes again, for a while, whatever this charge tries.
fn probe(rows: Rows<'_>, standings: &[Standing<'_>], now: Timestamp) -> Result<Vec<LimitName>> {
    let mut probing = Vec::new();
    for standing in standings.iter().filter(|standing| standing.is_probing()) {
        rows.close(
            standing.name,
            Closed {
                until: now.after(Closing::PROBE_EVERY),
                probing: true,
            },
        )?;
        probing.push(standing.name.clone());
    }
    Ok(probing)
}

fn grant(standings: &[Standing<'_>], taken: impl Fn(&str) -> Units) -> Grant {
    let left = |standing: &Standing<'_>| {
        standing
            .limit
            .enforced()
            .less(standing.used() + taken(standing.name))
    };
    let remaining = standings
        .iter()
        .map(|standing| (standing.name.clone(), left(standing)))
        .collect();
    Grant {
        remaining,
        ..Grant::default()
    }
}
