//! What a ledger tells about its limits.

use ingest_quota::{Return, Timestamp, Units};

use crate::Store;
use crate::books::{Books, MICROSECOND, account, at, cost, daily, floor, secs, sliding};
use crate::books::{entry, fresh_id};

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
