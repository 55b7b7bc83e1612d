//! The domain: windows, limits, costs.
#![allow(
    missing_docs,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing
)]

use std::time::Duration;

use chrono::{DateTime, Datelike, Offset};
use chrono_tz::Tz;
use ingest_quota::admission::{Claim, LimitState};
use ingest_quota::{
    Account, Calendar, ChargeId, Cost, Counting, Decision, Limit, LimitError, Origin, Period,
    SHORTEST_MEMORY, SlidingLog, Timestamp, Units, Window, WindowError,
};
use proptest::prelude::*;
use strum::VariantArray;

const DAY: Duration = Duration::from_secs(24 * 3600);
const MICROSECOND: Duration = Duration::from_micros(1);

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn window(sliding: Option<Duration>, resets: Option<Tz>) -> Window {
    Window::new(sliding, resets.map(Calendar::days)).unwrap()
}

fn cost<const N: usize>(components: [(&str, u64); N]) -> Cost {
    components
        .into_iter()
        .map(|(limit, units)| (limit.to_owned(), Units::new(units)))
        .collect()
}

/// Every period, in zones that move their clocks at midnight, by half an hour, by hours, or never.
fn calendars() -> impl Strategy<Value = Calendar> {
    let zones = prop::sample::select(vec![
        chrono_tz::America::Los_Angeles,
        chrono_tz::America::Santiago,
        chrono_tz::Asia::Magadan,
        chrono_tz::Australia::Lord_Howe,
        chrono_tz::Asia::Kolkata,
        chrono_tz::Europe::London,
        chrono_tz::Pacific::Apia,
        chrono_tz::UTC,
    ]);
    let periods = prop::sample::select(Period::VARIANTS);
    (zones, periods).prop_map(|(zone, period)| Calendar::new(zone, period))
}

/// Windows that slide, reset, and do both.
fn windows() -> impl Strategy<Value = Window> {
    let spans = (1..40 * 24 * 3600 * 1_000_000_u64).prop_map(Duration::from_micros);
    (prop::option::of(spans), prop::option::of(calendars()))
        .prop_filter_map("a limit needs one of both", |(sliding, resets)| {
            Window::new(sliding, resets).ok()
        })
}

/// Any microsecond from 2020 to 2034, and those around days on which clocks move.
fn instants() -> impl Strategy<Value = Timestamp> {
    let any = 1_577_836_800_000_000..2_019_686_400_000_000_i64;
    let moves = prop::sample::select(vec![
        "2026-03-08T08:00:00Z",
        "2026-03-09T07:00:00Z",
        "2026-11-01T07:00:00Z",
        "2026-11-02T08:00:00Z",
        "2026-04-05T04:00:00Z",
        "2026-09-06T04:00:00Z",
        "2011-12-30T10:00:00Z",
        "2012-01-01T10:00:00Z",
        "2014-10-25T14:00:00Z",
    ]);
    let near = (moves, -100_000_000..100_000_000_i64)
        .prop_map(|(day, micros)| time(day).micros() + micros);
    prop_oneof![any, near].prop_map(Timestamp::from_micros)
}

