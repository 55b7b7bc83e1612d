//! Pictures: SVG without text in it, which would shrink with the screen. What they show is beside them in words.

use maud::{Markup, html};

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
            // At least 2 wide: a few units of a large limit are seen.
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

/// Units over a time, job upon job in each column, under the line that is enforced.
pub struct Columns<'c> {
    /// What a column means.
    pub caption: &'c str,
    /// Whose it is.
    pub limit: &'c str,
    /// The units of each job in each column.
    pub jobs: Vec<(&'c str, Vec<u64>)>,
    /// When each column is.
    pub times: Vec<String>,
    /// The units of the line; `None` where the limit does not count the time of a column.
    pub enforced: Option<u64>,
}

impl Columns<'_> {
    /// The picture, with its values beside it in words: a screen reader and a touch of a column get those of each.
    pub fn shown(self) -> Markup {
        let jobs = in_colours(self.jobs);
        let number = self.times.len();
        let total = |place: usize| jobs.iter().filter_map(|(_, units)| units.get(place)).sum();
        let most: u64 = (0..number).map(total).max().unwrap_or(0);
        let top = most.max(self.enforced.unwrap_or_default()).max(1);
        let last: Vec<String> = jobs
            .iter()
            .map(|(job, units)| {
                format!("{job} {}", count(units.last().copied().unwrap_or_default()))
            })
            .collect();
        let enforced = self
            .enforced
            .map(|units| format!("enforced {}", count(units)));
        let label = format!(
            "{}: {}; most {}; last {}{}",
            self.limit,
            self.caption,
            count(most),
            last.join(", "),
            enforced
                .iter()
                .map(|text| format!("; {text}"))
                .collect::<String>()
        );
        let ticks = [0, number / 2, number.saturating_sub(1)];
        let ticks = ticks.iter().filter_map(|place| self.times.get(*place));
        html! {
            figure {
                figcaption { (self.caption) }
                div class="plot" {
                    p class="values" { span { (count(top)) } @if top > 1 { span { (count(top / 2)) } } span { "0" } }
                    svg class="day" viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(label) {
                        @for y in [0, HEIGHT / 2, HEIGHT] { line class="axis" x1="0" x2=(WIDTH) y1=(y) y2=(y) {} }
                        @for (place, time) in self.times.iter().enumerate() { (column(&jobs, (place, number), top, time)) }
                        @if let Some(enforced) = self.enforced {
                            @let y = HEIGHT - scaled(enforced, top, HEIGHT);
                            line class="enforced" x1="0" x2=(WIDTH) y1=(y) y2=(y) {}
                        }
                    }
                    p class="ends" { @for time in ticks { span { (time) } } }
                }
                ul class="legend" {
                    @for (place, words) in last.iter().enumerate() { li { i class=(class(place)) {} (plain(words)) } }
                    @if let Some(enforced) = enforced { li { i class="enforced" {} (enforced) } }
                }
            }
        }
    }
}

/// A column, from the axis up, with what it shows in words. Whatever was spent is at least visible.
fn column(jobs: &[(&str, Vec<u64>)], (place, of): (usize, usize), top: u64, time: &str) -> Markup {
    let (place, of) = (place as u64, of as u64);
    let (x, end) = (scaled(place, of, WIDTH), scaled(place + 1, of, WIDTH));
    let gap = ((end - x) / 10).min(2);
    let mut below = 0_u64;
    let mut words = Vec::new();
    let mut rects = Vec::new();
    for (colour, (job, units)) in jobs.iter().enumerate() {
        let units = units.get(usize::try_from(place).unwrap_or(usize::MAX));
        let Some(units) = units.filter(|units| **units > 0) else {
            continue;
        };
        words.push(format!("{job} {}", count(*units)));
        let from = scaled(below, top, HEIGHT);
        below = below.saturating_add(*units);
        let height = (scaled(below, top, HEIGHT) - from).max(3);
        rects.push((
            class(colour),
            (HEIGHT - from).saturating_sub(height),
            height,
        ));
    }
    html! {
        @if !rects.is_empty() {
            g {
                title { (plain(time)) ": " (plain(&words.join(", "))) }
                @for (class, y, height) in rects {
                    rect class=(class) x=(x + gap) y=(y) width=((end - x).saturating_sub(2 * gap)) height=(height) {}
                }
            }
        }
    }
}

/// The jobs that spent most, and what the others spent together.
fn in_colours(mut jobs: Vec<(&str, Vec<u64>)>) -> Vec<(&str, Vec<u64>)> {
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

fn class(place: usize) -> String {
    format!("c{place}")
}

fn scaled(part: u64, whole: u64, length: u64) -> u64 {
    let scaled = u128::from(part) * u128::from(length) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(length).min(length)
}
