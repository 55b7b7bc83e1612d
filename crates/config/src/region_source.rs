//! Regions that a file lists.

use serde_json::Value;

use super::declare::{Required, TEXT, Type, keys, table};
use super::item::{Document, Item};
use super::tree::{Entry, Kind, Node, Origin};
use ingest_base::bounded;

keys! {
    /// Where the regions are.
    pub struct RegionSource {
        /// The file with the regions, relative to the directory of this file: CSV whose first column is `code` and whose others are
        /// values of the regions; one code a line; or JSON, as this key itself could have it, or a list of objects with `code`.
        file: String = Required(TEXT, "'places.csv'"),
    }
}

/// Returns the regions that a file lists, in place of `regions.file`; `None` if the document lists them itself.
///
/// # Errors
/// There is no valid list; the problem is in the document.
pub fn listed(document: &Document) -> Result<Option<Kind>, ()> {
    let Some(regions) = document.item().find(&["regions"]).filter(is_source) else {
        return Ok(None);
    };
    let source = table::<RegionSource>().read(regions.clone()).ok_or(())?;
    let file = document.file.with_file_name(source.file);
    let text = bounded::file_of_text(&file, bounded::DOCUMENT);
    let text = text.map_err(|error| format!("{}: {error}", file.display()));
    match text.and_then(|text| parsed(&text, regions.origin())) {
        Ok(kind) => Ok(Some(kind)),
        Err(why) => {
            regions.refuse::<()>(
                format!("cannot read the regions: {why}"),
                "list codes one a line, or as CSV whose first column is `code`, or as JSON",
            );
            Err(())
        }
    }
}

/// Whether a value says where the regions are: the values of a region are tables.
fn is_source(regions: &Item<'_>) -> bool {
    regions.is_table() && regions.find(&["file"]).is_some_and(|file| !file.is_table())
}

/// Reads a list of regions, as the value of `regions` could be written.
fn parsed(text: &str, origin: &Origin) -> Result<Kind, String> {
    // Spreadsheets begin a CSV file with a byte order mark.
    let text = text.trim_start_matches('\u{feff}').trim();
    let node = |kind| Node {
        origin: origin.clone(),
        kind,
    };
    if text.starts_with(['[', '{']) {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        return of_json(&value, origin);
    }
    let is_table = text.lines().next().is_some_and(|head| {
        let first = head.split(',').next().unwrap_or_default();
        first.trim().trim_matches('"') == "code"
    });
    if is_table {
        return of_csv(text, origin);
    }
    let codes = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let codes = codes.map(|code| node(Kind::Text(code.to_owned())));
    Ok(Kind::List(codes.collect()))
}

fn of_csv(text: &str, origin: &Origin) -> Result<Kind, String> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let heads = reader.headers().map_err(|error| error.to_string())?.clone();
    let mut regions = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|error| error.to_string())?;
        let values = heads.iter().zip(row.iter()).skip(1);
        // An empty cell is no value.
        let values = values.filter(|(_, value)| !value.is_empty());
        let values = values.map(|(head, value)| entry(head, Kind::Text(value.to_owned()), origin));
        let code = row.get(0).unwrap_or_default();
        regions.push(entry(code, Kind::Table(values.collect()), origin));
    }
    once_each(regions)
}

/// A list of codes, a list of objects with `code`, or an object of regions with their values.
fn of_json(value: &Value, origin: &Origin) -> Result<Kind, String> {
    let objects = match value {
        Value::Array(all) if all.first().is_some_and(Value::is_object) => all,
        value => return kind_of(value, origin),
    };
    let mut regions = Vec::new();
    for one in objects {
        let mut values = one.as_object().cloned().unwrap_or_default();
        let code = match values.remove("code") {
            Some(Value::String(code)) => code,
            Some(Value::Number(code)) => code.to_string(),
            _ => return Err(format!("{one} has no `code`")),
        };
        regions.push(entry(
            &code,
            kind_of(&Value::Object(values), origin)?,
            origin,
        ));
    }
    once_each(regions)
}

fn kind_of(value: &Value, origin: &Origin) -> Result<Kind, String> {
    Ok(match value {
        Value::String(text) => Kind::Text(text.clone()),
        Value::Number(number) => Kind::Text(number.to_string()),
        Value::Bool(truth) => Kind::Bool(*truth),
        Value::Null => return Err("null is no value".to_owned()),
        Value::Array(all) => {
            let nodes = all.iter().map(|one| {
                Ok::<_, String>(Node {
                    origin: origin.clone(),
                    kind: kind_of(one, origin)?,
                })
            });
            Kind::List(nodes.collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let present = members.iter().filter(|(_, value)| !value.is_null());
            let entries =
                present.map(|(key, value)| Ok(entry(key, kind_of(value, origin)?, origin)));
            Kind::Table(entries.collect::<Result<_, String>>()?)
        }
    })
}

fn entry(key: &str, kind: Kind, origin: &Origin) -> Entry {
    let node = Node {
        origin: origin.clone(),
        kind,
    };
    Entry {
        key: key.to_owned(),
        node,
    }
}

fn once_each(regions: Vec<Entry>) -> Result<Kind, String> {
    let mut seen = std::collections::HashSet::new();
    match regions.iter().find(|region| !seen.insert(&region.key)) {
        Some(twice) => Err(format!("{:?} is listed twice", twice.key)),
        None => Ok(Kind::Table(regions)),
    }
}
