//! A document for a terminal: as wide as that, in colours, without the columns that a narrow one has no room for.

use std::io::{self, IsTerminal};
use std::ops::Range;

use rustix::fd::AsFd;
use rustix::termios::tcgetwinsize;
use unicode_width::UnicodeWidthStr;

use super::{Bar, Chart, Doc, DocBlock, Grid, Phrase, Phrases, Section, Share, Tone};
use ingest_base::plain::{count, plain};

/// The width of a terminal that does not report one, in columns.
const USUAL_WIDTH: usize = 80;
/// On a screen with fewer columns, cells are short where they can be.
const NARROW: usize = 60;
/// The least width of the last column of a table, which is wrapped.
const NARROWEST: usize = 16;
/// The columns after each column of a table.
const GAP: usize = 2;

/// The screen that shows the results. Read once, at the edge, so that everything below is a function of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// The most columns of a line; `None`: no limit.
    pub width: Option<usize>,
    /// How text is highlighted.
    pub style: Style,
}

/// How text is highlighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// In colour, on a terminal.
    Coloured,
    /// By characters alone.
    Plain,
}

/// Returns the columns of a terminal; `None` if it is none, or reports none.
pub fn columns_of(terminal: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(terminal).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

impl Screen {
    /// Stdout: as wide as its terminal, or as `$COLUMNS` if it is none.
    pub fn of_stdout() -> Self {
        let configured = std::env::var("COLUMNS")
            .ok()
            .and_then(|columns| columns.parse().ok())
            .filter(|columns| *columns > 0);
        let usual = io::stdout().is_terminal().then_some(USUAL_WIDTH);
        Self {
            width: columns_of(io::stdout()).or(configured).or(usual),
            style: Style::of_stdout(),
        }
    }

    fn is_narrow(self) -> bool {
        self.width.is_some_and(|columns| columns < NARROW)
    }

    /// Words in the lines that the screen has room for, each with the indent of the first.
    fn lines(self, words: &Phrases) -> Vec<String> {
        let painted = Painted::new(words, self);
        let indent = painted.text.len() - painted.text.trim_start_matches(' ').len();
        let lines = painted.wrapped(self.width, indent);
        let lines = lines.into_iter().enumerate().map(|(place, line)| {
            let indent = if place == 0 { 0 } else { indent };
            format!("{:indent$}{}", "", painted.part(line, self.style))
        });
        lines.collect()
    }
}

impl Style {
    /// The style of stdout: colour on a terminal, or if `$CLICOLOR_FORCE` is set; never if `$NO_COLOR` is.
    fn of_stdout() -> Self {
        let forced = std::env::var_os("CLICOLOR_FORCE")
            .is_some_and(|value| !value.is_empty() && value != "0");
        let minds = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        let wanted = (io::stdout().is_terminal() && !is_dumb) || forced;
        if wanted && !minds {
            Self::Coloured
        } else {
            Self::Plain
        }
    }

    /// Returns the text in the colour of its tone.
    fn paint(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Good => 32,
            Tone::Warn => 33,
            Tone::Bad => 31,
            Tone::Quiet => 90,
            Tone::Found => 1,
        };
        match (self, text.is_empty()) {
            (Self::Coloured, false) => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            _ => text.to_owned(),
        }
    }
}

/// Words as one text that is safe on a terminal, and the tones of its parts.
struct Painted {
    text: String,
    tones: Vec<(Range<usize>, Tone)>,
}

impl Painted {
    fn new(words: &Phrases, screen: Screen) -> Self {
        Self::of(words, screen, screen.is_narrow())
    }

    /// The words, or what is short in their place.
    fn of(words: &Phrases, screen: Screen, short: bool) -> Self {
        let short = words.short.as_ref().filter(|_| short);
        let short = short.map(|short| [Phrase::from(short)]);
        let phrases = short.as_ref().map_or(&*words.phrases, |short| &short[..]);
        let mut painted = Self {
            text: String::new(),
            tones: Vec::new(),
        };
        for phrase in phrases {
            let text = plain(&phrase.text);
            let start = painted.text.len();
            match (phrase.tone, screen.style) {
                (Tone::Found, Style::Plain) => painted.text.push_str(&format!("[{text}]")),
                _ => painted.text.push_str(&text),
            }
            let range = start..painted.text.len();
            painted.tones.push((range, phrase.tone));
        }
        painted
    }

