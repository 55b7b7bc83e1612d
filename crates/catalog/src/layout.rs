//! How the records of a kind are read. Each landing stores it, so that the kind's view has the columns that are configured
//! now.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use ingest_config::{Column, ColumnType, Pointer, Records};

/// How a call's records are read, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindLayout {
    /// The pointers to their text: JSON.
    pub text: String,
    /// The columns of their view: JSON.
    pub columns: String,
}

impl KindLayout {
    pub fn new(records: &Records) -> Self {
        let text: Vec<&str> = records.text.iter().map(Pointer::as_str).collect();
        let columns: BTreeMap<&str, Value> = records
            .columns
            .iter()
            .map(|(name, column)| (name.as_str(), stored(column)))
            .collect();
        Self {
            text: serde_json::json!(text).to_string(),
            columns: serde_json::json!(columns).to_string(),
        }
    }
}

/// Where records have their text, over all calls that land them.
pub fn text_pointers(layouts: &[KindLayout]) -> Vec<Pointer> {
    let texts = layouts.iter().flat_map(|layout| {
        let pointers: Vec<String> = serde_json::from_str(&layout.text).unwrap_or_default();
        pointers
    });
    let mut pointers: Vec<Pointer> = Vec::new();
    for pointer in texts.filter_map(|text| Pointer::parse(&text).ok()) {
        if !pointers.contains(&pointer) {
            pointers.push(pointer);
        }
    }
    pointers
}

/// The columns of a view over all calls that land its kind. A column that two calls read from different places has two.
pub fn columns(layouts: &[KindLayout]) -> BTreeMap<String, Vec<Column>> {
    let mut columns: BTreeMap<String, Vec<Column>> = BTreeMap::new();
    for layout in layouts {
        let named: BTreeMap<String, Value> =
            serde_json::from_str(&layout.columns).unwrap_or_default();
        let named = named.into_iter();
        for (name, column) in named.filter_map(|(name, stored)| Some((name, column(&stored)?))) {
            columns.entry(name).or_default().push(column);
        }
    }
    columns
}

/// A column as the catalog stores it: its pointer, or its pointer and its type.
fn stored(column: &Column) -> Value {
    match column.kind {
        None => column.at.as_str().into(),
        Some(kind) => json!({ "at": column.at.as_str(), "type": kind.name() }),
    }
}

fn column(stored: &Value) -> Option<Column> {
    let at = stored.get("at").unwrap_or(stored).as_str()?;
    let kind = stored.get("type").and_then(Value::as_str);
    Some(Column {
        at: Pointer::parse(at).ok()?,
        kind: kind.and_then(ColumnType::named),
        template: None,
    })
}
