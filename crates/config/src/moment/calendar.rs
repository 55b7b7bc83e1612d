//! Dates and times of the calendar: those of ISO 8601 and RFC 3339, and those of HTTP and mail.

use chrono::{Duration, NaiveDate, NaiveDateTime, NaiveTime};

use super::Instant;

/// The form of a date or a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    layout: &'static str,
    /// What precedes the fraction of the second; `None`: that is not written.
    point: Option<char>,
    zone: Zone,
}

/// The zone behind a time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Zone {
    /// As it is written, with a blank before it; empty for a time without a zone.
    text: String,
    /// In seconds.
    offset: i32,
}

const RFC_3339: &str = "%Y-%m-%dT%H:%M:%S";
const DATES: [&str; 3] = ["%Y-%m-%d", "%Y%m%d", "%Y/%m/%d"];
const TIMES: [&str; 12] = [
    RFC_3339,
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dt%H:%M:%S",
    "%Y-%m-%dT%H:%M",
    "%Y-%m-%d %H:%M",
    "%Y%m%dT%H%M%S",
    "%Y%m%d%H%M%S",
    "%Y/%m/%d %H:%M:%S",
    "%a, %d %b %Y %H:%M:%S",
    "%a, %-d %b %Y %H:%M:%S",
    "%d %b %Y %H:%M:%S",
    "%-d %b %Y %H:%M:%S",
];

/// Before it a sign is part of a date.
const FIRST_ZONE: usize = 11;

/// Reads a date or a time. It is of a layout only if that writes the very same text.
pub fn read(text: &str) -> Option<(Instant, Calendar)> {
    date(text).or_else(|| time(text))
}

fn date(text: &str) -> Option<(Instant, Calendar)> {
    DATES.into_iter().find_map(|layout| {
        let date = NaiveDate::parse_from_str(text, layout).ok()?;
        let is_same = date.format(layout).to_string() == text;
        let at = date.and_time(NaiveTime::MIN).and_utc();
        let form = Calendar {
            layout,
            point: None,
            zone: Zone::none(),
        };
        is_same.then(|| (Instant::new(i128::from(at.timestamp()), 0), form))
    })
}

fn time(text: &str) -> Option<(Instant, Calendar)> {
    let (rest, zone) = Zone::split(text);
    let point = rest.rfind(['.', ',']).filter(|at| *at > FIRST_ZONE);
    let (core, fraction) = rest.split_at(point.unwrap_or(rest.len()));
    let mut digits = fraction.chars();
    let (point, digits) = (digits.next(), digits.as_str());
    if point.is_some() && (digits.is_empty() || !is_number(digits)) {
        return None;
    }
    let mut layouts = TIMES
        .into_iter()
        .filter(|layout| point.is_none() || layout.ends_with("%S"));
    layouts.find_map(|layout| {
        let at = NaiveDateTime::parse_from_str(core, layout).ok()?;
        let is_same = at.format(layout).to_string() == core;
        let seconds = at.and_utc().timestamp() - i64::from(zone.offset);
        let instant = Instant {
            seconds,
            fraction: digits.to_owned(),
        };
        let zone = zone.clone();
        is_same.then_some((
            instant,
            Calendar {
                layout,
                point,
                zone,
            },
        ))
    })
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

impl Calendar {
    pub fn rfc_3339() -> Self {
        let text = "Z".to_owned();
        Self {
            layout: RFC_3339,
            point: None,
            zone: Zone { text, offset: 0 },
        }
    }

    /// The date or time, not after the instant.
    pub fn write(&self, instant: &Instant) -> String {
        let local = instant.utc() + Duration::seconds(i64::from(self.zone.offset));
        let mut text = local.format(self.layout).to_string();
        if let Some(point) = self.point {
            text.push(point);
            text.push_str(&instant.fraction);
        }
        text + &self.zone.text
    }

    pub fn words(&self) -> String {
        match self.zone.text.trim() {
            _ if DATES.contains(&self.layout) => "a date, at midnight in UTC".to_owned(),
            "" => "a time without a zone, taken as UTC".to_owned(),
            zone => format!("a time with the zone `{zone}`"),
        }
    }
}

impl Zone {
    const fn none() -> Self {
        Self {
            text: String::new(),
            offset: 0,
        }
    }

    /// A time, and the zone behind it.
    fn split(text: &str) -> (&str, Self) {
        let named = ["Z", "z", "UTC", "GMT", "UT"]
            .into_iter()
            .find_map(|name| Some((text.strip_suffix(name)?, 0)));
        let numeric = || {
            let at = text.rfind(['+', '-']).filter(|at| *at >= FIRST_ZONE)?;
            let (time, zone) = text.split_at(at);
            Some((time, offset(zone)?))
        };
        let Some((time, offset)) = named.or_else(numeric) else {
            return (text, Self::none());
        };
        let time = time.strip_suffix(' ').unwrap_or(time);
        let text = text.strip_prefix(time).unwrap_or_default().to_owned();
        (time, Self { text, offset })
    }
}

/// Reads `+02:00`, `+0200` or `+02`, in seconds.
fn offset(zone: &str) -> Option<i32> {
    let digits = zone.strip_prefix(['+', '-'])?;
    let (hours, minutes) = digits.split_at_checked(2)?;
    let minutes = match minutes.strip_prefix(':').unwrap_or(minutes) {
        "" if minutes.is_empty() => "00",
        minutes => minutes,
    };
    if hours.len() != 2 || minutes.len() != 2 || !is_number(hours) || !is_number(minutes) {
        return None;
    }
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = (hours * 60 + minutes) * 60;
    let is_offset = hours < 24 && minutes < 60;
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    is_offset.then_some(sign * seconds)
}
