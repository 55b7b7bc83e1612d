//! What a charge is granted, and what it leaves behind.

use ingest_quota::{Account, Calendar, Cost, Decision, Limit, Period, Units, Window};

use crate::Store;
use crate::books::{
    Books, GRACE, LOS_ANGELES, MICROSECOND, account, at, cost, daily, id, secs, sliding, time,
};

pub(crate) async fn a_charge_is_granted_and_counted(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    let grant = books.take(&cost([("daily", 3)]), at(0.0)).await;
    assert_eq!(
        grant.remaining,
        [("daily".to_owned(), Units::new(7))].into()
    );
    assert!(grant.probing.is_empty());
    assert_eq!(books.used("daily", at(0.0)).await, 3);
}

pub(crate) async fn a_charge_that_fills_the_limit_is_granted(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    books.take(&cost([("daily", 4)]), at(0.0)).await;
    let grant = books.take(&cost([("daily", 6)]), at(0.0)).await;
    assert_eq!(grant.remaining["daily"], Units::ZERO);
}

pub(crate) async fn a_rejected_charge_records_nothing(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    books.take(&cost([("daily", 8)]), at(0.0)).await;
    for _ in 0..5 {
        let rejection = books.reject(&cost([("daily", 3)]), at(1.0)).await;
        assert_eq!((rejection.used.get(), rejection.remaining.get()), (8, 2));
    }
    let refused = id("refused");
    assert!(matches!(
        books
            .decide(&refused, &cost([("daily", 3)]), &Cost::none(), at(1.0))
            .await,
        Decision::Rejected(_)
    ));
    assert_eq!(books.used("daily", at(1.0)).await, 8);
    books
        .take_as(&refused, &cost([("daily", 2)]), at(1.0))
        .await;
    assert_eq!(
        books.used("daily", at(1.0)).await,
        10,
        "a rejected id is not known"
    );
}

pub(crate) async fn a_charge_takes_from_all_of_its_limits_or_from_none(store: &impl Store) {
    let limits = [
        ("daily", sliding(1000, secs(60))),
        ("search", sliding(2, secs(60))),
    ];
    let books = Books::new(store.ledger(), account(limits));
    let search = cost([("daily", 100), ("search", 1)]);
    books.take(&search, at(0.0)).await;
    let grant = books.take(&search, at(0.0)).await;
    assert_eq!(
        grant.remaining,
        [
            ("daily".to_owned(), 800.into()),
            ("search".to_owned(), 0.into())
        ]
        .into()
    );
    assert_eq!(books.reject(&search, at(0.0)).await.limit, "search");
    assert_eq!(
        (
            books.used("daily", at(0.0)).await,
            books.used("search", at(0.0)).await
        ),
        (200, 2)
    );
}

pub(crate) async fn a_charge_of_no_limit_is_granted(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    assert!(
        books
            .take(&Cost::none(), at(0.0))
            .await
            .remaining
            .is_empty()
    );
    assert_eq!(books.used("daily", at(0.0)).await, 0);
}

pub(crate) async fn a_repeated_id_is_granted_again_and_counted_once(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    for moment in [0.0, 0.0, 1.0, 30.0] {
        let grant = books
            .take_as(&id("same"), &cost([("daily", 4)]), at(moment))
            .await;
        assert_eq!(grant.remaining["daily"].get(), 6);
    }
    assert_eq!(books.used("daily", at(30.0)).await, 4);
    assert_eq!(
        books.used("daily", at(60.2)).await,
        0,
        "it counts from its first time"
    );
}

pub(crate) async fn a_repeated_id_is_granted_where_nothing_is_left(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    books
        .take_as(&id("same"), &cost([("daily", 6)]), at(0.0))
        .await;
    books.take(&cost([("daily", 4)]), at(0.0)).await;
    let grant = books
        .take_as(&id("same"), &cost([("daily", 6)]), at(1.0))
        .await;
    assert_eq!(grant.remaining["daily"].get(), 0);
}