    /// Where each line begins and ends, at most so wide. Words are not split.
    fn wrapped(&self, width: Option<usize>, indent: usize) -> Vec<Range<usize>> {
        let Some(width) = width else {
            return std::iter::once(0..self.text.len()).collect();
        };
        let mut lines: Vec<Range<usize>> = Vec::new();
        let mut line = 0..0;
        let mut end = 0;
        for word in self.text.split_inclusive(' ') {
            let start = end;
            end += word.len();
            let word = start..start + word.trim_end_matches(' ').len();
            let before = if lines.is_empty() { 0 } else { indent };
            let with_word = self.text.get(line.start..word.end).unwrap_or_default();
            match word.is_empty() {
                true => {}
                false if line.end > line.start && before + with_word.width() > width => {
                    lines.push(line);
                    line = word;
                }
                false => line.end = word.end,
            }
        }
        lines.push(line);
        lines
    }

    /// A part of the text, in colours.
    fn part(&self, range: Range<usize>, style: Style) -> String {
        let parts = self.tones.iter().map(|(of_tone, tone)| {
            let part = of_tone.start.max(range.start)..of_tone.end.min(range.end);
            style.paint(self.text.get(part).unwrap_or_default(), *tone)
        });
        parts.collect()
    }

    fn columns(&self) -> usize {
        self.text.width()
    }
}

impl Doc {
    /// The document as a terminal shows it.
    #[must_use]
    pub fn text(&self, screen: Screen) -> String {
        let mut text = String::new();
        for (place, part) in self.parts.iter().enumerate() {
            if place > 0 {
                text.push_str(if part.is_item { "\n" } else { "\n\n" });
            }
            text.push_str(&part.text(screen));
        }
        text
    }
}

impl Section {
    fn text(&self, screen: Screen) -> String {
        let blocks = self.blocks.iter().map(|block| match block {
            DocBlock::Line(words) => screen.lines(words).join("\n"),
            DocBlock::Grid(table) => table.text(screen),
            DocBlock::Bar(bar) => bar.text(screen),
            DocBlock::Chart(chart) => chart.text(screen),
            DocBlock::Source(text) => text.split('\n').map(plain).collect::<Vec<_>>().join("\n"),
        });
        let heading = self.heading.as_deref().filter(|_| self.is_headed);
        let heading = heading.map(plain).into_iter();
        heading.chain(blocks).collect::<Vec<_>>().join("\n")
    }
}

