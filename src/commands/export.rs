//! `ingest export`: the records of a kind, one line each.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use serde_json::Value;

use super::Error;
use super::cells::Cells;
use super::environment::Environment;
use super::progress::Working;
use super::replace::file_to_replace;
use crate::cli::{ExportArgs, Global, Shape};
use crate::exit::Exit;
use ingest_base::plain::json_safe;
use ingest_catalog::{CatalogReader, RecordsQuery, StoredRecord};
use ingest_config::Pointer;

/// Writes the records to stdout, or atomically to a file.
pub async fn export(global: &Global, args: &ExportArgs) -> Result<Exit, Error> {
    let environment = Environment::load(global)?;
    let columns = typed_columns(&environment, &args.kind)?;
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
    let archive = environment.archive().await?;
    let working = Working::on(global, "exporting", "record");
    match &args.to {
        None => {
            let writer = Writer::new(format, io::stdout());
            let writer = writer.map_err(Error::io("cannot write the records"))?;
            let written = write(&archive, query, writer, &working).await;
            match written {
                // The reader, such as `head`, has all that it wants.
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {}
                written => written.map(|_| ())?,
            }
        }
        Some(path) => to_file(&archive, query, format, (path, &working)).await?,
    }
    Ok(Exit::Success)
}

/// Returns the places of the columns of a kind, over all calls that return it; fails for an unknown kind.
#[cfg(feature = "serve")]
pub fn columns(
    environment: &Environment,
    kind: &str,
) -> Result<BTreeMap<String, Vec<Pointer>>, Error> {
    let columns = typed_columns(environment, kind)?.into_iter();
    Ok(columns.map(|column| (column.name, column.places)).collect())
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
        columns: typed_columns(environment, kind)?,
        changes_only,
    };
    let lines = Writer::new(format, Vec::new()).and_then(|mut writer| {
        records.iter().try_for_each(|one| writer.record(one))?;
        writer.finish()
    });
    lines.map_err(Error::io("cannot write the records"))
}

/// Returns the columns of a kind, over all calls that return it; fails for an unknown kind.
fn typed_columns(environment: &Environment, kind: &str) -> Result<Vec<ExportColumn>, Error> {
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
    places: Vec<Pointer>,
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

/// Writes a temporary file beside it and renames that when it is complete.
async fn to_file(
    archive: &CatalogReader,
    query: RecordsQuery,
    format: LineFormat,
    (path, working): (&Path, &Working),
) -> Result<(), Error> {
    let what = format!("cannot write {}", path.display());
    let with_remedy =
        |error| io::Error::other(format!("{error}; omit --to to write the records to stdout"));
    let path = &file_to_replace(path)
        .map_err(with_remedy)
        .map_err(Error::io(what.clone()))?;
    let beside = beside(path);
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&beside)
        .map_err(Error::io(what.clone()))?;
    let written = match Writer::new(format, file) {
        Ok(writer) => write(archive, query, writer, working).await,
        Err(error) => Err(Error::io(what.clone())(error)),
    };
    let finished = written.and_then(|file: File| {
        // On the disk before it has the name: after a power failure the name leads to the former file, or to a whole one.
        file.sync_all()
            .and_then(|()| fs::rename(&beside, path))
            .map_err(Error::io(what))
    });
    if finished.is_err() {
        let _ = fs::remove_file(&beside);
    }
    finished
}

fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

/// Writes all records of the query, and returns the sink.
async fn write<W: Write + Send>(
    archive: &CatalogReader,
    query: RecordsQuery,
    mut writer: Writer<W>,
    working: &Working,
) -> Result<W, Error> {
    let mut pages = archive.records(query);
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

/// Writes records in one of the formats.
struct Writer<W: Write + Send> {
    to: Sink<W>,
    changes_only: bool,
}

enum Sink<W: Write + Send> {
    Ndjson(BufWriter<W>),
    Csv {
        lines: Box<csv::Writer<W>>,
        cells: Cells,
        columns: Vec<ExportColumn>,
        begun: bool,
    },
}

/// The columns of every kind.
const OF_ALL: [&str; 4] = ["upstream", "id", "first_seen", "last_seen"];

impl<W: Write + Send> Writer<W> {
    fn new(format: LineFormat, to: W) -> io::Result<Self> {
        let to = match format.shape {
            Shape::Ndjson => Sink::Ndjson(BufWriter::new(to)),
            Shape::Csv => Sink::Csv {
                lines: Box::new(csv::Writer::from_writer(to)),
                cells: format.cells,
                columns: format.columns,
                begun: false,
            },
        };
        Ok(Self {
            to,
            changes_only: format.changes_only,
        })
    }

    fn record(&mut self, record: &StoredRecord) -> io::Result<()> {
        match &mut self.to {
            Sink::Ndjson(lines) => json_line(lines, record, self.changes_only),
            Sink::Csv {
                lines,
                cells,
                columns,
                begun,
            } => {
                begin(lines, columns, begun)?;
                let body = body_of(record, self.changes_only);
                let gone_at = record.gone_at.map(|at| at.to_string()).unwrap_or_default();
                let (first, last) = (record.first_seen.to_string(), record.last_seen.to_string());
                let text = |text: &str| cells.text(text).into_owned();
                let of_all = [text(&record.upstream), text(&record.id), first, last];
                let own = columns.iter().map(|column| cell(column, &body, *cells));
                lines
                    .write_record(of_all.into_iter().chain(own).chain([gone_at]))
                    .map_err(failed)
            }
        }
    }

    fn finish(self) -> io::Result<W> {
        match self.to {
            Sink::Ndjson(lines) => lines.into_inner().map_err(io::IntoInnerError::into_error),
            Sink::Csv {
                mut lines,
                columns,
                mut begun,
                ..
            } => {
                // No record may have come, and the head is wanted with none too.
                begin(&mut lines, &columns, &mut begun)?;
                lines.flush()?;
                lines
                    .into_inner()
                    .map_err(|error| io::Error::other(error.to_string()))
            }
        }
    }
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

fn begin<W: Write>(
    lines: &mut csv::Writer<W>,
    columns: &[ExportColumn],
    begun: &mut bool,
) -> io::Result<()> {
    if !std::mem::replace(begun, true) {
        lines
            .write_record(
                OF_ALL
                    .into_iter()
                    .chain(columns.iter().map(|column| column.name.as_str()))
                    .chain(["gone_at"]),
            )
            .map_err(failed)?;
    }
    Ok(())
}

/// Returns the error of a failed write with its kind, so that a closed pipe is recognised.
fn failed(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// The value of a column: text as it is, any other value as JSON.
fn cell(column: &ExportColumn, body: &Value, cells: Cells) -> String {
    match column.value(body) {
        None => String::new(),
        Some(Value::String(text)) => cells.text(&text).into_owned(),
        Some(other) => cells.text(&json_safe(&other.to_string())).into_owned(),
    }
}
