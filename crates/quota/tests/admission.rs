//! The admission rule, against what it says: charges and floors as lists, of which each counts until it expires.
#![allow(
    missing_docs,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::iter;
use std::time::Duration;

use ingest_quota::admission::{
    Claim, ClosingState, FloorTotal, History, LimitState, Totals, kept_from, ledger_time,
    remembered_from,
};
use ingest_quota::{
    Account, Calendar, Closing, Cost, Counting, Decision, Limit, LimitName, Period,
    SHORTEST_MEMORY, Timestamp, Units, Window,
};
use proptest::prelude::*;

const MICROSECOND: Duration = Duration::from_micros(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const START: i64 = 1_767_225_600_000_000;

/// A limit with all that was ever recorded of it, oldest first.
#[derive(Debug, Clone)]
struct Book {
    limit: Limit,
    charges: Vec<(Timestamp, Units)>,
    floors: Vec<(Timestamp, Units)>,
    closing: Option<ClosingState>,
}

impl Book {
    fn charged(&self, counts: impl Fn(Timestamp) -> bool) -> Units {
        let counted = self.charges.iter().filter(|(at, _)| counts(*at));
        counted.map(|(_, units)| *units).sum()
    }

    /// The units that count at `now`: each charge until it expires; for each floor until it expires, its units and all that
    /// was charged after it, if that is more.
    fn used(&self, now: Timestamp) -> Units {
        let counts = |at: Timestamp| self.limit.window().expiry(at) > now;
        let floors = self.floors.iter().filter(|(at, _)| counts(*at));
        let over = floors.map(|(floor, used)| *used + self.charged(|at| at > *floor));
        over.fold(self.charged(counts), Units::max)
    }

    fn closed_until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = self.closing?.until;
        (until > now).then_some(until)
    }

    fn remaining(&self, now: Timestamp) -> Units {
        match self.closed_until(now) {
            Some(_) => Units::ZERO,
            None => self.limit.enforced().saturating_sub(self.used(now)),
        }
    }

    fn fits(&self, units: Units, now: Timestamp) -> bool {
        self.closed_until(now).is_none() && self.limit.fits(self.used(now), units, Units::ZERO)
    }

    fn state<'a>(&'a self, name: &'a LimitName, now: Timestamp) -> LimitState<'a, &'a Self> {
        let Ok(state) = LimitState::read(name, &self.limit, self, now);
        state
    }

    /// The limit at `now`, if nothing more is charged.
    fn falls_to(&self, most: Units, now: Timestamp) -> Timestamp {
        let Ok(at) = self.state(&String::new(), now).falls_to(most);
        at
    }
}

impl History for &Book {
    type Error = Infallible;

    fn totals(&self, from: Timestamp) -> Result<Totals, Infallible> {
        Ok(Totals {
            all: self.charged(|_| true),
            before: self.charged(|at| at < from),
        })
    }

    fn reached(&self, total: Units, _: Timestamp) -> Result<Timestamp, Infallible> {
        let reaches = |(at, _): &&(Timestamp, Units)| self.charged(|other| other <= *at) >= total;
        Ok(self.charges.iter().find(reaches).unwrap().0)
    }

    fn floors(&self, from: Timestamp) -> Result<Vec<FloorTotal>, Infallible> {
        let floors = self.floors.iter().filter(|(at, _)| *at >= from);
        let totalled = |(at, used): &(Timestamp, Units)| FloorTotal {
            at: *at,
            used: *used,
            total: self.charged(|charge| charge <= *at),
        };
        Ok(floors.map(totalled).collect())
    }

    fn closing(&self) -> Result<Option<ClosingState>, Infallible> {
        Ok(self.closing)
    }
}

/// Windows of seconds and of an hour's calendar, as short as what [`books`] records.
fn windows() -> impl Strategy<Value = Window> {
    let hours = Calendar::new(chrono_tz::UTC, Period::Hour);
    let spans = (1_u64..8000).prop_map(|seconds| SECOND * u32::try_from(seconds).unwrap());
    let sliding = (spans.clone(), prop::option::of(1_u32..20)).prop_map(|(span, buckets)| {
        let counting = buckets.map_or(Counting::Exact, Counting::Buckets);
        let window = Window::new(Some(span), None).unwrap();
        window.counted(counting).unwrap()
    });
    prop_oneof![
        2 => sliding,
        1 => prop::option::of(spans).prop_map(move |span| Window::new(span, Some(hours)).unwrap()),
    ]
}