pub(crate) async fn an_id_names_a_new_charge_once_it_is_forgotten(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    let nightly = id("nightly");
    books
        .take_as(&nightly, &cost([("daily", 4)]), at(0.0))
        .await;
    let forgotten = at(0.0) + secs(60) + GRACE;
    let last = forgotten - MICROSECOND;
    let repeated = books
        .take_as(&nightly, &cost([("daily", 4)]), last)
        .await
        .repeated;
    assert!(repeated);
    books
        .take_as(&nightly, &cost([("daily", 4)]), forgotten)
        .await;
    assert_eq!(
        books.used("daily", forgotten).await,
        4,
        "a script that uses one id every night pays every night"
    );
    books
        .settle(&nightly, &cost([("daily", 1)]), forgotten)
        .await;
    assert_eq!(books.used("daily", forgotten).await, 1);
}

pub(crate) async fn an_id_names_a_new_charge_once_its_calendar_period_is_over(store: &impl Store) {
    let made = time("2026-06-10T20:30:00Z");
    let spanned = |window| {
        let calendar = Some(Calendar::days(LOS_ANGELES));
        let window = Window::new(Some(window), calendar).unwrap();
        Limit::new(Units::new(10), Units::ZERO, window).unwrap()
    };
    for (limits, forgotten) in [
        (vec![of_each(Period::Hour)], "2026-06-10T21:00:03.6Z"),
        (vec![of_each(Period::Day)], "2026-06-11T07:01:26.4Z"),
        (vec![of_each(Period::Week)], "2026-06-15T07:01:26.4Z"),
        (vec![of_each(Period::Month)], "2026-07-01T07:01:26.4Z"),
        // A window that slides and resets: what lets the charge go last.
        (vec![spanned(secs(3600))], "2026-06-11T07:00:03.6Z"),
        (vec![spanned(secs(12 * 3600))], "2026-06-11T08:30:43.2Z"),
        (
            vec![of_each(Period::Day), sliding(10, secs(60))],
            "2026-06-11T07:01:26.4Z",
        ),
        (
            vec![of_each(Period::Hour), of_each(Period::Week)],
            "2026-06-15T07:01:26.4Z",
        ),
        (
            vec![of_each(Period::Day), sliding(10, secs(24 * 3600))],
            "2026-06-11T20:31:26.4Z",
        ),
    ] {
        let names = ["daily", "search"];
        let account = Account {
            limits: names.map(str::to_owned).into_iter().zip(limits).collect(),
            ..account([])
        };
        let units: Cost = account
            .limits
            .keys()
            .map(|name| (name.clone(), Units::new(4)))
            .collect();
        let books = Books::new(store.ledger(), account);
        let nightly = id("nightly");
        let forgotten = time(forgotten);
        books.take_as(&nightly, &units, made).await;
        let last = forgotten - MICROSECOND;
        assert!(
            books.take_as(&nightly, &units, last).await.repeated,
            "just before {forgotten}"
        );
        let again = books.take_as(&nightly, &units, forgotten).await;
        assert!(!again.repeated, "at {forgotten}");
        assert_eq!(books.used("daily", forgotten).await, 4);
        // The new charge is the one that the id names.
        let later = forgotten + MICROSECOND;
        assert!(books.take_as(&nightly, &units, later).await.repeated);
        books.settle(&nightly, &Cost::none(), later).await;
        assert_eq!(books.used("daily", later).await, 0);
    }
}

pub(crate) async fn an_id_is_remembered_as_long_as_the_limits_that_its_charge_took(
    store: &impl Store,
) {
    let limits = [
        ("minute", sliding(10, secs(60))),
        ("hour", sliding(10, secs(3600))),
    ];
    let (short, both) = (cost([("minute", 4)]), cost([("minute", 1), ("hour", 1)]));
    for (name, taken, forgotten) in [
        ("short", &short, at(60.0) + GRACE),
        ("both", &both, at(3600.0) + secs(36) / 10),
    ] {
        let books = Books::new(store.ledger(), account(limits));
        books.take_as(&id(name), taken, at(0.0)).await;
        let last = forgotten - MICROSECOND;
        assert!(books.take_as(&id(name), taken, last).await.repeated);
        assert!(!books.take_as(&id(name), taken, forgotten).await.repeated);
    }
}