proptest! {
    #[test]
    fn what_counts_is_exactly_what_has_not_expired(window in windows(), now in instants()) {
        let from = window.counted_from(now);
        prop_assert!(window.expiry(from) > now, "the first that counts");
        prop_assert!(window.expiry(from - MICROSECOND) <= now, "the last that does not");
    }

    #[test]
    fn what_expires_counts_until_then_and_no_longer(window in windows(), at in instants()) {
        let expiry = window.expiry(at);
        prop_assert!(window.counted_from(expiry - MICROSECOND) <= at);
        prop_assert!(window.counted_from(expiry) > at);
    }

    #[test]
    fn what_is_charged_later_expires_no_sooner(window in windows(), one in instants(), other in instants()) {
        let (earlier, later) = (one.min(other), one.max(other));
        prop_assert!(window.expiry(earlier) <= window.expiry(later));
        prop_assert!(window.counted_from(earlier) <= window.counted_from(later));
    }

    #[test]
    fn a_unit_counts_for_its_window_wherever_in_its_grace_the_upstream_counted_it(window in windows(), at in instants()) {
        let last_counted = at + window.grace();
        if let Some(span) = window.sliding() {
            prop_assert!(window.expiry(at) >= last_counted + span);
        }
        if let Some(reset) = window.next_reset(last_counted) {
            prop_assert!(window.expiry(at) >= reset + window.grace());
        }
    }

    #[test]
    fn nothing_counts_longer_than_the_account_says(window in windows(), at in instants()) {
        let limit = Limit::new(Units::new(1), Units::ZERO, window).unwrap();
        let account = Account { name: "a".to_owned(), limits: [("daily".to_owned(), limit)].into() };
        prop_assert!(window.expiry(at) <= at + account.longest_window());
    }

    #[test]
    fn what_returns_is_told_by_24ths_of_the_window_and_after_an_hour_six_and_a_day(window in windows(), now in instants()) {
        let (slices, all_is_back) = (window.slices(now), window.expiry(now));
        let period = window.resets().map(|calendar| calendar.usual_length());
        let span = window.sliding().or(period).unwrap();
        prop_assert_eq!(slices.last(), Some(&all_is_back));
        let mut begins = now;
        for ends in &slices {
            prop_assert!(begins < *ends);
            prop_assert!(begins >= now + span || ends.since(begins) <= span / 24 + MICROSECOND);
            begins = *ends;
        }
        for later in [1, 6, 24].map(|hours| now + DAY / 24 * hours) {
            prop_assert_eq!(slices.contains(&later), later <= all_is_back);
        }
    }

    #[test]
    fn a_period_begins_at_or_before_now_and_ends_after_it(window in windows(), now in instants()) {
        let days = window.last_reset(now).zip(window.next_reset(now));
        prop_assert_eq!(days.is_some(), window.resets().is_some());
        if let Some((begins, ends)) = days {
            prop_assert!(begins <= now && now < ends);
            prop_assert_eq!(window.last_reset(ends), Some(ends));
            prop_assert_eq!(window.next_reset(begins), Some(ends));
        }
    }
}

/// The hours, day, week or month in local time, as a calendar on the wall shows them.
fn on_the_wall(calendar: Calendar, at: Timestamp) -> String {
    let local = at.to_utc().with_timezone(&calendar.zone());
    let shown = match calendar.period() {
        Period::Hour => "%F %H",
        Period::Day => "%F",
        Period::Week => "%G week %V",
        Period::Month => "%Y-%m",
    };
    local.format(shown).to_string()
}

proptest! {
    /// But for hours that clocks repeat, when the same one begins again.
    #[test]
    fn a_period_begins_where_the_calendar_on_the_wall_changes(calendar in calendars(), now in instants()) {
        let (begins, ends) = (calendar.last_reset(now), calendar.next_reset(now));
        prop_assert_eq!(on_the_wall(calendar, begins), on_the_wall(calendar, now));
        prop_assert_eq!(on_the_wall(calendar, ends - MICROSECOND), on_the_wall(calendar, now));
        if calendar.period() != Period::Hour {
            prop_assert_ne!(on_the_wall(calendar, ends), on_the_wall(calendar, now));
            prop_assert_ne!(on_the_wall(calendar, begins - MICROSECOND), on_the_wall(calendar, now));
        }
        prop_assert!(ends <= begins + calendar.longest());
    }
}

