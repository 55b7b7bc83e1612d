//! An account with a limit for each of many values: what concerns one value leaves the others alone.

use ingest_quota::{
    Account, Calendar, Cost, Counting, Limit, LimitUsage, Period, Timestamp, Units, Window,
};

use crate::Store;
use crate::books::{Books, LOS_ANGELES, account, at, cost, entry, fresh_id, secs, sliding, time};

const VALUES: usize = 200;
/// The charges over which the values are spread.
const CHARGES: usize = 4;

fn value(number: usize) -> String {
    format!("hourly/{number:04}")
}

/// Each value grants two units an hour of the clock, all together a million a day.
fn many() -> Account {
    let hour = Window::new(None, Some(Calendar::new(LOS_ANGELES, Period::Hour))).unwrap();
    let hourly = Limit::new(Units::new(2), Units::ZERO, hour).unwrap();
    let mut account = account([("daily", sliding(1_000_000, secs(24 * 3600)))]);
    let values = (0..VALUES).map(|number| (value(number), hourly));
    account.limits.extend(values);
    account
}

fn of(numbers: impl IntoIterator<Item = usize>, units: u64) -> Cost {
    let values = numbers.into_iter().map(value);
    let all = values.chain(["daily".to_owned()]);
    all.map(|name| (name, Units::new(units))).collect()
}

fn values_of(charge: usize) -> std::ops::Range<usize> {
    let each = VALUES / CHARGES;
    charge * each..(charge + 1) * each
}

/// A unit of every value is charged, a second apart from 0 on.
async fn charged(store: &impl Store) -> Books {
    let books = Books::new(store.ledger(), many());
    for charge in 0..CHARGES {
        let now = at(charge as f64);
        books.take(&of(values_of(charge), 1), now).await;
    }
    books
}

/// Returns the number of values of which exactly `units` are used.
async fn values_used(books: &Books, units: u64, now: Timestamp) -> usize {
    let usage = books.usage(now).await;
    assert_eq!(usage.len(), VALUES + 1);
    let values = usage.iter().filter(|usage| usage.limit != "daily");
    values.filter(|usage| usage.used.get() == units).count()
}

/// More than a store reads at a time.
pub(crate) async fn many_charges_of_one_instant_count_each_once(store: &impl Store) {
    let books = Books::new(store.ledger(), many());
    for charges in [512, 600] {
        let entries = (0..charges).map(|_| entry(&fresh_id(), at(0.0), of(0..20, 1)));
        let entries: Vec<_> = entries.collect();
        books.absorb(&entries, &[], at(1.0)).await;
    }
    books
        .absorb(&[entry(&fresh_id(), at(0.5), of(0..20, 1))], &[], at(1.0))
        .await;
    assert_eq!(values_used(&books, 1113, at(1.0)).await, 20);
    assert_eq!(values_used(&books, 0, at(1.0)).await, VALUES - 20);
}

pub(crate) async fn what_many_limits_counted_leaves_the_log(store: &impl Store) {
    let books = charged(store).await;
    let tomorrow = time("2026-06-12T20:00:00Z");
    for charge in 0..CHARGES {
        books.take(&of(values_of(charge), 2), tomorrow).await;
    }
    assert_eq!(values_used(&books, 2, tomorrow).await, VALUES);
    assert_eq!(books.used("daily", tomorrow).await, 8);
    for step in 0..130 {
        books
            .take(&cost([("daily", 1)]), tomorrow + secs(step))
            .await;
    }
    assert_eq!(values_used(&books, 2, tomorrow + secs(130)).await, VALUES);
    let rejection = books.reject(&of([9], 1), tomorrow + secs(130)).await;
    assert_eq!(rejection.limit, value(9));
}

/// Limits that count in parts: one of six hours for each of `values` values, and one of a day for all together.
fn in_parts(values: usize) -> Account {
    let limit = |hours: u64| {
        let window = Window::new(Some(secs(hours * 3600)), None).unwrap();
        let window = window.counted(Counting::Buckets(60)).unwrap();
        Limit::new(Units::new(1_000), Units::ZERO, window).unwrap()
    };
    let mut account = account([("daily", limit(24))]);
    let values = (0..values).map(|number| (value(number), limit(6)));
    account.limits.extend(values);
    account
}

pub(crate) async fn merged_charges_of_many_limits_count_as_those_of_few(store: &impl Store) {
    let values = 70;
    let many = Books::new(store.ledger(), in_parts(values));
    let few = Books::new(store.ledger(), in_parts(2));
    many.take(&of(0..values, 1), at(0.0)).await;
    few.take(&of(0..2, 1), at(0.0)).await;
    let shown = |usage: Vec<LimitUsage>| {
        let usage = usage.into_iter();
        let shown = usage.filter(|usage| few.account.limits.contains_key(&usage.limit));
        shown.collect::<Vec<_>>()
    };
    // Enough to end two blocks in Redis: the end of a block merges.
    for charge in 1..=130 {
        let now = at(0.0) + secs(120 * charge);
        let cost = of([charge as usize % 2], 1 + charge % 5);
        many.take(&cost, now).await;
        few.take(&cost, now).await;
    }
    let late = at(0.0) + secs(7 * 3600);
    assert_eq!(shown(many.usage(late).await), few.usage(late).await);
    let cost = of([1], 700);
    assert_eq!(
        many.reject(&cost, late).await,
        few.reject(&cost, late).await
    );
}
