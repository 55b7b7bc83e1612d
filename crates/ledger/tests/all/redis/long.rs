//! Histories long enough that the log falls into many blocks, is evicted in batches, and has its middle rewritten: every
//! answer is the model's.

use std::time::Duration;

use ingest_quota::{ChargeId, Cost, Counting, Decision, Limit, Timestamp, Units, Window};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::Standalone;
use super::machine::{self, Machine};
use super::stored::whole;
use crate::Store;
use crate::books::{self, Books, MICROSECOND, account, at, cost, entry, floor, limit, secs};
use crate::model::Model;
use ingest_testing::redis_server::RedisServer;

const WINDOW: Duration = secs(600);
/// Longer than ids are remembered where a limit counts in buckets.
const LONG_WINDOW: Duration = secs(1_800);

#[derive(Debug, Clone)]
enum Event {
    /// `count` charges of `units` each, at equal distances in microseconds.
    Charges {
        count: u16,
        units: u64,
        apart: i64,
    },
    /// One charge, if it fits, that leaves something.
    Charge {
        units: u64,
        leave: u64,
    },
    /// An earlier charge costs something else.
    Settle {
        which: prop::sample::Index,
        units: u64,
    },
    /// Charges from elsewhere, so long ago and so far apart.
    Absorb {
        count: u16,
        ago: i64,
        apart: i64,
        units: u64,
    },
    Floor {
        ago: i64,
        used: u64,
    },
    Pass {
        micros: i64,
    },
}

fn events() -> impl Strategy<Value = Event> {
    let micros = || prop_oneof![Just(0), 1..1_000_i64, 1..2_000_000_i64];
    prop_oneof![
        3 => (50..300_u16, 0..4_u64, micros()).prop_map(|(count, units, apart)| Event::Charges { count, units, apart }),
        4 => (0..900_u64, 0..200_u64).prop_map(|(units, leave)| Event::Charge { units, leave }),
        3 => (any::<prop::sample::Index>(), 0..9_u64).prop_map(|(which, units)| Event::Settle { which, units }),
        2 => (1..200_u16, 0..700_000_000_i64, micros(), 0..4_u64)
            .prop_map(|(count, ago, apart, units)| Event::Absorb { count, ago, apart, units }),
        1 => (0..700_000_000_i64, 0..900_u64).prop_map(|(ago, used)| Event::Floor { ago, used }),
        2 => (0..500_000_000_i64).prop_map(|micros| Event::Pass { micros }),
    ]
}

/// The chunk in which enough units leave comes with the rejection.
#[tokio::test]
async fn a_rejection_that_looks_far_ahead_takes_one_call() {
    let server = RedisServer::start();
    let (machine, account) = (Machine::new(server.url()), machine::account(100));
    let process = machine.process();
    for _ in 0..100 {
        process.take(&account, 1).await;
    }
    let calls = || {
        let calls = server.calls();
        ["fcall", "evalsha"].map(|way| calls.get(way).copied().unwrap_or_default())
    };
    let before = calls();
    let rejected = machine::rejection(process.ask(&account, 60).await);
    assert_eq!(rejected.remaining, Units::ZERO);
    assert_eq!(calls().iter().sum::<u64>() - before.iter().sum::<u64>(), 1);
}

/// Chunks that begin where others end, and one in which all records share an instant.
#[tokio::test]
async fn a_rejection_is_exact_where_charges_are_a_microsecond_apart_or_made_at_one_instant() {
    for apart in [MICROSECOND, Duration::ZERO] {
        let store = Standalone::open().await;
        let books = Books::new(store.ledger(), machine::account(200));
        let made = |nth: u32| at(0.0) + apart * nth + secs(u64::from(nth / 50));
        let charge = |nth| {
            let id = ChargeId::new(format!("{nth:09}"));
            books::entry(&id, made(nth), daily(1))
        };
        let charges: Vec<_> = (0..200).map(charge).collect();
        books.absorb(&charges, &[], made(199)).await;
        whole(&store.0, &books.account);
        let window = limit(1, Some(machine::WINDOW), None);
        for units in 1..=200_u32 {
            let rejection = books.reject(&daily(units.into()), made(199)).await;
            let last = window.window().expiry(made(units - 1));
            assert_eq!(rejection.retry_at, last, "{units} units, {apart:?} apart");
        }
    }
}