#[test]
fn months_weeks_days_and_hours_are_as_long_as_the_calendar_says() {
    // A zone, a period, an instant, the beginning of the period then, and its hours.
    for calendar in [
        "UTC month 2026-02-10T00:00:00Z 2026-02-01T00:00:00Z 672",
        "UTC month 2028-02-29T23:59:59Z 2028-02-01T00:00:00Z 696",
        "UTC month 2026-12-31T23:00:00Z 2026-12-01T00:00:00Z 744",
        "America/Los_Angeles month 2026-03-15T12:00:00Z 2026-03-01T08:00:00Z 743",
        "America/Los_Angeles month 2026-11-30T12:00:00Z 2026-11-01T07:00:00Z 721",
        "UTC week 2026-11-22T12:00:00Z 2026-11-16T00:00:00Z 168",
        "America/Los_Angeles week 2026-11-01T12:00:00Z 2026-10-26T07:00:00Z 169",
        "America/Los_Angeles hour 2026-11-01T09:30:00Z 2026-11-01T09:00:00Z 1",
        "Asia/Kolkata hour 2026-11-01T09:15:00Z 2026-11-01T08:30:00Z 1",
        "Asia/Kathmandu hour 2026-11-01T09:20:00Z 2026-11-01T09:15:00Z 1",
        // Clocks move by half an hour.
        "Australia/Lord_Howe hour 2026-04-04T14:00:00Z 2026-04-04T14:00:00Z 1.5",
        "Australia/Lord_Howe hour 2026-04-04T15:29:59Z 2026-04-04T14:00:00Z 1.5",
        "Australia/Lord_Howe hour 2026-10-03T14:59:59Z 2026-10-03T14:30:00Z 1.5",
        "Australia/Lord_Howe hour 2026-10-03T15:00:00Z 2026-10-03T14:30:00Z 1.5",
        "America/Los_Angeles day 2026-03-08T19:00:00Z 2026-03-08T08:00:00Z 23",
        "America/Los_Angeles day 2026-11-01T20:00:00Z 2026-11-01T07:00:00Z 25",
        "America/Los_Angeles day 2026-06-10T19:00:00Z 2026-06-10T07:00:00Z 24",
        // Its midnight is skipped.
        "America/Santiago day 2026-09-06T12:00:00Z 2026-09-06T04:00:00Z 23",
    ] {
        let [zone, period, at, begins, hours] =
            <[&str; 5]>::try_from(calendar.split(' ').collect::<Vec<_>>()).unwrap();
        let mut periods = Period::VARIANTS.iter();
        let period = periods.find(|one| one.to_string() == period).unwrap();
        let begun = Calendar::new(zone.parse().unwrap(), *period);
        let begins = time(begins);
        let ends = begins + Duration::from_secs_f64(hours.parse::<f64>().unwrap() * 3600.0);
        for at in [begins, time(at), ends - MICROSECOND] {
            let found = (begun.last_reset(at), begun.next_reset(at));
            assert_eq!(found, (begins, ends), "{calendar}: {at}");
        }
        assert_eq!(begun.next_reset(begins - MICROSECOND), begins, "{calendar}");
        assert_eq!(begun.last_reset(ends), ends, "{calendar}");
    }
}

#[test]
fn periods_have_words_and_none_lasts_longer_than_32_days() {
    let words: Vec<String> = Period::VARIANTS.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["hour", "day", "week", "month"]);
    assert_eq!(Period::longest(), DAY * 32);
}

/// The instants from 1970 to 2038 after which a zone's clocks differ from before, to the second.
fn moves(zone: Tz) -> Vec<i64> {
    let offset = |at: i64| {
        let at = DateTime::from_timestamp(at, 0).unwrap();
        i64::from(at.with_timezone(&zone).offset().fix().local_minus_utc())
    };
    let step = 5 * 24 * 3600;
    let moved = (0..2_145_916_800_i64)
        .step_by(step)
        .filter(|at| offset(*at) != offset(at + step as i64));
    let exactly = moved.map(|at| {
        let (mut before, mut after) = (at, at + step as i64);
        while before + 1 < after {
            let guess = before + (after - before) / 2;
            (before, after) = match offset(guess) == offset(at) {
                true => (guess, after),
                false => (before, guess),
            };
        }
        after
    });
    exactly.collect()
}

