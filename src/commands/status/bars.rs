//! Bars of limits, as text.

use super::super::output::{Colour, Style};
use ingest_quota::Units;

/// Draws the used units of a quota, the free ones, and the headroom at its end.
pub fn bar(used: Units, enforced: Units, quota: Units, width: usize, style: Style) -> String {
    let cells = |units: Units| share(units, quota, width);
    let headroom = if enforced < quota {
        cells(quota.saturating_sub(enforced)).max(1)
    } else {
        0
    };
    let free_for_use = width - headroom.min(width);
    let mut full = cells(used).min(free_for_use);
    if used > Units::ZERO && full == 0 {
        full = 1;
    }
    let colour = match used.get().saturating_mul(100) / enforced.get().max(1) {
        0..=74 => Colour::Green,
        75..=99 => Colour::Yellow,
        _ => Colour::Red,
    };
    let full_part = style.paint(&"█".repeat(full), colour);
    let free_part = style.paint(&"░".repeat(free_for_use.saturating_sub(full)), Colour::Grey);
    format!(
        "[{full_part}{free_part}{}]",
        style.paint(&"▒".repeat(headroom), Colour::Grey)
    )
}

/// Returns how many of `width` cells a part takes.
fn share(units: Units, of: Units, width: usize) -> usize {
    let cells = u128::from(units.get()) * (width as u128) / u128::from(of.get().max(1));
    usize::try_from(cells).unwrap_or(width).min(width)
}
