//! What an upstream's "spent" does to a limit.

use ingest_quota::{Closing, Cost, Grant};

use crate::Store;
use crate::books::{Books, GRACE, MICROSECOND, account, at, cost, fresh_id, id, secs, sliding};

fn open(store: &impl Store) -> Books {
    Books::new(
        store.ledger(),
        account([
            ("daily", sliding(10, secs(7200))),
            ("search", sliding(2, secs(7200))),
        ]),
    )
}

/// The limits that a charge probes.
fn probed(grant: &Grant) -> Vec<&str> {
    grant.probing.keys().map(String::as_str).collect()
}

/// Charges probes at the end of each closing, all of them declined; how long each closing lasts, in hours.
async fn declined(books: &Books, closed_at: f64, probes: usize) -> Vec<f64> {
    let (call, mut now, mut hours) = (cost([("daily", 1)]), closed_at, Vec::new());
    for _ in 0..=probes {
        books.close("daily", Closing::Probing, at(now)).await;
        let retry_at = books.reject(&call, at(now)).await.retry_at;
        let lasts = retry_at.since(at(now)).as_secs_f64();
        hours.push(lasts / 3600.0);
        now += lasts;
        assert_eq!(probed(&books.take(&call, at(now)).await), ["daily"]);
    }
    hours
}

/// One that no probe of these tests fills.
fn wide(store: &impl Store) -> Books {
    let limits = account([("daily", sliding(1000, secs(30 * 86_400)))]);
    Books::new(store.ledger(), limits)
}

pub(crate) async fn closings_that_follow_declined_probes_last_twice_as_long_up_to_a_day(
    store: &impl Store,
) {
    let books = wide(store);
    assert_eq!(
        declined(&books, 0.0, 6).await,
        [1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 24.0]
    );
}

pub(crate) async fn a_reopened_limit_that_is_closed_again_is_closed_for_an_hour(
    store: &impl Store,
) {
    let books = wide(store);
    declined(&books, 0.0, 3).await;
    let later = 31.0 * 3600.0;
    books.reopen("daily", at(later)).await;
    assert_eq!(declined(&books, later, 1).await, [1.0, 2.0]);
}

pub(crate) async fn refusals_of_requests_sent_before_a_closing_do_not_lengthen_its_interval(
    store: &impl Store,
) {
    let books = wide(store);
    for late in [0.0, 0.5, 20.0, 100.0] {
        books.close("daily", Closing::Probing, at(late)).await;
    }
    let until = books.standing("daily", at(101.0)).await.closed_until;
    assert_eq!(until, Some(at(3700.0)));
    assert_eq!(
        books.take(&cost([("daily", 1)]), at(3700.0)).await.probing["daily"],
        secs(3600)
    );
    for late in [3701.0, 3702.0] {
        books.close("daily", Closing::Probing, at(late)).await;
    }
    let until = books.standing("daily", at(3703.0)).await.closed_until;
    assert_eq!(until, Some(at(3702.0 + 7200.0)));
}

pub(crate) async fn a_known_reset_ends_the_probes(store: &impl Store) {
    let books = wide(store);
    declined(&books, 0.0, 2).await;
    let day = 86_400.0;
    books
        .close("daily", Closing::Until(at(day)), at(8.0 * 3600.0))
        .await;
    let grant = books.take(&cost([("daily", 1)]), at(day)).await;
    assert!(grant.probing.is_empty());
    assert_eq!(declined(&books, day + 1.0, 1).await, [1.0, 2.0]);
}

pub(crate) async fn a_copied_closing_keeps_its_end_and_its_interval(store: &impl Store) {
    let books = wide(store);
    let copied = |until: f64, hours: u64| Closing::Copied {
        until: at(until),
        interval: secs(hours * 3600),
    };
    books.close("daily", copied(100.0, 4), at(0.0)).await;
    books.close("daily", copied(50.0, 8), at(1.0)).await;
    let until = books.standing("daily", at(2.0)).await.closed_until;
    assert_eq!(until, Some(at(100.0)));
    let grant = books.take(&cost([("daily", 1)]), at(100.0)).await;
    assert_eq!(grant.probing["daily"], secs(4 * 3600));
    books.close("daily", copied(200.0, 1), at(101.0)).await;
    books.take(&cost([("daily", 1)]), at(200.0)).await;
    assert_eq!(declined(&books, 201.0, 1).await, [8.0, 16.0]);
}

pub(crate) async fn a_copied_closing_that_is_over_grants_a_probe(store: &impl Store) {
    let books = wide(store);
    let copied = Closing::Copied {
        until: at(0.0),
        interval: secs(7200),
    };
    books.close("daily", copied, at(500.0)).await;
    let grant = books.take(&cost([("daily", 1)]), at(501.0)).await;
    assert_eq!(grant.probing["daily"], secs(7200));
}

pub(crate) async fn a_copied_closing_that_ends_with_one_that_is_over_changes_nothing(
    store: &impl Store,
) {
    let books = wide(store);
    let spent = cost([("daily", 1)]);
    books.close("daily", Closing::Until(at(0.0)), at(0.0)).await;
    books.take(&spent, at(0.0)).await;
    let copied = Closing::Copied {
        until: at(0.0),
        interval: secs(7200),
    };
    books.close("daily", copied, at(0.0)).await;
    assert!(books.take(&spent, at(1.0)).await.probing.is_empty());
}

