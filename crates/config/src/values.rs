//! How values of other crates' types are read from `quotas.toml`, written as defaults, and described by the JSON schema.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Value, json};
use url::{Host, Url};

use super::error::{Nested, Refusal};
use super::names::{advice, choice, closest};
use ingest_quota::{Cost, Units};

/// How a value is read: of a type that this crate does not own, or that accepts only some values of its type.
pub trait Leaf {
    type Value;

    /// Returns the value, or what was expected in its place.
    fn read(raw: Value) -> Result<Self::Value, Refusal>;

    /// The value as the schema shows it where it is a default; null for what is never one.
    fn written(_: &Self::Value) -> Value {
        Value::Null
    }

    /// Its JSON schema, with the type's name in the manual as `title`.
    fn schema() -> Value;
}

/// For fields: `#[serde(with = "As::<Span>")]`.
pub struct As<L>(PhantomData<L>);

impl<L: Leaf> As<L> {
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<L::Value, D::Error> {
        let raw = plain(Value::deserialize(deserializer)?);
        L::read(raw).map_err(D::Error::custom)
    }

    pub fn serialize<S: Serializer>(value: &L::Value, serializer: S) -> Result<S::Ok, S::Error> {
        L::written(value).serialize(serializer)
    }
}

impl<L: Leaf> JsonSchema for As<L> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        std::any::type_name::<L>().into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        L::schema().try_into().unwrap_or_default()
    }
}

/// Derives serde and the schema of own types from their [`Leaf`].
macro_rules! leaves {
    ($($type:ty),* $(,)?) => {$(
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::values::As::<Self>::deserialize(deserializer)
            }
        }

        $crate::values::described!($type: $crate::values::As<Self>);
    )*};
}

/// The schema of types that serde reads through the keys of a table.
macro_rules! described {
    ($($type:ty: $keys:ty),* $(,)?) => {$(
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                <$keys as schemars::JsonSchema>::json_schema(generator)
            }
        }
    )*};
}

/// A leaf that takes some values of another one: its name, the other one, the type of its values, how one of the other is taken, what
/// was expected, what to write, the schema, and for what can be a default how that is written.
macro_rules! leaf {
    ($name:ident, $of:ty, $value:ty, $take:expr, $expected:expr, $instead:expr, $schema:expr $(, $written:expr)? $(,)?) => {
        pub struct $name;

        impl $crate::values::Leaf for $name {
            type Value = $value;

            fn read(raw: serde_json::Value) -> Result<$value, $crate::error::Refusal> {
                let take: fn(<$of as $crate::values::Leaf>::Value) -> Option<$value> = $take;
                let taken = take(<$of as $crate::values::Leaf>::read(raw)?);
                taken.ok_or_else(|| $crate::error::Refusal::new($expected, $instead))
            }

            $(fn written(value: &$value) -> serde_json::Value {
                let written: fn(&$value) -> serde_json::Value = $written;
                written(value)
            })?

            fn schema() -> serde_json::Value {
                $schema
            }
        }
    };
}

pub(crate) use {described, leaf, leaves};

/// TOML's dates and times are the text that they were written as.
fn plain(raw: Value) -> Value {
    match raw {
        Value::Object(mut members) => match members.remove(DATE) {
            Some(date) => date,
            None => {
                let members = members.into_iter();
                Value::Object(members.map(|(key, value)| (key, plain(value))).collect())
            }
        },
        Value::Array(values) => values.into_iter().map(plain).collect(),
        raw => raw,
    }
}

/// The member by which `toml` hands a date to serde.
const DATE: &str = "$__toml_private_datetime";

impl<L: Leaf> Leaf for Option<L> {
    type Value = Option<L::Value>;

    fn read(raw: Value) -> Result<Self::Value, Refusal> {
        L::read(raw).map(Some)
    }

    fn schema() -> Value {
        L::schema()
    }
}

/// A table of keys. serde would also read a list of their values.
pub struct Table<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Keys<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(Keys(PhantomData)).map(Self)
    }
}

