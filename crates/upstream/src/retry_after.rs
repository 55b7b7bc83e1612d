//! Reads the times for which upstreams ask clients to wait.

use std::time::Duration;

use chrono::{DateTime, Utc};

use ingest_quota::{Period, Timestamp};

/// Reads a `Retry-After`: seconds, or an HTTP date, which is compared with `now`. At most [`Period::longest`], since no
/// quota lasts longer; `None` if it is neither.
#[must_use]
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    seconds(value)
        .or_else(|| Some(http_date(value)?.since(now)))
        .map(|wait| wait.min(Period::longest()))
}

/// Reads the time of a reset; `None` if it has passed, or is no time.
pub fn reset(value: &str, now: Timestamp) -> Option<Timestamp> {
    until_reset(value, now)
        .filter(|wait| !wait.is_zero())
        .map(|wait| now + wait)
}

/// Reads how long it is until a reset: from RFC 3339, also without seconds, an HTTP date, seconds since the Unix epoch
/// (milliseconds if that would be after the year 5000), or, if that would be before 2001, seconds from now. Zero if it has
/// passed; at most [`Period::longest`]. `None` if it is no time.
pub fn until_reset(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    let wait = match seconds(value) {
        Some(number) => wait_for(number, now),
        None => Timestamp::parse(value)
            .or_else(|| minutes(value))
            .or_else(|| http_date(value))?
            .since(now),
    };
    Some(wait.min(Period::longest()))
}

fn wait_for(number: Duration, now: Timestamp) -> Duration {
    const YEAR_2001: Duration = Duration::from_secs(1_000_000_000);
    const YEAR_5000: Duration = Duration::from_secs(95_617_584_000);
    let epoch = Timestamp::from_micros(0);
    match number {
        number if number < YEAR_2001 => number,
        number if number < YEAR_5000 => (epoch + number).since(now),
        number => (epoch + number / 1000).since(now),
    }
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

fn http_date(value: &str) -> Option<Timestamp> {
    DateTime::parse_from_rfc2822(value)
        .ok()
        .map(|at| at.with_timezone(&Utc).into())
}
