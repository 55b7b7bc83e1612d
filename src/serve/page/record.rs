//! `/record`: one record, with its columns as the configuration names them.

use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::{Detail, Reader, columns_of, details, lines, linked, name_of};
use crate::commands::export;
use crate::serve::App;
use crate::serve::api;
use crate::serve::problem::Problem;
use ingest_base::plain::plain;
use ingest_catalog::StoredRecord;

/// The record that is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordName {
    kind: String,
    id: String,
    upstream: Option<String>,
}

/// `GET /record`
pub async fn page(reader: Reader) -> Response {
    let content = content(&reader).await;
    reader.page_below("/search", content)
}

async fn content(reader: &Reader) -> Result<(String, Markup), Problem> {
    let record = found(&reader.app, reader.filters()?).await?;
    let body = serde_json::from_str(&record.body).unwrap_or_default();
    let StoredRecord {
        upstream, kind, id, ..
    } = &record;
    let title = name_of(&reader.app.environment, (upstream, kind, id), &body);
    Ok((title, shown(reader, &record, &body)))
}

async fn found(app: &App, name: RecordName) -> Result<StoredRecord, Problem> {
    let RecordName { kind, id, upstream } = name;
    api::one_record(app, kind, id, upstream).await
}

fn shown(reader: &Reader, record: &StoredRecord, body: &Value) -> Markup {
    let of_all = [
        Detail::new("Upstream", html! { (plain(&record.upstream)) }),
        Detail::new("Kind", html! { (plain(&record.kind)) }),
        Detail::new("Id", html! { (plain(&record.id)) }),
        Detail::new("First seen", reader.time(record.first_seen)),
        Detail::new("Last seen", reader.time(record.last_seen)),
        Detail::maybe("Gone since", record.gone_at.map(|at| reader.time(at))),
    ];
    let columns = export::columns(&reader.app.environment, &record.kind).unwrap_or_default();
    let columns = columns_of(&columns, body);
    let text = serde_json::to_string_pretty(body).unwrap_or_default();
    html! {
        @if !columns.is_empty() {
            (details(columns.into_iter().map(|(name, text)| Detail::new(name, linked(&text)))))
        }
        h2 { "In the catalog" }
        (details(of_all))
        h2 { "As the upstream returned it" }
        pre tabindex="0" role="region" aria-label="The record as JSON" { (lines(&text)) }
    }
}
