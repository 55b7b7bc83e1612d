//! Figures as a table.

use std::time::Duration;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

/// How much is measured.
pub(crate) struct Plan {
    /// Charges in the window of SQLite.
    pub(crate) fills: &'static [u32],
    /// Units in the window of Redis.
    pub(crate) units: &'static [u32],
    /// Charges of 1 in Redis, each of which expires another.
    pub(crate) expiring: &'static [u32],
    /// Charges of 1 in Redis whose bytes are measured.
    pub(crate) weighed: &'static [u32],
    /// The scenarios take turns, so that whatever else the machine does slows all of them alike.
    pub(crate) sqlite_turns: usize,
    /// Charges in a row, as a run makes them: the first of them find cold caches.
    pub(crate) sqlite_burst: usize,
    /// As with SQLite. The first turn warms up.
    pub(crate) redis_turns: usize,
    pub(crate) redis_burst: usize,
    /// Charges in the window whose memory is measured, where each counts by itself.
    pub(crate) counted_exactly: u32,
    /// At the rate of 10,000,000 a day: more than ids are remembered for, where charges count in parts.
    pub(crate) counted_in_buckets: u32,
    pub(crate) counting_turns: usize,
    /// The number of limits of an account.
    pub(crate) limits: &'static [usize],
}

/// What `cargo bench` measures.
pub(crate) const FULL: Plan = Plan {
    fills: &[0, 1_000, 9_000, 100_000],
    units: &[0, 1_000, 10_000, 100_000],
    expiring: &[1_000, 10_000],
    weighed: &[8, 130, 1_000, 10_000, 100_000],
    sqlite_turns: 60,
    sqlite_burst: 50,
    redis_turns: 21,
    redis_burst: 150,
    counted_exactly: 1_000_000,
    counted_in_buckets: 300_000,
    counting_turns: 40,
    limits: &[1, 2, 10, 100, 1_000, 3_000],
};

/// Enough to run every line once.
pub(crate) const SHORTENED: Plan = Plan {
    fills: &[0, 200],
    units: &[0, 200],
    expiring: &[20],
    weighed: &[20],
    sqlite_turns: 1,
    sqlite_burst: 2,
    redis_turns: 2,
    redis_burst: 2,
    counted_exactly: 100,
    counted_in_buckets: 100,
    counting_turns: 1,
    limits: &[1, 70],
};

/// A table whose columns but the first hold figures.
pub(crate) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header(header);
    table
        .column_iter_mut()
        .skip(1)
        .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// Times of many calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push(took);
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn median(&self) -> Duration {
        self.quantile(50)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.quantile(99)
    }

    fn quantile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort();
        sorted
            .get(sorted.len() * percent / 100)
            .copied()
            .unwrap_or_default()
    }
}

/// Microseconds with one digit.
pub(crate) fn micros(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e6)
}

/// How many times as long as `base`.
pub(crate) fn ratio(time: Duration, base: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() / base.as_secs_f64())
}