pub(crate) async fn a_closed_limit_rejects_until_it_opens(store: &impl Store) {
    let books = open(store);
    books.take(&cost([("daily", 1)]), at(0.0)).await;
    books
        .close("daily", Closing::Until(at(100.0)), at(1.0))
        .await;
    for instant in [at(1.0), at(50.0), at(100.0) - MICROSECOND] {
        let rejection = books.reject(&cost([("daily", 1)]), instant).await;
        assert_eq!(
            (rejection.limit.as_str(), rejection.retry_at),
            ("daily", at(100.0))
        );
        assert_eq!((rejection.used.get(), rejection.remaining.get()), (1, 0));
    }
    let grant = books.take(&cost([("daily", 1)]), at(100.0)).await;
    assert!(grant.probing.is_empty());
    books.take(&cost([("daily", 1)]), at(100.0)).await;
}

pub(crate) async fn a_closed_limit_stops_only_what_needs_it(store: &impl Store) {
    let books = open(store);
    books
        .close("search", Closing::Until(at(100.0)), at(0.0))
        .await;
    books.take(&cost([("daily", 1)]), at(1.0)).await;
    assert_eq!(
        books
            .reject(&cost([("daily", 1), ("search", 1)]), at(1.0))
            .await
            .limit,
        "search"
    );
    assert_eq!(books.used("daily", at(1.0)).await, 1);
}

pub(crate) async fn a_reopened_limit_grants_at_once(store: &impl Store) {
    let books = open(store);
    books.reopen("daily", at(0.0)).await;
    books
        .close("daily", Closing::Until(at(100.0)), at(0.0))
        .await;
    books.reopen("daily", at(1.0)).await;
    books.take(&cost([("daily", 1)]), at(1.0)).await;
    assert_eq!(books.standing("daily", at(1.0)).await.closed_until, None);
}

pub(crate) async fn the_later_of_two_closings_holds(store: &impl Store) {
    let books = open(store);
    for until in [50.0, 100.0, 70.0] {
        books
            .close("daily", Closing::Until(at(until)), at(0.0))
            .await;
    }
    assert_eq!(
        books.standing("daily", at(1.0)).await.closed_until,
        Some(at(100.0))
    );
}

pub(crate) async fn a_full_limit_that_is_closed_waits_for_both(store: &impl Store) {
    let books = open(store);
    books.take(&cost([("daily", 10)]), at(0.0)).await;
    books
        .close("daily", Closing::Until(at(100.0)), at(0.0))
        .await;
    let full = at(7207.2);
    assert_eq!(books.account.limits["daily"].grace(), secs(7) + 2 * GRACE);
    assert_eq!(
        books.reject(&cost([("daily", 1)]), at(1.0)).await.retry_at,
        full
    );
    books
        .close("daily", Closing::Until(at(9000.0)), at(0.0))
        .await;
    assert_eq!(
        books.reject(&cost([("daily", 1)]), at(1.0)).await.retry_at,
        at(9000.0)
    );
    assert_eq!(
        books.reject(&cost([("daily", 1)]), full).await.retry_at,
        at(9000.0)
    );
}

pub(crate) async fn a_closing_without_a_reset_lets_one_charge_try_after_an_hour(
    store: &impl Store,
) {
    let books = open(store);
    let call = cost([("daily", 1)]);
    books.close("daily", Closing::Probing, at(0.0)).await;
    assert_eq!(
        books.standing("daily", at(0.0)).await.closed_until,
        Some(at(3600.0))
    );
    assert_eq!(
        books.reject(&call, at(3600.0) - MICROSECOND).await.retry_at,
        at(3600.0)
    );
    assert_eq!(
        books.standing("daily", at(3600.0)).await.remaining.get(),
        10
    );

    assert_eq!(probed(&books.take(&call, at(3600.0)).await), ["daily"]);
    assert_eq!(
        books.reject(&call, at(3600.0)).await.retry_at,
        at(3660.0),
        "the others wait a minute"
    );
    assert_eq!(
        probed(&books.take(&call, at(3660.0)).await),
        ["daily"],
        "nobody heard of the first"
    );
    books.close("daily", Closing::Probing, at(3661.0)).await;
    assert_eq!(
        books.reject(&call, at(3720.0)).await.retry_at,
        at(3661.0 + 7200.0),
        "the upstream declined it: the next closing lasts twice as long"
    );
}

pub(crate) async fn a_try_that_another_limit_rejects_is_not_used_up(store: &impl Store) {
    let books = open(store);
    books.take(&cost([("search", 2)]), at(3500.0)).await;
    books.close("daily", Closing::Probing, at(0.0)).await;
    assert_eq!(
        books
            .reject(&cost([("daily", 1), ("search", 1)]), at(8000.0))
            .await
            .limit,
        "search"
    );
    assert_eq!(
        probed(&books.take(&cost([("daily", 1)]), at(8000.0)).await),
        ["daily"]
    );
}

pub(crate) async fn a_reopened_limit_needs_no_more_tries(store: &impl Store) {
    let books = open(store);
    books.close("daily", Closing::Probing, at(0.0)).await;
    books.take(&cost([("daily", 1)]), at(3600.0)).await;
    books.reopen("daily", at(3600.5)).await;
    assert!(
        books
            .take(&cost([("daily", 1)]), at(3601.0))
            .await
            .probing
            .is_empty()
    );
    assert!(
        books
            .take(&cost([("daily", 1)]), at(3601.0))
            .await
            .probing
            .is_empty()
    );
}

pub(crate) async fn a_known_id_is_granted_though_its_limit_is_closed(store: &impl Store) {
    let books = open(store);
    books
        .take_as(&id("same"), &cost([("daily", 1)]), at(0.0))
        .await;
    books
        .close("daily", Closing::Until(at(100.0)), at(0.0))
        .await;
    books
        .take_as(&id("same"), &cost([("daily", 1)]), at(1.0))
        .await;
    let other = books
        .decide(&fresh_id(), &cost([("daily", 1)]), &Cost::none(), at(1.0))
        .await;
    assert!(matches!(other, ingest_quota::Decision::Rejected(_)));
}
