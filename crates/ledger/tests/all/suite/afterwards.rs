//! What is told to a ledger after the charge: true costs, charges made elsewhere, floors.

use ingest_quota::{Cost, Decision, Units};

use crate::Store;
use crate::books::{
    Books, GRACE, MICROSECOND, account, at, cost, entry, floor, fresh_id, id, secs, sliding,
};

fn open(store: &impl Store) -> Books {
    Books::new(
        store.ledger(),
        account([
            ("daily", sliding(10, secs(60))),
            ("search", sliding(10, secs(60))),
        ]),
    )
}

fn units(units: u64) -> Cost {
    cost([("daily", units)])
}

pub(crate) async fn a_release_gives_all_units_back(store: &impl Store) {
    let books = open(store);
    books
        .take_as(&id("a"), &cost([("daily", 10), ("search", 1)]), at(0.0))
        .await;
    books.settle(&id("a"), &Cost::none(), at(1.0)).await;
    assert_eq!(
        (
            books.used("daily", at(1.0)).await,
            books.used("search", at(1.0)).await
        ),
        (0, 0)
    );
    let repeated = books
        .decide(&id("a"), &units(10), &Cost::none(), at(1.0))
        .await;
    assert_eq!(
        repeated,
        Decision::TakenBack,
        "its id names no charge any more"
    );
    assert_eq!(
        books.used("daily", at(1.0)).await,
        0,
        "a released charge that is repeated is not counted"
    );
    books.take(&units(10), at(1.0)).await;
}

pub(crate) async fn a_settled_cost_counts_at_the_time_of_its_charge(store: &impl Store) {
    let books = open(store);
    books.take_as(&id("a"), &units(5), at(0.0)).await;
    books.take(&units(1), at(10.0)).await;
    books.settle(&id("a"), &units(7), at(20.0)).await;
    assert_eq!(books.used("daily", at(20.0)).await, 8);
    assert_eq!(books.used("daily", at(60.0)).await, 8);
    assert_eq!(books.used("daily", at(60.0) + GRACE).await, 1);
}

pub(crate) async fn a_settled_cost_may_go_beyond_the_limit(store: &impl Store) {
    let books = open(store);
    books.take_as(&id("a"), &units(5), at(0.0)).await;
    books.settle(&id("a"), &units(25), at(0.0)).await;
    let usage = books.standing("daily", at(1.0)).await;
    assert_eq!((usage.used.get(), usage.remaining.get()), (25, 0));
    assert_eq!(
        books.reject(&units(1), at(1.0)).await.retry_at,
        at(60.0) + GRACE
    );
}

pub(crate) async fn a_settled_cost_may_name_another_limit(store: &impl Store) {
    let books = open(store);
    books.take_as(&id("a"), &units(5), at(0.0)).await;
    books.take(&cost([("search", 2)]), at(5.0)).await;
    books
        .settle(&id("a"), &cost([("search", 3)]), at(10.0))
        .await;
    assert_eq!(
        (
            books.used("daily", at(10.0)).await,
            books.used("search", at(10.0)).await
        ),
        (0, 5)
    );
    assert_eq!(books.used("search", at(60.0) + GRACE).await, 2);
}

pub(crate) async fn a_settled_cost_may_name_a_limit_that_was_added_later(store: &impl Store) {
    let both = account([
        ("daily", sliding(10, secs(60))),
        ("search", sliding(10, secs(60))),
    ]);
    let mut one = both.clone();
    one.limits.remove("search");
    let before = Books::new(store.ledger(), one);
    before.take_as(&id("a"), &units(2), at(0.0)).await;
    before.take(&units(1), at(5.0)).await;
    let books = Books::new(store.ledger(), both);
    books.take(&units(1), at(10.0)).await;
    books
        .settle(&id("a"), &cost([("daily", 2), ("search", 3)]), at(20.0))
        .await;
    assert_eq!(
        (
            books.used("daily", at(20.0)).await,
            books.used("search", at(20.0)).await
        ),
        (4, 3)
    );
    assert_eq!(books.used("search", at(60.0) + GRACE).await, 0);
}