pub(crate) async fn an_id_that_was_charged_again_names_its_newest_charge(store: &impl Store) {
    let limits = [
        ("minute", sliding(100, secs(60))),
        ("hour", sliding(100, secs(3600))),
    ];
    // Beside few other charges and beside many, since Redis keeps old ones apart.
    for others in [0, 3, 40] {
        let books = Books::new(store.ledger(), account(limits));
        let (short, long) = (cost([("minute", 4)]), cost([("hour", 5)]));
        books.take_as(&id("a"), &short, at(0.0)).await;
        let grant = books.take_as(&id("a"), &long, at(120.0)).await;
        assert!(!grant.repeated, "beside {others}");
        for nth in 0..others {
            let later = at(121.0 + f64::from(nth));
            books.take(&cost([("minute", 1)]), later).await;
        }
        assert!(books.take_as(&id("a"), &long, at(200.0)).await.repeated);
        books
            .settle(&id("a"), &cost([("hour", 7)]), at(200.0))
            .await;
        assert_eq!(books.used("hour", at(200.0)).await, 7);
        assert!(books.take_as(&id("a"), &long, at(3000.0)).await.repeated);
    }
}

fn of_each(period: Period) -> Limit {
    let calendar = Calendar::new(LOS_ANGELES, period);
    let window = Window::new(None, Some(calendar)).unwrap();
    Limit::new(Units::new(10), Units::ZERO, window).unwrap()
}

pub(crate) async fn one_id_in_two_accounts_is_two_charges(store: &impl Store) {
    let limits = [("daily", sliding(10, secs(60)))];
    for books in
        [account(limits), account(limits)].map(|account| Books::new(store.ledger(), account))
    {
        books
            .take_as(&id("same"), &cost([("daily", 4)]), at(0.0))
            .await;
        assert_eq!(books.used("daily", at(0.0)).await, 4);
    }
}

pub(crate) async fn what_can_never_fit_is_told_apart(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    let never = Decision::Never {
        limit: "daily".to_owned(),
        most: Units::new(10),
    };
    assert_eq!(books.charge(&cost([("daily", 11)]), at(0.0)).await, never);
    let never = Decision::Never {
        limit: "daily".to_owned(),
        most: Units::new(3),
    };
    assert_eq!(
        books
            .decide(
                &id("a"),
                &cost([("daily", 4)]),
                &cost([("daily", 7)]),
                at(0.0)
            )
            .await,
        never
    );
    let never = Decision::Never {
        limit: "daily".to_owned(),
        most: Units::new(10),
    };
    assert_eq!(
        books.charge(&cost([("daily", u64::MAX)]), at(0.0)).await,
        never
    );
    assert_eq!(books.used("daily", at(0.0)).await, 0);
}

pub(crate) async fn what_is_to_be_left_counts_as_used(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(10, secs(60)))]));
    books.take(&cost([("daily", 4)]), at(0.0)).await;
    let rejection = books
        .reject_leaving(&cost([("daily", 2)]), &cost([("daily", 5)]), at(1.0))
        .await;
    assert_eq!((rejection.used.get(), rejection.remaining.get()), (4, 6));
    let decision = books
        .decide(
            &id("a"),
            &cost([("daily", 2)]),
            &cost([("daily", 4)]),
            at(1.0),
        )
        .await;
    assert!(matches!(decision, Decision::Granted(grant) if grant.remaining["daily"].get() == 4));
    assert_eq!(
        books.used("daily", at(1.0)).await,
        6,
        "nothing is charged for what is left"
    );
}

