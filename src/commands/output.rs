//! Results go to stdout. Whoever stops reading early (`| head`) is no error.

use std::io::{self, Write};

use serde::Serialize;

use super::Error;

/// Writes one JSON object and a newline.
pub(super) fn json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(value).map_err(|error| Error::io("cannot write the result")(error.into()))?;
    text_line(&text)
}

/// Writes a text and a newline, without what a terminal would take for a command.
pub(super) fn text_line(text: &str) -> Result<(), Error> {
    match writeln!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Error::io("cannot write to stdout")),
    }
}

/// A text from an upstream as it may be shown: control characters, terminal escapes among them, become spaces.
pub(super) fn shown(text: &str) -> String {
    let is_hidden = |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}