fn instants() -> impl Strategy<Value = Timestamp> {
    (0..3 * 3600 * 1_000_000_i64).prop_map(|micros| Timestamp::from_micros(START + micros))
}

/// The instant at which every book is looked at: no charge and no floor is later.
fn now() -> Timestamp {
    Timestamp::from_micros(START) + HOUR * 3
}

/// Few instants and intervals, so that some are equal and some at the border of what a probe takes.
fn closings() -> Vec<ClosingState> {
    let minutes = [-60, 0, 1, 2, 59, 60, 120, 1440, 2880];
    let untils = minutes.map(|minutes| now().micros() + minutes * 60_000_000);
    let intervals = [1, 59, 60, 61, 720, 1440, 2000].map(|minutes| Some(MINUTE * minutes));
    let of = |until| {
        let until = Timestamp::from_micros(until);
        let all = iter::once(None).chain(intervals);
        all.map(move |interval| ClosingState { until, interval })
    };
    untils.into_iter().flat_map(of).collect()
}

fn books() -> impl Strategy<Value = Book> {
    let units = |most: u64| (0..most).prop_map(Units::new);
    (
        windows(),
        1_u64..200,
        prop::collection::vec((instants(), units(30)), 0..25),
        prop::collection::vec((instants(), units(150)), 0..3),
        prop::option::of(prop::sample::select(closings())),
    )
        .prop_map(|(window, quota, mut charges, mut floors, closing)| {
            charges.sort();
            floors.sort();
            let limit = Limit::new(Units::new(quota), Units::ZERO, window).unwrap();
            Book {
                limit,
                charges,
                floors,
                closing,
            }
        })
}

fn named(books: &[Book]) -> BTreeMap<LimitName, &Book> {
    let names = ('a'..).map(String::from);
    names.zip(books).collect()
}

fn account(books: &BTreeMap<LimitName, &Book>) -> Account {
    let limit = |(name, book): (&LimitName, &&Book)| (name.clone(), book.limit);
    Account {
        name: "account".to_owned(),
        limits: books.iter().map(limit).collect(),
    }
}

fn costs(books: &BTreeMap<LimitName, &Book>, units: &[u64]) -> Cost {
    let units = units.iter().map(|units| Units::new(*units));
    books.keys().cloned().zip(units).collect()
}