impl Grid {
    /// Without trailing spaces. Only the last column is wrapped, and not within words: if one does not fit, lines are longer than
    /// the screen.
    fn text(&self, screen: Screen) -> String {
        let heads = self.columns.iter().map(|column| Phrases::from(column.head));
        let heads: Vec<Phrases> = heads.collect();
        let table: Vec<&Vec<Phrases>> = std::iter::once(&heads).chain(&self.rows).collect();
        let mut rows = painted(&table, screen, screen.is_narrow());
        let (always, all) = self.of_terminal();
        // No line is too long, and no column left out, for cells that can be short.
        if !is_wide_enough(screen, &always, &self.widths(&rows)) {
            rows = painted(&table, screen, true);
        }
        let widths = self.widths(&rows);
        let shown = self.shown(all, &widths, screen);
        let Some((&last, others)) = shown.split_last() else {
            return String::new();
        };
        let width = |at: &usize| widths.get(*at).copied().unwrap_or_default();
        let before: usize = others.iter().map(|at| width(at) + GAP).sum();
        let least = width(&last).min(NARROWEST);
        let room = |columns: usize| columns.saturating_sub(before + GAP).max(least);
        let room = screen.width.map(room);
        let line = |row: &Vec<Painted>| {
            let cells = others.iter().filter_map(|at| Some((*at, row.get(*at)?)));
            let mut line: String = cells
                .map(|(at, cell)| {
                    let is_number = self.columns.get(at).is_some_and(|column| column.is_number);
                    let space = " ".repeat(width(&at).saturating_sub(cell.columns()));
                    let cell = cell.part(0..cell.text.len(), screen.style);
                    match is_number {
                        true => format!("{space}{cell}{:GAP$}", ""),
                        false => format!("{cell}{space}{:GAP$}", ""),
                    }
                })
                .collect();
            if let Some(end) = row.get(last) {
                let is_number = self.columns.get(last).is_some_and(|one| one.is_number);
                let space = width(&last).saturating_sub(end.columns());
                line.push_str(&" ".repeat(if is_number { space } else { 0 }));
                let parts = end.wrapped(room, 0).into_iter();
                let parts: Vec<String> = parts.map(|part| end.part(part, screen.style)).collect();
                line.push_str(&parts.join(&format!("\n{:before$}", "")));
            }
            line.trim_end().to_owned()
        };
        let lines = rows.iter().map(line);
        let hidden = self
            .hidden(&shown)
            .map(|hidden| screen.lines(&hidden.into()));
        let lines = lines.chain(hidden.into_iter().flatten());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Names the columns that the screen has no room for; `None` if it has.
    fn hidden(&self, shown: &[usize]) -> Option<String> {
        let columns = self.columns.iter().enumerate();
        let hidden = columns.filter(|(at, column)| !column.is_of_page && !shown.contains(at));
        let hidden: Vec<&str> = hidden.map(|(_, column)| column.head).collect();
        let hidden = hidden.join(", ");
        (!hidden.is_empty()).then(|| format!("(no room for {hidden}; --format json has all)"))
    }

    /// The columns that a terminal always has, and all that it can have.
    fn of_terminal(&self) -> (Vec<usize>, Vec<usize>) {
        let columns = self.columns.iter().enumerate();
        let of_terminal = columns.filter(|(_, column)| !column.is_of_page);
        let always = of_terminal.clone().filter(|(_, one)| one.spare.is_none());
        let places = |(at, _)| at;
        (
            always.map(places).collect(),
            of_terminal.map(places).collect(),
        )
    }

    /// The columns of the screen that each column of the table takes.
    fn widths(&self, rows: &[Vec<Painted>]) -> Vec<usize> {
        let width = |at| {
            let cells = rows.iter().filter_map(|row| row.get(at));
            cells.map(Painted::columns).max().unwrap_or_default()
        };
        (0..self.columns.len()).map(width).collect()
    }

    /// Those of the columns that the screen has room for.
    fn shown(&self, mut shown: Vec<usize>, widths: &[usize], screen: Screen) -> Vec<usize> {
        let mut spare: Vec<(u8, usize)> = self
            .columns
            .iter()
            .enumerate()
            .filter_map(|(at, column)| Some((column.spare?, at)))
            .collect();
        spare.sort_unstable();
        for (_, at) in spare {
            if !is_wide_enough(screen, &shown, widths) {
                shown.retain(|one| *one != at);
            }
        }
        shown
    }
}

/// The cells of a table, short ones if wanted.
fn painted(rows: &[&Vec<Phrases>], screen: Screen, short: bool) -> Vec<Vec<Painted>> {
    let cells = |row: &&Vec<Phrases>| {
        let cells = row.iter().map(|cell| Painted::of(cell, screen, short));
        cells.collect()
    };
    rows.iter().map(cells).collect()
}

/// Whether a screen has room for these columns of a table, of which the last one is wrapped.
fn is_wide_enough(screen: Screen, columns: &[usize], widths: &[usize]) -> bool {
    let (last, others) = columns.split_last().unwrap_or((&0, &[]));
    let width = |at: &usize| widths.get(*at).copied().unwrap_or_default();
    let others: usize = others.iter().map(|at| width(at) + GAP).sum();
    let needed = others + width(last).min(NARROWEST);
    screen.width.is_none_or(|columns| needed <= columns)
}

/// Columns between a name, its bar and the figures, with the brackets.
const AROUND: usize = 5;
/// The length of the words beside a bar.
const BESIDE: usize = 40;

impl Bar {
    /// ```text
    /// youtube/daily   [██████████████░░░░░░░░░░░░░░░░░▒▒] 4,120 used, 5,380 left of 9,500
    /// ```
    fn text(&self, screen: Screen) -> String {
        let name = format!("{:1$}", plain(&self.name.text), self.name_columns);
        let figures = Painted::new(&self.figures, screen);
        let shown = figures.part(0..figures.text.len(), screen.style);
        if self
            .shares
            .iter()
            .any(|(share, _)| *share == Share::Unknown)
        {
            return format!("{name}  {shown}");
        }
        let width = screen.width.unwrap_or(80);
        let width = width.saturating_sub(self.name_columns + BESIDE);
        let width = width.clamp(10, 40);
        let beside = self.name_columns + width + AROUND + figures.columns();
        let is_wide = screen.width.is_none_or(|columns| beside <= columns);
        let between = if is_wide { " " } else { "\n  " };
        let drawn = self.drawn(width, screen.style);
        format!("{name}  [{drawn}]{between}{shown}")
    }

