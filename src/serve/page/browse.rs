//! `/records`: the records of a kind, sorted by a column, without words to search for.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use axum::response::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::Value;

use super::table::{Cell, table};
use super::{Reader, choice, columns_of, encoded, kind_and_region, name_of, text_field};
use crate::commands::export;
use crate::commands::table::{count, counted};
use crate::serve::api::{self, MOST, RecordsParameters};
use crate::serve::problem::Problem;
use ingest_base::plain::{one_line, plain};
use ingest_catalog::{RecordsPage, StoredRecord};
use ingest_config::Pointer;

/// How many of the records that are read are shown unless more are asked for.
const USUAL: u32 = 100;
/// The longest text of a cell, in characters.
const LONGEST: usize = 120;
const DESCENDING: &str = "descending";

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordsQuery {
    kind: Option<String>,
    region: Option<String>,
    seen_since: Option<String>,
    /// A column of the kind; absent: in the order of first sight.
    sort: Option<String>,
    /// `descending`
    order: Option<String>,
    limit: Option<String>,
    cursor: Option<String>,
}

impl RecordsQuery {
    fn sort(&self) -> Option<&str> {
        self.sort.as_deref().filter(|sort| !sort.is_empty())
    }

    /// The filters of the read API, for all that one page reads.
    fn parameters(&self) -> RecordsParameters {
        RecordsParameters {
            region: self.region.clone(),
            seen_since: self.seen_since.clone(),
            limit: Some(MOST.to_string()),
            cursor: self.cursor.clone(),
            ..RecordsParameters::default()
        }
    }
}

/// The columns of the kind.
type Columns = BTreeMap<String, Vec<Pointer>>;

/// A record with its columns.
struct RecordRow {
    record: StoredRecord,
    name: String,
    values: Vec<(String, String)>,
}

impl RecordRow {
    fn value(&self, column: &str) -> Option<&str> {
        let found = self.values.iter().find(|(name, _)| name == column);
        found.map(|(_, value)| value.as_str())
    }

    /// Whether a column says more than the name.
    fn adds(&self, column: &str) -> bool {
        self.value(column)
            .is_some_and(|value| one_line(value) != self.name)
    }
}

/// `GET /records`
pub async fn page(reader: Reader) -> Response {
    let asked = reader.filters::<RecordsQuery>();
    let form = form(&reader, asked.as_ref().unwrap_or(&RecordsQuery::default()));
    let content = match &asked {
        Ok(asked) => content(&reader, asked).await,
        Err(problem) => Err(problem.clone()),
    };
    reader.view("/search", &form, content)
}

async fn content(reader: &Reader, asked: &RecordsQuery) -> Result<Markup, Problem> {
    let Some(kind) = asked.kind.as_deref().filter(|kind| !kind.is_empty()) else {
        return Ok(html! { p { "Choose a kind of record." } });
    };
    let environment = &reader.app.environment;
    let columns = export::columns(environment, kind)?;
    if let Some(sort) = asked.sort().filter(|sort| !columns.contains_key(*sort)) {
        let known: Vec<&str> = columns.keys().map(String::as_str).collect();
        let (sort, known) = (one_line(sort), known.join(", "));
        let detail = format!("sort: `{sort}` is no column of this kind; its columns are {known}");
        return Err(Problem::bad_request(detail));
    }
    let shown = api::number("limit", asked.limit.as_deref(), USUAL)?;
    let page = api::records_page(&reader.app, kind, &asked.parameters()).await?;
    Ok(records_shown(
        reader,
        asked,
        (kind, &columns),
        (page, shown),
    ))
}

fn form(reader: &Reader, asked: &RecordsQuery) -> Markup {
    let environment = &reader.app.environment;
    let kind = asked.kind.as_deref().unwrap_or_default();
    // An unknown kind is reported beside the form, which has no columns to sort by then.
    let columns = export::columns(environment, kind).unwrap_or_default();
    let names = columns.keys().map(String::as_str).collect();
    let orders = BTreeSet::from([DESCENDING]);
    html! {
        form method="get" action="/records" {
            (kind_and_region(&environment.config, asked.kind.as_deref(), asked.region.as_deref()))
            (text_field("seen_since", "Seen within", asked.seen_since.as_deref(), "such as 7d"))
            (choice(("sort", "Sorted by"), &names, asked.sort(), "first sight"))
            (choice(("order", "Order"), &orders, asked.order.as_deref(), "ascending"))
            div { button type="submit" { "Show" } }
        }
    }
}