#[test]
fn around_every_move_of_every_zones_clocks_periods_begin_with_their_first_instant() {
    for zone in chrono_tz::TZ_VARIANTS {
        let local = |at: Timestamp| at.to_utc().with_timezone(&zone).naive_local();
        for moved in moves(zone) {
            for period in [Period::Day, Period::Week, Period::Month] {
                let window = Window::new(None, Some(Calendar::new(zone, period))).unwrap();
                for near in [-90_000, -3_600, -1, 0, 1, 3_600, 90_000] {
                    let at = Timestamp::from_micros((moved + near) * 1_000_000);
                    let (start, end) = (
                        window.last_reset(at).unwrap(),
                        window.next_reset(at).unwrap(),
                    );
                    let shown = format!("{zone} {period} at {at}: {start} to {end}");
                    assert!(start <= at && at < end, "{shown}");
                    assert_eq!(window.next_reset(start), Some(end), "{shown}");
                    for begins in [start, end] {
                        let (before, first) = (local(begins - MICROSECOND), local(begins));
                        let is_new = match period {
                            Period::Month => {
                                (before.year(), before.month()) < (first.year(), first.month())
                            }
                            Period::Week => before.iso_week() < first.iso_week(),
                            Period::Day | Period::Hour => before.date() < first.date(),
                        };
                        assert!(is_new, "{shown}: {before} is followed by {first}");
                    }
                    let longest = window.longest() + window.grace() * 2;
                    assert!(window.expiry(at) <= at + longest, "{shown}");
                    assert!(window.counted_from(window.expiry(at)) > at, "{shown}");
                }
            }
        }
    }
}

#[test]
fn the_grace_is_a_thousandth_of_the_window_and_at_least_a_tenth_of_a_second() {
    let slides = |span| window(Some(span), None).grace().as_millis();
    assert_eq!(slides(DAY), 86_400);
    assert_eq!(slides(Duration::from_secs(1)), 100);
    let periods = Period::VARIANTS.iter().map(|period| {
        let calendar = Calendar::new(chrono_tz::UTC, *period);
        let grace = Window::new(None, Some(calendar)).unwrap().grace();
        grace.as_millis()
    });
    assert!(periods.eq([3_600, 86_400, 86_400, 86_400]));
}

#[test]
fn a_window_of_nothing_cannot_be_made() {
    assert_eq!(Window::new(None, None), Err(WindowError::Missing));
    assert_eq!(
        Window::new(Some(Duration::ZERO), Some(Calendar::days(chrono_tz::UTC))),
        Err(WindowError::Zero)
    );
}

#[test]
fn a_limit_that_grants_nothing_cannot_be_made() {
    let (quota, window) = (Units::new(10), window(Some(DAY), None));
    for headroom in [10, 11] {
        let headroom = Units::new(headroom);
        assert_eq!(
            Limit::new(quota, headroom, window),
            Err(LimitError::NothingLeft { quota, headroom })
        );
    }
    assert_eq!(
        Limit::new(quota, Units::new(9), window).map(|limit| limit.enforced()),
        Ok(Units::new(1))
    );
}

#[test]
fn sums_too_large_to_hold_fit_nowhere() {
    let limit = Limit::new(
        Units::new(u64::MAX - 1),
        Units::ZERO,
        window(Some(DAY), None),
    )
    .unwrap();
    assert!(!limit.fits(Units::new(u64::MAX), Units::new(1), Units::new(1)));
    assert_eq!(
        cost([("daily", u64::MAX)]).times(2).of("daily"),
        Units::new(u64::MAX)
    );
}

#[test]
fn a_closed_limit_opens_a_grace_past_its_reset() {
    let now = time("2026-06-10T20:00:00Z");
    let daily = Limit::new(
        Units::new(10),
        Units::ZERO,
        window(Some(DAY), Some(chrono_tz::America::Los_Angeles)),
    );
    assert_eq!(
        daily.unwrap().closed_until(now),
        Some(time("2026-06-11T07:01:26.4Z"))
    );
    let sliding = Limit::new(Units::new(10), Units::ZERO, window(Some(DAY), None));
    assert_eq!(sliding.unwrap().closed_until(now), None);
}

#[test]
fn a_cost_names_no_limit_that_it_takes_nothing_of() {
    let mut sum = cost([("daily", 100), ("search", 0)]);
    assert_eq!(sum.limits().collect::<Vec<_>>(), ["daily"]);
    sum.add(&cost([("daily", 1), ("search", 1)]));
    let units = ["daily", "search", "other"].map(|limit| sum.of(limit).get());
    assert_eq!(units, [101, 1, 0]);
    assert_eq!(
        (sum.largest().get(), sum.is_none(), Cost::none().is_none()),
        (101, false, true)
    );
    sum.take(&cost([("daily", 1), ("search", 5)]));
    assert_eq!(sum, cost([("daily", 100)]));
}

