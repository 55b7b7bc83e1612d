//! Reads the times for which upstreams ask clients to wait.

use std::time::Duration;

use chrono::{DateTime, Utc};

use ingest_quota::{Period, Timestamp};

/// One day.
pub const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a time may have passed that still means "now": a longer one says nothing about the future.
const JUST_PASSED: Duration = Duration::from_secs(60);

/// How long an upstream requests to wait, and where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// By its `Retry-After`.
    RetryAfter(Duration),
    /// Nowhere: the error rule has a `pause`.
    Pause(Duration),
    /// At the place that the error rule names; zero where the time there has just passed.
    Until(Duration),
}

impl Wait {
    /// Returns how long it is.
    pub const fn length(self) -> Duration {
        match self {
            Self::RetryAfter(wait) | Self::Pause(wait) | Self::Until(wait) => wait,
        }
    }

    /// Returns for how long a limit with this window is closed. A `Retry-After` that is longer than the window and a day is a mistake
    /// of the upstream, since all units are back by then; what an error rule says holds.
    #[must_use]
    pub fn closes(self, window: Duration) -> Duration {
        match self {
            Self::RetryAfter(wait) => wait.min(window.saturating_add(DAY)),
            Self::Pause(wait) | Self::Until(wait) => wait,
        }
    }
}

/// Reads a `Retry-After`: seconds from now, a time since 1970 in seconds or parts of them, an HTTP date or RFC 3339; a time is compared
/// with `now`, the upstream's. Of several numbers, which an upstream and its proxies wrote, the latest holds. Zero if it has passed; at most
/// [`Period::longest`]. `None` if it is nothing of these.
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let numbers = value.split(',').filter_map(|one| seconds(one.trim()));
    let latest = || numbers.map(|number| instant_of(number, now)).max();
    let at = instant(value, now).or_else(latest)?;
    Some(at_most_the_longest(at.since(now)))
}

/// Reads how long it is until a reset: from RFC 3339, also without seconds, an HTTP date, seconds since the Unix epoch
/// (milliseconds, microseconds or nanoseconds if that would be after the year 5000), or, if that would be before 2001, seconds from
/// now. `now`: by the upstream's clock.
pub fn reset(value: &str, now: Timestamp) -> Reset {
    match instant(value, now) {
        None => Reset::Unreadable,
        Some(at) if now.since(at) > JUST_PASSED => Reset::Passed,
        Some(at) => Reset::In(at_most_the_longest(at.since(now))),
    }
}

/// What a text says about a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// It is so far ahead: zero if it has just passed, and at most [`Period::longest`].
    In(Duration),
    /// It has passed long ago, so that the next one is unknown.
    Passed,
    /// It is no time.
    Unreadable,
}

impl Reset {
    /// Returns how far ahead it is; `None` where that is unknown.
    #[must_use]
    pub const fn wait(self) -> Option<Duration> {
        match self {
            Self::In(wait) => Some(wait),
            Self::Passed | Self::Unreadable => None,
        }
    }
}

fn at_most_the_longest(wait: Duration) -> Duration {
    wait.min(Period::longest())
}

/// Reads a time in one of the forms that [`reset`] names.
fn instant(value: &str, now: Timestamp) -> Option<Timestamp> {
    let value = value.trim();
    match seconds(value) {
        Some(number) => Some(instant_of(number, now)),
        None => Timestamp::parse(value)
            .or_else(|| minutes(value))
            .or_else(|| http_date(value))
            .or_else(|| Some(now + humantime::parse_duration(value).ok()?)),
    }
}

fn instant_of(number: Duration, now: Timestamp) -> Timestamp {
    const YEAR_2001: Duration = Duration::from_secs(1_000_000_000);
    const YEAR_5000: Duration = Duration::from_secs(95_617_584_000);
    if number < YEAR_2001 {
        return now + number;
    }
    // Seconds, milliseconds, microseconds, nanoseconds: a time in the wrong one of them is centuries away.
    let units = [1, 1_000, 1_000_000, 1_000_000_000];
    let since_1970 = units.into_iter().map(|unit| number / unit);
    let near = since_1970.clone().find(|since| *since < YEAR_5000);
    Timestamp::from_micros(0) + near.unwrap_or(number)
}

/// A number of seconds; a fraction is rounded up, and a number that is too large saturates.
fn seconds(value: &str) -> Option<Duration> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    if [whole, fraction]
        .iter()
        .any(|digits| digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()))
    {
        return None;
    }
    let more = u64::from(fraction.bytes().any(|digit| digit != b'0'));
    Some(Duration::from_secs(
        whole.parse().unwrap_or(u64::MAX).saturating_add(more),
    ))
}

/// Reads RFC 3339 without seconds, as Atlassian writes it: `2026-11-23T08:04Z`.
fn minutes(value: &str) -> Option<Timestamp> {
    DateTime::parse_from_str(value, "%Y-%m-%dT%H:%M%#z")
        .ok()
        .map(|at| at.with_timezone(&Utc).into())
}

/// Reads a date as HTTP writes it, also in its obsolete forms.
pub fn http_date(value: &str) -> Option<Timestamp> {
    let of_mail = || DateTime::parse_from_rfc2822(value).ok();
    let at = httpdate::parse_http_date(value).map(DateTime::<Utc>::from);
    let at = at.ok().or_else(|| Some(of_mail()?.with_timezone(&Utc)));
    at.map(Timestamp::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-06-15T12:00:00Z
    const NOW: Timestamp = Timestamp::from_micros(1_781_524_800_000_000);

    fn read(value: &str) -> Reset {
        reset(value, NOW)
    }

    #[test]
    fn a_reset_is_read_by_its_size() {
        let ninety = Reset::In(Duration::from_secs(90));
        for value in [
            "1781524890",
            "1781524890000",
            "1781524890000000",
            "1781524890000000000",
            "90",
            "89.2",
            "90s",
            "1m30s",
        ] {
            assert_eq!(read(value), ninety, "{value}");
        }
        for value in [
            "2026-06-15T12:01:30Z",
            "Mon, 15 Jun 2026 12:01:30 GMT",
            "Monday, 15-Jun-26 12:01:30 GMT",
            "Mon Jun 15 12:01:30 2026",
        ] {
            assert_eq!(read(value), ninety, "{value}");
        }
    }

    #[test]
    fn of_several_waits_the_longest_holds() {
        let ninety = Some(Duration::from_secs(90));
        for value in [
            "90",
            "90, 90",
            "30,90",
            "Mon, 15 Jun 2026 12:01:30 GMT",
            "90, soon",
        ] {
            assert_eq!(retry_after(value, NOW), ninety, "{value}");
        }
        assert_eq!(retry_after("soon, later", NOW), None);
    }

    #[test]
    fn a_reset_that_has_just_passed_is_now_and_an_older_one_says_nothing() {
        assert_eq!(read("1781524795"), Reset::In(Duration::ZERO));
        assert_eq!(read("1781524795000000"), Reset::In(Duration::ZERO));
        assert_eq!(read("1781521200"), Reset::Passed);
        assert_eq!(read("soon"), Reset::Unreadable);
    }
}
