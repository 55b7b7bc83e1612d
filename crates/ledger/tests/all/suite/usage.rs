//! What a ledger tells about its limits.

use ingest_quota::{Closing, Return, Timestamp, Units};

use crate::Store;
use crate::books::{
    Books, MICROSECOND, account, at, cost, daily, floor, limit, secs, sliding, time,
};
use crate::books::{LOS_ANGELES, entry, fresh_id};

pub(crate) async fn an_unknown_account_has_used_nothing(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", daily(10))]));
    let usage = books.standing("daily", at(0.0)).await;
    assert_eq!(
        (usage.used.get(), usage.remaining.get(), usage.closed_until),
        (0, 10, None)
    );
    assert_eq!(
        (usage.since_reset, usage.returns),
        (Some(Units::ZERO), vec![])
    );
}

pub(crate) async fn limits_are_told_in_the_order_of_their_names(store: &impl Store) {
    let limits = [
        ("search", daily(10)),
        ("daily", daily(10)),
        ("minute", sliding(10, secs(60))),
    ];
    let books = Books::new(store.ledger(), account(limits));
    let names: Vec<_> = books
        .usage(at(0.0))
        .await
        .into_iter()
        .map(|usage| usage.limit)
        .collect();
    assert_eq!(names, ["daily", "minute", "search"]);
}

async fn busy(store: &impl Store) -> Books {
    let books = Books::new(
        store.ledger(),
        account([("daily", sliding(1000, secs(60)))]),
    );
    for second in 0..50_u32 {
        books
            .take(
                &cost([("daily", u64::from(second % 7 + 1))]),
                at(f64::from(second)),
            )
            .await;
    }
    books
        .absorb(&[], &[floor("daily", at(20.0), 120)], at(50.0))
        .await;
    books
}

fn total(returns: &[Return]) -> u64 {
    returns.iter().map(|back| back.units.get()).sum()
}

pub(crate) async fn returns_add_up_to_what_is_used(store: &impl Store) {
    let books = busy(store).await;
    for moment in [50.0, 61.0, 90.0, 109.0] {
        let usage = books.standing("daily", at(moment)).await;
        assert_eq!(total(&usage.returns), usage.used.get(), "at {moment}");
        assert!(
            usage
                .returns
                .iter()
                .all(|back| back.units > Units::ZERO && back.at > at(moment))
        );
        assert!(usage.returns.is_sorted_by(|one, next| one.at < next.at));
    }
}

pub(crate) async fn units_return_at_the_very_instant_that_was_told(store: &impl Store) {
    let books = busy(store).await;
    let usage = books.standing("daily", at(50.0)).await;
    let mut back = 0;
    for promised in usage.returns {
        back += promised.units.get();
        let left = usage.used.get() - back;
        assert_eq!(
            books.used("daily", promised.at).await,
            left,
            "by {}",
            promised.at
        );
        assert!(
            books.used("daily", promised.at - MICROSECOND).await > left,
            "before {}",
            promised.at
        );
    }
}

pub(crate) async fn a_calendar_limit_returns_everything_in_one(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", daily(100))]));
    let morning = time("2026-06-10T15:00:00Z");
    for hour in 0..8 {
        books
            .take(&cost([("daily", 2)]), morning + secs(hour * 3600))
            .await;
    }
    let reset = time("2026-06-11T07:00:00Z") + books.account.limits["daily"].grace();
    let usage = books.standing("daily", morning + secs(8 * 3600)).await;
    assert_eq!(
        usage.returns,
        [Return {
            at: reset,
            units: Units::new(16)
        }]
    );
}

pub(crate) async fn since_reset_counts_the_calendar_day_alone(store: &impl Store) {
    let both = limit(100, Some(secs(24 * 3600)), Some(LOS_ANGELES));
    let books = Books::new(
        store.ledger(),
        account([("daily", both), ("minute", sliding(100, secs(60)))]),
    );
    let midnight = time("2026-06-11T07:00:00Z");
    for (instant, units) in [
        (midnight - MICROSECOND, 1),
        (midnight, 2),
        (midnight + secs(60), 4),
    ] {
        books
            .take(&cost([("daily", units), ("minute", units)]), instant)
            .await;
    }
    let usage = books.standing("daily", midnight + secs(61)).await;
    assert_eq!(
        (usage.used.get(), usage.since_reset),
        (7, Some(Units::new(6)))
    );
    assert_eq!(
        books
            .standing("minute", midnight + secs(61))
            .await
            .since_reset,
        None
    );
}

