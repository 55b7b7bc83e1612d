//! The sandbox's own count of the quota, as an upstream keeps it: every request that arrived counts, in windows of exactly
//! the configured length. It shares no code with the ledger, so that the two can be compared.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{Datelike, Offset};
use serde::Serialize;

use ingest_config::Config;
use ingest_quota::{Cost, LimitName, Period, Timestamp, Units, Window};

/// The use of one limit of an account, by the sandbox's own count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counted {
    pub account: String,
    pub limit: LimitName,
    /// The granted units per window.
    pub quota: Units,
    /// The units that count now. A refused request counts too.
    pub used: Units,
    /// The most units that any window ever contained.
    pub most_in_window: Units,
}

/// A limit that a request did not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exhausted {
    pub limit: LimitName,
    pub quota: u64,
    /// When the same request would fit.
    pub fits_at: Timestamp,
    pub fits_in: Duration,
    pub pace: Pace,
}

/// What kind of quota ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// A budget for an hour or longer.
    Budget,
    Rate,
}

/// The remaining units of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub limit: LimitName,
    pub quota: u64,
    pub used: u64,
    pub resets_at: Timestamp,
}

impl Left {
    /// The headers in which many upstreams report it.
    pub fn headers(&self) -> [(&'static str, String); 4] {
        [
            ("x-ratelimit-limit", self.quota.to_string()),
            ("x-ratelimit-used", self.used.to_string()),
            (
                "x-ratelimit-remaining",
                self.quota.saturating_sub(self.used).to_string(),
            ),
            (
                "x-ratelimit-reset",
                self.resets_at
                    .micros()
                    .div_euclid(1_000_000)
                    // Rounded up to a full second, so that nobody comes back too early.
                    .saturating_add(1)
                    .to_string(),
            ),
        ]
    }
}

/// All limits of all accounts.
#[derive(Debug)]
pub struct Counts {
    limits: BTreeMap<(String, LimitName), Count>,
}

impl Counts {
    /// Nothing is counted yet. `quota` replaces every configured quota.
    pub fn new(config: &Config, quota: Option<Units>) -> Self {
        let accounts = config
            .credentials
            .values()
            .map(|credential| &credential.account);
        let limits = accounts.flat_map(|account| {
            account.limits.iter().map(move |(name, limit)| {
                let count = Count::new(quota.unwrap_or(limit.quota()).get(), *limit.window());
                ((account.name.clone(), name.clone()), count)
            })
        });
        Self {
            limits: limits.collect(),
        }
    }

    /// Counts a request that arrived; returns the limit that it does not fit, the one that it fits last.
    pub fn count(&mut self, account: &str, cost: &Cost, now: Timestamp) -> Option<Exhausted> {
        let mut exhausted: Option<Exhausted> = None;
        for (limit, units) in cost.iter() {
            let Some(count) = self.limits.get_mut(&(account.to_owned(), limit.clone())) else {
                continue;
            };
            if let Some(fits_at) = count.add(units.get(), now) {
                let fits_in = fits_at.since(now);
                let found = Exhausted {
                    limit: limit.clone(),
                    quota: count.quota,
                    fits_at,
                    fits_in,
                    pace: count.pace(),
                };
                exhausted = exhausted
                    .filter(|other| other.fits_at >= fits_at)
                    .or(Some(found));
            }
        }
        exhausted
    }

    /// Releases a request that was counted at `now`: its refusal costs nothing.
    pub fn take_back(&mut self, account: &str, cost: &Cost, now: Timestamp) {
        for (limit, units) in cost.iter() {
            if let Some(count) = self.limits.get_mut(&(account.to_owned(), limit.clone())) {
                count.take_back(units.get(), now);
            }
        }
    }

    /// The charged limit with the fewest remaining units.
    pub fn left(&self, account: &str, cost: &Cost, now: Timestamp) -> Option<Left> {
        let left = |limit: &LimitName| {
            let count = self.limits.get(&(account.to_owned(), limit.clone()))?;
            Some(count.left(limit.clone(), now))
        };
        cost.limits()
            .filter_map(left)
            .min_by_key(|left| left.quota.saturating_sub(left.used))
    }

    pub fn usage(&self, now: Timestamp) -> Vec<Counted> {
        let limits = self.limits.iter();
        limits
            .map(|((account, limit), count)| count.counted(account.clone(), limit.clone(), now))
            .collect()
    }
}

#[derive(Debug)]
struct Count {
    quota: u64,
    window: Window,
    entries: Vec<CountedUnits>,
    most: u64,
}

#[derive(Debug)]
struct CountedUnits {
    at: Timestamp,
    /// The calendar period in which it counts.
    period: Option<i64>,
    units: u64,
}

impl Count {
    const fn new(quota: u64, window: Window) -> Self {
        Self {
            quota,
            window,
            entries: Vec::new(),
            most: 0,
        }
    }

