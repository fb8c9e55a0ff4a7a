//! Genes: the keys of a scenario that a hunt may change, and what each may become.
//!
//! | in the file | what it is |
//! |---|---|
//! | `["reno", "cubic"]` | one of these |
//! | `{ from = 1, to = 9, step = 2 }`, `{ ..., factor = 2 }` | one of these values, as in a sweep |
//! | `{ from = "1ms", to = "1s" }`, `{ ..., log = true }` | anything between, evenly or evenly in the logarithm |
//! | `{ words = "{rate} for {time}", count = 4, rate = ..., time = ... }` | words made of genes of their own, or a list of so many |
//!
//! A search sees one number from 0 to 1 for each of these, whatever it is.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_core::words::hint_in;

use weir_study::sweep::grammar::{Fault, Key, Quantity, Steps, Texts, Value, common, steps};

/// Significant digits that a number between two others has at first.
const DIGITS: i32 = 3;
/// Entries of a list at most.
const MOST_COUNT: usize = 1000;

/// What one coordinate of a search means.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// One of several values.
    Choice(Vec<Value>),
    /// A number of base units.
    Between { quantity: Quantity, from: f64, to: f64, log: bool, at: usize },
}

/// What a coordinate has become.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Allele {
    /// The place of a value.
    Choice(usize),
    /// Base units.
    Number(f64),
}

/// A key with all that it may become.
#[derive(Clone, Debug)]
pub(crate) struct Gene {
    pub(crate) key: Key,
    pub(crate) parts: Vec<Part>,
    /// The words that the parts are put into.
    words: Option<Words>,
}

#[derive(Clone, Debug)]
struct Words {
    text: String,
    names: Vec<String>,
    /// A list of so many, each with parts of its own.
    count: Option<usize>,
}

impl Part {
    /// How many values there are, if they can be counted.
    pub(crate) fn count(&self) -> Option<usize> {
        match self {
            Self::Choice(values) => Some(values.len()),
            Self::Between { .. } => None,
        }
    }

    /// What a coordinate from 0 to 1 stands for.
    pub(crate) fn allele(&self, unit: f64) -> Allele {
        let unit = unit.clamp(0.0, 1.0);
        match self {
            Self::Choice(values) => {
                Allele::Choice(((unit * values.len() as f64) as usize).min(values.len() - 1))
            }
            Self::Between { from, to, log, .. } => {
                let number = if *log { from * libm::pow(to / from, unit) } else { from + (to - from) * unit };
                self.rounded(number, DIGITS)
            }
        }
    }

    /// A number with so many significant digits, within the range.
    pub(crate) fn rounded(&self, number: f64, digits: i32) -> Allele {
        let Self::Between { quantity, from, to, .. } = self else { return Allele::Number(number) };
        let scale = match number {
            0.0 => 1.0,
            _ => 10f64.powi(digits - 1 - libm::log10(number.abs()).floor() as i32),
        };
        let round = (number * scale).round() / scale;
        let round = if *quantity == Quantity::Integer { round.round() } else { round };
        Allele::Number(round.clamp(*from, *to))
    }

    fn value(&self, allele: Allele) -> Value {
        match (self, allele) {
            (Self::Choice(values), Allele::Choice(place)) => values[place].clone(),
            (Self::Between { quantity, at, .. }, Allele::Number(number)) => {
                Value::new(*quantity, number, *at)
            }
            _ => unreachable!("an allele is of its part"),
        }
    }

    fn read(text: &str, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Self, Fault> {
        let at = value.span().start;
        let fail = |message: String| Err(Fault::new(at, message));
        let values = match value.get_ref() {
            DeValue::Array(items) => {
                items.iter().map(|item| Value::read(text, item)).collect::<Result<Vec<_>, _>>()?
            }
            DeValue::Table(table) if table.contains_key("step") || table.contains_key("factor") => {
                Steps::read(text, table, value.span())?.values()
            }
            DeValue::Table(table) => return Self::between(text, name, table, at),
            _ => {
                let remedy = "give a list [...], or { from, to }";
                return fail(format!("`{name}` has one value and nothing to choose; {remedy}"));
            }
        };
        if values.len() < 2 {
            let what = format!("`{name}` has {} values to choose from", values.len());
            return fail(format!("{what}; give at least two, or write the value into the scenario"));
        }
        Ok(Self::Choice(values))
    }

    fn between(text: &str, name: &str, table: &DeTable<'_>, at: usize) -> Result<Self, Fault> {
        const KEYS: [&str; 3] = ["from", "to", "log"];
        if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.get_ref().as_ref())) {
            let hint = hint_in("`", key.get_ref(), KEYS.into_iter().chain(["step", "factor", "words"]));
            return Err(Fault::new(key.span().start, format!("a range has no `{}`{hint}", key.get_ref())));
        }
        let end = |key: &str| match table.get(key) {
            Some(value) => Value::read(text, value),
            None => Err(Fault::new(
                at,
                format!("`{name}` has no `{key}`; give it, such as {{ from = \"5ms\", to = \"1s\" }}"),
            )),
        };
        let (from, to) = (end("from")?, end("to")?);
        let log = match table.get("log").map(|value| (value.get_ref(), value.span().start)) {
            None => false,
            Some((DeValue::Boolean(log), _)) => *log,
            Some((_, at)) => return Err(Fault::new(at, "log: give true or false".to_owned())),
        };
        let quantity = common(&[from.clone(), to.clone()]);
        let between = format!("`{name}` goes from {} to {}", from.label, to.label);
        let fail = |at: usize, remedy: &str| Err(Fault::new(at, format!("{between}; {remedy}")));
        if !quantity.is_number() {
            return fail(
                at,
                "give both with one kind of unit, such as \"5ms\" and \"1s\"; or list the values",
            );
        }
        if to.number <= from.number {
            return fail(to.at, "nothing is between; give a `to` above `from`");
        }
        if log && from.number <= 0.0 {
            return fail(from.at, "no logarithm begins there; begin above 0, or leave `log` out");
        }
        Ok(Self::Between { quantity, from: from.number, to: to.number, log, at })
    }
}

