//! When a charge fits that does not fit now.

use ingest_quota::{Calendar, Cost, Limit, Period, Timestamp, Units, Window};

use crate::Store;
use crate::books::{
    Books, GRACE, LOS_ANGELES, MICROSECOND, account, at, cost, daily, id, limit, secs, sliding,
    time,
};

/// Rejected now, rejected a microsecond before `expected`, granted at it.
async fn fits_at(books: &Books, cost: &Cost, leave: &Cost, now: Timestamp, expected: Timestamp) {
    for instant in [now, expected - MICROSECOND] {
        let rejection = books.reject_leaving(cost, leave, instant).await;
        assert_eq!(rejection.retry_at, expected, "asked at {instant}");
        assert_eq!(rejection.retry_after, expected.since(instant));
    }
    assert!(matches!(
        books.decide(&id("fits"), cost, leave, expected).await,
        ingest_quota::Decision::Granted(_)
    ));
}

pub(crate) async fn a_unit_counts_for_its_window_and_the_grace(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    books.take(&cost([("daily", 10)]), at(0.0)).await;
    fits_at(
        &books,
        &cost([("daily", 10)]),
        &Cost::none(),
        at(1.0),
        at(60.0) + GRACE,
    )
    .await;
}

pub(crate) async fn retry_after_frees_enough_for_this_very_cost(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    for (moment, units) in [(0.0, 1), (1.0, 2), (2.0, 3), (3.0, 4)] {
        books.take(&cost([("daily", units)]), at(moment)).await;
    }
    for (units, oldest_to_go) in [
        (1, 0.0),
        (2, 1.0),
        (3, 1.0),
        (4, 2.0),
        (6, 2.0),
        (7, 3.0),
        (10, 3.0),
    ] {
        let rejection = books.reject(&cost([("daily", units)]), at(4.0)).await;
        assert_eq!(
            rejection.retry_at,
            at(oldest_to_go + 60.0) + GRACE,
            "{units} units"
        );
    }
    fits_at(
        &books,
        &cost([("daily", 6)]),
        &Cost::none(),
        at(4.0),
        at(62.0) + GRACE,
    )
    .await;
}

pub(crate) async fn retry_after_counts_what_must_be_left(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    for moment in [0.0, 1.0, 2.0] {
        books.take(&cost([("daily", 2)]), at(moment)).await;
    }
    fits_at(
        &books,
        &cost([("daily", 1)]),
        &cost([("daily", 6)]),
        at(3.0),
        at(61.0) + GRACE,
    )
    .await;
}

pub(crate) async fn retry_after_looks_past_a_release(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    books.take(&cost([("daily", 5)]), at(0.0)).await;
    books
        .take_as(&id("released"), &cost([("daily", 3)]), at(1.0))
        .await;
    books.take(&cost([("daily", 2)]), at(2.0)).await;
    books.settle(&id("released"), &Cost::none(), at(3.0)).await;
    books.take(&cost([("daily", 3)]), at(3.0)).await;
    fits_at(
        &books,
        &cost([("daily", 6)]),
        &Cost::none(),
        at(4.0),
        at(62.0) + GRACE,
    )
    .await;
}

pub(crate) async fn retry_after_counts_no_charge_twice_before_those_of_another_limit(
    store: &impl Store,
) {
    let limits = [
        ("daily", sliding(9, secs(60))),
        ("search", sliding(100, secs(60))),
    ];
    let books = Books::new(store.ledger(), account(limits));
    let (daily, search) = (cost([("daily", 1)]), cost([("search", 1)]));
    for (first, last, units) in [(0, 2, &daily), (2, 24, &search), (30, 37, &daily)] {
        for second in first..last {
            books.take(units, at(f64::from(second))).await;
        }
    }
    for (units, last_to_leave) in [(2, 1.0), (3, 30.0), (5, 32.0), (7, 34.0), (9, 36.0)] {
        let rejection = books.reject(&cost([("daily", units)]), at(40.0)).await;
        assert_eq!(rejection.retry_at, at(last_to_leave + 60.0) + GRACE);
    }
}

