use std::fmt;
use std::time::Duration;

use serde::Serialize;
use strum::VariantArray;

use super::{Cost, LimitName, Timestamp, Units};

/// The name of one charge. It makes the charge safe to repeat: a repeated id is granted again and counted once (L11).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ChargeId(String);

/// Begins the ids that this program makes and that name what no user charged. Users' ids have only visible characters.
const OWN: char = '\u{1}';

impl ChargeId {
    /// An id with this text, as a store has it.
    #[must_use]
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// Whether it ends as [`Self::again`] makes ids end.
    #[must_use]
    pub fn is_made_again(&self) -> bool {
        self.0.rsplit_once('~').is_some_and(|(_, times)| {
            !times.is_empty() && times.bytes().all(|digit| digit.is_ascii_digit())
        })
    }

    /// An id for what this program charges by itself. It equals none that a user chose.
    #[must_use]
    pub fn own(text: impl fmt::Display) -> Self {
        Self(format!("{OWN}{text}"))
    }

    /// The id of the next charge under this one, after it was taken back `times` times (L12).
    #[must_use]
    pub fn again(&self, times: u32) -> Self {
        Self(format!("{self}~{times}"))
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChargeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a ledger decides on a charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Recorded; the request may be sent.
    Granted(Grant),
    /// It does not fit now. Nothing was recorded.
    Rejected(Rejection),
    /// It can never fit: the units, with what must stay free, exceed the limit. Nothing was recorded.
    Never {
        /// The limit that cannot hold it.
        limit: LimitName,
        /// The most that one charge can take of it, in units.
        most: Units,
    },
    /// The id is that of a charge that was settled to nothing: it names no charge any more (L12). Nothing was
    /// recorded.
    TakenBack,
}

/// A charge that was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grant {
    /// What is left of each limit that was charged, in units, after the charge.
    pub remaining: std::collections::BTreeMap<LimitName, Units>,
    /// Whether the id was charged before: nothing more was charged.
    pub repeated: bool,
    /// What a repeated id was charged; `None` when that is the requested cost.
    pub held: Option<Cost>,
    /// Limits whose closing has run out without a known reset, and that this charge probes: to be reopened when the
    /// upstream accepts it. With the interval of the last closing.
    pub probing: std::collections::BTreeMap<LimitName, Duration>,
}

/// A charge that does not fit now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// The limit that fits last.
    pub limit: LimitName,
    /// What counts against it now, in units.
    pub used: Units,
    /// What it would still grant now, in units, to a charge that leaves nothing; zero while it is closed.
    pub remaining: Units,
    /// How long until this charge fits if nothing else is charged.
    pub retry_after: Duration,
    /// The instant at which this charge fits if nothing else is charged.
    pub retry_at: Timestamp,
    /// Until when the limit is closed; `None` while it is open.
    pub closed_until: Option<Timestamp>,
}

/// Where a ledger has a charge from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, VariantArray)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// It was charged, by a job or by hand.
    #[default]
    Charged,
    /// The upstream reported its units as used, which the ledger had not counted.
    Reported,
    /// It was recorded elsewhere: in the ledger that the configuration named before, in the journal, or with a pass.
    CarriedOver,
}

impl Origin {
    /// Returns it as machines read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Charged => "charged",
            Self::Reported => "reported",
            Self::CarriedOver => "carried_over",
        }
    }

    /// Returns the origin that machines read so; `None` when there is none.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        Self::VARIANTS
            .iter()
            .copied()
            .find(|origin| origin.as_str() == text)
    }

    /// The job of a charge, or in words what stands in its place.
    #[must_use]
    pub const fn whose(self, job: Option<&str>) -> &str {
        match (job, self) {
            (Some(job), _) => job,
            (None, Self::Charged) => "by hand",
            (None, Self::Reported) => "reported",
            (None, Self::CarriedOver) => "carried over",
        }
    }
}

/// A charge that a ledger absorbs, with the time at which it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it is from.
    pub origin: Origin,
    /// The id of the charge.
    pub id: ChargeId,
    /// When it was made.
    pub at: Timestamp,
    /// What it took.
    pub cost: Cost,
}

/// What a lost ledger is known to have held: at `at` it said `used`. Until `at` leaves the window, used is at least that
/// plus what was charged later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor {
    /// The limit that it holds for.
    pub limit: LimitName,
    /// When the ledger said so.
    pub at: Timestamp,
    /// What it said, in units.
    pub used: Units,
}

/// For how long a limit is closed that the upstream reported exhausted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// Until its reset.
    Until(Timestamp),
    /// The reset is unknown: for an hour, then one charge, a probe, is granted and closes the limit again for a minute.
    /// Each closing that follows a probe lasts twice as long as the last one, up to a day.
    Probing,
    /// A closing without a known reset as another store holds it, which is copied here.
    Copied {
        /// When the next probe is granted.
        until: Timestamp,
        /// How long the last closing lasted.
        interval: Duration,
    },
}

impl Closing {
    /// How long the first closing without a known reset lasts, until a probe is granted.
    pub const FIRST_INTERVAL: Duration = Duration::from_secs(60 * 60);
    /// The most that a closing without a known reset lasts, however many probes were declined.
    pub const LONGEST_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
    /// For how long a granted probe closes the limit, until the upstream has answered it.
    pub const PROBE_TAKES: Duration = Duration::from_secs(60);
}

/// What a call does when the ledger cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// Goes ahead within the machine's unmetered allowance.
    Allow,
    /// Is refused.
    Refuse,
}
