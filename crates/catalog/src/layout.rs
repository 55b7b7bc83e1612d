//! How the records of a kind are read. Each landing stores it, so that the kind's view has the columns that are configured
//! now.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::sql::{Row, StoreError, Tx, values};
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

    /// Reads it from two columns.
    pub fn read(row: &Row, column: usize) -> Result<Self, StoreError> {
        Ok(Self {
            text: row.text(column)?,
            columns: row.text(column + 1)?,
        })
    }
}

const LAYOUTS: &str =
    "select upstream, kind, text, columns from kind order by upstream, kind, call";

/// How the records of each kind are read, by upstream and kind.
pub struct Layouts(BTreeMap<(String, String), Vec<KindLayout>>);

impl Layouts {
    pub fn read(tx: &Tx<'_>) -> Result<Self, StoreError> {
        let mut layouts: BTreeMap<(String, String), Vec<KindLayout>> = BTreeMap::new();
        for row in tx.query(LAYOUTS, values![])? {
            let of_kind = layouts.entry((row.text(0)?, row.text(1)?)).or_default();
            of_kind.push(KindLayout::read(&row, 2)?);
        }
        Ok(Self(layouts))
    }

    /// Where the records of a kind have their text, over all calls that land them.
    pub fn text_pointers(&self, upstream: &str, kind: &str) -> Vec<Pointer> {
        text_pointers(self.of_kind(upstream, kind))
    }

    /// How the records of a kind are read, by each call that lands them.
    pub fn of_kind(&self, upstream: &str, kind: &str) -> &[KindLayout] {
        let layouts = self.0.get(&(upstream.to_owned(), kind.to_owned()));
        layouts.map(Vec::as_slice).unwrap_or_default()
    }

    /// Each upstream and kind with how its records are read.
    pub fn of_kinds(&self) -> impl Iterator<Item = (&str, &str, &[KindLayout])> {
        let of_kinds = self.0.iter();
        of_kinds.map(|((upstream, kind), layouts)| (&**upstream, &**kind, layouts.as_slice()))
    }
}

/// Where records have their text, over all calls that land them.
fn text_pointers(layouts: &[KindLayout]) -> Vec<Pointer> {
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
