//! Cells of comma-separated values.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use ingest_base::plain::plain;

/// How text is written into a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cells {
    /// Whether a terminal shows them: then characters that mislead it become spaces.
    is_shown: bool,
}

/// What begins a formula, in the width of letters and in that of Chinese characters.
const FORMULA: [char; 8] = [
    '=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
];
/// What ends a cell where a spreadsheet does not go by commas, or a line.
const ENDS: [char; 4] = [';', '\t', '\r', '\n'];

impl Cells {
    /// Cells on stdout.
    pub fn on_stdout() -> Self {
        Self {
            is_shown: io::stdout().is_terminal(),
        }
    }

    /// Cells of a file or of a response.
    pub const fn stored() -> Self {
        Self { is_shown: false }
    }

    /// The text of a cell, with a `'` before what a spreadsheet would run as a formula. A number is never one.
    pub fn text(self, text: &str) -> Cow<'_, str> {
        let text = match self.is_shown {
            true => Cow::Owned(plain(text)),
            false => Cow::Borrowed(text),
        };
        if !has_formula(&text) {
            return text;
        }
        let blank = text.starts_with(['\t', '\r', '\n']).then_some("'");
        let parts = text.split_inclusive(ENDS);
        let guarded = parts.map(|part| match is_formula(part) {
            true => format!("'{part}"),
            false => part.to_owned(),
        });
        Cow::Owned(
            blank
                .into_iter()
                .map(str::to_owned)
                .chain(guarded)
                .collect(),
        )
    }
}

fn has_formula(text: &str) -> bool {
    text.starts_with(['\t', '\r']) || text.split_inclusive(ENDS).any(is_formula)
}

/// Whether a part of a cell would be run. A spreadsheet skips spaces and quotes before it.
fn is_formula(part: &str) -> bool {
    let bare = part.trim_start_matches([' ', '"']);
    bare.starts_with(FORMULA) && part.trim_end_matches(ENDS).parse::<f64>().is_err()
}
