//! Limits that count in parts of their window, for quotas too large for one entry for each charge.

use std::time::Duration;

use ingest_quota::{ChargeId, Cost, Counting, Decision, Limit, Timestamp, Units, Window};

use crate::Store;
use crate::books::{Books, MICROSECOND, account, cost, secs, time};

const WINDOW: Duration = secs(3_600);
const PART: Duration = secs(60);
/// Of a window of an hour.
const GRACE: Duration = Duration::from_millis(3_600);

fn buckets(quota: u64) -> Limit {
    let window = Window::new(Some(WINDOW), None).unwrap();
    let window = window.counted(Counting::Buckets(60)).unwrap();
    Limit::new(Units::new(quota), Units::ZERO, window).unwrap()
}

fn open(store: &impl Store, quota: u64) -> Books {
    Books::new(store.ledger(), account([("daily", buckets(quota))]))
}

/// So long after the beginning of a part.
fn after(span: Duration) -> Timestamp {
    time("2026-06-10T20:00:00Z") + span
}

fn units(units: u64) -> Cost {
    cost([("daily", units)])
}

/// Three hundred charges, so that every store merges most of them.
async fn spend(books: &Books, from: Timestamp, span: Duration) -> Vec<Timestamp> {
    let times: Vec<Timestamp> = (0..300).map(|nth| from + span / 300 * nth).collect();
    for (nth, at) in times.iter().enumerate() {
        let id = ChargeId::new(format!("{}-{nth:04}", from.micros()));
        books.take_as(&id, &units(1), *at).await;
    }
    times
}

pub(crate) async fn what_is_merged_counts_as_before(store: &impl Store) {
    let books = open(store, 300);
    let times = spend(&books, after(secs(0)), WINDOW).await;
    let mut now = after(WINDOW);
    for minute in 1..=60 {
        let part_ends = after(PART * minute);
        let returned = times.iter().filter(|at| **at < part_ends).count() as u64;
        let rejection = books.reject(&units(returned), now).await;
        let expected = part_ends + WINDOW + GRACE - MICROSECOND;
        assert_eq!(rejection.retry_at, expected);
        assert_eq!(books.used("daily", expected).await, 300 - returned);
        now = expected - MICROSECOND;
    }
}

pub(crate) async fn a_changed_counting_never_grants_more(store: &impl Store) {
    let exact = Limit::new(
        Units::new(250),
        Units::ZERO,
        Window::new(Some(WINDOW), None).unwrap(),
    );
    let name = account([]).name;
    let books = [exact.unwrap(), buckets(250)].map(|limit| {
        let limits = [("daily".to_owned(), limit)].into();
        let name = name.clone();
        Books::new(store.ledger(), ingest_quota::Account { name, limits })
    });
    let mut granted: Vec<Timestamp> = Vec::new();
    let mut now = after(secs(0));
    for nth in 0..600_u64 {
        now += secs(12);
        // Each counting for about eleven minutes, then the other.
        let books = &books[usize::try_from(nth / 55 % 2).unwrap()];
        let decision = books.charge(&units(1), now).await;
        if matches!(decision, Decision::Granted(_)) {
            granted.push(now);
        }
    }
    for first in &granted {
        let in_window = granted
            .iter()
            .filter(|at| *at >= first && at.since(*first) < WINDOW);
        assert!(in_window.count() <= 250);
    }
    assert!(granted.len() > 470, "{}", granted.len());
}
