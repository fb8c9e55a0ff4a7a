//! The values that a key takes: a list as it stands, or a range with a step or a factor; and what kind of quantity they
//! are, so that ranges can be computed and tables can name units.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_core::{Bytes, Duration, Rate};

use super::Fault;
use weir_core::words::hint_in;

/// What a key's values are, all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Words.
    Text,
    /// True or false.
    Truth,
    /// Whole.
    Integer,
    /// Without a unit.
    Number,
    /// Milliseconds.
    Time,
    /// Bits per second.
    Rate,
    /// Bytes.
    Size,
    /// Whole ones.
    Packets,
    /// Bandwidth-delay products.
    Bdp,
}

/// A value in a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// There is none.
    Missing,
    /// A name or words.
    Text(String),
    /// True or false.
    Truth(bool),
    /// A count.
    Integer(i64),
    /// A quantity.
    Number(f64),
}

/// One value of a key.
#[derive(Clone, Debug)]
pub struct Value {
    /// As TOML.
    pub literal: String,
    /// As people write it.
    pub label: String,
    /// Where it comes from in the sweep's file.
    pub at: usize,
    /// What it is.
    pub quantity: Quantity,
    /// In base units.
    pub number: f64,
}

impl Quantity {
    /// What its columns' names end with.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Text | Self::Truth | Self::Integer | Self::Number => "",
            Self::Time => "_ms",
            Self::Rate => "_bps",
            Self::Size => "_bytes",
            Self::Packets => "_packets",
            Self::Bdp => "_bdp",
        }
    }

    /// Whether values can stand at a scale.
    pub fn is_number(self) -> bool {
        !matches!(self, Self::Text | Self::Truth)
    }

    /// Values and their unit for an axis.
    pub(super) fn scale(self, values: &[Value]) -> (Vec<f64>, &'static str) {
        let (by, unit) = match self {
            Self::Text | Self::Truth | Self::Integer | Self::Number => (1.0, ""),
            Self::Time => (1e-6, "ms"),
            Self::Rate => (1e-6, "Mbit/s"),
            Self::Size => (1e-3, "kB"),
            Self::Packets => (1.0, "packets"),
            Self::Bdp => (1.0, "BDP"),
        };
        (values.iter().map(|value| value.number * by).collect(), unit)
    }

    /// A quantity in base units: nanoseconds, bit/s, bytes, packets, BDP. None of a text that is none, or has no unit.
    fn read(text: &str) -> Option<(Self, f64)> {
        let text = text.trim().to_ascii_lowercase();
        let count = |unit| text.strip_suffix(unit).and_then(|number: &str| number.trim().parse::<f64>().ok());
        if let Some(number) = count("bdp") {
            return Some((Self::Bdp, number));
        }
        if text.ends_with("bit") || text.ends_with("bps") {
            return Some((Self::Rate, text.parse::<Rate>().ok()?.bits_per_sec() as f64));
        }
        if let Some(number) = count("p") {
            return Some((Self::Packets, number));
        }
        if text.ends_with('s') {
            return Some((Self::Time, text.parse::<Duration>().ok()?.as_nanos() as f64));
        }
        let has_unit = text.ends_with(['b', 'k', 'm', 'g']);
        let bytes = has_unit.then(|| text.parse::<Bytes>().ok()).flatten()?;
        Some((Self::Size, bytes.0 as f64))
    }

    /// The quantity of `number` base units, as a scenario reads it.
    fn write(self, number: f64) -> String {
        let whole = number.round() as u64;
        // What arithmetic with binary fractions adds is not meant.
        let tidy = (number * 1e9).round() / 1e9;
        match self {
            Self::Time => Duration::from_nanos(whole).to_string(),
            Self::Rate => Rate::from_bits_per_sec(whole).to_string(),
            Self::Size => Bytes(whole).to_string(),
            Self::Packets => format!("{whole}p"),
            Self::Bdp => format!("{tidy}bdp"),
            Self::Integer => format!("{}", number.round() as i64),
            // TOML distinguishes numbers with a point from whole ones.
            Self::Number | Self::Text | Self::Truth => format!("{tidy:?}"),
        }
    }
}

impl Value {
    /// So many base units, as they are written: the tables have what ran.
    pub fn new(quantity: Quantity, number: f64, at: usize) -> Self {
        let label = quantity.write(number);
        let bare = matches!(quantity, Quantity::Integer | Quantity::Number);
        let literal = if bare { label.clone() } else { format!("\"{label}\"") };
        let number = Quantity::read(&label).map_or_else(|| label.parse().unwrap_or(number), |(_, read)| read);
        Self { literal, label, at, quantity, number }
    }

