//! A table as Parquet: one optional column each, rows in groups, no compression but Parquet's own encodings.
//!
//! Written by the `parquet` crate without Arrow and codecs, which every reader of the format takes.

use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::columns::{Column, Kind};
use super::values::Datum;
use weir_report::output::{Part, Staged};

/// Rows that are held before they are written.
const GROUP: usize = 65_536;

/// A file that is being written.
pub(super) struct Parquet {
    writer: SerializedFileWriter<Part>,
    kinds: Vec<Kind>,
    rows: Vec<Vec<Datum>>,
}

impl Parquet {
    /// Begins the file that shall be at `path`.
    pub(super) fn create(path: &Path, columns: &[Column]) -> io::Result<Self> {
        let fields: Result<Vec<_>, ParquetError> =
            columns.iter().map(|column| field(column).map(Arc::new)).collect();
        let schema = fields.and_then(|fields| Type::group_type_builder("sweep").with_fields(fields).build());
        let properties =
            WriterProperties::builder().set_created_by(format!("weir {}", env!("CARGO_PKG_VERSION"))).build();
        let writer = SerializedFileWriter::new(
            Part::create(path)?,
            Arc::new(schema.map_err(other)?),
            Arc::new(properties),
        );
        let kinds = columns.iter().map(|column| column.kind).collect();
        Ok(Self { writer: writer.map_err(other)?, kinds, rows: Vec::new() })
    }

    /// Adds a row, one value for each column.
    pub(super) fn row(&mut self, row: Vec<Datum>) -> io::Result<()> {
        self.rows.push(row);
        if self.rows.len() == GROUP { self.flush() } else { Ok(()) }
    }

    /// Writes the rest. The file is then complete, but not at its place.
    pub(super) fn finish(mut self) -> io::Result<Staged> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        self.writer.into_inner().map_err(other)?.stage()
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut group = self.writer.next_row_group().map_err(other)?;
        for (index, kind) in self.kinds.iter().enumerate() {
            let values = self.rows.iter().map(|row| &row[index]);
            let written = match kind {
                Kind::Text => column::<ByteArrayType>(&mut group, values, |datum| match datum {
                    Datum::Text(text) => Some(ByteArray::from(text.as_str())),
                    _ => None,
                }),
                Kind::Truth => column::<BoolType>(&mut group, values, |datum| match datum {
                    Datum::Truth(truth) => Some(*truth),
                    _ => None,
                }),
                Kind::Integer => column::<Int64Type>(&mut group, values, |datum| match datum {
                    Datum::Integer(number) => Some(*number),
                    _ => None,
                }),
                Kind::Number => column::<DoubleType>(&mut group, values, |datum| match datum {
                    Datum::Number(number) => Some(*number),
                    _ => None,
                }),
            };
            written.map_err(other)?;
        }
        group.close().map_err(other)?;
        self.rows.clear();
        Ok(())
    }
}

fn other(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => *cause,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    }
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let physical = match column.kind {
        Kind::Text => Physical::BYTE_ARRAY,
        Kind::Truth => Physical::BOOLEAN,
        Kind::Integer => Physical::INT64,
        Kind::Number => Physical::DOUBLE,
    };
    let builder = Type::primitive_type_builder(&column.name, physical).with_repetition(Repetition::OPTIONAL);
    match column.kind {
        Kind::Text => {
            builder.with_converted_type(ConvertedType::UTF8).with_logical_type(Some(LogicalType::String))
        }
        _ => builder,
    }
    .build()
}

/// Writes the next column of a group: the values that there are, and for each row whether there is one.
fn column<'a, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Part>,
    rows: impl Iterator<Item = &'a Datum>,
    value: impl Fn(&Datum) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let (mut values, mut present) = (Vec::new(), Vec::new());
    for row in rows {
        let value = value(row);
        present.push(i16::from(value.is_some()));
        values.extend(value);
    }
    let mut column =
        group.next_column()?.ok_or_else(|| ParquetError::General("a column is missing".to_owned()))?;
    column.typed::<T>().write_batch(&values, Some(&present), None)?;
    column.close()
}

#[cfg(test)]
#[path = "parquet_tests.rs"]
mod tests;
