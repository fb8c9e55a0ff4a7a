//! Rows as columns: what tables are made of, whose rows come as whatever can be serialized, as they do for CSV.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use pyo3::prelude::*;
use serde::ser::{Error as _, Impossible, SerializeSeq, SerializeStruct, SerializeTuple};
use serde::{Serialize, Serializer};
use weir_report::result::RunResult;
use weir_report::tables::{self, Column, Kind, Tables};
use weir_study::sweep::Datum;

use crate::arrow::Table;
use crate::errors::raise;

/// The words of an error that no row of Weir's gives rise to.
type Error = serde::de::value::Error;

/// A column that grows.
enum Builder {
    Text(StringBuilder),
    Truth(BooleanBuilder),
    Integer(Int64Builder),
    Number(Float64Builder),
}

impl Builder {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Text => Self::Text(StringBuilder::new()),
            Kind::Truth => Self::Truth(BooleanBuilder::new()),
            Kind::Integer => Self::Integer(Int64Builder::new()),
            Kind::Number => Self::Number(Float64Builder::new()),
        }
    }

    fn push(&mut self, datum: &Datum) -> Result<(), Error> {
        match (self, datum) {
            (Self::Text(column), Datum::Text(text)) => column.append_value(text),
            (Self::Truth(column), Datum::Truth(truth)) => column.append_value(*truth),
            (Self::Integer(column), Datum::Integer(number)) => column.append_value(*number),
            (Self::Number(column), Datum::Number(number)) => column.append_value(*number),
            (Self::Number(column), Datum::Integer(number)) => column.append_value(*number as f64),
            (Self::Text(column), Datum::Missing) => column.append_null(),
            (Self::Truth(column), Datum::Missing) => column.append_null(),
            (Self::Integer(column), Datum::Missing) => column.append_null(),
            (Self::Number(column), Datum::Missing) => column.append_null(),
            (_, datum) => return Err(Error::custom(format!("{datum:?} in a column of another kind"))),
        }
        Ok(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Text(mut column) => Arc::new(column.finish()),
            Self::Truth(mut column) => Arc::new(column.finish()),
            Self::Integer(mut column) => Arc::new(column.finish()),
            Self::Number(mut column) => Arc::new(column.finish()),
        }
    }
}

/// A table that grows row by row.
pub(crate) struct Growing {
    name: String,
    columns: Vec<(String, Builder)>,
    /// The column of the next value.
    at: usize,
}

impl Growing {
    /// A table without rows.
    pub(crate) fn new(name: &str, columns: impl Iterator<Item = (String, Kind)>) -> Self {
        let columns = columns.map(|(name, kind)| (name, Builder::new(kind))).collect();
        Self { name: name.to_owned(), columns, at: 0 }
    }

    /// Adds the next value of the row.
    fn push(&mut self, datum: &Datum) -> Result<(), Error> {
        let (_, column) = self.columns.get_mut(self.at).ok_or_else(|| Error::custom("a row is too long"))?;
        column.push(datum)?;
        self.at += 1;
        Ok(())
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, py: Python<'_>, row: &[Datum]) -> PyResult<()> {
        self.at = 0;
        let pushed = row.iter().try_for_each(|datum| self.push(datum)).and_then(|()| self.ended());
        pushed.map_err(|error| raise(py, "WeirError", &format!("table {}: {error}", self.name)))
    }

    fn ended(&self) -> Result<(), Error> {
        if self.at == self.columns.len() { Ok(()) } else { Err(Error::custom("a row is too short")) }
    }

    /// The table.
    pub(crate) fn finish(self, py: Python<'_>, whole: bool) -> PyResult<Table> {
        let columns = self.columns.into_iter().map(|(name, builder)| (name, builder.finish())).collect();
        Table::new(py, &self.name, columns, whole)
    }
}

/// All tables of a run.
pub(crate) fn of_run(py: Python<'_>, result: &RunResult) -> PyResult<Vec<Table>> {
    let mut all = All(Vec::new());
    py.detach(|| tables::each(result, &mut all))
        .map_err(|error| raise(py, "WeirError", &error.to_string()))?;
    all.0.into_iter().map(|table| table.finish(py, false)).collect()
}

struct All(Vec<Growing>);

impl Tables for All {
    type Error = Error;

    fn table<R: Serialize>(
        &mut self,
        name: &'static str,
        columns: &'static [Column],
        rows: impl Iterator<Item = R>,
    ) -> Result<(), Error> {
        let columns = columns.iter().map(|column| (column.name.to_owned(), column.kind));
        let mut table = Growing::new(name, columns);
        for row in rows {
            table.at = 0;
            row.serialize(Row(&mut table))?;
            table.ended()?;
        }
        self.0.push(table);
        Ok(())
    }
}

/// Takes a row, value by value; what is nested counts as its values one after the other, as in CSV.
struct Row<'a>(&'a mut Growing);

impl Row<'_> {
    fn again(&mut self) -> Row<'_> {
        Row(self.0)
    }
}

macro_rules! integers {
    ($($name:ident($kind:ty);)*) => {
        $(fn $name(self, value: $kind) -> Result<(), Error> {
            self.0.push(&Datum::Integer(i64::try_from(value).unwrap_or(i64::MAX)))
        })*
    };
}

macro_rules! refused {
    ($($name:ident($($kind:ty),*) -> $out:ty;)*) => {
        $(fn $name(self, $(_: $kind),*) -> Result<$out, Error> {
            Err(Error::custom(concat!("no table has a ", stringify!($name))))
        })*
    };
}

type Refused = Impossible<(), Error>;

impl<'a> Serializer for Row<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Row<'a>;
    type SerializeTuple = Row<'a>;
    type SerializeTupleStruct = Refused;
    type SerializeTupleVariant = Refused;
    type SerializeMap = Refused;
    type SerializeStruct = Row<'a>;
    type SerializeStructVariant = Refused;

    integers! {
        serialize_i8(i8); serialize_i16(i16); serialize_i32(i32); serialize_i64(i64);
        serialize_u8(u8); serialize_u16(u16); serialize_u32(u32); serialize_u64(u64);
    }

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.0.push(&Datum::Truth(value))
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.0.push(&Datum::Number(f64::from(value)))
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.0.push(&Datum::Number(value))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.0.push(&Datum::Text(value.to_owned()))
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.0.push(&Datum::Missing)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &'static str) -> Result<(), Error> {
        self.serialize_str(name)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: &T,
    ) -> Result<(), Error> {
        Err(Error::custom(format!("no table has a {name}")))
    }

    refused! {
        serialize_char(char) -> ();
        serialize_bytes(&[u8]) -> ();
        serialize_unit() -> ();
        serialize_unit_struct(&'static str) -> ();
        serialize_tuple_struct(&'static str, usize) -> Refused;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Refused;
        serialize_map(Option<usize>) -> Refused;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Refused;
    }
}

impl SerializeSeq for Row<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(self.again())
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

impl SerializeTuple for Row<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(self.again())
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}

impl SerializeStruct for Row<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(self.again())
    }

    fn end(self) -> Result<(), Error> {
        Ok(())
    }
}
