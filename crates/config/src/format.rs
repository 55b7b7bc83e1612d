//! `format` and `layout`: how the body of a response is written, and how its records are arranged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::Words;

impl Words for Format {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("json", Format::Json, "JSON."),
        (
            "ndjson",
            Format::Ndjson,
            "One JSON value per line; the response is their list.",
        ),
        (
            "csv",
            Format::Csv(b','),
            "Values separated by commas; the response is a list with one object per row. The first row names the members, and \
        every value is text.",
        ),
        (
            "csv_semicolon",
            Format::Csv(b';'),
            "The same with semicolons.",
        ),
        (
            "tsv",
            Format::Csv(b'\t'),
            "The same with tabs. Quotation marks are a part of the value, unless each closes in its line.",
        ),
        (
            "xml",
            Format::Xml,
            "XML; the response is an object whose only member is the root element. An element without attributes and child \
        elements is its text, without white space at its ends. Any other is an object: `@name` is an attribute, `name` a child element, a list if there are \
        several, and `#text` the text. Namespaces are left out. Where a pointer has `*` or a number behind an element's name, \
        that element is a list however often it occurs: `/author/*/name` finds none, one and several.",
        ),
    ];
}

/// The format of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Json,
    /// `ndjson`: one JSON value per line.
    Ndjson,
    /// `csv`, with the byte that separates two values.
    Csv(u8),
    Xml,
}

impl Format {
    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Ndjson => "NDJSON",
            Self::Csv(_) => "CSV",
            Self::Xml => "XML",
        }
    }

    /// Its word in a configuration.
    pub fn word(self) -> &'static str {
        Words::word(self)
    }

    /// The value of the header `accept` that requests it.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Ndjson => "application/x-ndjson",
            Self::Csv(_) => "text/csv",
            Self::Xml => "application/xml",
        }
    }
}

/// How the records at their place are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// Each element is a record, or the object is one.
    #[default]
    Objects,
    /// An object with one list for each field: `{"time": [1, 2], "rain": [0, 3]}` is two records. A member that is no list is in each record.
    Columns,
    /// A list of lists, of which the first names the fields: `[["time", "rain"], [1, 0], [2, 3]]` is two records. With `fields`, the
    /// first is a record too.
    Rows,
}