#[test]
fn an_origin_is_read_as_it_is_written() {
    for origin in Origin::VARIANTS {
        assert_eq!(Origin::read(origin.as_str()), Some(*origin));
    }
    assert_eq!(Origin::read("other"), None);
}

#[test]
fn an_id_shows_that_it_was_charged_again() {
    assert!(ChargeId::new("a").again(12).is_made_again());
    for id in ["a", "a~", "a~1b", "1"] {
        assert!(!ChargeId::new(id).is_made_again(), "{id}");
    }
}

#[test]
fn an_instant_is_told_to_the_microsecond() {
    let text = "2026-06-10T20:00:00.123457Z";
    assert_eq!(time(text).to_string(), text);
    assert_eq!(
        serde_json::to_string(&time(text)).unwrap(),
        format!("\"{text}\"")
    );
    assert_eq!(Timestamp::parse("2026-06-10"), None);
}

#[test]
fn time_ends_without_a_panic() {
    let end = Timestamp::from_micros(i64::MAX) + DAY;
    let beginning = Timestamp::from_micros(i64::MIN) - DAY;
    assert_eq!(beginning.since(end), Duration::ZERO);
    for period in Period::VARIANTS {
        let calendar = Calendar::new(chrono_tz::America::Los_Angeles, *period);
        assert!(calendar.next_reset(end) >= end, "{period}");
        assert!(calendar.last_reset(beginning) <= beginning, "{period}");
    }
    for instant in [end, beginning] {
        for window in [
            window(Some(DAY), None),
            window(None, Some(chrono_tz::America::Los_Angeles)),
        ] {
            let _ = (
                window.expiry(instant),
                window.counted_from(instant),
                instant.to_string(),
            );
        }
    }
}

/// Returns an account with a limit for each window, in seconds, whose units are counted in parts of the window.
fn of_windows<const N: usize>(windows: [(&str, u64, Option<u32>); N]) -> Account {
    let limits = windows.map(|(name, seconds, parts)| {
        let counting = parts.map_or(Counting::Exact, Counting::Buckets);
        let window = window(Some(Duration::from_secs(seconds)), None).counted(counting);
        let limit = Limit::new(Units::new(9), Units::ZERO, window.unwrap()).unwrap();
        (name.to_owned(), limit)
    });
    Account {
        name: "a".to_owned(),
        limits: limits.into(),
    }
}

#[test]
fn an_id_is_remembered_while_a_limit_counts_its_charge_by_itself() {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    // With the grace at both ends, and 2 minutes of a part.
    for (account, longest, memory) in [
        (of_windows([]), Duration::ZERO, Duration::ZERO),
        (
            of_windows([("a", 600, None), ("b", 6_000, None)]),
            minutes(100) + Duration::from_secs(12),
            minutes(100) + Duration::from_secs(12),
        ),
        (
            of_windows([("a", 6_000, Some(50)), ("b", 3_000, None)]),
            minutes(102) + Duration::from_secs(12),
            minutes(50) + Duration::from_secs(6),
        ),
        (
            of_windows([("a", 6_000, Some(50)), ("b", 1, None)]),
            minutes(102) + Duration::from_secs(12),
            SHORTEST_MEMORY,
        ),
        (
            of_windows([("a", 100, Some(50))]),
            Duration::from_millis(102_200),
            Duration::from_millis(102_200),
        ),
    ] {
        assert_eq!(account.longest_window(), longest, "{account:?}");
        assert_eq!(account.id_memory(), memory, "{account:?}");
        assert_eq!(account.forgets_ids(), memory < longest, "{account:?}");
    }
}

