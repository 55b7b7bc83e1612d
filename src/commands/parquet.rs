//! Records as a Parquet file: one column for each configured one, of its type.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type, TypePtr};
use serde_json::Value;

use super::export::ExportColumn;
use ingest_catalog::StoredRecord;
use ingest_config::{ColumnType, Moment, SinceValue};
use ingest_quota::Timestamp;

/// The most records of a row group, which is held in memory.
const ROWS: usize = 65_536;
/// The most bytes of texts in a row group.
const BYTES: usize = 32 << 20;

/// Writes records as Parquet.
pub struct ParquetFile<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Column>,
    /// Columns that each record has, before the configured ones.
    of_all: Vec<OfAll>,
    configured: Vec<ExportColumn>,
    rows: usize,
    bytes: usize,
}

/// A column that every kind has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OfAll {
    Upstream,
    Id,
    FirstSeen,
    LastSeen,
    GoneAt,
}

const OF_ALL: [(&str, OfAll); 5] = [
    ("upstream", OfAll::Upstream),
    ("id", OfAll::Id),
    ("first_seen", OfAll::FirstSeen),
    ("last_seen", OfAll::LastSeen),
    ("gone_at", OfAll::GoneAt),
];

/// The values of a column in the current row group: one level for each record, 1 where it has a value.
#[derive(Default)]
struct Column {
    levels: Vec<i16>,
    texts: Vec<ByteArray>,
    integers: Vec<i64>,
    reals: Vec<f64>,
    booleans: Vec<bool>,
}

/// A value of a record.
enum Cell {
    Text(String),
    Integer(i64),
    Real(f64),
    Boolean(bool),
}

impl<W: Write + Send> ParquetFile<W> {
    /// Begins a file with these columns.
    pub fn begin(to: W, configured: Vec<ExportColumn>) -> io::Result<Self> {
        // A configured column takes the place of the usual one. Many readers do not tell the case of names apart.
        let is_free = |name: &str| {
            configured
                .iter()
                .all(|column| !column.name.eq_ignore_ascii_case(name))
        };
        let of_all: Vec<_> = OF_ALL
            .into_iter()
            .filter(|(name, _)| is_free(name))
            .collect();
        let fields = of_all
            .iter()
            .map(|(name, of_all)| field(name, of_all.kind()))
            .chain(
                configured
                    .iter()
                    .map(|column| field(&column.name, column.kind)),
            );
        let fields: Vec<TypePtr> = fields.collect::<Result<_, _>>().map_err(failed)?;
        let columns = fields.iter().map(|_| Column::default()).collect();
        let schema = Type::group_type_builder("record")
            .with_fields(fields)
            .build();
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let file = SerializedFileWriter::new(
            to,
            Arc::new(schema.map_err(failed)?),
            Arc::new(properties.build()),
        );
        Ok(Self {
            file: file.map_err(failed)?,
            columns,
            of_all: of_all.into_iter().map(|(_, of_all)| of_all).collect(),
            configured,
            rows: 0,
            bytes: 0,
        })
    }

    /// Adds a record, whose body is `body`: null if only its id is exported.
    pub fn record(&mut self, record: &StoredRecord, body: &Value) -> io::Result<()> {
        let of_all = self.of_all.iter().map(|of_all| of_all.cell(record));
        let own = self.configured.iter().map(|column| cell(column, body));
        for (column, cell) in self.columns.iter_mut().zip(of_all.chain(own)) {
            self.bytes += match &cell {
                Some(Cell::Text(text)) => text.len(),
                Some(Cell::Integer(_) | Cell::Real(_) | Cell::Boolean(_)) | None => 8,
            };
            column.push(cell);
        }
        self.rows += 1;
        match self.rows >= ROWS || self.bytes >= BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Completes the file.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.file.into_inner().map_err(failed)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.write_group().map_err(failed)?;
        }
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            let column = std::mem::take(column);
            if let Some(mut writer) = group.next_column()? {
                column.write(writer.untyped())?;
                writer.close()?;
            }
        }
        group.close().map(|_| ())
    }
}

impl Column {
    fn push(&mut self, cell: Option<Cell>) {
        self.levels.push(i16::from(cell.is_some()));
        match cell {
            Some(Cell::Text(text)) => self.texts.push(ByteArray::from(text.into_bytes())),
            Some(Cell::Integer(number)) => self.integers.push(number),
            Some(Cell::Real(number)) => self.reals.push(number),
            Some(Cell::Boolean(truth)) => self.booleans.push(truth),
            None => {}
        }
    }

