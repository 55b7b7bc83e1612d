//! Why the window slides: a counter that is reset on the minute lets twice its limit through around the full minute.
//! Then four ways to count a sliding window, each with the schedule of requests that gets the most within a minute, found by a
//! search: `docs/boundary.svg` shows them.
//! `cargo run --release --example boundary`
//! With the URL of a Redis, the same against that server and by its clock, in ten seconds and keys that expire:
//! `cargo run --release --example boundary redis://127.0.0.1`
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

pub mod live;

use std::fmt::Write;
use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use ingest_ledger::{Charge, Ledger, Purpose, SqliteLedger};
use ingest_quota as quota;
use ingest_quota::admission::LimitState;
use ingest_quota::{
    Account, ChargeId, Cost, Decision, Limit, SlidingLog, Timestamp, Units, Window,
};

/// Units a minute.
const LIMIT: u64 = 50;
const MINUTE: Duration = Duration::from_secs(60);

/// What was let through in the last second of one minute, and in the first of the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LetThrough {
    /// In the last second of the minute.
    pub before: u64,
    /// In the first second of the next.
    pub after: u64,
}

/// A counter that begins anew with each minute.
pub fn fixed_window() -> LetThrough {
    let mut counting = FixedWindow::default();
    let [before, after] =
        [59, 60].map(|second| (0..LIMIT).filter(|_| counting.take(second)).count() as u64);
    LetThrough { before, after }
}

/// A ledger, asked at the same moments.
pub async fn sliding_window(ledger: &dyn Ledger) -> LetThrough {
    let window = Window::new(Some(MINUTE), None).unwrap();
    let limit = Limit::new(Units::new(LIMIT), Units::ZERO, window).unwrap();
    let account = Account {
        name: "boundary".to_owned(),
        limits: [("minute".to_owned(), limit)].into(),
    };
    let [before, after] = bursts();
    LetThrough {
        before: burst(ledger, &account, before).await,
        after: burst(ledger, &account, after).await,
    }
}

async fn burst(ledger: &dyn Ledger, account: &Account, at: Timestamp) -> u64 {
    let mut granted = 0;
    for nth in 0..LIMIT {
        let id = ChargeId::new(format!("{at}-{nth}"));
        granted += u64::from(charge(ledger, account, &id, at).await);
    }
    granted
}

async fn charge(ledger: &dyn Ledger, account: &Account, id: &ChargeId, at: Timestamp) -> bool {
    let cost: Cost = [("minute".to_owned(), Units::new(1))].into_iter().collect();
    let (leave, purpose) = (Cost::none(), Purpose::default());
    let charge = Charge {
        account,
        id,
        cost: &cost,
        leave: &leave,
        purpose: &purpose,
    };
    matches!(
        ledger.charge(charge, at).await.unwrap(),
        Decision::Granted(_)
    )
}

fn bursts() -> [Timestamp; 2] {
    ["2026-06-10T11:59:59Z", "2026-06-10T12:00:00Z"].map(|time| Timestamp::parse(time).unwrap())
}

/// A way to count, asked for one unit at a second. The window is a minute.
pub trait Counting {
    /// Takes a unit if it fits.
    fn take(&mut self, second: u64) -> bool;
}

/// Begins anew with each minute.
#[derive(Default)]
struct FixedWindow {
    minute: u64,
    count: u64,
}

impl Counting for FixedWindow {
    fn take(&mut self, second: u64) -> bool {
        if second / 60 != self.minute {
            *self = Self {
                minute: second / 60,
                count: 0,
            };
        }
        let fits = self.count < LIMIT;
        self.count += u64::from(fits);
        fits
    }
}

/// Takes the last minute for evenly spent: counts the part of it that is still in the window.
#[derive(Default)]
struct TwoBuckets {
    minute: u64,
    last: u64,
    count: u64,
}

impl Counting for TwoBuckets {
    fn take(&mut self, second: u64) -> bool {
        let minute = second / 60;
        if minute != self.minute {
            self.last = if minute == self.minute + 1 {
                self.count
            } else {
                0
            };
            (self.minute, self.count) = (minute, 0);
        }
        let fits = self.last * (60 - second % 60) + (self.count + 1) * 60 <= LIMIT * 60;
        self.count += u64::from(fits);
        fits
    }
}

/// The counting of `ingest`: a log, or parts of the window.
struct Sliding {
    log: SlidingLog,
    limit: Limit,
}

impl Sliding {
    fn new(counting: quota::Counting) -> Self {
        let window = Window::new(Some(MINUTE), None).unwrap();
        let window = window.counted(counting).unwrap();
        Self {
            log: SlidingLog::new(),
            limit: Limit::new(Units::new(LIMIT), Units::ZERO, window).unwrap(),
        }
    }
}

impl Counting for Sliding {
    fn take(&mut self, second: u64) -> bool {
        let now = Timestamp::from_micros(i64::try_from(second).unwrap() * 1_000_000);
        let now = self.log.advance(&self.limit, now);
        let name = "minute".to_owned();
        let Ok(state) = LimitState::read(&name, &self.limit, &self.log, now);
        let fits = state.remaining() > Units::ZERO;
        if fits {
            self.log.add(Units::new(1), &self.limit, now);
        }
        fits
    }
}

/// Begins to count.
pub type Begin = fn() -> Box<dyn Counting>;