pub(crate) async fn what_is_charged_at_a_reset_counts_since_then(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", daily(10))]));
    let midnight = time("2026-06-11T07:00:00Z");
    for (instant, since_reset) in [(midnight - MICROSECOND, 1), (midnight, 1)] {
        books.take(&cost([("daily", 1)]), instant).await;
        let usage = books.standing("daily", instant).await;
        assert_eq!(
            usage.since_reset,
            Some(Units::new(since_reset)),
            "{instant}"
        );
    }
}

/// Other charges of its account remove them from the log.
pub(crate) async fn a_limit_that_was_not_charged_for_long_has_used_nothing(store: &impl Store) {
    let limits = [
        ("daily", sliding(1000, secs(60))),
        ("rare", sliding(1000, secs(60))),
    ];
    let books = Books::new(store.ledger(), account(limits));
    for nth in 0..70 {
        books
            .take(
                &cost([("daily", 1), ("rare", 1)]),
                at(f64::from(nth) / 10.0),
            )
            .await;
    }
    for nth in 0..140 {
        books
            .take(&cost([("daily", 1)]), at(200.0 + f64::from(nth) / 10.0))
            .await;
    }
    assert_eq!(books.used("rare", at(214.0)).await, 0);
    assert_eq!(books.used("daily", at(214.0)).await, 140);
}

pub(crate) async fn returns_of_many_charges_are_few(store: &impl Store) {
    let books = Books::new(
        store.ledger(),
        account([("daily", sliding(1000, secs(1000)))]),
    );
    let start = at(0.0);
    let entries: Vec<_> = (0..500)
        .map(|later| entry(&fresh_id(), start + secs(later), cost([("daily", 1)])))
        .collect();
    let now: Timestamp = start + secs(500);
    books.absorb(&entries, &[], now).await;
    let usage = books.standing("daily", now).await;
    assert_eq!(total(&usage.returns), 500);
    assert!(
        (10..=48).contains(&usage.returns.len()),
        "{} returns",
        usage.returns.len()
    );
}

pub(crate) async fn what_returns_in_an_hour_in_six_and_in_a_day_is_told_apart(store: &impl Store) {
    let books = Books::new(
        store.ledger(),
        account([("daily", sliding(1000, secs(7 * 24 * 3600)))]),
    );
    let grace = books.account.limits["daily"].grace();
    let now = at(0.0) + secs(7 * 24 * 3600) + grace;
    for (hours, units) in [(1, 1), (6, 2), (24, 4), (100, 8)] {
        let expires_just_in_time = now + secs(hours * 3600) - secs(7 * 24 * 3600) - grace;
        books
            .take(&cost([("daily", units)]), expires_just_in_time)
            .await;
        books
            .take(&cost([("daily", 16)]), expires_just_in_time + MICROSECOND)
            .await;
    }
    let returns = books.standing("daily", now).await.returns;
    let within = |hours: u64| -> u64 {
        let back = returns
            .iter()
            .filter(|back| back.at <= now + secs(hours * 3600));
        back.map(|back| back.units.get()).sum()
    };
    assert_eq!(
        [within(1), within(6), within(24)],
        [1, 1 + 16 + 2, 1 + 16 + 2 + 16 + 4]
    );
}

pub(crate) async fn a_closed_limit_has_nothing_remaining(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", daily(10))]));
    books.take(&cost([("daily", 1)]), at(0.0)).await;
    books
        .close("daily", Closing::Until(at(10.0)), at(0.0))
        .await;
    let closed = books.standing("daily", at(1.0)).await;
    assert_eq!(
        (
            closed.used.get(),
            closed.remaining.get(),
            closed.closed_until
        ),
        (1, 0, Some(at(10.0)))
    );
    let open = books.standing("daily", at(10.0)).await;
    assert_eq!(
        (open.used.get(), open.remaining.get(), open.closed_until),
        (1, 9, None)
    );
}