#[test]
fn charges_of_one_hour_merge_where_every_window_that_counts_the_later_has_both_in_one_part() {
    let account = of_windows([
        ("a", 6_000, Some(50)),
        ("b", 6_000, Some(50)),
        ("c", 60, None),
    ]);
    let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
    let names: Vec<&str> = account
        .windows()
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(names, ["a", "c"], "each window once");
    for (earlier, later, now, merges) in [
        (0, 119, 500, true),
        (0, 120, 500, false),
        (0, 120, 9_000, true),
        (0, 119, 179, false),
        (119, 119, 120, true),
        (3_599, 3_600, 99_000, false),
    ] {
        let found = account.merges(at(earlier), at(later), at(now));
        assert_eq!(found, merges, "{earlier} {later} {now}");
    }
    // The window of `c` counts the later charge until 60.1 s after it, and no longer.
    let last = at(119 + 60) + Duration::from_millis(100);
    assert!(!account.merges(at(0), at(119), last - MICROSECOND));
    assert!(account.merges(at(0), at(119), last));
}

#[test]
fn a_grant_lives_for_the_shortest_grace_of_the_limits_that_its_cost_takes() {
    let account = of_windows([("a", 600, None), ("b", 6_000, None)]);
    for (cost, lifetime) in [
        (cost([("a", 1), ("b", 1)]), Duration::from_millis(600)),
        (cost([("b", 1), ("other", 1)]), Duration::from_secs(6)),
        (Cost::none(), Duration::MAX),
    ] {
        assert_eq!(account.grant_lifetime(&cost), lifetime, "{cost:?}");
    }
    let never = account.never_holds(&cost([("a", 9), ("b", 9)]), &cost([("b", 4)]));
    assert_eq!(never, Some(("b".to_owned(), Units::new(5))));
    assert_eq!(account.only("b").limits.len(), 1);
}

/// Puts a charge of one unit to a log: the instant at which it fits, if it does not now.
fn one_unit(log: &mut SlidingLog, limit: Limit, now: Timestamp) -> Option<Timestamp> {
    let name = "requests".to_owned();
    let account = Account {
        name: String::new(),
        limits: [(name.clone(), limit)].into(),
    };
    let now = log.advance(&limit, now);
    let Ok(state) = LimitState::read(&name, &limit, &*log, now);
    let claim = Claim {
        account: &account,
        cost: &cost([("requests", 1)]),
        leave: &Cost::none(),
    };
    let Ok(decision) = claim.decide(&[state], now);
    match decision {
        Decision::Granted(_) => {
            log.add(Units::new(1), &limit, now);
            None
        }
        Decision::Rejected(rejection) => Some(rejection.retry_at),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn no_window_has_more_than_the_limit_however_charges_are_remembered(
        quota in 1_u64..12,
        seconds in 1_u64..100,
        buckets in prop::option::of(1_u32..40),
        gaps in prop::collection::vec((0_u64..4, 0_u64..1_000_000), 1..120),
    ) {
        let span = Duration::from_secs(seconds);
        let counting = buckets.map_or(Counting::Exact, Counting::Buckets);
        let (exact, window) = (window(Some(span), None), window(Some(span), None).counted(counting).unwrap());
        let limit = Limit::new(Units::new(quota), Units::ZERO, window).unwrap();
        let part = window.parts().map_or(Duration::ZERO, |parts| parts.length());
        let (mut log, mut granted) = (SlidingLog::new(), Vec::new());
        let mut now = time("2026-01-01T00:00:00Z");
        for (kind, fraction) in gaps {
            // Bursts, short pauses, and pauses of about a window.
            let gap = span.as_micros() as u64 / 1_000_000 * fraction;
            now += Duration::from_micros([0, gap / 100, gap / 4, gap][kind as usize]);
            match one_unit(&mut log, limit, now) {
                None => granted.push(now),
                Some(retry_at) => {
                    prop_assert!(retry_at > now);
                    let (mut early, mut on_time) = (log.clone(), log.clone());
                    prop_assert_eq!(one_unit(&mut on_time, limit, retry_at), None);
                    prop_assert!(one_unit(&mut early, limit, retry_at - MICROSECOND).is_some());
                    // Up to one part of the window too strict, and no more.
                    let nth = granted[granted.len() - quota as usize];
                    prop_assert!(retry_at <= exact.expiry(nth) + part);
                }
            }
        }
        for first in &granted {
            let within = granted.iter().filter(|at| *at >= first && at.since(*first) < span);
            prop_assert!(within.count() as u64 <= quota);
        }
    }
}
