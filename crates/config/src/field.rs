//! Where values of records and of responses are.

use std::fmt;

use chrono::NaiveDate;
use serde_json::{Value, json};

use super::declare::{
    Leaf, OneOrMore, Optional, POINTER, Required, Shape, Type, Words, keys, table, template,
};
use super::headers::HEADER_NAME;
use super::item::{self, Item};
use super::tree::Kind;
use super::{Pointer, Template};

/// Where a part of a record comes from: a place in the record, or a text with values of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// A JSON pointer into the record.
    At(Pointer),
    /// A template, such as `{region}`.
    Template(Template),
}

impl Field {
    /// The field as it is written in the configuration.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::At(pointer) => pointer.as_str(),
            Self::Template(template) => template.as_str(),
        }
    }

    /// The pointer, if it is one.
    #[must_use]
    pub const fn pointer(&self) -> Option<&Pointer> {
        match self {
            Self::At(pointer) => Some(pointer),
            Self::Template(_) => None,
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A JSON pointer, or a template.
pub const FIELD: Leaf<Field> = Leaf {
    read: |item| match item.text()? {
        text if text.contains('{') && !text.starts_with('/') => template(item).map(Field::Template),
        _ => POINTER.read(item).map(Field::At),
    },
    shape: || Shape::scalar("JSON pointer, or template", json!({ "type": "string" })),
};

/// The parts of an id: one, or several. Of several, one can be constant text if another one is a pointer. Without that condition a
/// pointer whose `/` was forgotten would be an id that all records share.
pub const ID: Leaf<Vec<Field>> = Leaf {
    read: |item| {
        let parts = item.one_or_more()?;
        let is_pointer =
            |part: &Item<'_>| matches!(part.kind(), Kind::Text(text) if text.starts_with('/'));
        let has_pointer = parts.iter().any(is_pointer);
        item::all(parts.into_iter().map(|part| match part.kind() {
            Kind::Text(text) if has_pointer && !text.is_empty() && !is_pointer(&part) => {
                template(part).map(Field::Template)
            }
            _ => FIELD.read(part),
        }))
    },
    shape: || OneOrMore(FIELD).shape(),
};

/// A column of a kind's view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Where a record has its value.
    pub at: Pointer,
    /// The type of its values; `None`: as they are in the record.
    pub kind: Option<ColumnType>,
    /// The text that is stored at `at` in each record.
    pub template: Option<Template>,
}

keys! {
    struct ColumnKeys {
        /// Where a record has the value.
        at: Pointer = Required(POINTER, "'/statistics/viewCount'"),
        /// The type of the value. A value that is not of the type is null. If unset, values are as they are in the record.
        kind as "type": Option<ColumnType> = Optional(Words(TYPES), "'integer'"),
    }
}

/// A column: a pointer, a template, or a table.
pub const COLUMN: Leaf<Column> = Leaf {
    read: column,
    shape: || FIELD.shape().or(table::<ColumnKeys>().shape()),
};

fn column(item: Item<'_>) -> Option<Column> {
    if item.is_table() {
        let ColumnKeys { at, kind } = table::<ColumnKeys>().read(item)?;
        return Some(Column {
            at,
            kind,
            template: None,
        });
    }
    let own = format!("/{}", item.name().replace('~', "~0").replace('/', "~1"));
    let (at, template) = match FIELD.read(item)? {
        Field::At(at) => (at, None),
        Field::Template(template) => (Pointer::parse(&own).ok()?, Some(template)),
    };
    Some(Column {
        at,
        kind: None,
        template,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    Text,
    Integer,
    Real,
    Boolean,
    Timestamp,
    Json,
}

const TYPES: &[(&str, ColumnType, &str)] = &[
    ("text", ColumnType::Text, "Text."),
    (
        "integer",
        ColumnType::Integer,
        "An integer of at most 64 bits. `12.0` is none: that column is `real`.",
    ),
    ("real", ColumnType::Real, "A number."),
    (
        "boolean",
        ColumnType::Boolean,
        "1 for `true` and `1`, 0 for `false` and `0`.",
    ),
    (
        "timestamp",
        ColumnType::Timestamp,
        "Text that begins with a date, as it is; a number of seconds or milliseconds since 1970, which can be negative, as `2024-05-31T07:00:00Z`.",
    ),
    ("json", ColumnType::Json, "JSON text."),
];

impl ColumnType {
    /// Its name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        let found = TYPES.iter().find(|(_, kind, _)| *kind == self);
        found.map_or("", |(name, ..)| name)
    }

    /// Whether a value is of this type, as the views decide it.
    #[must_use]
    pub fn fits(self, value: &Value) -> bool {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(truth) => u8::from(*truth).to_string(),
            other => other.to_string(),
        };
        let is_digits = |text: &str, most: usize| {
            (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        match self {
            Self::Text | Self::Json => true,
            Self::Integer => text.parse::<i64>().is_ok() && !text.starts_with('+'),
            Self::Real => text.parse::<f64>().is_ok_and(f64::is_finite),
            Self::Boolean => {
                ["true", "false", "1", "0"].contains(&text.to_ascii_lowercase().as_str())
            }
            Self::Timestamp => {
                let date = text
                    .get(..10)
                    .map(|date| NaiveDate::parse_from_str(date, "%Y-%m-%d"));
                let number = text.strip_prefix('-').unwrap_or(&text);
                let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
                matches!(date, Some(Ok(_))) || (is_digits(whole, 14) && is_digits(fraction, 300))
            }
        }
    }

    /// The type of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = TYPES.iter().find(|(known, ..)| *known == name);
        found.map(|(_, kind, _)| *kind)
    }
}

/// Where a response reports a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseField {
    /// In a header of this name, in lower case.
    Header(String),
    Body(Pointer),
}

impl fmt::Display for ResponseField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => f.write_str(name),
            Self::Body(at) => at.fmt(f),
        }
    }
}

/// A header, or a JSON pointer into the body, which begins with `/`.
pub const RESPONSE_FIELD: Leaf<ResponseField> = Leaf {
    read: |item| match item.text()? {
        text if text.starts_with('/') => POINTER.read(item).map(ResponseField::Body),
        _ => HEADER_NAME.read(item).map(ResponseField::Header),
    },
    shape: || {
        Shape::scalar(
            "header name, or JSON pointer into the body",
            json!({ "type": "string", "minLength": 1 }),
        )
    },
};
