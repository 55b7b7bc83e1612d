//! Limits that count in parts of their window, for quotas too large for one entry for each charge.

use std::time::Duration;

use ingest_quota::{
    ChargeId, Cost, Counting, Decision, Limit, SHORTEST_MEMORY, Timestamp, Units, Window,
};

use crate::Store;
use crate::books::{Books, MICROSECOND, account, cost, entry, id, secs, sliding, time};

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

pub(crate) async fn charges_of_a_part_count_as_if_made_at_its_end(store: &impl Store) {
    let books = open(store, 10);
    books.take(&units(4), after(secs(1))).await;
    books.take(&units(6), after(secs(59))).await;
    let all_return = after(WINDOW + PART + GRACE) - MICROSECOND;
    for asked in [units(1), units(10)] {
        let rejection = books.reject(&asked, after(secs(59))).await;
        assert_eq!(rejection.retry_at, all_return);
    }
    assert_eq!(books.used("daily", all_return - MICROSECOND).await, 10);
    assert_eq!(books.used("daily", all_return).await, 0);
    books.take(&units(10), all_return).await;
}

pub(crate) async fn parts_return_one_after_another(store: &impl Store) {
    let books = open(store, 10);
    books.take(&units(3), after(secs(30))).await;
    books.take(&units(7), after(secs(90))).await;
    let first = after(WINDOW + PART + GRACE) - MICROSECOND;
    let rejection = books.reject(&units(3), after(secs(95))).await;
    assert_eq!(rejection.retry_at, first);
    let rejection = books.reject(&units(4), after(secs(95))).await;
    assert_eq!(rejection.retry_at, first + PART);
}

pub(crate) async fn an_id_is_remembered_for_ten_minutes_and_counts_once(store: &impl Store) {
    let books = open(store, 10);
    let (made, last) = (
        after(secs(5)),
        after(secs(5)) + SHORTEST_MEMORY - MICROSECOND,
    );
    books.take_as(&id("a"), &units(3), made).await;
    assert!(books.take_as(&id("a"), &units(3), last).await.repeated);
    assert_eq!(books.used("daily", last).await, 3);
    let forgotten = last + MICROSECOND;
    assert!(!books.take_as(&id("a"), &units(3), forgotten).await.repeated);
    assert_eq!(
        books.used("daily", forgotten).await,
        6,
        "the first still counts"
    );
}

pub(crate) async fn a_release_of_a_forgotten_id_frees_nothing(store: &impl Store) {
    let books = open(store, 10);
    books.take_as(&id("a"), &units(3), after(secs(5))).await;
    let later = after(secs(5)) + SHORTEST_MEMORY;
    books.settle(&id("a"), &Cost::none(), later).await;
    assert_eq!(books.used("daily", later).await, 3);
}

pub(crate) async fn a_settlement_of_a_forgotten_id_counts_in_full(store: &impl Store) {
    let books = open(store, 10);
    books.take_as(&id("a"), &units(3), after(secs(5))).await;
    let later = after(secs(5)) + SHORTEST_MEMORY;
    books.settle(&id("a"), &units(4), later).await;
    assert_eq!(books.used("daily", later).await, 7);
    books.settle(&id("a"), &units(4), later).await;
    assert_eq!(books.used("daily", later).await, 7, "once, however often");
}

pub(crate) async fn a_settlement_that_names_an_unknown_limit_keeps_no_id_for_longer(
    store: &impl Store,
) {
    let books = open(store, 10);
    books.take_as(&id("a"), &units(3), after(secs(5))).await;
    let later = after(secs(5)) + SHORTEST_MEMORY;
    let settled = cost([("daily", 4), ("of another configuration", 1)]);
    books.settle(&id("a"), &settled, later).await;
    assert_eq!(books.used("daily", later).await, 7, "the id was forgotten");
}

