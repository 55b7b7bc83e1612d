//! What must be left is as good as used.

use std::sync::Arc;

use ingest_ledger::Ledger;
use ingest_quota::{Cost, Decision};

use super::cases::{Visits, account_of, moved};
use crate::books::{Books, fresh_id};

/// After any history, a charge that leaves something is answered as one that takes it too.
pub(crate) async fn like_charging(ledger: &Arc<dyn Ledger>, mut case: Visits) {
    let Some(last) = case.visits.pop() else {
        return;
    };
    let leaving = Books::new(Arc::clone(ledger), account_of(&case.limits));
    let taking = Books::new(Arc::clone(ledger), account_of(&case.limits));
    let mut now = case.start;
    for visit in &case.visits {
        now = moved(now, visit.step);
        assert_eq!(
            leaving.charge(&visit.cost, now).await,
            taking.charge(&visit.cost, now).await
        );
    }
    // What a charge does not take from, it need not leave anything of.
    let leave: Cost = last
        .leave
        .iter()
        .filter(|(name, _)| last.cost.of(name) > 0.into())
        .map(own)
        .collect();
    let mut both = last.cost.clone();
    both.add(&leave);
    let left = leaving.decide(&fresh_id(), &last.cost, &leave, now).await;
    let took = taking.decide(&fresh_id(), &both, &Cost::none(), now).await;
    same_answer(left, took, &leave);
}

fn own((name, units): (&String, ingest_quota::Units)) -> (String, ingest_quota::Units) {
    (name.clone(), units)
}

fn same_answer(left: Decision, took: Decision, leave: &Cost) {
    match (left, took) {
        (Decision::Granted(left), Decision::Granted(took)) => {
            let rest = took
                .remaining
                .iter()
                .map(|(name, units)| (name.clone(), *units + leave.of(name)));
            assert_eq!(left.remaining, rest.collect());
        }
        (Decision::Rejected(left), Decision::Rejected(took)) => assert_eq!(left, took),
        (Decision::Never { limit: left, .. }, Decision::Never { limit: took, .. }) => {
            assert_eq!(left, took)
        }
        (left, took) => panic!("{left:?} where taking is answered by {took:?}"),
    }
}