/// The last charge of a chunk counts until its own instant leaves the window, whatever left it before.
#[tokio::test]
async fn a_window_that_begins_with_any_charge_of_a_chunk_counts_it() {
    let store = Standalone::open().await;
    let window = limit(1, Some(machine::WINDOW), None);
    for first in 0..40_u64 {
        let mut account = machine::account(100);
        account.name = format!("account {first}");
        let books = Books::new(store.ledger(), account);
        let made = |nth: u64| at(0.0) + secs(nth);
        for nth in 0..40 {
            books.take(&daily(1), made(nth)).await;
        }
        let now = window.window().expiry(made(first)) - MICROSECOND;
        let grant = books.take(&daily(1), now).await;
        assert_eq!(
            grant.remaining["daily"].get(),
            100 - (40 - first) - 1,
            "{first}"
        );
    }
}

struct Pair {
    books: [Books; 2],
    ids: Vec<ChargeId>,
    now: Timestamp,
}

impl Pair {
    async fn decide(&mut self, cost: &Cost, leave: &Cost) -> Decision {
        let id = ChargeId::new(format!("{:032}", self.ids.len()));
        let [redis, model] = &self.books;
        let answer = redis.decide(&id, cost, leave, self.now).await;
        assert_eq!(
            answer,
            model.decide(&id, cost, leave, self.now).await,
            "{cost:?} leaving {leave:?} at {}",
            self.now
        );
        self.ids.push(id);
        answer
    }

    async fn happen(&mut self, event: &Event) {
        match event {
            Event::Charges {
                count,
                units,
                apart,
            } => {
                for _ in 0..*count {
                    self.now = moved(self.now, *apart);
                    self.decide(&daily(*units), &Cost::none()).await;
                }
            }
            Event::Charge { units, leave } => {
                self.decide(&daily(*units), &daily(*leave)).await;
            }
            Event::Settle { which, units } if !self.ids.is_empty() => {
                for books in &self.books {
                    books
                        .settle(which.get(&self.ids), &daily(*units), self.now)
                        .await;
                }
            }
            Event::Settle { .. } => {}
            Event::Absorb {
                count,
                ago,
                apart,
                units,
            } => {
                let first = moved(self.now, -ago);
                let entries = (0..*count).map(|nth| {
                    let id = ChargeId::new(format!("elsewhere-{}-{nth}", self.ids.len()));
                    entry(&id, moved(first, apart * i64::from(nth)), daily(*units))
                });
                let entries: Vec<_> = entries.collect();
                self.ids
                    .extend(entries.iter().map(|entry| entry.id.clone()));
                for books in &self.books {
                    books.absorb(&entries, &[], self.now).await;
                }
            }
            Event::Floor { ago, used } => {
                let floor = floor("daily", moved(self.now, -ago), *used);
                for books in &self.books {
                    books
                        .absorb(&[], std::slice::from_ref(&floor), self.now)
                        .await;
                }
            }
            Event::Pass { micros } => self.now = moved(self.now, *micros),
        }
        let [redis, model] = &self.books;
        assert_eq!(
            redis.usage(self.now).await,
            model.usage(self.now).await,
            "after {event:?}"
        );
    }
}

fn moved(instant: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(instant.micros() + micros)
}

fn daily(units: u64) -> Cost {
    cost([("daily", units)])
}

#[test]
fn every_answer_is_the_models_over_long_histories() {
    check(events(), limit(1000, Some(WINDOW), None));
}

