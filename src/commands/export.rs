//! `ingest export`: the records of a kind, one line each.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::Path;

use futures_util::StreamExt;
use serde_json::Value;

use super::Error;
use super::cells::Cells;
use super::environment::Environment;
use super::progress::Working;
use super::replace::{Replacement, file_to_replace};
use crate::cli::{ExportArgs, Global, Shape};
use crate::exit::Exit;
use ingest_base::plain::json_safe;
use ingest_catalog::{CatalogReader, RecordsQuery, StoredRecord};
use ingest_config::Pointer;

/// Writes the records to stdout, or atomically to a file.
pub async fn export(global: &Global, args: &ExportArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let columns = columns(&environment, &args.kind)?;
    environment
        .expect_stored(&[], args.region.as_slice())
        .await?;
    environment.expect_catalog(global)?;
    if let Some(missing) = environment.missing_state_dir() {
        tracing::warn!("{missing}");
    }
    let query = RecordsQuery {
        kind: args.kind.clone(),
        region: args.region.clone(),
        since: args
            .seen_since
            .map(|since| since.at(environment.clock.now())),
        changed_since: args.since.map(|since| since.at(environment.clock.now())),
    };
    let format = LineFormat {
        shape: args.shape,
        cells: match args.to {
            None => Cells::on_stdout(),
            Some(_) => Cells::stored(),
        },
        columns,
        changes_only: args.since.is_some(),
    };
    let catalog = environment.reader().await?;
    let working = Working::on(global, "exporting", "record");
    match &args.to {
        None => {
            let writer = Writer::new(format, io::stdout());
            let written = write(&catalog, query, writer, &working).await;
            match written {
                // The reader, such as `head`, has all that it wants.
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {}
                written => written.map(|_| ())?,
            }
        }
        Some(path) => to_file(&catalog, query, format, (path, &working)).await?,
    }
    Ok(Exit::Success)
}

/// Returns records of a kind as lines of CSV.
#[cfg(feature = "serve")]
pub fn csv_lines(
    environment: &Environment,
    kind: &str,
    (records, changes_only): (&[StoredRecord], bool),
) -> Result<Vec<u8>, Error> {
    let format = LineFormat {
        shape: Shape::Csv,
        cells: Cells::stored(),
        columns: columns(environment, kind)?,
        changes_only,
    };
    let mut writer = Writer::new(format, Vec::new());
    let written = records.iter().try_for_each(|one| writer.record(one));
    let lines = written.and_then(|()| writer.finish());
    lines.map_err(Error::io("cannot write the records"))
}

/// Returns the columns of a kind, over all calls that return it; fails for an unknown kind.
pub fn columns(environment: &Environment, kind: &str) -> Result<Vec<ExportColumn>, Error> {
    environment.expect_kind(kind)?;
    let mut columns: BTreeMap<String, ExportColumn> = BTreeMap::new();
    let of_kind = environment.config.records();
    for (name, column) in of_kind
        .filter(|records| records.kind == kind)
        .flat_map(|records| &records.columns)
    {
        let new = || ExportColumn {
            name: name.clone(),
            places: Vec::new(),
        };
        let found = columns.entry(name.clone()).or_insert_with(new);
        found.places.push(column.at.clone());
    }
    Ok(columns.into_values().collect())
}

/// A configured column.
#[derive(Debug, Clone)]
pub struct ExportColumn {
    pub name: String,
    /// Where records have it, over all calls.
    pub places: Vec<Pointer>,
}

impl ExportColumn {
    /// Returns the value at the first place that has one; several values of a place as a list.
    pub fn value(&self, body: &Value) -> Option<Value> {
        let values = self.places.iter().map(|at| at.find_all(body));
        let value = |found: Vec<&Value>| match found.as_slice() {
            [] | [Value::Null] => None,
            [one] => Some((*one).clone()),
            several => Some(Value::from_iter(
                several.iter().map(|value| (*value).clone()),
            )),
        };
        values.filter_map(value).next()
    }
}

/// Writes them to a file, as a whole.
async fn to_file(
    catalog: &CatalogReader,
    query: RecordsQuery,
    format: LineFormat,
    (path, working): (&Path, &Working),
) -> Result<(), Error> {
    let failed = || Error::io(format!("cannot write {}", path.display()));
    let with_remedy =
        |error| io::Error::other(format!("{error}; omit --to to write the records to stdout"));
    let replaced = file_to_replace(path).map_err(with_remedy);
    let created = Replacement::create(replaced.map_err(failed())?);
    let (replacement, file) = created.map_err(failed())?;
    let file = write(catalog, query, Writer::new(format, file), working).await?;
    replacement.take_place(&file).map_err(failed())
}