pub(crate) async fn retry_after_is_told_by_the_callers_clock(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    books.take(&cost([("daily", 10)]), at(0.0)).await;
    let rejection = books.reject(&cost([("daily", 1)]), at(-10.0)).await;
    assert_eq!(rejection.retry_at, at(60.0) + GRACE);
    assert_eq!(rejection.retry_after, secs(70) + GRACE);
}

pub(crate) async fn the_limit_that_fits_last_is_named(store: &impl Store) {
    let limits = [
        ("daily", sliding(10, secs(60))),
        ("minute", sliding(2, secs(10))),
        ("search", sliding(5, secs(90))),
    ];
    let books = Books::new(store.ledger(), account(limits));
    let call = cost([("daily", 5), ("minute", 1), ("search", 1)]);
    books.take(&call, at(0.0)).await;
    books.take(&call, at(0.0)).await;
    let rejection = books.reject(&call, at(1.0)).await;
    assert_eq!(
        (
            rejection.limit.as_str(),
            rejection.used.get(),
            rejection.remaining.get()
        ),
        ("daily", 10, 0)
    );
    assert_eq!(rejection.retry_at, at(60.0) + GRACE);
    let rejection = books
        .reject(&cost([("minute", 1), ("search", 3)]), at(1.0))
        .await;
    assert_eq!(
        (rejection.limit.as_str(), rejection.retry_at),
        ("minute", at(10.0) + GRACE)
    );
}

pub(crate) async fn the_first_by_name_is_named_where_two_fit_at_once(store: &impl Store) {
    let limits = [
        ("beta", sliding(10, secs(60))),
        ("alpha", sliding(1, secs(60))),
    ];
    let books = Books::new(store.ledger(), account(limits));
    let call = cost([("beta", 10), ("alpha", 1)]);
    books.take(&call, at(0.0)).await;
    assert_eq!(books.reject(&call, at(1.0)).await.limit, "alpha");
}

/// A day's charge fits again a grace after the next midnight: 86.4 s, a thousandth of a day.
async fn a_day_ends(store: &impl Store, noon: &str, midnight: &str) {
    let books = Books::new(store.ledger(), account([("daily", daily(10))]));
    for later in [0, 3600, 7200] {
        books
            .take(&cost([("daily", 3)]), time(noon) + secs(later))
            .await;
    }
    let expected = time(midnight) + books.account.limits["daily"].grace();
    fits_at(
        &books,
        &cost([("daily", 2)]),
        &Cost::none(),
        time(noon) + secs(7300),
        expected,
    )
    .await;
    assert_eq!(
        books.used("daily", expected).await,
        2,
        "the whole day went at once"
    );
}

pub(crate) async fn a_calendar_limit_returns_all_at_midnight(store: &impl Store) {
    a_day_ends(store, "2026-06-10T19:00:00Z", "2026-06-11T07:00:00Z").await;
}

pub(crate) async fn a_day_of_twenty_three_hours_ends_at_its_own_midnight(store: &impl Store) {
    a_day_ends(store, "2026-03-08T08:05:00Z", "2026-03-09T07:00:00Z").await;
}

pub(crate) async fn a_day_of_twenty_five_hours_ends_at_its_own_midnight(store: &impl Store) {
    a_day_ends(store, "2026-11-01T07:05:00Z", "2026-11-02T08:00:00Z").await;
}

pub(crate) async fn an_hour_ends_at_its_own_end_after_the_clock_went_back_by_hours(
    store: &impl Store,
) {
    let hour = Calendar::new(LOS_ANGELES, Period::Hour);
    let window = Window::new(None, Some(hour)).unwrap();
    let limit = Limit::new(Units::new(10), Units::ZERO, window).unwrap();
    let books = Books::new(store.ledger(), account([("hourly", limit)]));
    let charged = time("2026-06-10T19:20:00Z");
    books.take(&cost([("hourly", 10)]), charged).await;
    let earlier = charged - secs(20 * 3600);
    let rejection = books.reject(&cost([("hourly", 1)]), earlier).await;
    let end = time("2026-06-10T20:00:00Z") + window.grace();
    assert_eq!(rejection.retry_at, end);
    assert_eq!(books.used("hourly", earlier).await, 10);
}

