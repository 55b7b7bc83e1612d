//! Figures as a table.

use std::time::Duration;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};

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
