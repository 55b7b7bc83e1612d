//! Tables. One with many columns is a list of rows on a phone, where each cell has the head of its column beside it.

use maud::{Markup, html};

use crate::commands::table::count;
use ingest_base::plain::plain;
use ingest_quota::LimitName;

/// The most columns that a phone has room for.
const FITTING: usize = 4;
/// The most limits that have a column each. A scope can have any number of them.
const MOST_LIMITS: usize = 5;
/// The units of all limits, where they have no columns.
const UNITS: &str = "Units";

/// A cell: its class in the style sheet, and what it shows.
pub struct Cell(&'static str, Markup);

impl Cell {
    pub fn text(text: &str) -> Self {
        Self("", html! { (plain(text)) })
    }

    pub fn number(number: u64) -> Self {
        Self("number", html! { (count(number)) })
    }

    pub const fn new(class: &'static str, shown: Markup) -> Self {
        Self(class, shown)
    }
}

/// A table. It scrolls by itself where the screen is narrow; the keyboard reaches it, since only then it can be scrolled. The
/// roles are those of its elements, which browsers forget where the style sheet stacks them.
pub fn table(caption: &str, heads: &[&str], rows: Vec<Vec<Cell>>) -> Markup {
    let class = |place: usize| rows.first()?.get(place).map(|Cell(class, _)| *class);
    let is_number = |place: usize| class(place) == Some("number");
    html! {
        div class="wide" tabindex="0" role="region" aria-label=(caption) {
            table role="table" class=[(heads.len() > FITTING).then_some("stacked")] {
                caption { (caption) }
                thead role="rowgroup" { tr role="row" {
                    @for (place, head) in heads.iter().enumerate() {
                        th scope="col" role="columnheader" class=[is_number(place).then_some("number")] { (plain(head)) }
                    }
                } }
                tbody role="rowgroup" {
                    @for row in &rows {
                        tr role="row" {
                            @for (head, Cell(class, shown)) in heads.iter().zip(row) {
                                @if shown.0.is_empty() { td role="cell" class=(format!("none {class}")) { "-" } }
                                @else { td role="cell" class=[Some(class).filter(|class| !class.is_empty())] data-head=(plain(head)) { span { (shown) } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Limits, each with a column for its units, or all with one.
pub struct UnitColumns<'l>(Vec<&'l LimitName>);

impl<'l> UnitColumns<'l> {
    pub fn of(limits: impl Iterator<Item = &'l LimitName>) -> Self {
        let mut limits: Vec<&LimitName> = limits.collect();
        limits.sort_unstable();
        limits.dedup();
        Self(limits)
    }

    pub fn heads(&self) -> Vec<&str> {
        match self.0.len() {
            1..=MOST_LIMITS => self.0.iter().map(|limit| limit.as_ref()).collect(),
            _ => vec![UNITS],
        }
    }

    /// The cells of a row that has these units; a limit that it does not name has none.
    pub fn cells(&self, units: &[(&LimitName, u64)]) -> Vec<Cell> {
        let of = |limit: &LimitName| units.iter().find(|(one, _)| *one == limit);
        match self.0.len() {
            1..=MOST_LIMITS => self
                .0
                .iter()
                .map(|limit| {
                    of(limit).map_or_else(
                        || Cell("number", html! {}),
                        |(_, units)| Cell::number(*units),
                    )
                })
                .collect(),
            _ => {
                let all = units
                    .iter()
                    .map(|(limit, units)| format!("{} {limit}", count(*units)));
                vec![Cell::text(&all.collect::<Vec<_>>().join(", "))]
            }
        }
    }
}
