//! Pictures: SVG in the page, with their content in words beside them.

use maud::{Markup, html};

use crate::commands::table::count;

/// The size of the chart of a day, in its own units.
const WIDTH: u64 = 720;
const HEIGHT: u64 = 120;
/// The colours of the style sheet.
const COLOURS: usize = 8;

/// Parts of a whole, each with its class in the style sheet.
pub fn bar(parts: &[(&str, u64)], label: &str) -> Markup {
    let whole = parts.iter().map(|(_, part)| *part).sum::<u64>().max(1);
    let mut from = 0;
    let rects: Vec<(&str, u64, u64)> = parts
        .iter()
        .map(|(class, part)| {
            let (x, to) = (scaled(from, whole, WIDTH), from.saturating_add(*part));
            from = to;
            (*class, x, scaled(to, whole, WIDTH).saturating_sub(x))
        })
        .collect();
    html! {
        svg class="bar" viewBox=(format!("0 0 {WIDTH} 16")) preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (class, x, width) in rects {
                rect class=(class) x=(x) y="0" width=(width) height="16" {}
            }
        }
    }
}

/// What jobs spent of a limit.
pub struct Spent {
    /// The job.
    pub job: String,
    /// The units until the end of each hour, since the beginning of the day.
    pub until: Vec<u64>,
}

/// The running totals of a day, job upon job, under the line that is enforced.
pub fn day(spent: &[Spent], enforced: u64, label: &str) -> Markup {
    let hours = spent
        .iter()
        .map(|one| one.until.len())
        .max()
        .unwrap_or(0)
        .max(1);
    let last = |one: &Spent| one.until.last().copied().unwrap_or_default();
    let top = spent.iter().map(last).sum::<u64>().max(enforced).max(1);
    let step = WIDTH / hours as u64;
    let line = HEIGHT - scaled(enforced, top, HEIGHT);
    html! {
        svg viewBox=(format!("0 -14 {WIDTH} {}", HEIGHT + 30)) role="img" aria-label=(label) {
            line class="axis" x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
            @for hour in 0..hours {
                @for (class, y, height) in column(spent, hour, top) {
                    rect class=(class) x=(hour as u64 * step + 1) y=(y) width=(step.saturating_sub(2)) height=(height) {}
                }
            }
            line class="enforced" x1="0" x2=(WIDTH) y1=(line) y2=(line) {}
            text x="0" y=(line as i64 - 3) { "enforced: " (count(enforced)) }
            text x="0" y=(HEIGHT + 14) { "24 hours ago" }
            text x=(WIDTH) y=(HEIGHT + 14) text-anchor="end" { "now" }
        }
        ul class="legend" {
            @for (place, one) in spent.iter().enumerate() {
                li { i class=(class(place)) {} (crate::plain::plain(&one.job)) ": " (count(last(one))) }
            }
        }
    }
}

/// The rectangles of an hour, from the axis up.
fn column(spent: &[Spent], hour: usize, top: u64) -> Vec<(String, u64, u64)> {
    let mut below = 0_u64;
    let rects = spent.iter().enumerate().map(|(place, one)| {
        let units = one.until.get(hour).copied().unwrap_or_default();
        let from = scaled(below, top, HEIGHT);
        below = below.saturating_add(units);
        let to = scaled(below, top, HEIGHT);
        (class(place), HEIGHT - to, to - from)
    });
    rects.filter(|(_, _, height)| *height > 0).collect()
}

fn class(place: usize) -> String {
    format!("c{}", place % COLOURS)
}

fn scaled(part: u64, whole: u64, length: u64) -> u64 {
    let scaled = u128::from(part) * u128::from(length) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(length).min(length)
}
