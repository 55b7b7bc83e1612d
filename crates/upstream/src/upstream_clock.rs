//! The upstream's clock beside this machine's: by the `Date` of its responses.

use std::time::Duration;

use ingest_quota::Timestamp;

/// A `Date` leaves out the fraction of its second.
const PRECISION: Duration = Duration::from_secs(1);
/// The difference from which on it is a note.
const NOTED: Duration = Duration::from_secs(60);

/// What a response shows of the upstream's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UpstreamClock {
    /// It agrees with this machine's, as far as can be known.
    #[default]
    Agrees,
    /// It is behind by this at most.
    Behind(Duration),
    /// It is ahead by this at least.
    Ahead(Duration),
}

impl UpstreamClock {
    /// Compares the `Date` of a response with when its request was sent and when the response was read.
    pub fn read(date: Option<Timestamp>, sent: Timestamp, received: Timestamp) -> Self {
        match date {
            Some(date) if date + PRECISION < sent => Self::Behind(received.since(date)),
            Some(date) if date > received => Self::Ahead(date.since(received)),
            Some(_) | None => Self::Agrees,
        }
    }

    /// Returns an instant of this machine's clock by the upstream's: no later than it is there.
    #[must_use]
    pub fn theirs(self, at: Timestamp) -> Timestamp {
        match self {
            Self::Behind(by) => at - by,
            Self::Agrees | Self::Ahead(_) => at,
        }
    }

    /// Returns the note on a difference above a minute.
    #[must_use]
    pub fn note(self, upstream: &str) -> Option<String> {
        let (by, way) = match self {
            Self::Agrees => return None,
            Self::Behind(by) => (by, "behind"),
            Self::Ahead(by) => (by, "ahead of"),
        };
        // By the minute: each response shows another second.
        let minutes = Duration::from_secs(by.as_secs() / 60 * 60);
        (by > NOTED).then(|| {
            format!(
                "the clock of {upstream} is {} {way} this machine's, by the `Date` of its responses; check that this machine's clock is \
                right",
                humantime::format_duration(minutes)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_clock_differs_only_where_the_second_of_the_date_cannot_explain_it() {
        let read = |date| UpstreamClock::read(Some(at(date)), at(1_000), at(1_002));
        for date in [999, 1_000, 1_001, 1_002] {
            assert_eq!(read(date), UpstreamClock::Agrees, "{date}");
        }
        assert_eq!(read(400), UpstreamClock::Behind(Duration::from_secs(602)));
        assert_eq!(read(1_602), UpstreamClock::Ahead(Duration::from_secs(600)));
        assert_eq!(
            UpstreamClock::read(None, at(0), at(9)),
            UpstreamClock::Agrees
        );
        assert_eq!(
            read(400).theirs(at(1_000)),
            at(398),
            "not after its own time at that instant"
        );
    }
}