impl<T: JsonSchema> JsonSchema for Table<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A value that is written as one text, or as a table of keys.
pub enum Either<L: Leaf, K> {
    Text(L::Value),
    Table(K),
}

impl<'de, L: Leaf, K: DeserializeOwned> Deserialize<'de> for Either<L, K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match plain(Value::deserialize(deserializer)?) {
            table @ Value::Object(_) => {
                let read = serde_path_to_error::deserialize(table).map(Self::Table);
                read.map_err(|error| D::Error::custom(Nested::of(&error)))
            }
            raw => L::read(raw).map(Self::Text).map_err(D::Error::custom),
        }
    }
}

impl<L: Leaf, K: JsonSchema> JsonSchema for Either<L, K> {
    fn schema_name() -> Cow<'static, str> {
        format!("Either{}", K::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<K>();
        let either = json!({ "anyOf": [L::schema(), table] });
        either.try_into().unwrap_or_default()
    }
}

/// One value, or several in a list.
pub struct OneOrMore<L>(PhantomData<L>);

impl<L: Leaf> Leaf for OneOrMore<L> {
    type Value = Vec<L::Value>;

    fn read(raw: Value) -> Result<Self::Value, Refusal> {
        match raw {
            Value::Array(values) if values.is_empty() => Err(Refusal::new(
                "expected at least one value",
                "write one value, or a list of values",
            )),
            Value::Array(values) => elements::<L>(values),
            raw => Ok(vec![L::read(raw)?]),
        }
    }

    fn schema() -> Value {
        let one = L::schema();
        json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

/// A list of at least `LEAST` values.
pub struct List<L, const LEAST: usize>(PhantomData<L>);

impl<L: Leaf, const LEAST: usize> Leaf for List<L, LEAST> {
    type Value = Vec<L::Value>;

    fn read(raw: Value) -> Result<Self::Value, Refusal> {
        match raw {
            Value::Array(values) if values.len() < LEAST => Err(Refusal::new(
                format!("expected at least {LEAST} values"),
                "add values, or remove the key",
            )),
            Value::Array(values) => elements::<L>(values),
            _ => Err(Refusal::no_list()),
        }
    }

    fn written(values: &Self::Value) -> Value {
        values.iter().map(L::written).collect()
    }

    fn schema() -> Value {
        match LEAST {
            0 => json!({ "type": "array", "items": L::schema() }),
            least => json!({ "type": "array", "items": L::schema(), "minItems": least }),
        }
    }
}

fn elements<L: Leaf>(values: Vec<Value>) -> Result<Vec<L::Value>, Refusal> {
    let read = |(at, value)| L::read(value).map_err(|error| error.below(&usize::to_string(&at)));
    values.into_iter().enumerate().map(read).collect()
}

/// One of some words, of a type of another crate.
pub struct OneOf<T>(PhantomData<T>);

/// The words for the values of a type, each with its documentation.
pub trait Words: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self, &'static str)];

    /// Its word.
    fn word(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(_, value, _)| *value == self);
        found.map_or("", |(word, ..)| word)
    }
}

impl<T: Words> Leaf for OneOf<T> {
    type Value = T;

    fn read(raw: Value) -> Result<T, Refusal> {
        let words = || T::WORDS.iter().map(|(word, ..)| *word).collect::<Vec<_>>();
        let Value::String(text) = raw else {
            return Err(no_word(&words()));
        };
        let found = T::WORDS.iter().find(|(word, ..)| *word == text);
        let meaning = found.map(|(_, meaning, _)| *meaning);
        meaning.ok_or_else(|| unknown_word(&text, &words()))
    }

    fn written(value: &T) -> Value {
        value.word().into()
    }

    fn schema() -> Value {
        let word = |(word, _, doc): &(_, _, _)| json!({ "const": word, "description": doc });
        json!({ "oneOf": T::WORDS.iter().map(word).collect::<Vec<_>>() })
    }
}

/// What is said of a value that is no text where one of these words is expected.
pub fn no_word(words: &[&str]) -> Refusal {
    Refusal::new(
        format!("expected {}", choice(words)),
        "write one of these, in quotes",
    )
}