    /// A value that stands in the file.
    pub fn read(text: &str, value: &Spanned<DeValue<'_>>) -> Result<Self, Fault> {
        let at = value.span().start;
        let literal = text[value.span()].to_owned();
        let new = |label: String, quantity, number| {
            Ok(Self { literal: literal.clone(), label, at, quantity, number })
        };
        match value.get_ref() {
            DeValue::String(said) => {
                let (quantity, number) = Quantity::read(said).unwrap_or((Quantity::Text, 0.0));
                new(said.to_string(), quantity, number)
            }
            DeValue::Boolean(truth) => {
                new(truth.to_string(), Quantity::Truth, if *truth { 1.0 } else { 0.0 })
            }
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(whole) => new(whole.to_string(), Quantity::Integer, whole as f64),
                Err(_) => Err(Fault::new(at, format!("{literal} is too large"))),
            },
            DeValue::Float(number) => {
                let float = number.as_str().parse().unwrap_or(f64::NAN);
                new(literal.trim().to_owned(), Quantity::Number, float)
            }
            DeValue::Table(_) => {
                new(literal.split_whitespace().collect::<Vec<_>>().join(" "), Quantity::Text, 0.0)
            }
            DeValue::Array(_) | DeValue::Datetime(_) => {
                let what = "no key that can be swept takes a list or a date";
                Err(Fault::new(at, format!("{what}; write the values one beside the other")))
            }
        }
    }

    /// The value as one of a column of `quantity`.
    pub(super) fn datum(&self, quantity: Quantity) -> Datum {
        match quantity {
            Quantity::Text => Datum::Text(self.label.clone()),
            Quantity::Truth => Datum::Truth(self.number > 0.0),
            Quantity::Integer => Datum::Integer(self.number as i64),
            Quantity::Time => Datum::Number(self.number / 1e6),
            Quantity::Number | Quantity::Bdp => Datum::Number(self.number),
            Quantity::Rate | Quantity::Size | Quantity::Packets => Datum::Integer(self.number as i64),
        }
    }

    /// Whether both mean the same: the same number of one unit, or the same words.
    pub(super) fn is(&self, other: &Self) -> bool {
        match self.quantity {
            Quantity::Text => other.quantity == Quantity::Text && self.label == other.label,
            quantity => other.quantity == quantity && self.number == other.number,
        }
    }
}

/// What all of `values` are: one quantity, or text. A whole number beside others is a number.
pub fn common(values: &[Value]) -> Quantity {
    let mut kinds = values.iter().map(|value| value.quantity);
    let Some(first) = kinds.next() else { return Quantity::Text };
    kinds.fold(first, |common, kind| match (common, kind) {
        (one, other) if one == other => one,
        (Quantity::Integer, Quantity::Number) | (Quantity::Number, Quantity::Integer) => Quantity::Number,
        _ => Quantity::Text,
    })
}

/// A range that is not yet computed: how many values it has is known before there are any.
#[derive(Clone, Debug)]
pub struct Steps {
    quantity: Quantity,
    from: f64,
    step: Step,
    /// How many values it has.
    pub(super) count: f64,
    at: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Add(f64),
    Times(f64),
}

/// Room for what arithmetic with binary fractions loses, so that a range reaches its end.
const SLACK: f64 = 1e-9;

impl Steps {
    const KEYS: [&'static str; 4] = ["from", "to", "step", "factor"];

    /// Whether a table is meant as a range.
    pub fn is_range(table: &DeTable<'_>) -> bool {
        table.keys().any(|key| Self::KEYS.contains(&key.get_ref().as_ref()))
    }

    /// Reads `{ from = "5ms", to = "160ms", factor = 2 }`.
    pub fn read(text: &str, table: &DeTable<'_>, span: Range<usize>) -> Result<Self, Fault> {
        let at = span.start;
        if let Some(key) = table.keys().find(|key| !Self::KEYS.contains(&key.get_ref().as_ref())) {
            let hint = hint_in("`", key.get_ref(), Self::KEYS);
            let what = format!("a range has no `{}`{hint}", key.get_ref());
            return Err(Fault::new(key.span().start, what));
        }
        let value = |key: &str| table.get(key).map(|value| Value::read(text, value)).transpose();
        let need = |key: &str| {
            let remedy = "give it, such as { from = \"5ms\", to = \"160ms\", factor = 2 }";
            value(key)?.ok_or_else(|| Fault::new(at, format!("the range has no `{key}`; {remedy}")))
        };
        let (from, to) = (need("from")?, need("to")?);
        let quantity = common(&[from.clone(), to.clone()]);
        if !quantity.is_number() {
            let remedy = "give both with one kind of unit, such as \"5ms\" and \"1s\"; or list the values";
            return Err(Fault::new(
                at,
                format!("no range goes from {} to {}; {remedy}", from.label, to.label),
            ));
        }
        if to.number < from.number {
            return Err(Fault::new(
                at,
                format!(
                    "a range goes upwards, and {} is below {}; exchange them, or list the values",
                    to.label, from.label
                ),
            ));
        }
        let (step, count) = match (value("step")?, value("factor")?) {
            (Some(step), None) => {
                let fits = step.quantity == quantity
                    || quantity == Quantity::Number && step.quantity == Quantity::Integer;
                if !fits || step.number <= 0.0 {
                    let what = format!("a step of {} from {}", step.label, from.label);
                    return Err(Fault::new(
                        step.at,
                        format!("{what} leads nowhere; give one above 0 in the same unit"),
                    ));
                }
                (Step::Add(step.number), (to.number - from.number) / step.number)
            }
            (None, Some(factor)) => {
                if !matches!(factor.quantity, Quantity::Integer | Quantity::Number) || factor.number <= 1.0 {
                    return Err(Fault::new(
                        factor.at,
                        format!("a factor of {} leads nowhere; give a number above 1", factor.label),
                    ));
                }
                if from.number <= 0.0 {
                    return Err(Fault::new(
                        from.at,
                        "no factor leads away from 0; begin above it, or give `step`".to_owned(),
                    ));
                }
                (Step::Times(factor.number), (to.number / from.number).ln() / factor.number.ln())
            }
            _ => {
                return Err(Fault::new(at, "a range needs either `step` or `factor`".to_owned()));
            }
        };
        Ok(Self { quantity, from: from.number, step, count: (count + SLACK).floor() + 1.0, at })
    }

    /// All values.
    pub fn values(&self) -> Vec<Value> {
        let value = |index: u64| {
            let number = match self.step {
                Step::Add(step) => self.from + index as f64 * step,
                Step::Times(factor) => self.from * factor.powi(index as i32),
            };
            Value::new(self.quantity, number, self.at)
        };
        (0..self.count as u64).map(value).collect()
    }
}

#[cfg(test)]
#[path = "values_tests.rs"]
mod tests;