pub(crate) async fn a_charge_just_before_midnight_counts_for_the_next_day_too(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", daily(10))]));
    let grace = books.account.limits["daily"].grace();
    let midnight = time("2026-06-11T07:00:00Z");
    books
        .take(&cost([("daily", 5)]), midnight - grace - MICROSECOND)
        .await;
    books.take(&cost([("daily", 5)]), midnight - grace).await;
    let first = midnight + grace;
    fits_at(
        &books,
        &cost([("daily", 5)]),
        &Cost::none(),
        midnight,
        first,
    )
    .await;
    let second = time("2026-06-12T07:00:00Z") + grace;
    let rejection = books.reject(&cost([("daily", 1)]), first).await;
    assert_eq!(rejection.retry_at, second);
    fits_at(&books, &cost([("daily", 6)]), &Cost::none(), first, second).await;
}

pub(crate) async fn a_window_that_slides_and_resets_holds_both(store: &impl Store) {
    let both = limit(10, Some(secs(24 * 3600)), Some(LOS_ANGELES));
    let books = Books::new(store.ledger(), account([("daily", both)]));
    let evening = time("2026-06-11T05:00:00Z");
    books.take(&cost([("daily", 10)]), evening).await;
    let slid = evening + secs(24 * 3600) + both.grace();
    fits_at(&books, &cost([("daily", 10)]), &Cost::none(), evening, slid).await;

    let books = Books::new(store.ledger(), account([("daily", both)]));
    let long_day = time("2026-11-01T07:10:00Z");
    books.take(&cost([("daily", 10)]), long_day).await;
    let reset = time("2026-11-02T08:00:00Z") + both.grace();
    fits_at(
        &books,
        &cost([("daily", 10)]),
        &Cost::none(),
        long_day,
        reset,
    )
    .await;
}

pub(crate) async fn an_unsettled_past_is_exact_to_the_microsecond(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(3, secs(1)))]));
    let start = Timestamp::from_micros(1_700_000_000_123_457);
    for later in [0, 1, 2] {
        books
            .take(
                &cost([("daily", 1)]),
                Timestamp::from_micros(start.micros() + later),
            )
            .await;
    }
    for (units, later) in [(1, 0), (2, 1), (3, 2)] {
        let rejection = books.reject(&cost([("daily", units)]), start).await;
        assert_eq!(
            rejection.retry_at.micros(),
            start.micros() + later + 1_100_000
        );
    }
}

pub(crate) async fn retry_after_is_exact_where_charges_came_unevenly(store: &impl Store) {
    let books = Books::new(
        store.ledger(),
        account([("daily", sliding(1_000_000, secs(3600)))]),
    );
    // Those of the window before are over.
    let over = (0..20).map(|nth| (f64::from(nth) - 5000.0, 50));
    let burst = (0..90).map(|nth| (f64::from(nth / 3) / 1000.0, [1, 7, 300][nth as usize % 3]));
    let slower = (0..12).map(|nth| (f64::from(1 << nth), 1 << (11 - nth)));
    for (moment, units) in over.chain(burst.clone()).chain(slower.clone()) {
        books.take(&cost([("daily", units)]), at(moment)).await;
    }
    let charged: Vec<(f64, u64)> = burst.chain(slower).collect();
    let grace = secs(3600) / 1000;
    let mut left = 1_000_000 - charged.iter().map(|(_, units)| units).sum::<u64>();
    for (moment, units) in charged {
        for more in [1, units] {
            let rejection = books
                .reject(&cost([("daily", left + more)]), at(2048.5))
                .await;
            assert_eq!(rejection.retry_at, at(moment) + secs(3600) + grace);
        }
        left += units;
    }
}
