//! Cells of comma-separated values.

use std::borrow::Cow;

/// How text is written into a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cells {
    /// A `'` goes before what a spreadsheet would run as a formula.
    Guarded,
    /// As it is.
    Raw,
}

impl Cells {
    /// As the option `--raw` says.
    pub const fn new(raw: bool) -> Self {
        if raw { Self::Raw } else { Self::Guarded }
    }

    /// The text of a cell. A number is never a formula.
    pub fn text(self, text: &str) -> Cow<'_, str> {
        let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
        if self == Self::Raw || !is_formula || text.parse::<f64>().is_ok() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(format!("'{text}"))
    }
}
