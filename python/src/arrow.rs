//! Tables as Arrow's columns, handed on without a copy by the PyCapsule interface
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>): pandas, polars, DuckDB and PyArrow
//! read them where they are.

use std::ffi::CStr;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use serde::{Serialize, Serializer};

use crate::errors::raise;

/// The names of capsules, by Arrow's specification.
const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";
/// Rows that a notebook shows.
const SHOWN: usize = 10;

/// A table.
#[pyclass(frozen, module = "weirnet", name = "Table")]
pub(crate) struct Table {
    pub(crate) name: String,
    batch: RecordBatch,
    /// Whether the command writes whole numbers of a quantity without a point (`5`, not `5.0`).
    whole: bool,
}

impl Table {
    /// A table of columns of the same length.
    pub(crate) fn new(
        py: Python<'_>,
        name: &str,
        columns: Vec<(String, ArrayRef)>,
        whole: bool,
    ) -> PyResult<Self> {
        let fields: Vec<Field> =
            columns.iter().map(|(name, array)| Field::new(name, array.data_type().clone(), true)).collect();
        let arrays = columns.into_iter().map(|(_, array)| array).collect();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        let batch = batch.map_err(|error| raise(py, "WeirError", &error.to_string()))?;
        Ok(Self { name: name.to_owned(), batch, whole })
    }

    fn array(&self, column: &str) -> PyResult<&ArrayRef> {
        self.batch.column_by_name(column).ok_or_else(|| {
            let names = self.batch.schema_ref().fields().iter().map(|field| field.name().clone());
            let hint = weir_core::words::hint(column, names.collect::<Vec<_>>());
            PyKeyError::new_err(format!("table {} has no column '{column}'{hint}", self.name))
        })
    }
}

/// What a row of a column holds.
enum Cell<'a> {
    Missing,
    Text(&'a str),
    Truth(bool),
    Integer(i64),
    Number(f64),
}

fn cell(array: &ArrayRef, row: usize) -> Cell<'_> {
    if array.is_null(row) {
        return Cell::Missing;
    }
    match array.data_type() {
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row)),
        DataType::Boolean => Cell::Truth(array.as_boolean().value(row)),
        DataType::Int64 => Cell::Integer(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float64 => Cell::Number(array.as_primitive::<Float64Type>().value(row)),
        _ => Cell::Missing,
    }
}

impl<'a> Cell<'a> {
    fn into_python(self, py: Python<'a>) -> PyResult<Bound<'a, PyAny>> {
        Ok(match self {
            Self::Missing => py.None().into_bound(py),
            Self::Text(text) => text.into_pyobject(py)?.into_any(),
            Self::Truth(truth) => truth.into_pyobject(py)?.to_owned().into_any(),
            Self::Integer(number) => number.into_pyobject(py)?.into_any(),
            Self::Number(number) => number.into_pyobject(py)?.into_any(),
        })
    }
}

/// A cell as the command's CSV files have it.
struct Field_<'a>(Cell<'a>, bool);

impl Serialize for Field_<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Cell::Missing => serializer.serialize_none(),
            Cell::Text(text) => serializer.serialize_str(text),
            Cell::Truth(truth) => serializer.serialize_bool(truth),
            Cell::Integer(number) => serializer.serialize_i64(number),
            Cell::Number(number) if self.1 => serializer.serialize_str(&number.to_string()),
            Cell::Number(number) => serializer.serialize_f64(number),
        }
    }
}

#[pymethods]
impl Table {
    /// The table's name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// How many rows it has.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batch.num_rows()
    }

    /// The names of its columns.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __contains__(&self, column: &str) -> bool {
        self.batch.column_by_name(column).is_some()
    }

    /// The values of a column.
    fn __getitem__<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyList>> {
        let array = self.array(column)?;
        let values = (0..array.len()).map(|row| cell(array, row).into_python(py).map(Bound::unbind));
        PyList::new(py, values.collect::<PyResult<Vec<_>>>()?)
    }

    /// A row as a dict.
    fn row<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyDict>> {
        let rows = self.batch.num_rows();
        let row = if index < 0 { index + rows as isize } else { index };
        if row < 0 || row as usize >= rows {
            return Err(PyIndexError::new_err(format!(
                "table {} has {rows} rows, not a row {index}",
                self.name
            )));
        }
        let dict = PyDict::new(py);
        for (name, array) in self.column_names().into_iter().zip(self.batch.columns()) {
            dict.set_item(name, cell(array, row as usize).into_python(py)?)?;
        }
        Ok(dict)
    }

    /// All columns as a dict of lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for name in self.column_names() {
            dict.set_item(name, self.__getitem__(py, name)?)?;
        }
        Ok(dict)
    }

    /// The text of the CSV file that the command writes of this table.
    fn to_csv(&self, py: Python<'_>) -> PyResult<String> {
        let write = || -> Result<String, Box<dyn std::error::Error>> {
            let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
            writer.write_record(self.column_names())?;
            for row in 0..self.batch.num_rows() {
                let fields = self.batch.columns().iter().map(|array| Field_(cell(array, row), self.whole));
                writer.serialize(fields.collect::<Vec<_>>())?;
            }
            Ok(String::from_utf8(writer.into_inner()?)?)
        };
        write().map_err(|error| raise(py, "WeirError", &error.to_string()))
    }

    /// The table for whoever reads Arrow's C stream. Nothing is copied.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // By the specification a producer may ignore a wish that it cannot fulfil.
        drop(requested_schema);
        let schema = self.batch.schema();
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], schema);
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), STREAM)
    }

    /// The columns and their types, likewise.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref());
        let schema = schema.map_err(|error| raise(py, "WeirError", &error.to_string()))?;
        PyCapsule::new_with_value(py, schema, SCHEMA)
    }

    fn __repr__(&self) -> String {
        let rows = self.batch.num_rows();
        format!("<weirnet.Table {}: {rows} rows of {}>", self.name, self.column_names().join(", "))
    }

    fn _repr_html_(&self) -> String {
        let head: String =
            self.column_names().iter().map(|name| format!("<th>{}</th>", escaped(name))).collect();
        let rows = self.batch.num_rows();
        let mut body = String::new();
        for row in 0..rows.min(SHOWN) {
            let cells = self.batch.columns().iter().map(|array| match cell(array, row) {
                Cell::Missing => "<td></td>".to_owned(),
                Cell::Text(text) => format!("<td style=\"text-align:left\">{}</td>", escaped(text)),
                Cell::Truth(truth) => format!("<td>{truth}</td>"),
                Cell::Integer(number) => format!("<td>{number}</td>"),
                Cell::Number(number) => format!("<td>{}</td>", short(number)),
            });
            body += &format!("<tr>{}</tr>", cells.collect::<String>());
        }
        let name = escaped(&self.name);
        let shown = if rows > SHOWN { format!(", the first {SHOWN} shown") } else { String::new() };
        format!(
            "<table><caption>{name}: {rows} rows{shown}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )
    }
}

/// Six significant digits are enough to look at.
fn short(number: f64) -> String {
    let rounded: f64 = format!("{number:.5e}").parse().unwrap_or(number);
    rounded.to_string()
}

/// Text inside HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
