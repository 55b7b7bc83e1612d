//! A report in words, once: `text` writes it for a terminal, `html` for a page. Text from upstreams and files goes in as it is; both
//! make it safe.

#[cfg(feature = "serve")]
pub mod html;
pub mod text;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

/// What a report says, in its order.
#[derive(Debug, Default)]
pub struct Doc {
    pub parts: Vec<Section>,
}

/// What belongs together. On a terminal an empty line is between two parts.
#[derive(Debug, Default)]
pub struct Section {
    pub heading: Option<String>,
    /// Whether a terminal shows the heading too, as a line.
    pub is_headed: bool,
    /// Whether it is one of a list, as a hit of a search: a terminal shows these without empty lines between them.
    pub is_item: bool,
    pub blocks: Vec<DocBlock>,
}

#[derive(Debug)]
pub enum DocBlock {
    Line(Phrases),
    Grid(Grid),
    Bar(Bar),
    Chart(Chart),
    /// Text whose lines and spaces stay as they are.
    Source(String),
}

/// What a text means, which a terminal and a page show as a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    /// Something is scarce, or not done.
    Warn,
    Bad,
    /// Less important.
    Quiet,
    /// A word that was found.
    Found,
}

/// A line, or a cell of a table.
#[derive(Debug, Clone, Default)]
pub struct Phrases {
    pub phrases: Vec<Phrase>,
    /// What a terminal shows in its place that has no room for it.
    pub short: Option<String>,
}

/// A text of one tone, and where it leads on a page.
#[derive(Debug, Clone, Default)]
pub struct Phrase {
    pub text: String,
    pub tone: Tone,
    pub to: Option<PageLink>,
}

/// An address of the page, or of the web.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageLink(String);

/// Rows under the heads of their columns.
#[derive(Debug)]
pub struct Grid {
    pub columns: Vec<Head>,
    pub rows: Vec<Vec<Phrases>>,
}

/// A table that is made column by column: the head of each stands beside what it shows of a row.
pub struct Columns<'r, R> {
    of: &'r [R],
    grid: Grid,
}

#[derive(Debug, Clone, Copy)]
pub struct Head {
    pub head: &'static str,
    /// Whether its cells are numbers, which stand at the right.
    pub is_number: bool,
    /// A narrow terminal does without this column, before those of higher numbers; `None`: it always has it.
    pub spare: Option<u8>,
    /// Whether only a page has it.
    pub is_of_page: bool,
}

/// The use of a limit.
#[derive(Debug)]
pub struct Bar {
    pub name: Phrase,
    /// The columns that the names of all bars take.
    pub name_columns: usize,
    pub shares: Vec<(Share, u64)>,
    /// How much of it is used, where that says more than a colour.
    pub tone: Tone,
    pub figures: Phrases,
}

/// What a part of a limit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    Used,
    Unmetered,
    Free,
    Closed,
    Unknown,
    Headroom,
}

/// Units over a time, series upon series, under the line that is enforced.
#[derive(Debug)]
pub struct Chart {
    /// What it shows, with its greatest value.
    pub caption: String,
    /// The units of each series in each column.
    pub series: Vec<(String, Vec<u64>)>,
    /// When each column is.
    pub times: Vec<String>,
    /// The units of the line; `None` where the limit does not count the time of a column.
    pub line: Option<u64>,
}

impl Doc {
    /// Adds a part, unless it is empty.
    pub fn add(&mut self, part: Section) {
        if !part.blocks.is_empty() {
            self.parts.push(part);
        }
    }

    /// Adds a part of one line.
    pub fn say(&mut self, line: impl Into<Phrases>) {
        self.add(Section::default().with(line));
    }
}

impl FromIterator<Section> for Doc {
    fn from_iter<T: IntoIterator<Item = Section>>(parts: T) -> Self {
        let mut doc = Self::default();
        parts.into_iter().for_each(|part| doc.add(part));
        doc
    }
}

impl Section {
    /// A part that has a heading on a page.
    pub fn headed(heading: impl Into<String>) -> Self {
        Self {
            heading: Some(heading.into()),
            ..Self::default()
        }
    }

    /// One of a list.
    pub fn item() -> Self {
        Self {
            is_item: true,
            ..Self::default()
        }
    }

    /// The part with one more line.
    #[must_use]
    pub fn with(mut self, line: impl Into<Phrases>) -> Self {
        self.say(line);
        self
    }

    /// The part with one more piece.
    #[must_use]
    pub fn with_piece(mut self, piece: impl Into<DocBlock>) -> Self {
        self.blocks.push(piece.into());
        self
    }

    /// The part with a table, if that has a row.
    #[must_use]
    pub fn with_rows<R>(self, table: Columns<'_, R>) -> Self {
        match table.of.is_empty() {
            true => self,
            false => self.with_piece(table),
        }
    }

    /// Adds a line.
    pub fn say(&mut self, line: impl Into<Phrases>) {
        self.blocks.push(DocBlock::Line(line.into()));
    }

    /// Adds lines.
    pub fn say_all<W: Into<Phrases>>(&mut self, lines: impl IntoIterator<Item = W>) {
        lines.into_iter().for_each(|line| self.say(line));
    }
}

