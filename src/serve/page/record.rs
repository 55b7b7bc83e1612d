//! One record, with its columns as the configuration names them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;

use super::search::name_of;
use super::titled;
use crate::commands::export::{self, ExportColumn};
use crate::commands::figures::instant;
use crate::doc::html;
use crate::doc::{Doc, DocBlock, Grid, Head, Phrase, Section};
use crate::serve::App;
use crate::serve::api;
use crate::serve::problem::Problem;
use crate::serve::query::{Filled, parameters};
use ingest_catalog::StoredRecord;
use ingest_config::Pointer;

/// The columns that a record has values for.
fn columns_of<'c>(columns: &'c [ExportColumn], body: &Value) -> Vec<(&'c str, Phrase)> {
    let values = columns.iter().filter_map(|column| {
        let found = |at: &Pointer| at.find(body).filter(|value| !value.is_null()).cloned();
        let text = match column.places.iter().find_map(found)? {
            Value::String(text) => text,
            value => value.to_string(),
        };
        Some((&*column.name, Phrase::found(&text)))
    });
    values.collect()
}

/// The record that is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordFilter {
    kind: String,
    id: String,
    upstream: Filled,
}

/// `GET /record`: one record, with its columns as the configuration names them.
pub async fn record_page(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let shown = record(&app, &uri).await;
    titled(&app, "/search", ("Record", ""), shown)
}

async fn record(app: &App, uri: &Uri) -> Result<(String, String), Problem> {
    let RecordFilter { kind, id, upstream } = parameters(uri)?;
    let record = api::one_record(app, kind, id, upstream.owned()).await?;
    let body = serde_json::from_str(&record.body).unwrap_or_default();
    let StoredRecord {
        upstream, kind, id, ..
    } = &record;
    let title = name_of(&app.environment, (upstream, kind, id), &body);
    let columns = export::columns(&app.environment, kind).unwrap_or_default();
    let columns = columns_of(&columns, &body);
    let mut of_all: Vec<(&str, Phrase)> = vec![
        ("Upstream", upstream.into()),
        ("Kind", kind.into()),
        ("Id", id.into()),
        ("First seen", instant(record.first_seen).into()),
        ("Last seen", instant(record.last_seen).into()),
    ];
    of_all.extend(record.gone_at.map(|at| ("Gone since", instant(at).into())));
    let text = serde_json::to_string_pretty(&body).unwrap_or_default();
    let mut source = Section::headed("As the upstream returned it");
    source.blocks.push(DocBlock::Source(text));
    let doc = Doc::from_iter([
        named("Columns", &columns),
        named("In the catalog", &of_all),
        source,
    ]);
    Ok((title, html::html(&doc)))
}

/// Names and what they stand for.
fn named(heading: &str, all: &[(&str, Phrase)]) -> Section {
    let table = Grid::of(all)
        .column(Head::text("NAME"), |(name, _)| *name)
        .column(Head::text("VALUE"), |(_, value)| value.clone());
    Section::headed(heading).with_rows(table)
}
