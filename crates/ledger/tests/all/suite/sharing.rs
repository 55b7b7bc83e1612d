//! Several handles on one store, as several processes have.

use futures_util::future::join_all;
use ingest_quota::{Cost, Decision};

use crate::Store;
use crate::books::{Books, account, at, cost, daily, fresh_id, id};

fn handles(store: &impl Store, count: usize, quota: u64) -> Vec<Books> {
    let account = account([("daily", daily(quota))]);
    (0..count)
        .map(|_| Books::new(store.ledger(), account.clone()))
        .collect()
}

pub(crate) async fn what_one_handle_charges_another_sees(store: &impl Store) {
    let handles = handles(store, 2, 10);
    handles[0].take(&cost([("daily", 3)]), at(0.0)).await;
    assert_eq!(handles[1].used("daily", at(0.0)).await, 3);
    handles[1].take(&cost([("daily", 7)]), at(0.0)).await;
    handles[0].reject(&cost([("daily", 1)]), at(0.0)).await;
}

pub(crate) async fn many_at_once_spend_exactly_what_is_left(store: &impl Store) {
    let handles = handles(store, 8, 45);
    handles[0].take(&cost([("daily", 20)]), at(0.0)).await;
    let spenders = handles.iter().map(|books| {
        let books = books.clone();
        tokio::spawn(async move {
            let mut granted = 0;
            for _ in 0..10 {
                granted += u64::from(matches!(
                    books.charge(&cost([("daily", 1)]), at(1.0)).await,
                    Decision::Granted(_)
                ));
            }
            granted
        })
    });
    let granted: u64 = join_all(spenders)
        .await
        .into_iter()
        .map(Result::unwrap)
        .sum();
    assert_eq!(granted, 25);
    assert_eq!(handles[0].used("daily", at(1.0)).await, 45);
}

pub(crate) async fn many_repeating_one_id_are_counted_once(store: &impl Store) {
    let handles = handles(store, 6, 10);
    let repeated = id("repeated");
    let call = cost([("daily", 4)]);
    let none = Cost::none();
    let decisions = join_all(
        handles
            .iter()
            .map(|books| books.decide(&repeated, &call, &none, at(0.0))),
    )
    .await;
    assert!(
        decisions
            .iter()
            .all(|decision| matches!(decision, Decision::Granted(_)))
    );
    assert_eq!(handles[0].used("daily", at(0.0)).await, 4);
    handles[0].settle(&fresh_id(), &none, at(0.0)).await;
    assert_eq!(handles[0].used("daily", at(0.0)).await, 4);
}