pub(crate) async fn the_later_of_two_settlings_holds(store: &impl Store) {
    let books = open(store);
    books.take_as(&id("a"), &units(5), at(0.0)).await;
    for settled in [9, 2, 3] {
        books.settle(&id("a"), &units(settled), at(1.0)).await;
        assert_eq!(books.used("daily", at(1.0)).await, settled);
    }
}

pub(crate) async fn a_release_is_final(store: &impl Store) {
    let books = open(store);
    books.take_as(&id("charged"), &units(5), at(0.0)).await;
    let absorbed = [
        entry(&id("absorbed"), at(0.0), units(3)),
        entry(&id("void"), at(0.0), Cost::none()),
    ];
    books.absorb(&absorbed, &[], at(0.0)).await;
    for named in ["charged", "absorbed", "unknown"] {
        books.settle(&id(named), &Cost::none(), at(1.0)).await;
    }
    for named in ["charged", "absorbed", "unknown", "void"] {
        for moment in [2.0, 59.0] {
            books.settle(&id(named), &units(2), at(moment)).await;
            assert_eq!(books.used("daily", at(moment)).await, 0, "of {named}");
            let repeated = books
                .decide(&id(named), &units(2), &Cost::none(), at(moment))
                .await;
            assert_eq!(repeated, Decision::TakenBack, "of {named}");
        }
    }
}

pub(crate) async fn a_charge_of_nothing_can_be_settled(store: &impl Store) {
    let books = open(store);
    books.take_as(&id("a"), &Cost::none(), at(0.0)).await;
    books.settle(&id("a"), &units(3), at(1.0)).await;
    assert_eq!(books.used("daily", at(1.0)).await, 3);
    books.settle(&id("a"), &units(4), at(2.0)).await;
    assert_eq!(books.used("daily", at(2.0)).await, 4);
}

pub(crate) async fn a_release_before_its_charge_wins(store: &impl Store) {
    let books = open(store);
    books.settle(&id("late"), &Cost::none(), at(0.0)).await;
    assert_eq!(
        books
            .decide(&id("late"), &units(5), &Cost::none(), at(1.0))
            .await,
        Decision::TakenBack
    );
    assert_eq!(books.used("daily", at(1.0)).await, 0);
}

pub(crate) async fn an_unknown_id_is_settled_at_now(store: &impl Store) {
    let books = open(store);
    books.settle(&id("unmetered"), &units(4), at(5.0)).await;
    books.take_as(&id("unmetered"), &units(1), at(6.0)).await;
    assert_eq!(books.used("daily", at(65.0)).await, 4);
    assert_eq!(books.used("daily", at(65.0) + GRACE).await, 0);
}

pub(crate) async fn what_is_absorbed_counts_at_its_own_time(store: &impl Store) {
    let books = open(store);
    for moment in [10.0, 20.0, 30.0] {
        books.take(&units(2), at(moment)).await;
    }
    let others = [
        entry(&fresh_id(), at(25.0), units(1)),
        entry(&fresh_id(), at(5.0), units(3)),
    ];
    books.absorb(&others, &[], at(31.0)).await;
    assert_eq!(books.used("daily", at(31.0)).await, 10);
    for (units, oldest_to_go) in [
        (1, 5.0),
        (3, 5.0),
        (4, 10.0),
        (5, 10.0),
        (6, 20.0),
        (8, 25.0),
        (9, 30.0),
    ] {
        let rejection = books.reject(&cost([("daily", units)]), at(31.0)).await;
        assert_eq!(
            rejection.retry_at,
            at(oldest_to_go + 60.0) + GRACE,
            "{units} units"
        );
    }
}

pub(crate) async fn what_is_absorbed_counts_once(store: &impl Store) {
    let books = open(store);
    books.take_as(&id("known"), &units(2), at(0.0)).await;
    let entries = [
        entry(&id("known"), at(0.0), units(2)),
        entry(&id("other"), at(1.0), cost([("daily", 3), ("search", 1)])),
        entry(&id("other"), at(2.0), units(3)),
    ];
    for _ in 0..3 {
        books.absorb(&entries, &[], at(5.0)).await;
    }
    assert_eq!(
        (
            books.used("daily", at(5.0)).await,
            books.used("search", at(5.0)).await
        ),
        (5, 1)
    );
    assert_eq!(
        books.used("daily", at(61.0) + GRACE).await,
        0,
        "at the first time told"
    );
}