pub(crate) async fn a_settlement_corrects_the_part_of_its_charge(store: &impl Store) {
    let books = open(store, 10);
    books.take_as(&id("a"), &units(3), after(secs(5))).await;
    books.settle(&id("a"), &units(9), after(secs(300))).await;
    let returns = after(WINDOW + PART + GRACE) - MICROSECOND;
    assert_eq!(
        books.reject(&units(2), after(secs(300))).await.retry_at,
        returns
    );
}

pub(crate) async fn an_absorbed_id_is_remembered_while_it_counts(store: &impl Store) {
    let books = open(store, 100);
    let absorbed = ["a", "b"].map(|name| entry(&id(name), after(secs(5)), units(3)));
    books.absorb(&absorbed, &[], after(secs(60 * 29))).await;
    // The old charges of a part become one only behind many others.
    for nth in 0..70 {
        books.take(&units(1), after(secs(60 * 29 + nth))).await;
    }
    for minutes in [31, 32, 50] {
        let now = after(secs(60 * minutes));
        books.absorb(&absorbed, &[], now).await;
        assert_eq!(books.used("daily", now).await, 76);
    }
    books
        .settle(&id("a"), &units(1), after(secs(60 * 55)))
        .await;
    assert_eq!(books.used("daily", after(secs(60 * 55))).await, 74);
}

pub(crate) async fn a_limit_that_counts_exactly_keeps_the_ids_of_its_account(store: &impl Store) {
    let limits = [("daily", buckets(10)), ("half", sliding(10, secs(1_800)))];
    let books = Books::new(store.ledger(), account(limits));
    let cost = cost([("daily", 1), ("half", 1)]);
    books.take_as(&id("a"), &cost, after(secs(0))).await;
    assert!(
        books
            .take_as(&id("a"), &cost, after(secs(1_800)))
            .await
            .repeated
    );
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

/// Its window ended between charges that become one.
pub(crate) async fn a_shorter_limit_counts_as_before_where_its_past_is_merged(store: &impl Store) {
    let limits = [("burst", sliding(100, secs(20))), ("daily", buckets(1_000))];
    let books = Books::new(store.ledger(), account(limits));
    let both = cost([("burst", 1), ("daily", 1)]);
    for second in (0..60).step_by(4) {
        books.take(&both, after(secs(second))).await;
    }
    // At the instant at which the last of them alone still counts.
    let first_out = after(secs(56 + 20)) + Duration::from_millis(100) - MICROSECOND;
    books.take(&both, first_out).await;
    for minute in 20..40 {
        for second in 0..20 {
            let now = after(secs(minute * 60 + second));
            books.take(&units(1), now).await;
        }
    }
    // The charges in between still count by it: what it begins with is found in the log.
    let now = after(secs(39 * 60 + 21));
    assert_eq!(books.used("burst", now).await, 0);
    let grant = books.take(&both, now).await;
    assert_eq!(grant.remaining["burst"].get(), 99);
    assert_eq!(books.used("burst", now).await, 1);
    assert_eq!(books.used("daily", now).await, 16 + 400 + 1);
}

/// Whatever the configuration was when a charge was made, no window has more than the limit.
pub(crate) async fn a_limit_that_was_charged_among_what_is_merged_counts_as_before(
    store: &impl Store,
) {
    let limits = [("daily", buckets(1_000)), ("minute", sliding(10, secs(60)))];
    let books = Books::new(store.ledger(), account(limits));
    books.take(&units(1), after(secs(0))).await;
    let both = cost([("daily", 1), ("minute", 3)]);
    books.take(&both, after(secs(1))).await;
    for second in (2..40).chain(700..740) {
        books.take(&units(1), after(secs(second))).await;
    }
    let later = after(secs(750));
    assert_eq!(books.used("minute", later).await, 0);
    books.take(&cost([("minute", 10)]), later).await;
    assert_eq!(books.used("minute", later).await, 10);
    assert_eq!(books.used("daily", later).await, 80);
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