impl Phrases {
    /// Adds a phrase.
    #[must_use]
    pub fn and(mut self, phrase: impl Into<Phrase>) -> Self {
        self.phrases.push(phrase.into());
        self
    }

    /// Puts phrases together, with this text between two of them.
    pub fn joined(phrases: impl IntoIterator<Item = Phrase>, between: &str) -> Self {
        let mut words = Self::default();
        for phrase in phrases {
            if !words.phrases.is_empty() {
                words = words.and(between);
            }
            words = words.and(phrase);
        }
        words
    }

    /// The words, and what a narrow terminal shows in their place.
    pub fn or_short(self, short: String) -> Self {
        Self {
            short: Some(short),
            ..self
        }
    }
}

impl Phrase {
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
            to: None,
        }
    }

    pub fn linked(text: impl Into<String>, to: PageLink) -> Self {
        Self {
            text: text.into(),
            tone: Tone::Plain,
            to: Some(to),
        }
    }

    /// Text, as a link if it is an address of the web.
    pub fn found(text: &str) -> Self {
        // An upstream wrote it: a link of another scheme, such as javascript, would run in the page.
        let url = Url::parse(text).ok();
        let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
        Self {
            text: text.to_owned(),
            tone: Tone::Plain,
            to: url.map(|url| PageLink(url.into())),
        }
    }
}

impl<T: Into<String>> From<T> for Phrase {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

impl<T: Into<Phrase>> From<T> for Phrases {
    fn from(phrase: T) -> Self {
        Self::default().and(phrase)
    }
}

impl PageLink {
    /// The address of a page. Filters without a value are left out.
    pub fn to(path: &str, filters: &[(&str, Option<&str>)]) -> Self {
        let mut address = path.to_owned();
        for (name, value) in filters {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                let before = if address.contains('?') { '&' } else { '?' };
                let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
                address.push_str(&format!("{before}{name}={value}"));
            }
        }
        Self(address)
    }

    /// The passes of a job over a region; over all of them without one.
    pub fn passes(job: &str, region: Option<&str>) -> Self {
        Self::to("/history", &[("job", Some(job)), ("region", region)])
    }

    /// The passes that charged a limit.
    pub fn passes_of_limit(account: &str, limit: &str) -> Self {
        let limit = [("account", Some(account)), ("limit", Some(limit))];
        Self::to("/history", &limit)
    }

    /// A record.
    pub fn record(upstream: &str, kind: &str, id: &str) -> Self {
        let name = [("kind", kind), ("id", id), ("upstream", upstream)];
        Self::to("/record", &name.map(|(name, value)| (name, Some(value))))
    }

    /// The address.
    pub fn address(&self) -> &str {
        &self.0
    }
}

impl Grid {
    /// A table with a row for each of these.
    pub fn of<R>(rows: &[R]) -> Columns<'_, R> {
        Columns {
            of: rows,
            grid: Self {
                columns: Vec::new(),
                rows: rows.iter().map(|_| Vec::new()).collect(),
            },
        }
    }
}

impl<'r, R> Columns<'r, R> {
    /// Adds a column.
    #[must_use]
    pub fn column<C: Into<Phrases>>(mut self, head: Head, cell: impl Fn(&'r R) -> C) -> Self {
        self.grid.columns.push(head);
        for (row, of) in self.grid.rows.iter_mut().zip(self.of) {
            row.push(cell(of).into());
        }
        self
    }
}

impl<R> From<Columns<'_, R>> for DocBlock {
    fn from(table: Columns<'_, R>) -> Self {
        Self::Grid(table.grid)
    }
}

impl Head {
    pub const fn text(head: &'static str) -> Self {
        Self {
            head,
            is_number: false,
            spare: None,
            is_of_page: false,
        }
    }

    pub const fn number(head: &'static str) -> Self {
        Self {
            is_number: true,
            ..Self::text(head)
        }
    }

    /// The column as one that a narrow terminal does without.
    pub const fn spare(self, order: u8) -> Self {
        Self {
            spare: Some(order),
            ..self
        }
    }

    /// The column as one that only a page has.
    pub const fn of_page(self) -> Self {
        Self {
            is_of_page: true,
            ..self
        }
    }
}

impl Chart {
    /// Returns at most `most` columns: of each group of neighbours, the one with the most units.
    pub fn gathered(&self, most: usize) -> Vec<usize> {
        let few = self.times.len().div_ceil(most).max(1);
        let columns: Vec<usize> = (0..self.times.len()).collect();
        let greatest = |few: &[usize]| few.iter().copied().max_by_key(|at| self.total(*at));
        columns.chunks(few).filter_map(greatest).collect()
    }

    /// The units of all series in a column.
    pub fn total(&self, column: usize) -> u64 {
        let units = self.series.iter();
        let units = units.filter_map(|(_, units)| units.get(column));
        units.copied().fold(0, u64::saturating_add)
    }
}

impl Share {
    /// Its word, which is its name in the style sheet too where it is one.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Unmetered => "unmetered, not yet in the ledger",
            Self::Free => "free",
            Self::Closed => "closed by the upstream, or by hand",
            Self::Unknown => "unknown",
            Self::Headroom => "headroom",
        }
    }
}
