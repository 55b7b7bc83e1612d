//! What the scripts are given: `lua/common.lua` says in which order.

use std::time::Duration;

use crate::ledger::Seen;
use crate::quota::{Account, Cost, Entry, Floor, Limit, Timestamp, Units, Window};

/// The largest number that the scripts take: they calculate in doubles.
const LARGEST: u64 = 1 << 52;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What every script is given first.
pub(super) struct Terms<'a> {
    pub(super) account: &'a Account,
    pub(super) now: Timestamp,
    pub(super) max_skew: Option<Duration>,
    pub(super) told: Option<Timestamp>,
    pub(super) seen: Option<&'a Seen>,
    pub(super) fresh_epoch: String,
    /// How far ahead the days of calendar limits are needed.
    pub(super) ahead: Duration,
}

impl Terms<'_> {
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            self.now.micros().to_string(),
            self.max_skew.map(micros).unwrap_or_default(),
            self.told.map(|at| at.micros().to_string()).unwrap_or_default(),
        ];
        arguments.extend(seen(self.seen));
        arguments.push(self.fresh_epoch.clone());
        arguments.push(micros(self.account.longest_window()));
        arguments.push(self.account.limits.len().to_string());
        for (name, limit) in &self.account.limits {
            arguments.extend(terms_of(name, limit));
            arguments.extend(days(limit.window(), self.now, self.ahead));
        }
        arguments
    }
}

fn seen(seen: Option<&Seen>) -> [String; 3] {
    match seen {
        None => ["-".to_owned(), "0".to_owned(), String::new()],
        Some(seen) => [
            seen.epoch.clone(),
            seen.sequence.to_string(),
            seen.newest.as_ref().map(|id| id.as_str().to_owned()).unwrap_or_default(),
        ],
    }
}

fn terms_of(name: &str, limit: &Limit) -> [String; 5] {
    let window = limit.window();
    let slide = window.sliding().map(micros).unwrap_or_default();
    [name.to_owned(), units(limit.enforced()), slide, micros(window.grace()), rule(limit)]
}

/// A limit in words, by which two configurations that disagree are told apart.
fn rule(limit: &Limit) -> String {
    let window = limit.window();
    let slides = window.sliding().map(|span| format!(" in {}", humantime::format_duration(span)));
    let resets = window.resets().map(|zone| format!(" a day of {zone}"));
    format!("{} less {}{}{}", limit.quota(), limit.headroom(), slides.unwrap_or_default(), resets.unwrap_or_default())
}

/// The beginnings of days from some before `now` to some after it, their number first.
fn days(window: &Window, now: Timestamp, ahead: Duration) -> Vec<String> {
    let end = now.after(ahead);
    let first = window.last_reset(now.before(3 * DAY));
    let starts = std::iter::successors(first, |day| window.next_reset(*day).filter(|next| next > day && *day < end));
    let starts: Vec<String> = starts.map(|day| day.micros().to_string()).collect();
    std::iter::once(starts.len().to_string()).chain(starts).collect()
}

/// What a cost takes of each limit of the account, in their order.
pub(super) fn components(account: &Account, cost: &Cost) -> impl Iterator<Item = String> {
    account.limits.keys().map(|name| units(cost.of(name)))
}

/// What a charge takes and leaves, limit after limit.
pub(super) fn charge(account: &Account, cost: &Cost, leave: &Cost) -> impl Iterator<Item = String> {
    account.limits.keys().flat_map(|name| [units(cost.of(name)), units(leave.of(name))])
}

pub(super) fn entries(account: &Account, entries: &[Entry]) -> Vec<String> {
    let mut arguments = vec![entries.len().to_string()];
    for entry in entries {
        arguments.push(entry.id.as_str().to_owned());
        arguments.push(entry.at.micros().to_string());
        arguments.extend(components(account, &entry.cost));
    }
    arguments
}

pub(super) fn floors(floors: &[Floor]) -> Vec<String> {
    let mut arguments = vec![floors.len().to_string()];
    for floor in floors {
        arguments.extend([floor.limit.clone(), floor.at.micros().to_string(), units(floor.used)]);
    }
    arguments
}

pub(super) fn units(units: Units) -> String {
    units.get().min(LARGEST).to_string()
}

fn micros(span: Duration) -> String {
    span.as_micros().to_string()
}
