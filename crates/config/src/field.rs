//! Where values of records and of responses are.

use std::fmt;

use chrono::NaiveDate;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use strum::{EnumString, IntoStaticStr};

use super::error::Refusal;
use super::headers::HeaderName;
use super::values::{Either, Leaf, OneOrMore, leaves, text};
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
    pub fn as_str(&self) -> &str {
        match self {
            Self::At(pointer) => pointer.as_str(),
            Self::Template(template) => template.as_str(),
        }
    }

    /// The pointer, if it is one.
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

leaves!(Field, ResponseField);

/// A JSON pointer, or a template.
impl Leaf for Field {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        let text = text(raw)?;
        match text.contains('{') && !text.starts_with('/') {
            true => Template::read(text.into()).map(Self::Template),
            false => Pointer::read(text.into()).map(Self::At),
        }
    }

    fn schema() -> Value {
        json!({ "title": "JSON pointer, or template", "type": "string" })
    }
}

/// The parts of an id: one, or several. Of several, one can be constant text if another one is a pointer. Without that condition a
/// pointer whose `/` was forgotten would be an id that all records share.
pub struct Id;

impl Leaf for Id {
    type Value = Vec<Field>;

    fn read(raw: Value) -> Result<Vec<Field>, Refusal> {
        let is_pointer = |part: &Value| part.as_str().is_some_and(|text| text.starts_with('/'));
        let Value::Array(parts) = raw else {
            return OneOrMore::<Field>::read(raw);
        };
        if parts.is_empty() || !parts.iter().any(is_pointer) {
            return OneOrMore::<Field>::read(parts.into());
        }
        let part = |(at, part): (usize, Value)| {
            let is_text = part.as_str().is_some_and(|text| !text.is_empty()) && !is_pointer(&part);
            let field = match is_text {
                true => Template::read(part).map(Field::Template),
                false => Field::read(part),
            };
            field.map_err(|refusal| refusal.below(&at.to_string()))
        };
        parts.into_iter().enumerate().map(part).collect()
    }

    fn schema() -> Value {
        OneOrMore::<Field>::schema()
    }
}

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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ColumnKeys {
    /// Where a record has the value. Example: `at = "/statistics/viewCount"`.
    pub at: Pointer,
    /// The type of the value; one of another type is null. If unset, values are as they came. Example: `type = "integer"`.
    #[serde(rename = "type")]
    pub kind: Option<ColumnType>,
}

/// A column, as it is written: a pointer, a template, or a table.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct WrittenColumn(Either<Field, ColumnKeys>);

impl WrittenColumn {
    /// The column of this name.
    pub fn named(self, name: &str) -> Result<Column, Refusal> {
        let (at, kind, template) = match self.0 {
            Either::Table(ColumnKeys { at, kind }) => (at, kind, None),
            Either::Text(Field::At(at)) => (at, None, None),
            Either::Text(Field::Template(template)) => {
                let own = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
                (Pointer::read(own.into())?, None, Some(template))
            }
        };
        Ok(Column { at, kind, template })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, IntoStaticStr, EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ColumnType {
    /// Text.
    Text,
    /// An integer of at most 64 bits. `12.0` is none: that column is `real`.
    Integer,
    /// A number.
    Real,
    /// 1 for `true` and `1`, 0 for `false` and `0`.
    Boolean,
    /// Text that begins with a date, as it is; a number of seconds or milliseconds since 1970, also negative, as `2024-05-31T07:00:00Z`.
    Timestamp,
    /// JSON text.
    Json,
}

impl ColumnType {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        self.into()
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
    pub fn named(name: &str) -> Option<Self> {
        name.parse().ok()
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
impl Leaf for ResponseField {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        match text(raw)? {
            text if text.starts_with('/') => Pointer::read(text.into()).map(Self::Body),
            text => HeaderName::read(text.into()).map(Self::Header),
        }
    }

    fn schema() -> Value {
        let title = "header name, or JSON pointer into the body";
        json!({ "title": title, "type": "string", "minLength": 1 })
    }
}
