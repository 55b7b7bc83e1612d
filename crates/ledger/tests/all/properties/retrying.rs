//! In the manner of governor: not before the stated wait, and exactly at it.

use std::sync::Arc;

use ingest_ledger::Ledger;
use ingest_quota::{ChargeId, Decision, Rejection, Timestamp};

use super::cases::{Visit, Visits, account_of, moved};
use crate::books::{Books, MICROSECOND, fresh_id};

/// Rejected at every instant looked at before the stated one, always with the same answer; granted exactly at it.
pub(crate) async fn exact(ledger: &Arc<dyn Ledger>, case: Visits) {
    let books = Books::new(Arc::clone(ledger), account_of(&case.limits));
    let mut now = case.start;
    for visit in &case.visits {
        now = moved(now, visit.step);
        let id = fresh_id();
        if let Some(rejection) = rejected(&books, &id, visit, now).await {
            stays_rejected(&books, visit, now, &rejection).await;
            now = rejection.retry_at;
            assert_eq!(rejected(&books, &id, visit, now).await, None, "at {now}");
        }
    }
}

async fn stays_rejected(books: &Books, visit: &Visit, now: Timestamp, told: &Rejection) {
    let last = told.retry_at - MICROSECOND;
    assert!(now <= last, "{told:?} asked at {now}");
    for instant in between(now, last, visit.fraction) {
        let again = rejected(books, &fresh_id(), visit, instant).await;
        let again = again.unwrap_or_else(|| panic!("granted at {instant}, {told:?} at {now}"));
        assert_eq!(
            (again.retry_at, &again.limit),
            (told.retry_at, &told.limit),
            "asked at {instant}, first at {now}"
        );
        assert_eq!(again.retry_after, told.retry_at.since(instant));
    }
}

/// Both ends, the middle, quarters of the way near the end, and somewhere.
fn between(first: Timestamp, last: Timestamp, fraction: f64) -> Vec<Timestamp> {
    let length = last.micros() - first.micros();
    let somewhere = (length as f64 * fraction) as i64;
    let mut instants: Vec<_> = [0, somewhere, length]
        .map(|later| moved(first, later))
        .into();
    instants.extend((1..6).map(|halvings| moved(last, -(length >> halvings))));
    instants
}

async fn rejected(
    books: &Books,
    id: &ChargeId,
    visit: &Visit,
    now: Timestamp,
) -> Option<Rejection> {
    match books.decide(id, &visit.cost, &visit.leave, now).await {
        Decision::Rejected(rejection) => Some(rejection),
        Decision::Granted(_) | Decision::Never { .. } => None,
        Decision::TakenBack => panic!("nothing was settled, and nothing was seen"),
    }
}
