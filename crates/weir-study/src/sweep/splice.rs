//! Puts a cell's values into the scenario that they belong to, before it is read: so a cell is checked as a scenario
//! file would be, and an error knows which bytes it is about.
//!
//! What is put in has the place of its value in the sweep's file, moved behind the end of the scenario's text: one
//! number gives both text and place.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_qdisc::QdiscConfig;

use super::Fault;
use weir_core::words::nearest;

/// One value for the place that `path` names.
pub(super) struct Splice<'a> {
    pub(super) path: &'a [String],
    /// As TOML.
    pub(super) literal: &'a str,
    pub(super) at: usize,
}

/// Tables that a scenario has several of, by what people call one.
const SEVERAL: [&str; 2] = ["flow", "workload"];

/// The steps of a key such as `bottleneck.rate`, `flow.0.controller` or `flow.NAME.controller`.
///
/// # Errors
/// If the scenario has no such flow or workload.
pub fn steps(key: &str, scenario: &DeTable<'_>) -> Result<Vec<String>, String> {
    let split = |rest: &str| rest.split('.').map(str::to_owned).collect::<Vec<_>>();
    let inside = |kind: &'static str| Some((kind, key.strip_prefix(kind)?.strip_prefix('.')?));
    let Some((kind, rest)) = SEVERAL.into_iter().find_map(inside) else {
        return Ok(split(key));
    };
    let all = match scenario.get(kind).map(Spanned::get_ref) {
        Some(DeValue::Array(all)) => all.iter().map(Spanned::get_ref).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let name =
        |one: &&DeValue<'_>| one.get("name").and_then(|name| name.get_ref().as_str().map(str::to_owned));
    let names: Vec<Option<String>> = all.iter().map(name).collect();
    // A name may have dots in it.
    let named = |name: &Option<String>| {
        name.as_ref().and_then(|name| rest.strip_prefix(name.as_str())?.strip_prefix('.')).map(str::to_owned)
    };
    let fits: Vec<(usize, String)> =
        names.iter().enumerate().filter_map(|(index, name)| Some((index, named(name)?))).collect();
    let (index, key) = match fits.as_slice() {
        [(index, key)] => (*index, key.clone()),
        [] => match rest.split_once('.').and_then(|(index, key)| Some((index.parse::<usize>().ok()?, key))) {
            Some((index, key)) if index < all.len() => (index, key.to_owned()),
            _ => {
                let word = rest.rsplit_once('.').map_or(rest, |(word, _)| word);
                let known: Vec<&str> = names.iter().flatten().map(String::as_str).collect();
                let hint = match nearest(word, known) {
                    None => String::new(),
                    Some(near) => format!("did you mean `{kind}.{near}`? "),
                };
                let last = all.len().saturating_sub(1);
                return Err(format!(
                    "`{key}`: the scenario has no such {kind}; {hint}write {kind}.NUMBER.KEY, from {kind}.0 to \
                     {kind}.{last}, or {kind}.NAME.KEY for a {kind} with that `name`"
                ));
            }
        },
        _ => {
            return Err(format!(
                "`{key}`: several {kind}s have that name; write {kind}.NUMBER.KEY, counted from 0"
            ));
        }
    };
    Ok([kind.to_owned(), index.to_string()].into_iter().chain(split(&key)).collect())
}

/// Puts all splices into `scenario` and gives what comes of it to `read`. Their place is `offset` and their own.
pub(super) fn splice<'a, T>(
    scenario: Spanned<DeTable<'a>>,
    splices: &'a [Splice<'a>],
    offset: usize,
    read: impl FnOnce(Spanned<DeTable<'_>>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    // The scenario borrows from these, so they come first.
    let mut tables: Vec<(Vec<String>, String)> = Vec::new();
    let mut written: Vec<Splice<'_>> = Vec::new();
    let mut scenario = scenario;
    // A queue as words and one of its keys both: the words come first, and become a table.
    let mut order: Vec<&Splice<'_>> = splices.iter().collect();
    order.sort_by_key(|splice| splice.path.len());
    let (mut inside, mut places) = (Vec::new(), Vec::new());
    for splice in order {
        let Some((depth, words, place)) = words_above(scenario.get_ref(), splice.path) else {
            set(scenario.get_mut(), splice, offset)?;
            continue;
        };
        let above = &splice.path[..depth];
        if tables.iter().all(|(path, _)| path != above) {
            let table = as_table(words).map_err(|message| Fault::new(place, message))?;
            tables.push((above.to_vec(), table));
            places.push(place);
        }
        inside.push(splice);
    }
    written.extend(tables.iter().zip(places).map(|((path, literal), at)| Splice { path, literal, at }));
    for splice in &written {
        set(scenario.get_mut(), splice, 0)?;
    }
    for splice in inside {
        set(scenario.get_mut(), splice, offset)?;
    }
    read(scenario)
}