    fn write(self, writer: &mut ColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = Some(&*self.levels);
        match writer {
            ColumnWriter::ByteArrayColumnWriter(to) => to.write_batch(&self.texts, levels, None),
            ColumnWriter::Int64ColumnWriter(to) => to.write_batch(&self.integers, levels, None),
            ColumnWriter::DoubleColumnWriter(to) => to.write_batch(&self.reals, levels, None),
            ColumnWriter::BoolColumnWriter(to) => to.write_batch(&self.booleans, levels, None),
            // `field` makes columns of the four types above alone.
            ColumnWriter::Int32ColumnWriter(_)
            | ColumnWriter::Int96ColumnWriter(_)
            | ColumnWriter::FloatColumnWriter(_)
            | ColumnWriter::FixedLenByteArrayColumnWriter(_) => Ok(0),
        }
        .map(|_| ())
    }
}

impl OfAll {
    const fn kind(self) -> Option<ColumnType> {
        match self {
            Self::Upstream | Self::Id => Some(ColumnType::Text),
            Self::FirstSeen | Self::LastSeen | Self::GoneAt => Some(ColumnType::Timestamp),
        }
    }

    fn cell(self, record: &StoredRecord) -> Option<Cell> {
        let at = |at: Timestamp| Cell::Integer(at.micros());
        match self {
            Self::Upstream => Some(Cell::Text(record.upstream.clone())),
            Self::Id => Some(Cell::Text(record.id.clone())),
            Self::FirstSeen => Some(at(record.first_seen)),
            Self::LastSeen => Some(at(record.last_seen)),
            Self::GoneAt => record.gone_at.map(at),
        }
    }
}

/// A field of the schema; any value may be null.
fn field(name: &str, kind: Option<ColumnType>) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match kind {
        None | Some(ColumnType::Text) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Some(ColumnType::Json) => (Physical::BYTE_ARRAY, Some(LogicalType::Json)),
        Some(ColumnType::Integer) => (Physical::INT64, None),
        Some(ColumnType::Real) => (Physical::DOUBLE, None),
        Some(ColumnType::Boolean) => (Physical::BOOLEAN, None),
        Some(ColumnType::Timestamp) => (
            Physical::INT64,
            Some(LogicalType::timestamp(true, TimeUnit::MICROS)),
        ),
    };
    let field = Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical);
    Ok(Arc::new(field.build()?))
}

/// The value of a column; `None` if the record has none, or none of the type.
fn cell(column: &ExportColumn, body: &Value) -> Option<Cell> {
    let value = column.value(body)?;
    let text = match &value {
        Value::String(text) if column.kind != Some(ColumnType::Json) => text.clone(),
        other => other.to_string(),
    };
    let Some(kind) = column.kind else {
        return Some(Cell::Text(text));
    };
    if !kind.fits(&value) {
        return None;
    }
    match kind {
        ColumnType::Text | ColumnType::Json => Some(Cell::Text(text)),
        ColumnType::Integer => integer(&text).map(Cell::Integer),
        ColumnType::Real => text.parse().ok().map(Cell::Real),
        ColumnType::Boolean => {
            let is_true = ["true", "1"].contains(&text.to_ascii_lowercase().as_str());
            Some(Cell::Boolean(is_true))
        }
        ColumnType::Timestamp => Some(Cell::Integer(time(&text)?.micros())),
    }
}

/// A time, or else a text that begins with one, or with a date.
fn time(text: &str) -> Option<Timestamp> {
    // As the views do: a number is never a date.
    if let Some(number) = Moment::of_number(text) {
        return Some(number.time());
    }
    let whole = SinceValue::Text(text.to_owned()).time();
    let begins = || {
        let second = text.get(..19)?.replace(' ', "T") + "Z";
        Timestamp::parse(&second)
    };
    let date = || SinceValue::Text(text.get(..10)?.to_owned()).time();
    whole.or_else(begins).or_else(date)
}

fn integer(text: &str) -> Option<i64> {
    match text {
        "true" => Some(1),
        "false" => Some(0),
        digits => digits.parse().ok(),
    }
}

fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error.to_string()),
        },
        other => io::Error::other(other.to_string()),
    }
}