impl Gene {
    /// All genes of `[genes]`, in the order of the file.
    pub(crate) fn all(texts: &Texts, genes: &DeTable<'_>) -> Result<Vec<Self>, Fault> {
        let scenario = texts.table()?;
        let mut all = Vec::new();
        collect(&texts.sweep, scenario.get_ref(), "", genes, &mut all)?;
        all.sort_by_key(|gene: &Self| gene.key.at);
        let twice = all.iter().enumerate().find_map(|(place, gene)| {
            all[..place].iter().any(|other: &Self| other.key.path == gene.key.path).then_some(gene)
        });
        match twice {
            Some(gene) => Err(Fault::new(
                gene.key.at,
                format!("`{}` is a gene already; give what it may be in one place", gene.key.name),
            )),
            None => Ok(all),
        }
    }

    /// The key's value for alleles of its parts.
    pub(crate) fn value(&self, alleles: &[Allele]) -> Value {
        let mut values = self.parts.iter().zip(alleles).map(|(part, allele)| part.value(*allele));
        let Some(Words { text, names, count }) = &self.words else {
            return values.next().expect("a gene has a part");
        };
        let mut one = || {
            names.iter().fold(text.clone(), |words, name| {
                let value = values.next().expect("each name has a part");
                words.replace(&format!("{{{name}}}"), &value.label)
            })
        };
        let quoted = |words: &str| toml::Value::String(words.to_owned()).to_string();
        let literal = match count {
            None => quoted(&one()),
            Some(count) => {
                format!("[{}]", (0..*count).map(|_| quoted(&one())).collect::<Vec<_>>().join(", "))
            }
        };
        let label = literal.trim_matches('"').to_owned();
        Value { literal, label, at: self.key.at, quantity: Quantity::Text, number: 0.0 }
    }

    fn read(text: &str, key: Key, value: &Spanned<DeValue<'_>>) -> Result<Self, Fault> {
        let DeValue::Table(table) = value.get_ref() else {
            return Ok(Self { parts: vec![Part::read(text, &key.name, value)?], key, words: None });
        };
        let Some(words) = table.get("words") else {
            return Ok(Self { parts: vec![Part::read(text, &key.name, value)?], key, words: None });
        };
        let at = words.span().start;
        let Some(said) = words.get_ref().as_str() else {
            let what = "words: give a text, such as \"{rate} for {time}\"";
            return Err(Fault::new(at, what.to_owned()));
        };
        let count = match table.get("count") {
            None => None,
            Some(count) => {
                let number = count.get_ref().as_integer();
                let number =
                    number.and_then(|number| usize::from_str_radix(number.as_str(), number.radix()).ok());
                let number = number.filter(|number| (1..=MOST_COUNT).contains(number));
                Some(number.ok_or_else(|| {
                    let what = format!("count: give a whole number from 1 to {MOST_COUNT}");
                    Fault::new(count.span().start, what)
                })?)
            }
        };
        let (mut names, mut parts) = (Vec::new(), Vec::new());
        for (name, value) in table {
            let said_as = format!("{{{}}}", name.get_ref());
            if ["words", "count"].contains(&name.get_ref().as_ref()) {
                continue;
            }
            if !said.contains(&said_as) {
                let what = format!("the words have no {said_as}; put it there, or leave it out here");
                return Err(Fault::new(name.span().start, what));
            }
            names.push(name.get_ref().to_string());
            parts.push(Part::read(text, name.get_ref(), value)?);
        }
        if names.is_empty() {
            let what = "the words are always the same; put a {name} into them, and name = ... beside them";
            return Err(Fault::new(at, what.to_owned()));
        }
        let parts = parts.iter().cycle().take(parts.len() * count.unwrap_or(1)).cloned().collect();
        Ok(Self { key, parts, words: Some(Words { text: said.to_owned(), names, count }) })
    }
}

/// The genes of a table; a table inside that is none is a longer path.
fn collect(
    text: &str,
    scenario: &DeTable<'_>,
    above: &str,
    table: &DeTable<'_>,
    all: &mut Vec<Gene>,
) -> Result<(), Fault> {
    for (key, value) in table {
        let name = match above {
            "" => key.get_ref().to_string(),
            _ => format!("{above}.{}", key.get_ref()),
        };
        if let DeValue::Table(inside) = value.get_ref()
            && !inside.contains_key("words")
            && !Steps::is_range(inside)
        {
            collect(text, scenario, &name, inside, all)?;
            continue;
        }
        let at = key.span().start;
        let path = steps(&name, scenario).map_err(|message| Fault::new(at, message))?;
        if path.iter().any(String::is_empty) {
            return Err(Fault::new(at, format!("`{name}` has an empty step; write it as bottleneck.rate")));
        }
        let key = Key { name, path, values: Vec::new(), quantity: Quantity::Text, at };
        all.push(Gene::read(text, key, value)?);
    }
    Ok(())
}
