//! Tables, numbers and times, as text.

use std::time::Duration;

use comfy_table::{
    Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, Width, presets,
};

use super::output::{Colour, Screen, Style};
use crate::run::Deletion;
pub use ingest_base::plain::{count, instant};
use ingest_quota::{Cost, Units};

/// The least width of a column that is wrapped, in columns.
const NARROWEST: u16 = 16;

/// Returns a table without rules, with numbers to the right.
pub fn table(screen: Screen, header: &[&str], right: &[usize]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    if let Some(width) = screen.width {
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    }
    match screen.style {
        Style::Coloured => table.enforce_styling(),
        Style::Plain => table.force_no_tty(),
    };
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    // Only the last column is wrapped.
    for column in table.column_iter_mut().take(header.len().saturating_sub(1)) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    for index in right {
        if let Some(column) = table.column_mut(*index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Returns a word in a colour, if the screen has colour.
pub fn coloured(word: &str, colour: Colour) -> Cell {
    Cell::new(word).fg(match colour {
        Colour::Red => Color::Red,
        Colour::Green => Color::Green,
        Colour::Yellow => Color::Yellow,
        Colour::Grey => Color::DarkGrey,
    })
}

/// Returns a table as text, without those of these columns, in their order, that a narrow screen has no room for.
pub fn fitted(mut table: Table, droppable: &[usize]) -> String {
    let widths = table.column_max_content_widths();
    let (last, others) = widths.split_last().unwrap_or((&0, &[]));
    let of_others = others.iter().map(|width| usize::from(width + 2));
    let mut needed = of_others.sum::<usize>() + usize::from((*last).min(NARROWEST));
    let width = table.width().map_or(usize::MAX, usize::from);
    for index in droppable {
        if let (true, Some(column)) = (needed > width, table.column_mut(*index)) {
            column.set_constraint(ColumnConstraint::Hidden);
            needed -= widths.get(*index).map_or(0, |width| usize::from(width + 2));
        }
    }
    text(&table)
}

/// Returns a table as text, without trailing spaces. The last column is not split within words: if it does not fit, lines are
/// longer than the screen.
pub fn text(table: &Table) -> String {
    let mut table = table.clone();
    let widest = table
        .column_max_content_widths()
        .last()
        .copied()
        .unwrap_or_default();
    if let Some(column) = table.column_iter_mut().last() {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(
            widest.min(NARROWEST),
        )));
    }
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// `1 region`, `9,500 regions`
pub fn counted(number: u64, what: &str) -> String {
    format!(
        "{} {what}{}",
        count(number),
        if number == 1 { "" } else { "s" }
    )
}

/// `1,203 records of youtube that no response contained for 30d`
pub fn deleted(one: &Deletion) -> String {
    let (records, keep) = (counted(one.records, "record"), span(one.keep));
    format!(
        "{records} of {} that no response contained for {keep}",
        one.upstream
    )
}

/// `5 daily, 1 search`
pub fn cost(cost: &Cost) -> String {
    let parts: Vec<String> = cost
        .iter()
        .map(|(limit, units)| format!("{} {limit}", count(units.get())))
        .collect();
    parts.join(", ")
}

/// Returns units; a dash for `None`.
pub fn units(units: Option<Units>) -> String {
    units.map_or_else(|| "-".to_owned(), |units| count(units.get()))
}

/// Returns how long something took: `0.4s`, `12s`, `1h 5m`.
pub fn took(took: Duration) -> String {
    if took < Duration::from_secs(10) {
        return format!("{:.1}s", took.as_secs_f64());
    }
    span(took)
}

/// Returns a duration in its two largest units: `1h 5m`, `40d 1h`.
pub fn span(span: Duration) -> String {
    // Rounded up, so that nobody comes back too early.
    let seconds = span
        .as_secs()
        .saturating_add(u64::from(span.subsec_nanos() > 0));
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let units = [
        (hours / 24, "d"),
        (hours % 24, "h"),
        (minutes % 60, "m"),
        (seconds % 60, "s"),
    ];
    let some = units.iter().filter(|(number, _)| *number > 0).take(2);
    let text: Vec<String> = some
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    if text.is_empty() {
        "0s".to_owned()
    } else {
        text.join(" ")
    }
}
