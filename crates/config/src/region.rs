//! `regions`: a list of codes, or a table of regions with values.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use ingest_base::bounded;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Slice;
use super::document::Document;
use super::error::Refusal;
use super::values::{As, Filled, Leaf, Scalar, leaves, scalar, text};

/// The partition that a job walks, with values that templates can use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Region {
    /// Its code, such as `US`; `*` for requests that serve several regions at once.
    pub code: String,
    /// Values of its own, by name: `[regions.GB] city = "London"`.
    pub values: BTreeMap<String, String>,
    /// The span of time of a pass, in a job with `slices`.
    pub slice: Option<Slice>,
}

impl Region {
    /// The code of requests that serve several regions at once.
    pub const SHARED: &'static str = "*";

    /// The code of the only region of a configuration without `regions`.
    pub const NONE: &'static str = "-";

    /// The only region of a configuration without `regions`.
    pub fn none() -> Self {
        Self::of(Self::NONE)
    }

    /// Returns the name of what one pass walks: the code, and the slice if there is one.
    pub fn key(&self) -> String {
        Self::key_of(&self.code, self.slice)
    }

    /// Returns the same for a code and a slice.
    pub fn key_of(code: &str, slice: Option<Slice>) -> String {
        match slice {
            Some(slice) if code == Self::NONE => slice.to_string(),
            Some(slice) => format!("{code} {slice}"),
            None => code.to_owned(),
        }
    }

    /// The region of requests that serve several regions at once.
    pub fn shared() -> Self {
        Self::of(Self::SHARED)
    }

    fn of(code: &str) -> Self {
        Self {
            code: code.to_owned(),
            ..Self::default()
        }
    }
}

/// What the command line accepts for all regions.
const ALL: &str = "all";

/// `regions`, in the order of the file.
pub struct Regions(pub Vec<Region>);

leaves!(Regions);

impl Leaf for Regions {
    type Value = Self;

    fn read(raw: Value) -> Result<Self, Refusal> {
        let regions = match raw {
            Value::Array(codes) => distinct(codes)?,
            Value::Object(regions) => {
                let read = |(code, values): (String, Value)| {
                    Region::read(&code, values).map_err(|refusal| refusal.below(&code))
                };
                regions.into_iter().map(read).collect::<Result<_, _>>()?
            }
            _ => Vec::new(),
        };
        match regions.is_empty() {
            true => Err(Refusal::new(
                "expected a list of codes with at least one region",
                "write for example [\"US\", \"GB\"]",
            )),
            false => Ok(Self(regions)),
        }
    }

    fn schema() -> Value {
        let code = json!({
            "type": "string",
            "pattern": "^[^,\\s]([^,]*[^,\\s])?$",
            "not": { "enum": [Region::SHARED, ALL] },
        });
        let values = json!({
            "title": "table",
            "type": "object",
            "propertyNames": { "pattern": "^[^{}:]+$" },
            "additionalProperties": Scalar::schema(),
        });
        let mut regions = super::values::named(&values);
        if let Some(regions) = regions.as_object_mut() {
            regions.insert("minProperties".to_owned(), json!(1));
        }
        let listed = schemars::schema_for!(RegionSource);
        let listed = listed.get("properties");
        json!({ "anyOf": [
            { "type": "array", "items": code, "minItems": 1, "uniqueItems": true },
            regions,
            { "type": "object", "properties": listed, "required": ["file"], "additionalProperties": false },
        ] })
    }
}

/// Codes, each once.
fn distinct(codes: Vec<Value>) -> Result<Vec<Region>, Refusal> {
    let mut seen = BTreeSet::new();
    let mut once = |raw: Value| {
        let code = text(raw)?;
        match seen.insert(code.clone()) {
            true => Region::read(&code, json!({})),
            false => Err(Refusal::new("duplicate region", "remove it")),
        }
    };
    let codes = codes.into_iter().enumerate();
    codes
        .map(|(at, raw)| once(raw).map_err(|refusal| refusal.below(&at.to_string())))
        .collect()
}

impl Region {
    fn read(code: &str, values: Value) -> Result<Self, Refusal> {
        let expected = if code.is_empty()
            || code == Self::SHARED
            || code.chars().any(char::is_control)
        {
            Some("expected a region code: not empty, not `*`, without control characters")
        } else if code == ALL || code.contains(',') || code.trim() != code {
            Some(
                "expected a region code that --region accepts: not `all`, without commas, without leading or trailing spaces",
            )
        } else {
            None
        };
        if let Some(expected) = expected {
            return Err(Refusal::new(expected, "write for example \"US\""));
        }
        let Value::Object(values) = values else {
            return Err(Refusal::no_table());
        };
        // A value's name must be one that templates can use; `{region.NAME}` names it where another variable has its name.
        let value = |(name, value): (String, Value)| {
            if name.is_empty() || name.contains(['{', '}', ':']) {
                let expected =
                    "expected a name that templates can use: not empty, without braces and `:`";
                return Err(Refusal::new(expected, "write another name").below(&name));
            }
            match scalar(value) {
                Ok(value) => Ok((name, value)),
                Err(refusal) => Err(refusal.below(&name)),
            }
        };
        Ok(Self {
            code: code.to_owned(),
            values: values.into_iter().map(value).collect::<Result<_, _>>()?,
            slice: None,
        })
    }
}

