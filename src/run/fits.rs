//! When a charge fits, over all limits that it takes from.

use super::outcome::{LimitReport, StoppedBy};
use crate::ledger::LedgerClient;
use crate::quota::{Account, Cost, LimitName, Timestamp};

/// What a charge takes, and what must stay free beside it, in units by limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Claim {
    /// What it takes.
    pub cost: Cost,
    /// What the job leaves.
    pub leave: Cost,
}

/// The limit that fits last, the first by name of several, and the instant; `None` where the ledger does not tell.
async fn fits_last(
    ledger: &LedgerClient,
    account: &Account,
    claim: &Claim,
    limits: &[LimitReport],
) -> Option<(LimitName, Timestamp)> {
    let mut last: Option<(LimitName, Timestamp)> = None;
    for (name, limit) in account.charged(&claim.cost) {
        let room = limit
            .enforced()
            .saturating_sub(claim.cost.of(name) + claim.leave.of(name));
        let falls = ledger.falls_to(account, name, room).await.ok().flatten()?;
        let closed = standing(limits, &account.name, name).and_then(|limit| limit.closed_until);
        let at = closed.map_or(falls, |until| until.max(falls));
        if last.as_ref().is_none_or(|(_, latest)| at > *latest) {
            last = Some((name.clone(), at));
        }
    }
    last
}

/// Brings a refusal up to date with how the limits stand now: another job may have gone on after it.
pub async fn refresh(
    stop: &mut StoppedBy,
    ledger: &LedgerClient,
    account: &Account,
    limits: &[LimitReport],
) {
    let Some((limit, at)) = fits_last(ledger, account, &stop.claim, limits).await else {
        return;
    };
    stop.units = stop.claim.cost.of(&limit);
    stop.remaining = standing(limits, &account.name, &limit)
        .and_then(|limit| limit.remaining)
        .unwrap_or(stop.remaining);
    stop.limit = limit;
    stop.fits_at(at);
}

fn standing<'l>(limits: &'l [LimitReport], account: &str, limit: &str) -> Option<&'l LimitReport> {
    limits
        .iter()
        .find(|one| one.account == account && one.limit == limit)
}