pub(crate) async fn what_is_absorbed_may_go_beyond_the_limit(store: &impl Store) {
    let books = open(store);
    books.take(&units(8), at(0.0)).await;
    books
        .absorb(&[entry(&fresh_id(), at(1.0), units(30))], &[], at(2.0))
        .await;
    assert_eq!(books.used("daily", at(2.0)).await, 38);
    assert_eq!(
        books.reject(&units(1), at(2.0)).await.retry_at,
        at(61.0) + GRACE
    );
}

pub(crate) async fn what_is_absorbed_from_the_future_counts_from_now(store: &impl Store) {
    let books = open(store);
    books.take(&units(1), at(0.0)).await;
    books
        .absorb(&[entry(&fresh_id(), at(5000.0), units(4))], &[], at(10.0))
        .await;
    assert_eq!(
        books.used("daily", at(11.0)).await,
        5,
        "another machine's clock does not move this ledger's time"
    );
    assert_eq!(books.used("daily", at(70.0)).await, 4);
    assert_eq!(books.used("daily", at(70.0) + GRACE).await, 0);
}

pub(crate) async fn what_is_absorbed_too_late_counts_for_nothing(store: &impl Store) {
    let books = open(store);
    books.take(&units(1), at(0.0)).await;
    books
        .absorb(&[entry(&fresh_id(), at(-61.0), units(4))], &[], at(0.0))
        .await;
    assert_eq!(books.used("daily", at(0.0)).await, 1);
    assert_eq!(
        books.reject(&units(10), at(0.0)).await.retry_at,
        at(60.0) + GRACE
    );
}

pub(crate) async fn a_settled_id_stays_settled_when_absorbed(store: &impl Store) {
    let books = open(store);
    books.take_as(&id("a"), &units(5), at(0.0)).await;
    books.settle(&id("a"), &Cost::none(), at(1.0)).await;
    books.settle(&id("b"), &units(1), at(1.0)).await;
    let entries = [
        entry(&id("a"), at(0.0), units(5)),
        entry(&id("b"), at(0.0), units(5)),
    ];
    books.absorb(&entries, &[], at(2.0)).await;
    assert_eq!(books.used("daily", at(2.0)).await, 1);
}

pub(crate) async fn an_absorbed_id_can_be_settled(store: &impl Store) {
    let books = open(store);
    books
        .absorb(&[entry(&id("a"), at(0.0), units(5))], &[], at(2.0))
        .await;
    books.settle(&id("a"), &units(2), at(3.0)).await;
    assert_eq!(books.used("daily", at(60.0)).await, 2);
    assert_eq!(books.used("daily", at(60.0) + GRACE).await, 0);
}

pub(crate) async fn an_absorbed_id_is_not_counted_when_its_charge_arrives(store: &impl Store) {
    let books = open(store);
    books
        .absorb(&[entry(&id("a"), at(0.0), units(5))], &[], at(2.0))
        .await;
    books.take_as(&id("a"), &units(5), at(3.0)).await;
    assert_eq!(books.used("daily", at(3.0)).await, 5);
}

pub(crate) async fn a_floor_counts_what_the_ledger_no_longer_knows(store: &impl Store) {
    let books = open(store);
    books
        .absorb(&[], &[floor("daily", at(0.0), 7)], at(10.0))
        .await;
    assert_eq!(
        (
            books.used("daily", at(10.0)).await,
            books.used("search", at(10.0)).await
        ),
        (7, 0)
    );
    assert_eq!(
        books.take(&units(2), at(10.0)).await.remaining["daily"].get(),
        1
    );
    let rejection = books.reject(&units(2), at(10.0)).await;
    assert_eq!((rejection.used.get(), rejection.remaining.get()), (9, 1));
}

pub(crate) async fn a_floor_and_the_charges_it_stands_for_are_not_added_up(store: &impl Store) {
    let books = open(store);
    let before = [
        entry(&fresh_id(), at(-5.0), units(2)),
        entry(&fresh_id(), at(0.0), units(2)),
    ];
    books
        .absorb(&before, &[floor("daily", at(0.0), 7)], at(10.0))
        .await;
    assert_eq!(books.used("daily", at(10.0)).await, 7);
    books
        .absorb(&[entry(&fresh_id(), at(-1.0), units(5))], &[], at(10.0))
        .await;
    assert_eq!(
        books.used("daily", at(10.0)).await,
        9,
        "the sum is greater by now"
    );
}