/// What is said of a word that is none of these.
pub fn unknown_word(text: &str, words: &[&str]) -> Refusal {
    let instead = match closest(text, words) {
        None if words.len() > 1 => "write one of these".to_owned(),
        _ => advice(text, words.iter().copied()),
    };
    Refusal::new(format!("expected {}", choice(words)), instead)
}

/// A string.
pub fn text(raw: Value) -> Result<String, Refusal> {
    match raw {
        Value::String(text) => Ok(text),
        _ => Err(Refusal::no_text()),
    }
}

/// A string; a number or a boolean is the text that it was written as.
pub fn scalar(raw: Value) -> Result<String, Refusal> {
    match raw {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(match number.as_f64().filter(|_| !number.is_i64()) {
            Some(float) => float.to_string(),
            None => number.to_string(),
        }),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(Refusal::new(
            "expected a string",
            "write one string in quotes",
        )),
    }
}

/// Any string.
pub struct Text;

impl Leaf for Text {
    type Value = String;

    fn read(raw: Value) -> Result<String, Refusal> {
        text(raw)
    }

    fn schema() -> Value {
        json!({ "type": "string" })
    }
}

pub struct Scalar;

impl Leaf for Scalar {
    type Value = String;

    fn read(raw: Value) -> Result<String, Refusal> {
        scalar(raw)
    }

    fn schema() -> Value {
        json!({ "title": "string, number or boolean", "type": ["string", "number", "boolean"] })
    }
}

/// A string that is not empty and has no control characters.
pub struct Filled;

impl Leaf for Filled {
    type Value = String;

    fn read(raw: Value) -> Result<String, Refusal> {
        match text(raw)? {
            text if text.is_empty() => Err(Refusal::new(
                "expected a string that is not empty",
                "write a value",
            )),
            text if text.chars().any(char::is_control) => Err(Refusal::new(
                "expected a string without control characters",
                "remove them",
            )),
            text => Ok(text),
        }
    }

    fn schema() -> Value {
        json!({ "type": "string", "minLength": 1 })
    }
}

pub struct File;

impl Leaf for File {
    type Value = PathBuf;

    fn read(raw: Value) -> Result<PathBuf, Refusal> {
        Filled::read(raw).map(PathBuf::from)
    }

    fn schema() -> Value {
        json!({ "title": "path", "type": "string", "minLength": 1 })
    }
}

/// A whole number from `LEAST` to `MOST`.
pub struct Whole<T, const LEAST: u64, const MOST: u64>(PhantomData<T>);

pub type Count = Whole<u64, 1, 1_000_000_000>;
/// A number of a page.
pub type Pages = Whole<u64, 0, 1_000_000>;
/// Units, zero included.
pub type AnyUnits = Whole<Units, 0, MOST_UNITS>;
/// Units of a limit, at least 1.
pub type SomeUnits = Whole<Units, 1, MOST_UNITS>;

/// More than any quota, and few enough that every ledger can count them exactly.
const MOST_UNITS: u64 = 1_000_000_000_000_000;

impl<T: TryFrom<u64> + ToString, const LEAST: u64, const MOST: u64> Leaf for Whole<T, LEAST, MOST> {
    type Value = T;

    fn read(raw: Value) -> Result<T, Refusal> {
        let found = raw.as_u64().filter(|found| (LEAST..=MOST).contains(found));
        let found = found.and_then(|found| T::try_from(found).ok());
        found.ok_or_else(|| {
            let expected = format!("expected a whole number from {LEAST} to {MOST}");
            Refusal::new(expected, number_instead_of(&raw, LEAST, MOST))
        })
    }

    fn written(value: &T) -> Value {
        value.to_string().parse::<u64>().unwrap_or_default().into()
    }

    fn schema() -> Value {
        let title = match (LEAST, MOST) {
            (_, 10_001..) => format!("integer from {LEAST}"),
            _ => format!("integer from {LEAST} to {MOST}"),
        };
        json!({ "title": title, "type": "integer", "minimum": LEAST, "maximum": MOST })
    }
}

