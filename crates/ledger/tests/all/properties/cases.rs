//! Accounts, times and requests to try a ledger with.

use std::collections::BTreeMap;
use std::time::Duration;

use ingest_quota::{
    Account, Calendar, Closing, Cost, Counting, Limit, LimitName, Period, Timestamp, Units, Window,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample;
use strum::VariantArray;

use crate::books::{LOS_ANGELES, account, secs, time};

const DAY: Duration = Duration::from_secs(24 * 3600);
const NAMES: [&str; 3] = ["daily", "minute", "search"];

/// Which way the caller's clock goes.
#[derive(Debug, Clone, Copy)]
enum Clock {
    Forward,
    MostlyForward,
}

/// One charge after another.
#[derive(Debug, Clone)]
pub(crate) struct Visits {
    pub(crate) limits: BTreeMap<LimitName, Limit>,
    pub(crate) start: Timestamp,
    pub(crate) visits: Vec<Visit>,
}

#[derive(Debug, Clone)]
pub(crate) struct Visit {
    /// Microseconds since the visit before.
    pub(crate) step: i64,
    pub(crate) cost: Cost,
    pub(crate) leave: Cost,
    /// Where between two instants to look.
    pub(crate) fraction: f64,
    /// Whether the charge is released at once, if it is granted.
    pub(crate) released: bool,
}

/// Anything that can be told to a ledger, one after another.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) limits: BTreeMap<LimitName, Limit>,
    pub(crate) start: Timestamp,
    pub(crate) events: Vec<(i64, Event)>,
}

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Charge {
        id: u8,
        cost: Cost,
        leave: Cost,
    },
    Settle {
        id: u8,
        cost: Cost,
    },
    Absorb {
        entries: Vec<(u8, i64, Cost)>,
        floors: Vec<(LimitName, i64, u64)>,
    },
    CloseUntil {
        limit: LimitName,
        after: i64,
    },
    CloseProbing {
        limit: LimitName,
    },
    CloseCopied {
        limit: LimitName,
        after: i64,
        hours: u64,
    },
    Reopen {
        limit: LimitName,
    },
    Usage,
}

impl Event {
    /// Lets one more limit take part.
    fn involve(&mut self, name: &str) {
        let also = |cost: &mut Cost| cost.set(name, cost.of(NAMES[0]));
        match self {
            Self::Charge { cost, .. } | Self::Settle { cost, .. } => also(cost),
            Self::Absorb { entries, floors } => {
                entries.iter_mut().for_each(|(_, _, cost)| also(cost));
                floors
                    .iter_mut()
                    .take(1)
                    .for_each(|(limit, _, _)| *limit = name.to_owned());
            }
            Self::CloseUntil { limit, .. } | Self::CloseProbing { limit } => {
                *limit = name.to_owned();
            }
            Self::CloseCopied { .. } | Self::Reopen { .. } | Self::Usage => {}
        }
    }

    pub(crate) fn closing(&self, now: Timestamp) -> Closing {
        match self {
            Self::CloseUntil { after, .. } => Closing::Until(moved(now, *after)),
            Self::CloseCopied { after, hours, .. } => Closing::Copied {
                until: moved(now, *after),
                interval: std::time::Duration::from_secs(hours * 3600),
            },
            _ => Closing::Probing,
        }
    }
}

pub(crate) fn moved(instant: Timestamp, micros: i64) -> Timestamp {
    Timestamp::from_micros(instant.micros() + micros)
}

/// An account that no other case has.
pub(crate) fn account_of(limits: &BTreeMap<LimitName, Limit>) -> Account {
    Account {
        limits: limits.clone(),
        ..account([])
    }
}

pub(crate) fn visits() -> impl Strategy<Value = Visits> {
    let visit = (
        steps(Clock::Forward),
        costs(10),
        costs(4),
        0.0..1.0,
        prop::bool::weighted(0.1),
    )
        .prop_map(|(step, cost, leave, fraction, released)| Visit {
            step,
            cost,
            leave,
            fraction,
            released,
        });
    (limits(), starts(), vec(visit, 1..24)).prop_map(|(limits, start, visits)| Visits {
        limits,
        start,
        visits,
    })
}

pub(crate) fn stories() -> impl Strategy<Value = Story> {
    let events = vec((steps(Clock::MostlyForward), events()), 1..32);
    (limits(), starts(), events).prop_map(|(limits, start, events)| Story {
        limits,
        start,
        events,
    })
}

/// How many limits an account has beside those of the story.
const BYSTANDERS: usize = 90;

fn bystander(number: usize) -> LimitName {
    format!("value/{:02}", number % BYSTANDERS)
}