    /// The used units, the free ones, and the headroom at the end.
    fn drawn(&self, width: usize, style: Style) -> String {
        let whole: u64 = self.shares.iter().map(|(_, units)| units).sum();
        let cells = |wanted: Share| {
            let of_share = self.shares.iter().filter(|(share, _)| *share == wanted);
            let units: u64 = of_share.map(|(_, units)| units).sum();
            let cells = u128::from(units) * width as u128 / u128::from(whole.max(1));
            let cells = usize::try_from(cells).unwrap_or(width);
            cells.max(usize::from(units > 0)).min(width)
        };
        let headroom = cells(Share::Headroom);
        let used = cells(Share::Used).min(width - headroom);
        let free = width - headroom - used;
        [
            style.paint(&"█".repeat(used), self.tone),
            style.paint(&"░".repeat(free), Tone::Quiet),
            style.paint(&"▒".repeat(headroom), Tone::Quiet),
        ]
        .concat()
    }
}

/// The height of a chart, in lines.
const HEIGHT: u64 = 6;
/// The width of the labels at its left, in columns.
const SCALE: usize = 11;

impl Chart {
    fn text(&self, screen: Screen) -> String {
        let width = screen.width.unwrap_or(80).saturating_sub(SCALE + 1).max(24);
        let columns = self.gathered(width).into_iter();
        let columns: Vec<u64> = columns.map(|at| self.total(at)).collect();
        let most = columns.iter().copied().max().unwrap_or_default();
        let top = most.max(self.line.unwrap_or_default()).max(1);
        let row = |row: u64| {
            let bars: String = columns
                .iter()
                .map(|units| block(*units, top, row))
                .collect();
            let label = if row + 1 == HEIGHT {
                count(top)
            } else {
                String::new()
            };
            format!("{label:>9} │{bars}").trim_end().to_owned()
        };
        let rows: Vec<String> = (0..HEIGHT).rev().map(row).collect();
        let first = self.times.first().map_or("", String::as_str);
        let last = self.times.last().map_or("", String::as_str);
        let width = columns.len().saturating_sub(first.len());
        format!(
            "{}\n{}\n{:>9} └{}\n{:SCALE$}{first}{last:>width$}",
            plain(&self.caption),
            rows.join("\n"),
            0,
            "─".repeat(columns.len()),
            ""
        )
    }
}

/// Returns the part of a bar that one line shows, in eighths of a block.
fn block(units: u64, top: u64, row: u64) -> char {
    const PARTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let eighths = u128::from(units) * u128::from(HEIGHT) * 8 / u128::from(top);
    let here = eighths.saturating_sub(u128::from(row) * 8).min(8);
    usize::try_from(here)
        .ok()
        .and_then(|part| PARTS.get(part).copied())
        .unwrap_or('█')
}