/// A queue's words as the table that means the same, in one line.
fn as_table(words: &str) -> Result<String, String> {
    let queue: QdiscConfig = words.parse().map_err(|error: weir_qdisc::ConfigError| error.to_string())?;
    let value = toml::Value::try_from(&queue).map_err(|error| error.to_string())?;
    Ok(value.to_string())
}

fn child<'t, 'i>(value: &'t DeValue<'i>, step: &str) -> Option<&'t Spanned<DeValue<'i>>> {
    match value {
        DeValue::Table(table) => table.get(step),
        DeValue::Array(items) => items.get(step.parse::<usize>().ok()?),
        _ => None,
    }
}

/// A queue's words that stand where a table would have to be for `path` to lead on: after how many steps, and their
/// place.
fn words_above<'t>(scenario: &'t DeTable<'_>, path: &[String]) -> Option<(usize, &'t str, usize)> {
    let (first, rest) =
        path.split_first().filter(|_| path.starts_with(&["bottleneck", "qdisc"].map(str::to_owned)))?;
    let mut value = scenario.get(first.as_str())?;
    for (depth, step) in rest.iter().enumerate() {
        if let DeValue::String(words) = value.get_ref() {
            return Some((depth + 1, words, value.span().start));
        }
        value = child(value.get_ref(), step)?;
    }
    None
}

/// Puts one value where its path leads; tables that are missing on the way are made.
fn set<'i>(scenario: &mut DeTable<'i>, splice: &Splice<'i>, offset: usize) -> Result<(), Fault> {
    let at = offset + splice.at;
    let fail = |message: String| Fault::new(at, message);
    let span = at..at;
    let value = DeValue::parse(splice.literal).map_err(|error| fail(error.message().to_owned()))?;
    let value = moved(value, &span);
    let (last, way) = splice.path.split_last().expect("a key has at least one step");
    let mut table = scenario;
    let mut way = way.iter();
    while let Some(step) = way.next() {
        let entry = Spanned::new(span.clone(), step.clone().into());
        let inner =
            table.entry(entry).or_insert_with(|| Spanned::new(span.clone(), DeValue::Table(DeTable::new())));
        let inner = match inner.get_mut() {
            // Only flows are in a list, and `steps` has found theirs.
            DeValue::Array(flows) => {
                let index = way.next().and_then(|step| step.parse::<usize>().ok());
                index.and_then(|index| flows.get_mut(index)).map(Spanned::get_mut)
            }
            other => Some(other),
        };
        table = match inner {
            Some(DeValue::Table(table)) => table,
            _ => {
                let key = splice.path.join(".");
                return Err(fail(format!(
                    "`{key}`: `{step}` holds one value and no keys; sweep `{step}` itself"
                )));
            }
        };
    }
    table.remove(last.as_str());
    table.insert(Spanned::new(span, last.clone().into()), value);
    Ok(())
}

/// The value as if all of it stood at `span`.
fn moved<'i>(value: Spanned<DeValue<'i>>, span: &Range<usize>) -> Spanned<DeValue<'i>> {
    let value = match value.into_inner() {
        DeValue::Array(items) => DeValue::Array(items.into_iter().map(|item| moved(item, span)).collect()),
        DeValue::Table(table) => DeValue::Table(
            table
                .into_iter()
                .map(|(key, value)| (Spanned::new(span.clone(), key.into_inner()), moved(value, span)))
                .collect(),
        ),
        plain => plain,
    };
    Spanned::new(span.clone(), value)
}