/// Where the regions are.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RegionSource {
    /// The file with the regions, relative to the directory of this file: CSV whose first column is `code` and whose others are
    /// values; one code a line; or JSON, as `regions` could be, or a list of objects with `code`. Example: `file = "places.csv"`.
    #[serde(with = "As::<Filled>")]
    file: String,
}

/// Puts the regions that a file lists in the place of `regions.file`. What they are is then checked as if the document had them.
/// False if there is no valid list; the problem is in the document.
pub fn list(document: &mut Document<'_>) -> bool {
    // The values of a region are tables.
    let is_source = matches!(document.find(&["regions", "file"]), Some(file) if !file.is_table());
    if !is_source {
        return true;
    }
    let Some(source) = document.table::<RegionSource>(&["regions"], &[]) else {
        return false;
    };
    let file = document.file.with_file_name(source.file);
    let text = bounded::file_of_text(&file, bounded::DOCUMENT);
    let text = text.map_err(|error| format!("{}: {error}", file.display()));
    match text.and_then(|text| parsed(&text)) {
        Ok(regions) => {
            document.replace("regions", toml_of(regions));
            true
        }
        Err(why) => {
            document.refuse(
                &["regions"],
                format!("cannot read the regions: {why}"),
                "list codes one a line, or as CSV whose first column is `code`, or as JSON",
            );
            false
        }
    }
}

/// Reads a list of regions, as the value of `regions` could be written.
fn parsed(text: &str) -> Result<Value, String> {
    // Spreadsheets begin a CSV file with a byte order mark.
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.starts_with(['[', '{']) {
        return of_json(serde_json::from_str(text).map_err(|error| error.to_string())?);
    }
    let head = text.lines().next().unwrap_or_default();
    let first = head.split(',').next().unwrap_or_default();
    if first.trim().trim_matches('"') == "code" {
        return of_csv(text);
    }
    let other = first.trim().strip_prefix("code").unwrap_or_default();
    if other.starts_with([';', '\t', '|']) {
        return Err(format!(
            "its first line is `{head}`, which separates columns by another character than a comma"
        ));
    }
    let codes = text.lines().map(str::trim).filter(|line| !line.is_empty());
    if let Some(comment) = codes.clone().find(|line| line.starts_with('#')) {
        return Err(format!("`{comment}` is a comment, which it cannot have"));
    }
    Ok(codes.map(Value::from).collect())
}

fn of_csv(text: &str) -> Result<Value, String> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let heads = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut seen = HashSet::new();
    if let Some(head) = heads.iter().find(|head| !seen.insert(*head)) {
        return Err(format!("its column `{head}` is there twice"));
    }
    let mut regions = Map::new();
    for row in reader.records() {
        let row = row.map_err(|error| error.to_string())?;
        let line = row.position().map_or(0, csv::Position::line);
        // A quotation mark that nobody closed takes up the regions behind it.
        if row.iter().any(|value| value.contains(['\n', '\r'])) {
            return Err(format!(
                "line {line}: a quoted value goes on in the next line; close its quotation mark"
            ));
        }
        if row.get(0).is_some_and(|code| code.starts_with('#')) {
            return Err(format!("line {line} is a comment, which it cannot have"));
        }
        let values = heads.iter().zip(row.iter()).skip(1);
        // An empty cell is no value.
        let values = values.filter(|(_, value)| !value.is_empty());
        let values = values.map(|(head, value)| (head.to_owned(), Value::from(value)));
        once(
            &mut regions,
            row.get(0).unwrap_or_default(),
            values.collect(),
        )?;
    }
    Ok(regions.into())
}

/// A list of codes, a list of objects with `code`, or an object of regions with their values.
fn of_json(value: Value) -> Result<Value, String> {
    let objects = match value {
        Value::Array(all) if all.first().is_some_and(Value::is_object) => all,
        value => return Ok(value),
    };
    let mut regions = Map::new();
    for one in objects {
        let mut values = one.as_object().cloned().unwrap_or_default();
        let code = match values.shift_remove("code") {
            Some(Value::String(code)) => code,
            Some(Value::Number(code)) => code.to_string(),
            _ => return Err(format!("{one} has no `code`")),
        };
        once(&mut regions, &code, values)?;
    }
    Ok(regions.into())
}

fn once(
    regions: &mut Map<String, Value>,
    code: &str,
    values: Map<String, Value>,
) -> Result<(), String> {
    match regions.insert(code.to_owned(), values.into()) {
        Some(_) => Err(format!("{code:?} is listed twice")),
        None => Ok(()),
    }
}

/// JSON as TOML, in which null is no value and a number is the text that it is written as.
fn toml_of(value: Value) -> DeValue<'static> {
    let element = |value| Spanned::new(0..0, toml_of(value));
    match value {
        Value::Array(all) => DeValue::Array(all.into_iter().map(element).collect()),
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| !value.is_null());
            let table: DeTable<'static> = members
                .map(|(key, value)| (Spanned::new(0..0, key.into()), element(value)))
                .collect();
            DeValue::Table(table)
        }
        Value::Bool(truth) => DeValue::Boolean(truth),
        Value::String(text) => DeValue::String(text.into()),
        other => DeValue::String(other.to_string().into()),
    }
}