/// The digits of a whole number in quotes, without what groups them; `None` for anything else.
pub fn without_quotes(raw: &Value) -> Option<String> {
    let digits = raw.as_str()?.replace([',', '_', '\''], "");
    digits.parse::<u64>().is_ok().then_some(digits)
}

fn number_instead_of(raw: &Value, least: u64, most: u64) -> String {
    match raw {
        Value::String(_) => match without_quotes(raw) {
            Some(digits) => format!("write {digits} without quotes"),
            None => format!("write a number of {least} or more, without quotes and without a unit"),
        },
        Value::Number(number) if number.as_i128().is_some_and(|found| found > most.into()) => {
            format!("write {most} or less")
        }
        Value::Number(number) if number.as_i128().is_none() => {
            let whole = number.as_f64().filter(|found| {
                found.fract() == 0.0 && (least as f64..=most as f64).contains(found)
            });
            match whole {
                Some(whole) => format!("write {whole}"),
                None => "write a number without a fraction".to_owned(),
            }
        }
        _ => format!("write {least} or more"),
    }
}

/// A number of bytes: `"32MiB"`, or a plain number.
pub struct Bytes;

const MOST_BYTES: u64 = 1 << 40;
const BYTE_UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("B", 1),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

impl Leaf for Bytes {
    type Value = u64;

    fn read(raw: Value) -> Result<u64, Refusal> {
        if raw.is_number() {
            return Whole::<u64, 1, MOST_BYTES>::read(raw);
        }
        let text = text(raw)?;
        let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let number: Option<u64> = text.strip_suffix(unit).and_then(|text| text.parse().ok());
        let factor = BYTE_UNITS.iter().find(|(name, _)| *name == unit.trim());
        let bytes = number.zip(factor);
        let bytes = bytes.and_then(|(number, (_, factor))| number.checked_mul(*factor));
        let bytes = bytes.filter(|bytes| (1..=MOST_BYTES).contains(bytes));
        bytes.ok_or_else(|| {
            Refusal::new(
                "expected a number of bytes from 1 to 1024GiB",
                "write for example \"32MiB\"",
            )
        })
    }

    fn written(bytes: &u64) -> Value {
        let largest = BYTE_UNITS.iter().rev();
        let mut whole = largest.filter(|(_, factor)| bytes.is_multiple_of(*factor));
        let (unit, factor) = whole.next().copied().unwrap_or(("", 1));
        format!("{}{unit}", bytes / factor).into()
    }

    fn schema() -> Value {
        let text = json!({ "type": "string", "pattern": "^[0-9]+ *(B|[kKMG]B|[KMG]iB)?$" });
        let number = json!({ "type": "integer", "minimum": 1, "maximum": MOST_BYTES });
        json!({ "title": "size in bytes", "anyOf": [number, text] })
    }
}

/// A span of time, zero included.
pub struct SpanOrZero;

const LONGEST: Duration = Duration::from_secs(100 * 366 * 24 * 60 * 60);

// A span of time that is not zero.
leaf!(
    Span,
    SpanOrZero,
    Duration,
    |span| (!span.is_zero()).then_some(span),
    "expected a duration longer than zero",
    "write for example \"24h\" or \"250ms\"",
    json!({ "title": "duration", "type": "string", "pattern": "^[0-9]" }),
    SpanOrZero::written,
);

impl Leaf for SpanOrZero {
    type Value = Duration;

    fn read(raw: Value) -> Result<Duration, Refusal> {
        let span = raw.as_str().map(humantime::parse_duration);
        let expected = match span {
            Some(Ok(span)) if span > LONGEST => "expected a duration of at most 100 years",
            // Every ledger counts in microseconds (L2).
            Some(Ok(span)) if span.subsec_nanos() % 1000 != 0 => {
                "expected a duration in whole microseconds"
            }
            Some(Ok(span)) => return Ok(span),
            Some(Err(_)) | None => "expected a duration",
        };
        let example = "write for example \"24h\", \"7d\" or \"250ms\"";
        Err(Refusal::new(expected, example))
    }

