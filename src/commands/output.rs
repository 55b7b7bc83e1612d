//! Results go to stdout. A reader that stops early (`| head`) is no error.

use std::io::{self, IsTerminal, Write};

use comfy_table::Table;
use serde::Serialize;
use textwrap::{Options, WordSplitter};

use super::Error;
use crate::cli::{Format, Global};

use ingest_base::plain::json_safe;
pub use ingest_base::plain::plain as shown;

/// Writes one JSON object and a newline.
pub fn json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::io("cannot write the result")(error.into()))?;
    text_line(&json_safe(&text))
}

/// Writes text unchanged.
pub fn text(text: &str) -> Result<(), Error> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Error::io("cannot write to stdout")),
    }
}

/// Writes text and a newline. Text from upstreams and files goes through [`shown`] first.
pub fn text_line(text: &str) -> Result<(), Error> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Error::io("cannot write to stdout")),
    }
}

/// Writes text and a newline to stderr. A failure to write is no failure of the run.
pub fn error_line(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// What a command answers in words.
pub enum Message {
    /// What it was asked for.
    Result(String),
    /// That it is done: `-q` leaves this out.
    Done(String),
    /// That it failed: an event of the log where only that is read.
    Failure(String),
}

/// Writes what a command answers: as JSON, or in words.
pub fn report(
    global: &Global,
    report: &impl Serialize,
    words: impl FnOnce(Screen) -> Message,
) -> Result<(), Error> {
    if global.format == Format::Json {
        return json(report);
    }
    match words(Screen::of_stdout()) {
        Message::Done(_) if global.quiet => Ok(()),
        Message::Failure(text) if global.logs_only() => {
            tracing::error!("{text}");
            Ok(())
        }
        Message::Result(text) | Message::Done(text) | Message::Failure(text) => text_line(&text),
    }
}

/// Returns an error message without the path of its file, for a caller that names the path itself.
pub fn without_path(said: &str, path: &str) -> String {
    said.replacen(&format!("{path}: "), "", 1)
}

/// [`shown`], line by line.
pub fn shown_lines(text: &str) -> String {
    text.split('\n').map(shown).collect::<Vec<_>>().join("\n")
}

/// The width of a terminal that does not report one, in columns.
const USUAL_WIDTH: usize = 80;

/// The screen that shows the results. Read once, at the edge, so that everything below is a function of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// The most columns of a line; `None`: no limit.
    pub width: Option<usize>,
    /// How text is highlighted.
    pub style: Style,
}

impl Screen {
    /// Stdout: as wide as its terminal, or as `$COLUMNS` if it is none.
    pub fn of_stdout() -> Self {
        // A terminal may report that it has no columns.
        let seen = Table::new()
            .width()
            .map(usize::from)
            .filter(|columns| *columns > 0);
        let configured = std::env::var("COLUMNS")
            .ok()
            .and_then(|columns| columns.parse().ok())
            .filter(|columns| *columns > 0);
        let usual = io::stdout().is_terminal().then_some(USUAL_WIDTH);
        Self {
            width: seen.or(configured).or(usual),
            style: Style::of_stdout(),
        }
    }

    /// Returns sentences wrapped to the screen, each line with the indent of the first.
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

/// How text is highlighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// In colour, on a terminal.
    Coloured,
    /// By characters alone.
    Plain,
}

impl Style {
    /// The style of stdout: colour on a terminal, or if `$CLICOLOR_FORCE` is set; never if `$NO_COLOR` is.
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

    /// Returns what surrounds a word that was found.
    pub const fn marks(self) -> (&'static str, &'static str) {
        match self {
            Self::Coloured => ("\u{1b}[1m", "\u{1b}[0m"),
            Self::Plain => ("[", "]"),
        }
    }

    /// Returns the text in a colour.
    pub fn paint(self, text: &str, colour: Colour) -> String {
        match (self, text.is_empty()) {
            (Self::Coloured, false) => format!("\u{1b}[{}m{text}\u{1b}[0m", colour as u8),
            _ => text.to_owned(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Something is wrong.
    Red = 31,
    /// All is well.
    Green = 32,
    /// Something is scarce.
    Yellow = 33,
    /// Something is less important.
    Grey = 90,
}