/// Each way to count, by its name.
pub fn countings() -> [(&'static str, Begin); 4] {
    [
        ("fixed window", || Box::<FixedWindow>::default()),
        ("two buckets, interpolated", || Box::<TwoBuckets>::default()),
        ("12 sub-buckets, the oldest in full", || {
            Box::new(Sliding::new(quota::Counting::Buckets(12)))
        }),
        ("log", || Box::new(Sliding::new(quota::Counting::Exact))),
    ]
}

/// The seconds of a schedule: three minutes, after which nothing new can happen.
const SECONDS: usize = 180;

/// What a schedule gets: units by second.
type Got = [u64; SECONDS];

/// Asks at some seconds for all that there is.
fn got(counting: Begin, asks: &[bool; SECONDS]) -> Got {
    let mut counting = counting();
    let mut got = [0; SECONDS];
    for (second, got) in got
        .iter_mut()
        .enumerate()
        .filter(|(second, _)| asks[*second])
    {
        while counting.take(second as u64) {
            *got += 1;
        }
    }
    got
}

/// The most that any minute of a schedule has, and where that minute begins.
fn burst_of(got: &Got) -> (u64, usize) {
    let minutes = (0..=SECONDS - 60).map(|begin| (got[begin..begin + 60].iter().sum(), begin));
    minutes
        .max_by_key(|(units, begin)| (*units, usize::MAX - begin))
        .unwrap()
}

/// Searches for the schedule whose worst minute gets the most: from several beginnings, seconds are added to it and taken from
/// it, and it is moved as a whole, for as long as that makes it worse.
pub fn worst(counting: Begin) -> (Got, u64, usize) {
    let begin = |first: usize| {
        let mut asks = [false; SECONDS];
        asks[first] = true;
        asks
    };
    let candidates = (0..60)
        .step_by(15)
        .map(|first| climb(counting, begin(first)));
    let best = candidates.max_by_key(|got| burst_of(got).0).unwrap();
    let (units, from) = burst_of(&best);
    (best, units, from)
}

fn climb(counting: Begin, mut asks: [bool; SECONDS]) -> Got {
    let mut best = got(counting, &asks);
    loop {
        let before = burst_of(&best).0;
        for second in 0..SECONDS {
            asks[second] = !asks[second];
            let changed = got(counting, &asks);
            if burst_of(&changed).0 > burst_of(&best).0 {
                best = changed;
            } else {
                asks[second] = !asks[second];
            }
        }
        for seconds in [1, SECONDS - 1] {
            let mut moved = asks;
            moved.rotate_right(seconds);
            let changed = got(counting, &moved);
            if burst_of(&changed).0 > burst_of(&best).0 {
                (asks, best) = (moved, changed);
            }
        }
        if burst_of(&best).0 == before {
            return best;
        }
    }
}

/// The worst schedules as a picture: each unit in its second, and the minute that gets the most.
pub fn picture() -> String {
    const ROW: usize = 110;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 740 {}\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        ROW * 4 + 10
    );
    for (row, (name, counting)) in countings().into_iter().enumerate() {
        let (got, units, from) = worst(counting);
        let axis = ROW * (row + 1);
        let _ = writeln!(
            svg,
            "<text x=\"10\" y=\"{}\">{name}: {units} units within a minute, of {LIMIT}</text>\n<rect x=\"{}\" y=\"{}\" width=\"240\" height=\"80\" fill=\"#f3d9d7\"/>",
            axis - 88,
            10 + from * 4,
            axis - 80
        );
        for (second, units) in got.iter().enumerate().filter(|(_, units)| **units > 0) {
            let height = (*units * 80).div_ceil(LIMIT);
            let _ = writeln!(
                svg,
                "<rect x=\"{}\" y=\"{}\" width=\"3\" height=\"{height}\" fill=\"#2563a8\"/>",
                10 + second * 4,
                axis as u64 - height
            );
        }
        let _ = writeln!(
            svg,
            "<line x1=\"10\" x2=\"730\" y1=\"{axis}\" y2=\"{axis}\" stroke=\"#777\"/>"
        );
        for minute in [0, 60, 120, 180].map(|second| second * 4 + 10) {
            let _ = writeln!(
                svg,
                "<line x1=\"{minute}\" x2=\"{minute}\" y1=\"{}\" y2=\"{axis}\" stroke=\"#bbb\" stroke-dasharray=\"2 3\"/>",
                axis - 80
            );
        }
    }
    svg + "</svg>\n"
}

fn table_of(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    table
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    match std::env::args().nth(1) {
        Some(url) => print_live(&url).await,
        None => print_simulated().await,
    }
}

async fn print_live(url: &str) {
    const WINDOW: Duration = Duration::from_secs(10);
    let mut table = table_of(&[
        &format!("{LIMIT} units in {} s", WINDOW.as_secs()),
        "let through",
        "most within any window",
    ]);
    for (name, granted) in live::live(url, WINDOW).await {
        let most = live::most_within(WINDOW, &granted);
        table.add_row([name.to_owned(), granted.len().to_string(), most.to_string()]);
    }
    println!("{table}");
}

async fn print_simulated() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = SqliteLedger::open(&directory.path().join("ledger.db")).unwrap();
    let mut table = table_of(&[
        &format!("{LIMIT} units a minute"),
        "at 11:59:59",
        "at 12:00:00",
        "within two seconds",
    ]);
    for (name, let_through) in [
        ("a fixed window", fixed_window()),
        ("ingest", sliding_window(&ledger).await),
    ] {
        let LetThrough { before, after } = let_through;
        table.add_row([
            name.to_owned(),
            before.to_string(),
            after.to_string(),
            (before + after).to_string(),
        ]);
    }
    println!("{table}\n");
    let mut table = table_of(&["counting", "the worst minute gets", "of its limit"]);
    for (name, counting) in countings() {
        let (_, units, _) = worst(counting);
        table.add_row([
            name.to_owned(),
            units.to_string(),
            format!("{} %", units * 100 / LIMIT),
        ]);
    }
    println!("{table}");
}