    fn written(span: &Duration) -> Value {
        let days = span.as_secs().is_multiple_of(24 * 60 * 60) && span.subsec_nanos() == 0;
        match span.as_secs() / (60 * 60) {
            // humantime writes a day and twelve hours.
            hours @ 25.. if !days && span.as_secs() == hours * 60 * 60 => format!("{hours}h"),
            _ => humantime::format_duration(*span).to_string(),
        }
        .into()
    }

    fn schema() -> Value {
        json!({ "title": "duration, zero included", "type": "string", "pattern": "^[0-9]" })
    }
}

/// Units by limit; a plain number is units of the limit that is named `daily`.
pub struct ByLimit<L>(PhantomData<L>);

impl<L: Leaf<Value = Units>> Leaf for ByLimit<L> {
    type Value = Cost;

    fn read(raw: Value) -> Result<Cost, Refusal> {
        match raw {
            Value::Number(_) => {
                L::read(raw).map(|units| [("daily".to_owned(), units)].into_iter().collect())
            }
            Value::Object(members) => {
                let members = members.into_iter();
                let read = members.map(|(limit, units)| match L::read(units) {
                    Ok(units) => Ok((limit, units)),
                    Err(error) => Err(error.below(&limit)),
                });
                read.collect()
            }
            raw => Err(Refusal::new(
                "expected units for each limit",
                match without_quotes(&raw) {
                    Some(units) => {
                        format!("write {units} without quotes, or {{ daily = {units} }}")
                    }
                    None => "write for example { daily = 1 }".to_owned(),
                },
            )),
        }
    }

    fn schema() -> Value {
        let units = L::schema();
        let table = json!({ "type": "object", "additionalProperties": units });
        json!({
            "title": "integer (units of the limit `daily`), or table of units by limit",
            "anyOf": [units, table],
        })
    }
}

/// For fields: a table of values by names that the file chooses.
pub struct Named<T>(PhantomData<T>);

impl<T: DeserializeOwned> Named<T> {
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, T>, D::Error> {
        let named = BTreeMap::<Name, T>::deserialize(deserializer)?;
        Ok(named
            .into_iter()
            .map(|(Name(name), value)| (name, value))
            .collect())
    }

    pub fn serialize<S: Serializer>(_: &BTreeMap<String, T>, to: S) -> Result<S::Ok, S::Error> {
        json!({}).serialize(to)
    }
}

impl<T: JsonSchema> JsonSchema for Named<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("Named{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<T>();
        named(&value.to_value()).try_into().unwrap_or_default()
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name_of(&name).map_err(D::Error::custom)?;
        Ok(Self(name))
    }
}

/// The schema of a table of such values by names.
pub fn named(value: &Value) -> Value {
    json!({
        "type": "object",
        "propertyNames": { "pattern": "^[^{}]{1,200}$" },
        "additionalProperties": value,
    })
}

/// Checks a name that the file chooses: it becomes part of the ledger's keys and of messages.
pub fn name_of(name: &str) -> Result<(), Refusal> {
    // Braces in a name would end the hash tag that keeps the keys of an account in one slot of a Redis cluster.
    let is_wrong = |letter: char| letter.is_control() || "{}".contains(letter);
    if name.is_empty() || name.len() > 200 || name.chars().any(is_wrong) {
        return Err(Refusal::new(
            "expected a name of 1 to 200 bytes without braces and control characters",
            "write another name",
        ));
    }
    Ok(())
}

/// Whether a URL is on this machine.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Defaults of keys.
pub mod default {
    use std::time::Duration;

    use ingest_quota::Units;

    pub const fn seconds<const N: u64>() -> Duration {
        Duration::from_secs(N)
    }

    pub const fn milliseconds<const N: u64>() -> Duration {
        Duration::from_millis(N)
    }

    pub const fn units<const N: u64>() -> Units {
        Units::new(N)
    }

    pub const fn number<const N: u64>() -> u64 {
        N
    }

    pub const fn small<const N: u32>() -> u32 {
        N
    }
}
