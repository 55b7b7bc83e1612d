//! Results go to stdout. A reader that stops early (`| head`) is no error.

use std::io::{self, Write};

use serde::Serialize;

use super::Error;
use crate::cli::{Format, Global};
use crate::doc::text::Screen;

use ingest_base::plain::json_safe;
pub use ingest_base::plain::plain as shown;

/// Writes one JSON object and a newline.
pub fn json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::io("cannot write the result")(error.into()))?;
    text_line(&json_safe(&text))
}

/// Writes what is ready, unchanged.
pub fn bytes(bytes: &[u8]) -> Result<(), Error> {
    match io::stdout().lock().write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Error::io("cannot write to stdout")),
    }
}

/// Writes text and a newline. Text from upstreams and files goes through [`shown`] first.
pub fn text_line(text: &str) -> Result<(), Error> {
    bytes(format!("{text}\n").as_bytes())
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
