//! Results go to stdout. Whoever stops reading early (`| head`) is no error.

use std::io::{self, IsTerminal, Write};

use comfy_table::Table;
use serde::Serialize;
use textwrap::{Options, WordSplitter};

use super::Error;
use crate::cli::Global;

pub use crate::plain::plain as shown;

/// Writes one JSON object and a newline.
pub fn json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::io("cannot write the result")(error.into()))?;
    text_line(&text)
}

/// Writes a text as it is.
pub fn text(text: &str) -> Result<(), Error> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Error::io("cannot write to stdout")),
    }
}

/// Writes a text and a newline. What others said goes through [`shown`] first.
pub fn text_line(text: &str) -> Result<(), Error> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Error::io("cannot write to stdout")),
    }
}

/// Writes a failure's text and a newline, or an event of the log where only that is read.
pub fn failure_line(global: &Global, text: &str) -> Result<(), Error> {
    if global.logs_only() {
        tracing::error!("{text}");
        return Ok(());
    }
    text_line(text)
}

/// What is said of a file, without its path: for whoever says the path already.
pub fn without_path(said: &str, path: &str) -> String {
    said.replacen(&format!("{path}: "), "", 1)
}

/// [`shown`], line by line.
pub fn shown_lines(text: &str) -> String {
    text.split('\n').map(shown).collect::<Vec<_>>().join("\n")
}

/// How wide a terminal is that does not say, in columns.
const USUAL_WIDTH: usize = 80;

/// What results are shown on. Read once, at the edge, so that everything below it is a function of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// How wide a line may be, in columns; as long as it is where nobody says.
    pub width: Option<usize>,
    /// How text is set off there.
    pub style: Style,
}

impl Screen {
    /// Stdout: as wide as its terminal, or as `$COLUMNS` says where there is none. A terminal without a width does not
    /// know it.
    pub fn of_stdout() -> Self {
        let seen = Table::new()
            .width()
            .map(usize::from)
            .filter(|columns| *columns > 0);
        let told = std::env::var("COLUMNS")
            .ok()
            .and_then(|columns| columns.parse().ok())
            .filter(|columns| *columns > 0);
        let usual = io::stdout().is_terminal().then_some(USUAL_WIDTH);
        Self {
            width: seen.or(told).or(usual),
            style: Style::of_stdout(),
        }
    }

    /// Sentences, each line of them no wider than it may be, and set in as it begins.
    pub fn wrapped(self, text: &str) -> String {
        let Some(width) = self.width else {
            return text.to_owned();
        };
        let lines = text.lines().map(|line| {
            let indent = " ".repeat(line.len() - line.trim_start().len());
            let options = Options::new(width)
                .subsequent_indent(&indent)
                .break_words(false);
            textwrap::fill(line, options.word_splitter(WordSplitter::NoHyphenation))
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// How text is set off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// In colour, on a terminal.
    Coloured,
    /// By letters alone.
    Plain,
}

impl Style {
    /// What stdout is for: a terminal whose user does not mind colour, or anything else. `$NO_COLOR` says no wherever it
    /// is; `$CLICOLOR_FORCE` yes where there is no terminal.
    pub fn of_stdout() -> Self {
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

    /// What stands around something that was found.
    pub const fn marks(self) -> (&'static str, &'static str) {
        match self {
            Self::Coloured => ("\u{1b}[1m", "\u{1b}[0m"),
            Self::Plain => ("[", "]"),
        }
    }

    /// A text in a colour of the terminal's.
    pub fn paint(self, text: &str, colour: Colour) -> String {
        match (self, text.is_empty()) {
            (Self::Coloured, false) => format!("\u{1b}[{}m{text}\u{1b}[0m", colour as u8),
            _ => text.to_owned(),
        }
    }
}

/// The colours that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Something is wrong.
    Red = 31,
    /// All is well.
    Green = 32,
    /// It gets tight.
    Yellow = 33,
    /// It does not matter much.
    Grey = 90,
}