    /// Counts units; returns when they would fit, if they do not.
    fn add(&mut self, units: u64, now: Timestamp) -> Option<Timestamp> {
        // Before the request is added, which would not fit beside itself.
        let fits = self.fits_at(units, now) <= now;
        // Entries stay in order even when the clock is set back.
        let at = self.entries.last().map_or(now, |last| last.at.max(now));
        self.entries.push(CountedUnits {
            at,
            period: self.period(at),
            units,
        });
        self.most = self.most.max(self.used(at));
        // The refused request counts too.
        (!fits).then(|| self.fits_at(units, now))
    }

    /// Releases units, and what they added to the most that a window contained.
    fn take_back(&mut self, units: u64, now: Timestamp) {
        let is_it = |entry: &CountedUnits| entry.units == units && entry.at >= now;
        let Some(place) = self.entries.iter().rposition(is_it) else {
            return;
        };
        self.entries.remove(place);
        // Counted again from the beginning: the most of a window is not known without the request.
        let mut earlier = Self::new(self.quota, self.window);
        for entry in &self.entries {
            earlier.add(entry.units, entry.at);
        }
        self.most = earlier.most;
    }

    fn used(&self, now: Timestamp) -> u64 {
        self.slid(now).max(self.in_period(now))
    }

    /// The units in the sliding window that ends now.
    fn slid(&self, now: Timestamp) -> u64 {
        let span = self.window.sliding();
        sum(span.into_iter().flat_map(|span| self.sliding(now, span)))
    }

    /// What counts in a sliding window of this length that ends now, the newest first.
    fn sliding(&self, now: Timestamp, span: Duration) -> impl Iterator<Item = &CountedUnits> {
        let newest = self.entries.iter().rev();
        newest.take_while(move |entry| entry.at + span > now)
    }

    /// The units in the upstream's calendar period.
    fn in_period(&self, now: Timestamp) -> u64 {
        let Some(period) = self.period(now) else {
            return 0;
        };
        sum(self
            .entries
            .iter()
            .rev()
            // A clock that was set back has entries of later periods: they count too.
            .take_while(|entry| entry.period >= Some(period)))
    }

    /// The number of the calendar period that contains `at`. Counted here and not by `quota`, which this count checks.
    fn period(&self, at: Timestamp) -> Option<i64> {
        let calendar = self.window.resets()?;
        let local = at.to_utc().with_timezone(&calendar.zone());
        let date = local.date_naive();
        let days = i64::from(date.num_days_from_ce());
        Some(match calendar.period() {
            Period::Hour => {
                let offset = i64::from(local.offset().fix().local_minus_utc());
                (local.timestamp() + offset % 3600).div_euclid(3600)
            }
            Period::Day => days,
            Period::Week => days - i64::from(date.weekday().num_days_from_monday()),
            Period::Month => i64::from(date.year()) * 12 + i64::from(date.month0()),
        })
    }

    /// When `units` fit.
    fn fits_at(&self, units: u64, now: Timestamp) -> Timestamp {
        self.slides_free_at(units, now)
            .max(self.resets_free_at(units, now))
    }

    fn slides_free_at(&self, units: u64, now: Timestamp) -> Timestamp {
        let Some(span) = self.window.sliding() else {
            return now;
        };
        let mut over = self
            .slid(now)
            .saturating_add(units)
            .saturating_sub(self.quota);
        if over == 0 {
            return now;
        }
        for entry in self.entries.iter().filter(|entry| entry.at + span > now) {
            over = over.saturating_sub(entry.units);
            if over == 0 {
                return entry.at + span;
            }
        }
        now + span
    }

    fn resets_free_at(&self, units: u64, now: Timestamp) -> Timestamp {
        let over = self.in_period(now).saturating_add(units) > self.quota;
        self.window.next_reset(now).filter(|_| over).unwrap_or(now)
    }

    fn left(&self, limit: LimitName, now: Timestamp) -> Left {
        let oldest = self.window.sliding().and_then(|span| {
            let oldest = self.sliding(now, span).last()?;
            Some(oldest.at + span)
        });
        let resets_at = self.window.next_reset(now).or(oldest).unwrap_or(now);
        Left {
            limit,
            quota: self.quota,
            used: self.used(now),
            resets_at,
        }
    }

    fn pace(&self) -> Pace {
        const HOUR: Duration = Duration::from_secs(60 * 60);
        let short =
            self.window.resets().is_none() && self.window.sliding().is_some_and(|span| span < HOUR);
        if short { Pace::Rate } else { Pace::Budget }
    }

    fn counted(&self, account: String, limit: LimitName, now: Timestamp) -> Counted {
        let (quota, used) = (Units::new(self.quota), Units::new(self.used(now)));
        Counted {
            account,
            limit,
            quota,
            used,
            most_in_window: Units::new(self.most),
        }
    }
}

fn sum<'a>(entries: impl Iterator<Item = &'a CountedUnits>) -> u64 {
    entries.fold(0, |sum, entry| sum.saturating_add(entry.units))
}