/// Stories of accounts with many limits. Some are charged first, about as many as Redis keeps in one field; of each cost in
/// the story one of them takes what the first limit takes.
pub(crate) fn stories_among_many() -> impl Strategy<Value = Story> {
    (stories(), 50..BYSTANDERS, windows()).prop_map(|(mut story, charged, window)| {
        let limit = Limit::new(Units::new(15), Units::ZERO, window).unwrap();
        let bystanders = (0..BYSTANDERS).map(|number| (bystander(number), limit));
        story.limits.extend(bystanders);
        for (nth, (_, event)) in story.events.iter_mut().enumerate() {
            event.involve(&bystander(7 * nth));
        }
        let cost = (0..charged).map(|number| (bystander(number), Units::new(1)));
        let first = Event::Charge {
            id: 255,
            cost: cost.collect(),
            leave: Cost::none(),
        };
        story.events.insert(0, (0, first));
        story
    })
}

fn events() -> impl Strategy<Value = Event> {
    let ids = || 0..12_u8;
    let entries = vec((ids(), steps(Clock::MostlyForward), costs(10)), 0..4);
    let floors = vec((names(), steps(Clock::MostlyForward), 0..30_u64), 0..3);
    prop_oneof![
        8 => (prop_oneof![0..12_u8, 0..200_u8], costs(10), costs(4)).prop_map(|(id, cost, leave)| Event::Charge { id, cost, leave }),
        2 => (ids(), costs(12)).prop_map(|(id, cost)| Event::Settle { id, cost }),
        2 => (entries, floors).prop_map(|(entries, floors)| Event::Absorb { entries, floors }),
        1 => (names(), steps(Clock::MostlyForward)).prop_map(|(limit, after)| Event::CloseUntil { limit, after }),
        1 => names().prop_map(|limit| Event::CloseProbing { limit }),
        1 => (names(), steps(Clock::MostlyForward), 1..48_u64)
            .prop_map(|(limit, after, hours)| Event::CloseCopied { limit, after, hours }),
        1 => names().prop_map(|limit| Event::Reopen { limit }),
        3 => Just(Event::Usage),
    ]
}

fn names() -> impl Strategy<Value = LimitName> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

/// Times around both days on which Los Angeles moves its clocks, and around a common midnight.
fn starts() -> impl Strategy<Value = Timestamp> {
    let days = prop::sample::select(vec![
        "2026-03-08T08:00:00Z",
        "2026-11-01T07:00:00Z",
        "2026-06-11T07:00:00Z",
    ]);
    (days, -30 * 3600 * 1_000_000..20 * 3600 * 1_000_000_i64)
        .prop_map(|(day, micros)| moved(time(day), micros))
}

/// Steps of every size: from the same instant over microseconds and seconds to more than a day.
fn steps(clock: Clock) -> impl Strategy<Value = i64> {
    let size = prop_oneof![
        2 => Just(0),
        2 => 1..5_i64,
        3 => 1..3_000_000_i64,
        3 => 1..7200 * 1_000_000_i64,
        1 => 1..30 * 3600 * 1_000_000_i64,
    ];
    let back = match clock {
        Clock::Forward => 0.0,
        Clock::MostlyForward => 0.25,
    };
    (size, prop::bool::weighted(back)).prop_map(|(size, back)| if back { -size } else { size })
}

fn costs(most: u64) -> impl Strategy<Value = Cost> {
    btree_map(names(), (0..=most).prop_map(Units::new), 0..=3)
        .prop_map(|components| components.into_iter().collect())
}

fn limits() -> impl Strategy<Value = BTreeMap<LimitName, Limit>> {
    let limit = (1..30_u64, 0..3_u64, windows());
    let limit = limit.prop_map(|(enforced, headroom, window)| {
        Limit::new(
            Units::new(enforced + headroom),
            Units::new(headroom),
            window,
        )
        .unwrap()
    });
    btree_map(names(), limit, 1..=3)
}

fn windows() -> impl Strategy<Value = Window> {
    let spans = prop_oneof![
        Just(Duration::from_micros(1)),
        (1..5_000_000_u64).prop_map(Duration::from_micros),
        Just(secs(60)),
        Just(secs(3600)),
        Just(DAY),
        Just(7 * DAY),
    ];
    let periods = prop_oneof![Just(Period::Day), sample::select(Period::VARIANTS)];
    let windows = (option::weighted(0.75, spans), any::<bool>(), periods);
    (windows, 0..80_u32).prop_map(|((sliding, resets, period), parts)| {
        let resets = resets || sliding.is_none();
        let calendar = resets.then_some(Calendar::new(LOS_ANGELES, period));
        let counting = match (calendar, parts) {
            (None, 1..=40) => Counting::Buckets(parts),
            (Some(_), _) | (None, _) => Counting::Exact,
        };
        let window = Window::new(sliding, calendar).unwrap();
        window.counted(counting).unwrap()
    })
}