/// Writes all records of the query, and returns the sink.
async fn write<W: Write>(
    catalog: &CatalogReader,
    query: RecordsQuery,
    mut writer: Writer<W>,
    working: &Working,
) -> Result<W, Error> {
    let mut pages = catalog.records(query);
    while let Some(page) = pages.next().await {
        let page = page?;
        working.count(page.len() as u64);
        for record in page {
            writer
                .record(&record)
                .map_err(Error::io("cannot write the records"))?;
        }
    }
    writer
        .finish()
        .map_err(Error::io("cannot write the records"))
}

/// The contents and format of a line.
struct LineFormat {
    shape: Shape,
    cells: Cells,
    columns: Vec<ExportColumn>,
    /// Whether only changes are wanted. A gone record is then its id and `gone_at`, without its last body.
    changes_only: bool,
}

/// Writes records as lines.
struct Writer<W: Write> {
    format: LineFormat,
    to: BufWriter<W>,
    /// Whether the head of the columns is written. It comes with the first record: a query that fails has none.
    is_begun: bool,
}

/// The columns of every kind.
const OF_ALL: [&str; 4] = ["upstream", "id", "first_seen", "last_seen"];

impl<W: Write> Writer<W> {
    fn new(format: LineFormat, to: W) -> Self {
        Self {
            is_begun: format.shape == Shape::Ndjson,
            format,
            to: BufWriter::new(to),
        }
    }

    fn record(&mut self, record: &StoredRecord) -> io::Result<()> {
        self.begin()?;
        let LineFormat {
            cells,
            columns,
            changes_only,
            ..
        } = &self.format;
        if self.format.shape == Shape::Ndjson {
            return json_line(&mut self.to, record, *changes_only);
        }
        let body = body_of(record, *changes_only);
        let gone_at = record.gone_at.map(|at| at.to_string()).unwrap_or_default();
        let (first, last) = (record.first_seen.to_string(), record.last_seen.to_string());
        let text = |text: &str| cells.text(text).into_owned();
        let of_all = [text(&record.upstream), text(&record.id), first, last];
        let own = columns.iter().map(|column| cell(column, &body, *cells));
        let line = csv_line(of_all.into_iter().chain(own).chain([gone_at]))?;
        self.to.write_all(&line)
    }

    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        let own = self.format.columns.iter().map(|column| &*column.name);
        let head = csv_line(OF_ALL.into_iter().chain(own).chain(["gone_at"]))?;
        self.to.write_all(&head)
    }

    fn finish(mut self) -> io::Result<W> {
        // No record may have come, and the head is wanted with none too.
        self.begin()?;
        self.to.into_inner().map_err(IntoInnerError::into_error)
    }
}

fn csv_line(cells: impl Iterator<Item = impl AsRef<[u8]>>) -> io::Result<Vec<u8>> {
    let mut line = csv::Writer::from_writer(Vec::new());
    line.write_record(cells)?;
    line.into_inner().map_err(|error| error.into_error())
}

/// The body of a record; null for a gone one where only changes are wanted.
fn body_of(record: &StoredRecord, changes_only: bool) -> Value {
    match (record.gone_at, changes_only) {
        (Some(_), true) => Value::Null,
        _ => serde_json::from_str(&record.body).unwrap_or_default(),
    }
}

/// Writes a record as one line of JSON.
pub fn json_line(
    lines: &mut impl Write,
    record: &StoredRecord,
    changes_only: bool,
) -> io::Result<()> {
    let text = |text: &str| json_safe(&Value::from(text).to_string()).into_owned();
    let (upstream, kind, id) = (text(&record.upstream), text(&record.kind), text(&record.id));
    let StoredRecord {
        first_seen,
        last_seen,
        ..
    } = record;
    let body = json_safe(&record.body);
    let name = format!(r#""upstream":{upstream},"kind":{kind},"id":{id}"#);
    let gone = record
        .gone_at
        .map(|at| format!(r#","gone_at":"{at}""#))
        .unwrap_or_default();
    if changes_only && record.gone_at.is_some() {
        return writeln!(lines, "{{{name}{gone}}}");
    }
    writeln!(
        lines,
        r#"{{{name},"first_seen":"{first_seen}","last_seen":"{last_seen}"{gone},"body":{body}}}"#
    )
}

/// The value of a column: text as it is, any other value as JSON.
fn cell(column: &ExportColumn, body: &Value, cells: Cells) -> String {
    match column.value(body) {
        None => String::new(),
        Some(Value::String(text)) => cells.text(&text).into_owned(),
        Some(other) => cells.text(&json_safe(&other.to_string())).into_owned(),
    }
}