#[test]
fn every_answer_is_the_models_over_long_histories_that_count_in_buckets() {
    let window = Window::new(Some(LONG_WINDOW), None).unwrap();
    let window = window.counted(Counting::Buckets(20)).unwrap();
    let passing = (0..900_000_000_i64).prop_map(|micros| Event::Pass { micros });
    check(
        prop_oneof![4 => events(), 1 => passing],
        Limit::new(Units::new(1000), Units::ZERO, window).unwrap(),
    );
}

fn check(events: impl Strategy<Value = Event>, daily: Limit) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let store = runtime.block_on(Standalone::open());
    let cases = std::env::var("LONG_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(6);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 40,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(&vec(events, 1..14), |events| {
        runtime.block_on(async {
            let account = account([("daily", daily), ("other", limit(50, Some(secs(5)), None))]);
            let books = [store.ledger(), Model::open().await.ledger()]
                .map(|ledger| Books::new(ledger, account.clone()));
            let mut pair = Pair {
                books,
                ids: Vec::new(),
                now: at(0.0),
            };
            for event in &events {
                pair.happen(event).await;
            }
            whole(&store.0, &account);
        });
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[tokio::test]
async fn what_leaves_the_window_takes_its_chunks_with_it_and_leaves_the_rest_of_one_right() {
    let store = Standalone::open().await;
    let account = account([("daily", limit(10_000, Some(WINDOW), None))]);
    let books = Books::new(store.ledger(), account.clone());
    let start = at(0.0);
    for nth in 0..256 {
        books.take(&daily(1), moved(start, nth * 1_000)).await;
    }
    // Those from the 101st on are left, which is in the middle of a chunk.
    let later = moved(start, 100_000) + account.longest_window();
    for _ in 0..64 {
        books.take(&daily(1), later).await;
    }
    whole(&store.0, &account);
    // So many that the chunk is divided.
    let elsewhere: Vec<_> = (0..110)
        .map(|nth| {
            let id = ChargeId::new(format!("elsewhere-{nth}"));
            entry(&id, moved(start, 110_000 + nth), daily(1))
        })
        .collect();
    books.absorb(&elsewhere, &[], later).await;
    whole(&store.0, &account);
    // Charges are kept for a grace longer than they count.
    assert_eq!(books.used("daily", later).await, 64);
}

#[tokio::test]
async fn an_id_that_is_charged_again_after_its_window_leaves_its_old_chunk_right() {
    let store = Standalone::open().await;
    let account = account([("daily", limit(10_000, Some(WINDOW), None))]);
    let books = Books::new(store.ledger(), account.clone());
    let again = ChargeId::new("again");
    for nth in 0..200 {
        let now = moved(at(0.0), nth * 1_000);
        match nth {
            100 => books.take_as(&again, &daily(5), now).await,
            _ => books.take(&daily(1), now).await,
        };
    }
    let later = moved(at(0.0), 110_000) + account.longest_window();
    books.take_as(&again, &daily(7), later).await;
    whole(&store.0, &account);
    assert_eq!(books.used("daily", later).await, 7);
}

#[tokio::test]
async fn what_a_corrected_charge_took_is_free_after_its_window_whichever_limit_is_charged_first() {
    let store = Standalone::open().await;
    let of = |limit, units| cost([(limit, units)]);
    let limit = limit(10, Some(WINDOW), None);
    let account = account([("daily", limit), ("search", limit)]);
    let books = Books::new(store.ledger(), account.clone());
    let corrected = ChargeId::new("corrected");
    books.take_as(&corrected, &of("search", 5), at(0.0)).await;
    books.settle(&corrected, &of("search", 10), at(0.0)).await;
    let later = at(0.0) + account.longest_window();
    books.take(&of("daily", 1), later).await;
    books.take(&of("search", 10), later).await;
    whole(&store.0, &account);
}