pub(crate) async fn accounts_are_apart(store: &impl Store) {
    let [one, other] =
        [(); 2].map(|()| Books::new(store.ledger(), account([("daily", daily(10))])));
    one.take(&cost([("daily", 10)]), at(100.0)).await;
    other.take(&cost([("daily", 10)]), at(0.0)).await;
    assert_eq!(
        one.reject(&cost([("daily", 1)]), at(100.0)).await.limit,
        "daily"
    );
}

pub(crate) async fn time_never_runs_backwards(store: &impl Store) {
    let limits = [
        ("daily", sliding(10, secs(60))),
        ("search", sliding(10, secs(60))),
    ];
    let books = Books::new(store.ledger(), account(limits));
    books.take(&cost([("daily", 4)]), at(100.0)).await;
    books
        .take(&cost([("daily", 4), ("search", 4)]), at(50.0))
        .await;
    assert_eq!(
        books.used("daily", at(0.0)).await,
        8,
        "the latest charge tells the time"
    );
    assert_eq!(
        books.used("search", at(160.0)).await,
        4,
        "and the time is the account's"
    );
    assert_eq!(books.used("daily", at(160.1)).await, 0);
}

pub(crate) async fn however_many_charges_leave_at_once_none_counts_any_more(store: &impl Store) {
    let books = Books::new(store.ledger(), account([("daily", sliding(300, secs(60)))]));
    for nth in 0..200 {
        books
            .take(&cost([("daily", 1)]), at(f64::from(nth) / 1000.0))
            .await;
    }
    let end = at(60.2) + GRACE;
    assert_eq!(books.used("daily", at(60.0)).await, 200);
    assert_eq!(books.used("daily", end).await, 0);
    books.take(&cost([("daily", 300)]), end).await;
    assert_eq!(books.used("daily", end).await, 300);
}

pub(crate) async fn what_a_longer_window_holds_outlives_charges_by_a_shorter_one(
    store: &impl Store,
) {
    let long = account([("daily", sliding(1000, secs(3600)))]);
    let mut short = long.clone();
    short
        .limits
        .insert("daily".to_owned(), sliding(1000, secs(60)));
    let (long, short) = (
        Books::new(store.ledger(), long),
        Books::new(store.ledger(), short),
    );
    // The shorter one begins the ledger.
    short.take(&cost([("daily", 1)]), at(0.0)).await;
    long.take(&cost([("daily", 5)]), at(1.0)).await;
    for nth in 0..200 {
        short
            .take(&cost([("daily", 1)]), at(200.0 + f64::from(nth)))
            .await;
    }
    assert_eq!(long.used("daily", at(400.0)).await, 206);
}

pub(crate) async fn charges_of_one_instant_leave_together(store: &impl Store) {
    let limit = sliding(100, secs(60));
    let books = Books::new(store.ledger(), account([("daily", limit)]));
    let one = cost([("daily", 1)]);
    for _ in 0..20 {
        books.take(&one, at(1.0)).await;
    }
    books.take(&one, at(2.0)).await;
    let grant = books.take(&one, limit.window().expiry(at(1.0))).await;
    assert_eq!(grant.remaining["daily"].get(), 98);
}

pub(crate) async fn what_left_a_limit_while_it_was_not_charged_counts_no_more(store: &impl Store) {
    let limits = [
        ("daily", sliding(1000, secs(60))),
        ("search", sliding(100, secs(60))),
    ];
    let books = Books::new(store.ledger(), account(limits));
    for second in 0..20 {
        let both = cost([("daily", 1), ("search", 1)]);
        books.take(&both, at(f64::from(second))).await;
    }
    for second in 20..140 {
        books
            .take(&cost([("daily", 1)]), at(f64::from(second)))
            .await;
    }
    let grant = books.take(&cost([("search", 1)]), at(140.0)).await;
    assert_eq!(grant.remaining["search"].get(), 99);
}