proptest! {
    #[test]
    fn a_limit_reports_what_counts_and_what_is_left(book in books()) {
        let name = "limit".to_owned();
        let state = book.state(&name, now());
        prop_assert_eq!(state.total(), book.charged(|_| true));
        prop_assert_eq!(state.used(), book.used(now()));
        prop_assert_eq!(state.remaining(), book.remaining(now()));
        prop_assert_eq!(state.closed_until(), book.closed_until(now()));
        prop_assert_eq!(state.probed_after(), book.closing.and_then(|closing| closing.interval));
        let Ok(usage) = state.usage();
        prop_assert_eq!((usage.limit, usage.used), (name.clone(), state.used()));
        prop_assert_eq!(usage.remaining, state.remaining());
        prop_assert_eq!(usage.closed_until, state.closed_until());
        let reset = book.limit.window().last_reset(now());
        prop_assert_eq!(usage.since_reset, reset.map(|reset| book.charged(|at| at >= reset)));
    }

    #[test]
    fn units_return_at_the_first_instant_at_which_they_no_longer_count(book in books()) {
        let Ok(usage) = book.state(&String::new(), now()).usage();
        let mut left = book.used(now());
        for back in &usage.returns {
            prop_assert!(back.units > Units::ZERO);
            left = left.saturating_sub(back.units);
            prop_assert_eq!(book.used(back.at), left);
            prop_assert!(book.used(back.at - MICROSECOND) > left);
        }
        prop_assert_eq!(left, Units::ZERO);
        for end in book.limit.window().slices(now()) {
            let back = usage.returns.iter().filter(|back| back.at <= end).map(|back| back.units).sum();
            prop_assert_eq!(book.used(now()).saturating_sub(back), book.used(end));
        }
    }

    #[test]
    fn a_limit_falls_to_no_more_than_some_units_at_the_first_such_instant(book in books(), most in 0_u64..250) {
        let most = Units::new(most);
        let at = book.falls_to(most, now());
        prop_assert!(at >= now() && book.used(at) <= most);
        prop_assert!(at == now() || book.used(at - MICROSECOND) > most);
    }

    #[test]
    fn units_fit_beside_what_is_left_at_the_first_such_instant(book in books(), units in 0_u64..100, leave in 0_u64..100) {
        let both = Units::new(units) + Units::new(leave);
        prop_assume!(both <= book.limit.enforced());
        let Ok(at) = book.state(&String::new(), now()).fits_at(Units::new(units), Units::new(leave));
        prop_assert!(at >= now() && book.fits(both, at));
        prop_assert!(at == now() || !book.fits(both, at - MICROSECOND));
    }

    #[test]
    fn a_charge_is_granted_exactly_if_it_fits_every_limit(
        books in prop::collection::vec(books(), 0..4),
        units in prop::collection::vec(0_u64..60, 4),
        leave in prop::collection::vec(0_u64..60, 4),
        behind in 0_u64..5000,
    ) {
        let books = named(&books);
        let (account, cost, leave) = (account(&books), costs(&books, &units), costs(&books, &leave));
        let asked = |name: &LimitName| cost.of(name) + leave.of(name);
        let charged: BTreeMap<&LimitName, &Book> = books.iter().map(|(name, book)| (name, *book))
            .filter(|(name, _)| cost.of(name) > Units::ZERO).collect();
        let states: Vec<_> = charged.iter().map(|(name, book)| book.state(name, now())).collect();
        // The caller's clock is behind that of the ledger.
        let caller = now() - Duration::from_millis(behind);
        let Ok(decision) = (Claim { account: &account, cost: &cost, leave: &leave }).decide(&states, caller);
        match decision {
            Decision::Granted(grant) => {
                prop_assert!(charged.iter().all(|(name, book)| book.fits(asked(name), now())));
                prop_assert!(!grant.repeated && grant.held.is_none());
                prop_assert_eq!(grant.remaining.len(), charged.len());
                prop_assert_eq!(grant.probing.len(), charged.values().filter(|book| book.closing.is_some_and(|closing| closing.interval.is_some())).count());
                for (name, book) in charged {
                    let left = book.limit.enforced().saturating_sub(book.used(now()) + cost.of(name));
                    prop_assert_eq!(grant.remaining.get(name), Some(&left));
                    prop_assert_eq!(grant.probing.get(name).copied(), book.closing.and_then(|closing| closing.interval));
                }
            }
            Decision::Rejected(rejection) => {
                let fit_at = |at: Timestamp| charged.iter().all(|(name, book)| book.fits(asked(name), at));
                prop_assert!(rejection.retry_at > now());
                prop_assert!(fit_at(rejection.retry_at) && !fit_at(rejection.retry_at - MICROSECOND));
                prop_assert_eq!(rejection.retry_after, rejection.retry_at.since(caller));
                // The first by name of those that fit last.
                let last = charged.iter().find(|(name, book)| !book.fits(asked(name), rejection.retry_at - MICROSECOND));
                let (name, book) = last.unwrap();
                prop_assert_eq!(&rejection.limit, *name);
                prop_assert_eq!((rejection.used, rejection.remaining), (book.used(now()), book.remaining(now())));
            }
            Decision::Never { limit, most } => {
                let too_small = |name: &LimitName, book: &Book| asked(name) > book.limit.enforced();
                let first = charged.iter().find(|(name, book)| too_small(name, book));
                prop_assert_eq!(Some(&limit), first.map(|(name, _)| *name));
                prop_assert_eq!(most, charged[&limit].limit.enforced().saturating_sub(leave.of(&limit)));
            }
            Decision::TakenBack => panic!("the id is new"),
        }
    }

    #[test]
    fn a_repeated_charge_is_granted_whatever_holds_and_takes_nothing_more(book in books(), held in 0_u64..3, units in 1_u64..3) {
        let all = [book];
        let books = named(&all);
        let (account, cost, held) = (account(&books), costs(&books, &[units]), costs(&books, &[held]));
        let states: Vec<_> = books.iter().map(|(name, book)| book.state(name, now())).collect();
        let claim = Claim { account: &account, cost: &cost, leave: &Cost::none() };
        match claim.decide_repeated(&states, held.clone()) {
            Decision::TakenBack => prop_assert!(held.is_none()),
            Decision::Granted(grant) => {
                prop_assert!(grant.repeated && !held.is_none() && grant.probing.is_empty());
                prop_assert_eq!(grant.held, (held != cost).then_some(held));
                let left = |book: &&Book| book.limit.enforced().saturating_sub(book.used(now()));
                prop_assert!(books.iter().all(|(name, book)| grant.remaining.get(name) == Some(&left(book))));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_later_of_two_closings_holds() {
    let all = closings();
    for existing in iter::once(None).chain(all.iter().copied().map(Some)) {
        let last = existing.and_then(|existing| existing.interval);
        let probed = existing.is_none_or(|existing| existing.until <= now() + MINUTE);
        let next = match last {
            None => HOUR,
            Some(last) if probed => (last * 2).min(HOUR * 24),
            Some(last) => last,
        };
        let probing = ClosingState {
            until: now() + next,
            interval: Some(next),
        };
        let copied = all.iter().map(|copied| {
            let interval = copied.interval.and_then(|one| last.max(Some(one)));
            let new = ClosingState {
                interval,
                ..*copied
            };
            (Closing::from(*copied), new)
        });
        for (closing, new) in copied.chain([(Closing::Probing, probing)]) {
            let longer = existing.filter(|existing| existing.until >= new.until);
            let found = closing.over(existing, now());
            assert_eq!(found, longer.unwrap_or(new), "{closing:?} {existing:?}");
        }
    }
}

#[test]
fn an_account_without_limits_grants_a_repeated_charge() {
    let account = account(&BTreeMap::new());
    let claim = Claim {
        account: &account,
        cost: &Cost::none(),
        leave: &Cost::none(),
    };
    let states: [LimitState<'_, &Book>; 0] = [];
    let decision = claim.decide_repeated(&states, Cost::none());
    assert!(matches!(decision, Decision::Granted(grant) if grant.repeated && grant.held.is_none()));
}

#[test]
fn the_time_of_a_ledger_is_after_its_floors_and_not_before_its_charges() {
    let (sooner, later) = (now() - SECOND, now() + SECOND);
    assert_eq!(ledger_time(now(), None, None), now());
    assert_eq!(ledger_time(now(), Some(sooner), Some(sooner)), now());
    assert_eq!(ledger_time(now(), Some(later), Some(sooner)), later);
    assert_eq!(
        ledger_time(now(), Some(now()), Some(later)),
        later + MICROSECOND
    );
    assert_eq!(ledger_time(now(), None, Some(now())), now() + MICROSECOND);
}

#[test]
fn charges_and_their_ids_are_kept_for_as_long_as_the_account_says() {
    let window = Window::new(Some(HOUR), None).unwrap();
    let exact = Limit::new(Units::new(1), Units::ZERO, window).unwrap();
    let window = window.counted(Counting::Buckets(10)).unwrap();
    let buckets = Limit::new(Units::new(1), Units::ZERO, window).unwrap();
    let days = Window::new(None, Some(Calendar::days(chrono_tz::UTC))).unwrap();
    let daily = Limit::new(Units::new(1), Units::ZERO, days).unwrap();
    let account = |limits: &[Limit]| Account {
        name: "account".to_owned(),
        limits: limits
            .iter()
            .enumerate()
            .map(|(nth, limit)| (nth.to_string(), *limit))
            .collect(),
    };
    let counted = account(&[buckets]);
    assert!(counted.id_memory() < counted.longest_window());
    assert_eq!(kept_from(&counted, now()), now() - counted.longest_window());
    assert_eq!(remembered_from(&counted, now()), now() - SHORTEST_MEMORY);
    for (limits, counts) in [
        (&[exact][..], exact),
        (&[exact, buckets], exact),
        (&[daily], daily),
        (&[daily, buckets], daily),
        (&[daily, exact], daily),
    ] {
        let forgotten = remembered_from(&account(limits), now());
        assert!(counts.window().expiry(forgotten) <= now());
        assert!(counts.window().expiry(forgotten + MICROSECOND) > now());
    }
}

#[test]
fn a_closing_is_stored_with_the_interval_of_its_probe() {
    let until = now() + MINUTE;
    for interval in [None, Some(HOUR * 3)] {
        let closing = ClosingState { until, interval };
        let micros = closing.interval_micros();
        assert_eq!(micros, interval.map(|_| 3 * 3600 * 1_000_000));
        assert_eq!(
            ClosingState::stored(until, interval.is_some(), micros),
            closing
        );
    }
    // Files of an earlier release: no interval, or one that cannot be.
    for micros in [None, Some(-1)] {
        assert_eq!(
            ClosingState::stored(until, true, micros).interval,
            Some(HOUR)
        );
    }
    let endless = ClosingState {
        until,
        interval: Some(Duration::MAX),
    };
    assert_eq!(endless.interval_micros(), Some(i64::MAX));
}

#[test]
fn a_granted_probe_closes_its_limit_for_a_minute() {
    let (until, interval) = (now() + MINUTE, Some(HOUR));
    let probed = ClosingState::after_probe(HOUR, now());
    assert_eq!(probed, ClosingState { until, interval });
}
