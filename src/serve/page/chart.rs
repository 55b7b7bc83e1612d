//! Pictures: SVG without text in it, which would shrink with the screen. What they show is beside them in words.

use maud::{Markup, html};

use super::spend::ByJob;
use crate::commands::table::count;
use ingest_base::plain::plain;

/// The size of a picture in its own units; the style sheet stretches it.
const WIDTH: u64 = 960;
const HEIGHT: u64 = 240;
/// The colours of the style sheet. The jobs beyond them share the last one.
const COLOURS: usize = 8;
const OTHERS: &str = "other jobs";

/// Parts of a whole, each with its class in the style sheet.
pub fn bar(parts: &[(&str, u64)], label: &str) -> Markup {
    let whole = parts.iter().map(|(_, part)| *part).sum::<u64>().max(1);
    let mut from = 0;
    let rects: Vec<(&str, u64, u64)> = parts
        .iter()
        .map(|(class, part)| {
            let (x, to) = (scaled(from, whole, WIDTH), from.saturating_add(*part));
            from = to;
            (*class, x, scaled(to, whole, WIDTH).saturating_sub(x).max(2))
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

/// The units in a limit's window at the end of each of the last hours, job upon job, under the line that is enforced.
pub fn day(spent: &ByJob, enforced: u64, limit: &str) -> Markup {
    let jobs = in_colours(spent);
    let hours = jobs
        .iter()
        .map(|(_, units)| units.len())
        .max()
        .unwrap_or(0)
        .max(1);
    let totals = (0..hours).map(|hour| jobs.iter().filter_map(|(_, units)| units.get(hour)).sum());
    let top = totals.max().unwrap_or(0).max(enforced).max(1);
    let step = WIDTH / hours as u64;
    let line = HEIGHT - scaled(enforced, top, HEIGHT);
    let now = |units: &[u64]| count(units.last().copied().unwrap_or_default());
    let in_words: Vec<String> = jobs
        .iter()
        .map(|(job, units)| format!("{job} {}", now(units)))
        .collect();
    let label = format!(
        "{limit}: units in its window over the last 24 hours, by job; now {}; enforced {}",
        in_words.join(", "),
        count(enforced)
    );
    html! {
        figure {
            figcaption { "Units in the window over the last 24 hours, by job" }
            svg class="day" viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(label) {
                line class="axis" x1="0" x2=(WIDTH) y1=(HEIGHT) y2=(HEIGHT) {}
                @for hour in 0..hours {
                    @for (class, y, height) in column(&jobs, hour, top) {
                        rect class=(class) x=(hour as u64 * step + 2) y=(y) width=(step.saturating_sub(4)) height=(height) {}
                    }
                }
                line class="enforced" x1="0" x2=(WIDTH) y1=(line) y2=(line) {}
            }
            p class="ends" { span { "24 hours ago" } span { "now" } }
            ul class="legend" {
                @for (place, (job, units)) in jobs.iter().enumerate() {
                    li { i class=(class(place)) {} (plain(job)) " " (now(units)) }
                }
                li { i class="enforced" {} "enforced " (count(enforced)) }
            }
        }
    }
}

/// The jobs that spent most, and what the others spent together.
fn in_colours(spent: &ByJob) -> Vec<(&str, Vec<u64>)> {
    let mut jobs: Vec<(&str, Vec<u64>)> = spent
        .iter()
        .map(|(job, units)| (job.as_str(), units.clone()))
        .collect();
    jobs.sort_by_key(|(_, units)| std::cmp::Reverse(units.iter().sum::<u64>()));
    if jobs.len() <= COLOURS {
        return jobs;
    }
    let others = jobs.split_off(COLOURS - 1);
    let mut together = vec![
        0_u64;
        others
            .iter()
            .map(|(_, units)| units.len())
            .max()
            .unwrap_or(0)
    ];
    for (_, units) in others {
        for (sum, units) in together.iter_mut().zip(units) {
            *sum = sum.saturating_add(units);
        }
    }
    jobs.push((OTHERS, together));
    jobs
}

/// The rectangles of an hour, from the axis up. Whatever was spent is at least visible.
fn column(jobs: &[(&str, Vec<u64>)], hour: usize, top: u64) -> Vec<(String, u64, u64)> {
    let mut below = 0_u64;
    let rects = jobs.iter().enumerate().map(|(place, (_, units))| {
        let units = units.get(hour).copied().unwrap_or_default();
        let from = scaled(below, top, HEIGHT);
        below = below.saturating_add(units);
        let least = if units > 0 { 3 } else { 0 };
        let height = (scaled(below, top, HEIGHT) - from).max(least);
        (class(place), (HEIGHT - from).saturating_sub(height), height)
    });
    rects.filter(|(_, _, height)| *height > 0).collect()
}

fn class(place: usize) -> String {
    format!("c{place}")
}

fn scaled(part: u64, whole: u64, length: u64) -> u64 {
    let scaled = u128::from(part) * u128::from(length) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(length).min(length)
}