fn records_shown(
    reader: &Reader,
    asked: &RecordsQuery,
    (kind, columns): (&str, &Columns),
    (page, most): (RecordsPage, u32),
) -> Markup {
    let next = page.records.last().filter(|_| page.more);
    let next = next.map(|last| last.position.to_string());
    let rows = page.records.into_iter();
    let mut rows: Vec<RecordRow> = rows.map(|record| row(reader, columns, record)).collect();
    sort(&mut rows, asked);
    let read = rows.len() as u64;
    let hidden = read.saturating_sub(u64::from(most));
    let mut names: Vec<&str> = columns.keys().map(String::as_str).collect();
    names.retain(|column| rows.iter().any(|row| row.adds(column)));
    names.sort_by_key(|column| asked.sort() != Some(*column));
    let heads = [&["Record"][..], &names, &["Last seen"]].concat();
    let cells = rows.iter().take(most as usize);
    let cells = cells.map(|row| cells_of(reader, row, &names));
    let all = MOST.to_string();
    let caption = format!("Records of kind {}", plain(kind));
    html! {
        h2 { (hits(asked, read, next.is_some())) }
        @if next.is_some() && asked.sort().is_some() {
            p class="warn" { "Only the " (count(read)) " records of this page are sorted; choose a region or a time to have fewer." }
        }
        @if read > 0 { (table(&caption, &heads, cells.collect())) }
        @if hidden > 0 { p { a href=(again(reader, asked, asked.cursor.as_deref(), Some(&all))) { "Show " (counted(hidden, "more record")) } } }
        @if let Some(next) = next { p { a href=(again(reader, asked, Some(&next), asked.limit.as_deref())) { "The next records in the order of first sight" } } }
        p class="quiet" { "These records " a href=(in_shape(kind, asked, "csv")) { "as CSV" } " or " a href=(in_shape(kind, asked, "ndjson")) { "as NDJSON" } }
    }
}

/// How many records there are, without counting those of further pages.
fn hits(asked: &RecordsQuery, read: u64, has_more: bool) -> String {
    let is_first = asked.cursor.as_deref().is_none_or(str::is_empty);
    match (has_more, is_first) {
        (true, true) => format!("More than {}", counted(read, "record")),
        (false, true) => counted(read, "record"),
        (_, false) => format!("{} of more", counted(read, "record")),
    }
}

fn row(reader: &Reader, columns: &Columns, record: StoredRecord) -> RecordRow {
    let body: Value = serde_json::from_str(&record.body).unwrap_or_default();
    let name = (&*record.upstream, &*record.kind, &*record.id);
    let values = columns_of(columns, &body).into_iter();
    RecordRow {
        name: name_of(&reader.app.environment, name, &body),
        values: values
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        record,
    }
}

fn sort(rows: &mut [RecordRow], asked: &RecordsQuery) {
    let is_descending = asked.order.as_deref() == Some(DESCENDING);
    match asked.sort() {
        None if is_descending => rows.reverse(),
        None => {}
        Some(column) => rows.sort_by(|one, other| {
            match (one.value(column), other.value(column)) {
                (Some(one), Some(other)) if is_descending => compared(other, one),
                (Some(one), Some(other)) => compared(one, other),
                // A record without a value is last in either order.
                (one, other) => one.is_none().cmp(&other.is_none()),
            }
        }),
    }
}

/// Numbers before texts, whether they are numbers in JSON or texts.
fn compared(one: &str, other: &str) -> Ordering {
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one.total_cmp(&other),
        (one_number, other_number) => one_number
            .is_err()
            .cmp(&other_number.is_err())
            .then_with(|| one.cmp(other)),
    }
}

fn cells_of(reader: &Reader, row: &RecordRow, columns: &[&str]) -> Vec<Cell> {
    let record = &row.record;
    let to = reader.to_record((&record.upstream, &record.kind, &record.id));
    let values = columns.iter().map(|column| {
        let value = row.value(column).unwrap_or_default();
        let class = if value.parse::<f64>().is_ok() {
            "number"
        } else {
            ""
        };
        Cell::new(class, html! { (plain(&start_of(value))) })
    });
    let first = Cell::new("notes", html! { a href=(to) { (start_of(&row.name)) } });
    let last = Cell::new("short", reader.minute(record.last_seen));
    [first].into_iter().chain(values).chain([last]).collect()
}

fn start_of(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The address of the same records from another place, or of more of them.
fn again(
    reader: &Reader,
    asked: &RecordsQuery,
    cursor: Option<&str>,
    limit: Option<&str>,
) -> String {
    let filters = [
        ("kind", asked.kind.as_deref()),
        ("region", asked.region.as_deref()),
        ("seen_since", asked.seen_since.as_deref()),
        ("sort", asked.sort()),
        ("order", asked.order.as_deref()),
        ("cursor", cursor),
        ("limit", limit),
    ];
    reader.to("/records", &filters)
}

/// The address of the same records in the read API.
fn in_shape(kind: &str, asked: &RecordsQuery, shape: &str) -> String {
    let filters = [
        ("region", &asked.region),
        ("seen_since", &asked.seen_since),
        ("cursor", &asked.cursor),
    ];
    let filters = filters.iter().filter_map(|(name, value)| {
        let value = value.as_deref().filter(|value| !value.is_empty())?;
        Some(format!("&{name}={}", encoded(value)))
    });
    let filters: String = filters.collect();
    format!(
        "/api/v1/records/{}?as={shape}&limit={MOST}{filters}",
        encoded(kind)
    )
}
