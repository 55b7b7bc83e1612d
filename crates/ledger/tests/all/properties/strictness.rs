//! Counting in buckets grants nothing that exact counting does not, and everything at most one part of the window later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ingest_ledger::Ledger;
use ingest_quota::{Cost, Counting, Decision, Limit, LimitName, Timestamp};

use super::cases::{Visit, Visits, account_of, moved};
use crate::books::{Books, fresh_id};

pub(crate) async fn of_one_part(ledger: &Arc<dyn Ledger>, case: Visits) {
    let books = |limits| Books::new(Arc::clone(ledger), account_of(limits));
    let (counted, exact) = (books(&case.limits), books(&counted_exactly(&case.limits)));
    let part = longest_part(&case.limits);
    let mut now = case.start;
    for visit in &case.visits {
        now = moved(now, visit.step);
        let Some(fits_at) = when_it_fits(&counted, visit, now).await else {
            continue;
        };
        let fits_exactly_at = when_it_fits(&exact, visit, now).await.unwrap();
        assert!(
            fits_exactly_at <= fits_at && fits_at <= fits_exactly_at + part,
            "{fits_at}, exactly {fits_exactly_at}, asked at {now}"
        );
        now = fits_at;
        for books in [&counted, &exact] {
            take(books, visit, now).await;
        }
    }
}

/// When the charge fits; `None` when it never does. Charges nothing.
async fn when_it_fits(books: &Books, visit: &Visit, now: Timestamp) -> Option<Timestamp> {
    let id = fresh_id();
    match books.decide(&id, &visit.cost, &visit.leave, now).await {
        Decision::Granted(_) => {
            books.settle(&id, &Cost::none(), now).await;
            Some(now)
        }
        Decision::Rejected(rejection) => Some(rejection.retry_at),
        Decision::Never { .. } => None,
        Decision::TakenBack => panic!("the id is fresh"),
    }
}

async fn take(books: &Books, visit: &Visit, now: Timestamp) {
    let decision = books
        .decide(&fresh_id(), &visit.cost, &visit.leave, now)
        .await;
    assert!(
        matches!(decision, Decision::Granted(_)),
        "{decision:?} at {now}"
    );
}

fn counted_exactly(limits: &BTreeMap<LimitName, Limit>) -> BTreeMap<LimitName, Limit> {
    let exact = |limit: &Limit| {
        let window = limit.window().counted(Counting::Exact).unwrap();
        Limit::new(limit.quota(), limit.headroom(), window).unwrap()
    };
    let limits = limits.iter();
    limits
        .map(|(name, limit)| (name.clone(), exact(limit)))
        .collect()
}

fn longest_part(limits: &BTreeMap<LimitName, Limit>) -> Duration {
    let parts = limits.values().filter_map(|limit| limit.window().parts());
    parts.map(|parts| parts.length()).max().unwrap_or_default()
}
