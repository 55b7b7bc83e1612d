//! Promise 1: no window of any history holds more than is let through, wherever within its grace the upstream counted
//! each request.

use std::sync::Arc;

use ingest_ledger::Ledger;
use ingest_quota::{ChargeId, Cost, Decision, Limit, LimitName, Timestamp, Units, Window};

use super::cases::{Visits, account_of, moved};
use crate::books::{Books, fresh_id};

pub(crate) async fn never(ledger: &Arc<dyn Ledger>, case: Visits) {
    let history = spend(ledger, &case).await;
    for (name, limit) in &case.limits {
        for (at, _) in &history {
            let most = [sliding(limit.window(), *at), resetting(limit.window(), *at)];
            for (from, to) in most.into_iter().flatten() {
                holds(name, limit, &history, from, to);
            }
        }
    }
}

/// Charges as greedily as the ledger lets it: whatever is rejected is charged as soon as it is said to fit.
async fn spend(ledger: &Arc<dyn Ledger>, case: &Visits) -> Vec<(Timestamp, Cost)> {
    let books = Books::new(Arc::clone(ledger), account_of(&case.limits));
    let mut history = Vec::new();
    let mut now = case.start;
    for visit in &case.visits {
        now = moved(now, visit.step);
        let Some((id, at)) = charge(&books, &visit.cost, now).await else {
            continue;
        };
        now = at;
        if visit.released {
            books.settle(&id, &Cost::none(), now).await;
        } else {
            history.push((now, visit.cost.clone()));
        }
    }
    history
}

async fn charge(books: &Books, cost: &Cost, now: Timestamp) -> Option<(ChargeId, Timestamp)> {
    let id = fresh_id();
    match books.decide(&id, cost, &Cost::none(), now).await {
        Decision::Granted(_) => Some((id, now)),
        Decision::Rejected(rejection) => {
            books.take_as(&id, cost, rejection.retry_at).await;
            Some((id, rejection.retry_at))
        }
        Decision::Never { .. } => None,
        Decision::TakenBack => panic!("the id is fresh, and nothing was seen"),
    }
}

fn holds(
    name: &LimitName,
    limit: &Limit,
    history: &[(Timestamp, Cost)],
    from: Timestamp,
    to: Timestamp,
) {
    let in_it = history
        .iter()
        .filter(|(at, _)| *at + limit.grace() >= from && *at < to);
    let counted: Units = in_it.map(|(_, cost)| cost.of(name)).sum();
    assert!(
        counted <= limit.enforced(),
        "{counted} of {name} may be counted from {from} to {to}: {history:?}"
    );
}

/// The latest window, as the upstream slides it, that can still hold a charge made at `at`: its end is not in it.
fn sliding(window: &Window, at: Timestamp) -> Option<(Timestamp, Timestamp)> {
    let from = at + window.grace();
    window.sliding().map(|span| (from, from + span))
}

/// The upstream's day that holds `at`.
fn resetting(window: &Window, at: Timestamp) -> Option<(Timestamp, Timestamp)> {
    window.last_reset(at).zip(window.next_reset(at))
}
