//! Times as upstreams write them, in the years 0001 to 9999.

use chrono::{DateTime, NaiveDateTime};
use ingest_config::{Moment, TimeFormat};
use ingest_quota::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;

const DAY: i64 = 86_400;
const YEARS: std::ops::Range<i64> = -62_135_596_800 + DAY..253_402_300_800 - DAY;

/// Each format, and of how many seconds its texts are multiples. A day of two digits does not tell whether one digit would do.
const KNOWN: [(&str, i64); 13] = [
    ("%Y-%m-%dT%H:%M:%S", 1),
    ("%Y-%m-%d %H:%M:%S", 1),
    ("%Y-%m-%dt%H:%M:%S", 1),
    ("%Y-%m-%dT%H:%M", 60),
    ("%Y-%m-%d %H:%M", 60),
    ("%Y-%m-%d", DAY),
    ("%Y%m%dT%H%M%S", 1),
    ("%Y%m%d%H%M%S", 1),
    ("%Y%m%d", DAY),
    ("%Y/%m/%d %H:%M:%S", 1),
    ("%Y/%m/%d", DAY),
    ("%a, %d %b %Y %H:%M:%S", 1),
    ("%d %b %Y %H:%M:%S", 1),
];
const ZONES: [(&str, i64); 8] = [
    ("", 0),
    ("Z", 0),
    (" GMT", 0),
    ("+00", 0),
    ("+0200", 7_200),
    ("-03:30", -12_600),
    (" +0545", 20_700),
    ("+14:00", 50_400),
];
/// The same in microseconds, for formats that a file names.
const NAMED: [(&str, i64); 9] = [
    ("%d.%m.%Y", DAY * 1_000_000),
    ("%Y%m%d%H", 3_600_000_000),
    ("%d/%b/%Y:%H:%M:%S %z", 1_000_000),
    ("%b %d, %Y %I:%M:%S %p", 1_000_000),
    ("%Y-%m-%d %H:%M:%S%.3f", 1_000),
    ("%s", 1_000_000),
    ("%s%3f", 1_000),
    ("%s%.6f", 1),
    ("%s%9f", 1),
];

fn local(seconds: i64) -> NaiveDateTime {
    DateTime::from_timestamp(seconds, 0).unwrap().naive_utc()
}

proptest! {
    #[test]
    fn a_time_is_written_as_it_was_read_and_a_shift_changes_nothing_else(
        seconds in YEARS,
        later in YEARS,
        (format, unit) in select(&KNOWN[..]),
        fraction in "|[.,][0-9]{1,12}",
        (zone, offset) in select(&ZONES[..]),
    ) {
        let [seconds, later] = [seconds, later].map(|at| at - at.rem_euclid(unit));
        let fraction = if unit == 1 { fraction.as_str() } else { "" };
        let text = |at: i64| format!("{}{fraction}{zone}", local(at).format(format));
        let moment = Moment::parse(&text(seconds)).unwrap();
        prop_assert_eq!(moment.text(), text(seconds));
        let micros: i64 = format!("{:0<6.6}", fraction.get(1..).unwrap_or_default()).parse().unwrap();
        prop_assert_eq!(moment.time().micros(), (seconds - offset) * 1_000_000 + micros);
        prop_assert_eq!(moment.shifted(later - seconds).text(), text(later));
    }

    #[test]
    fn a_time_of_a_named_format_is_written_as_it_was_read(
        seconds in YEARS,
        micros in 0..1_000_000_i64,
        (format, unit) in select(&NAMED[..]),
    ) {
        let format = TimeFormat::parse(format).unwrap();
        prop_assert!(format.can_be_read());
        let micros = seconds * 1_000_000 + micros;
        let text = Moment::at(Timestamp::from_micros(micros)).written(&format);
        let moment = Moment::by(&format, &text).unwrap();
        prop_assert_eq!(moment.time().micros(), micros - micros.rem_euclid(unit));
        prop_assert_eq!(moment.shifted(DAY).shifted(-DAY).text(), text);
    }

    #[test]
    fn a_number_is_written_as_it_was_read(
        count in prop_oneof![any::<i64>(), -1_000_000_000_000_i64..1_000_000_000_000],
        fraction in "|[.][0-9]{1,9}",
        days in -100..100_i64,
    ) {
        let text = format!("{count}{fraction}");
        if let Some(moment) = Moment::parse(&text) {
            prop_assert_eq!(moment.text(), text.clone());
            prop_assert_eq!(moment.shifted(days * DAY).shifted(-days * DAY).text(), text);
        }
    }
}