pub(crate) async fn a_floor_holds_until_its_time_leaves_the_window(store: &impl Store) {
    let books = open(store);
    books
        .absorb(&[], &[floor("daily", at(0.0), 7)], at(10.0))
        .await;
    books.take(&units(1), at(20.0)).await;
    let end = at(60.0) + GRACE;
    assert_eq!(books.used("daily", end - MICROSECOND).await, 8);
    assert_eq!(books.used("daily", end).await, 1);
}

pub(crate) async fn a_charge_drops_no_floor_that_still_counts(store: &impl Store) {
    let books = open(store);
    let end = at(60.0) + GRACE;
    let floors = [floor("daily", at(0.0), 7)];
    books.absorb(&[], &floors, at(10.0)).await;
    books.take(&units(1), end - MICROSECOND).await;
    assert_eq!(books.used("daily", end - MICROSECOND).await, 8);
}

/// One of them does not know the limit that has the floor.
pub(crate) async fn a_floor_of_another_configuration_is_kept(store: &impl Store) {
    let books = open(store);
    let floors = [floor("daily", at(0.0), 7)];
    books.absorb(&[], &floors, at(10.0)).await;
    let mut other = books.clone();
    other.account.limits = [("other".to_owned(), sliding(10, secs(60)))].into();
    other.take(&cost([("other", 1)]), at(11.0)).await;
    assert_eq!(books.used("daily", at(12.0)).await, 7);
}

pub(crate) async fn the_highest_of_several_floors_holds(store: &impl Store) {
    let books = open(store);
    books.take(&units(2), at(5.0)).await;
    let floors = [
        floor("daily", at(0.0), 4),
        floor("daily", at(8.0), 5),
        floor("daily", at(0.0), 1),
    ];
    books.absorb(&[], &floors, at(10.0)).await;
    assert_eq!(books.used("daily", at(10.0)).await, 6);
    assert_eq!(books.used("daily", at(60.0) + GRACE).await, 5);
}

pub(crate) async fn a_charge_at_the_instant_of_a_floor_comes_after_it(store: &impl Store) {
    let books = open(store);
    books
        .absorb(&[], &[floor("daily", at(5000.0), 8)], at(10.0))
        .await;
    assert_eq!(
        books.take(&units(1), at(10.0)).await.remaining["daily"].get(),
        1
    );
    assert_eq!(
        books.take(&units(1), at(9.0)).await.remaining["daily"].get(),
        0
    );
    books.reject(&units(1), at(10.0)).await;
}

pub(crate) async fn retry_after_waits_for_a_floor(store: &impl Store) {
    let books = open(store);
    books.take(&units(2), at(0.0)).await;
    books
        .absorb(&[], &[floor("daily", at(5.0), 9)], at(10.0))
        .await;
    let end = at(65.0) + GRACE;
    assert_eq!(books.reject(&units(2), at(10.0)).await.retry_at, end);
    assert_eq!(
        books.reject(&units(2), end - MICROSECOND).await.retry_at,
        end
    );
    books.take(&units(2), end).await;
}

pub(crate) async fn a_settlement_counts_no_more_than_any_ledger_can(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    let most = Units::MOST_COUNTED.get();
    for (units, counted) in [(most - 1, most - 1), (most, most), (u64::MAX, most), (3, 3)] {
        books
            .take_as(&id("a"), &cost([("daily", 1)]), at(0.0))
            .await;
        books
            .settle(&id("a"), &cost([("daily", units)]), at(0.0))
            .await;
        assert_eq!(books.used("daily", at(0.0)).await, counted);
    }
    let early = id("before its charge");
    books
        .settle(&early, &cost([("daily", u64::MAX)]), at(1.0))
        .await;
    books.settle(&early, &cost([("daily", 2)]), at(1.0)).await;
    assert_eq!(books.used("daily", at(1.0)).await, 5);
    let elsewhere = entry(&id("elsewhere"), at(0.5), cost([("daily", u64::MAX)]));
    books.absorb(&[elsewhere], &[], at(1.0)).await;
    assert_eq!(books.used("daily", at(1.0)).await, most + 5);
}
