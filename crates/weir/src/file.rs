//! The file of `--config`: its keys, and where in it a mistake is.

use std::path::Path;

use anyhow::Context;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};
use weir_core::words;
use weir_kernel::Keys;

/// A mistake, and at which byte of the file it is.
type Mistake = (usize, String);

/// The keys of a file, and the file as it was written; the inner error is what is wrong with it. The outer one is a file
/// that cannot be read.
pub(crate) fn read(path: &Path) -> anyhow::Result<Result<(Keys, toml::Table), String>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let parsed = match std::str::from_utf8(&bytes) {
        Ok(text) => parse(text),
        Err(error) => Err((error.valid_up_to(), "this is not UTF-8; write the file in UTF-8".to_owned())),
    };
    Ok(parsed.map_err(|(at, problem)| {
        let line = 1 + bytes[..at.min(bytes.len())].iter().filter(|byte| **byte == b'\n').count();
        format!("{}, line {line}: {problem}", path.display())
    }))
}

fn parse(text: &str) -> Result<(Keys, toml::Table), Mistake> {
    let syntax = |error: toml::de::Error| (error.span().map_or(0, |span| span.start), complaint_of(&error));
    let places = DeTable::parse(text).map_err(syntax)?;
    let table: toml::Table = toml::from_str(text).map_err(syntax)?;
    let problem = match keys(table.clone()) {
        Ok(keys) => return Ok((keys, table)),
        Err(problem) => problem,
    };
    let without = |path: &[String]| {
        let mut less = table.clone();
        remove(&mut less, path);
        keys(less).err()
    };
    let at = culprit(places.get_ref(), &mut Vec::new(), &without, &problem);
    Err((at.unwrap_or(0), advised(&problem)))
}

fn complaint_of(error: &toml::de::Error) -> String {
    error.message().trim_end().to_owned()
}

/// The keys, of which each by itself can be what it says.
fn keys(table: toml::Table) -> Result<Keys, String> {
    let keys: Keys = table.try_into().map_err(|error| complaint_of(&error))?;
    keys.law.check().map_err(|error| error.to_string())?;
    Ok(keys)
}

fn remove(table: &mut toml::Table, path: &[String]) {
    match path {
        [] => {}
        [key] => drop(table.remove(key)),
        [key, rest @ ..] => {
            if let Some(toml::Value::Table(inner)) = table.get_mut(key) {
                remove(inner, rest);
            }
        }
    }
}

/// Where the innermost key is without which nothing is wrong, or something else: the reader of the keys says what is
/// wrong, but of tables within tables not where.
fn culprit(
    places: &DeTable<'_>,
    path: &mut Vec<String>,
    without: &dyn Fn(&[String]) -> Option<String>,
    problem: &str,
) -> Option<usize> {
    let mut suspects = Vec::new();
    for (key, value) in places {
        path.push(key.get_ref().to_string());
        let then = without(path);
        path.pop();
        if then.as_deref() != Some(problem) {
            suspects.push((key, value, then.is_none()));
        }
    }
    let lone = if suspects.len() == 1 { suspects.first() } else { None };
    let alone = suspects.iter().find(|(_, _, alone)| *alone);
    let told = || suspects.iter().find(|(key, value, _)| names(problem, key, value));
    let (key, value, _) = alone.or_else(told).or(lone)?;
    if let DeValue::Table(inner) = value.get_ref() {
        path.push(key.get_ref().to_string());
        let deeper = culprit(inner, path, without, problem);
        path.pop();
        if deeper.is_some() {
            return deeper;
        }
    }
    Some(key.span().start)
}

/// Whether a complaint is about a key or its text.
fn names(problem: &str, key: &Spanned<DeString<'_>>, value: &Spanned<DeValue<'_>>) -> bool {
    let quoted =
        |word: &str| ["'", "`", "\""].iter().any(|mark| problem.contains(&format!("{mark}{word}{mark}")));
    let key = key.get_ref().as_ref();
    quoted(key) || problem.starts_with(&format!("{key}:")) || value.get_ref().as_str().is_some_and(quoted)
}

/// Puts what was probably meant in place of serde's "unknown field `x`, expected one of `a`, `b`".
fn advised(problem: &str) -> String {
    match words::unknown(problem) {
        Some((queue @ ("standard" | "responsive"), known)) if known.contains(&"queues") => {
            format!(
                "'{queue}' is a key of the table [queues]: write queues.{queue} = ..., or put it below [queues]"
            )
        }
        Some((word, known)) => format!("'{word}' is not known{}", words::hint(word, known)),
        None => problem.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    /// The line of the mistake in a file, and the mistake.
    fn mistake(text: &str) -> (usize, String) {
        let (at, problem) = parse(text).unwrap_err();
        (1 + text[..at].matches('\n').count(), problem)
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_its_key() {
        for (text, line, says) in [
            ("rate = \"5mbit\"\nrat = 3\nflows = 64\n", 2, "did you mean 'rate'?"),
            ("rate = \"5mbit\"\nflows = 64\nrate = \"5mbit\"\n", 3, "duplicate key"),
            ("rate = \"5mbit\"\n\n\nflows = 64\nrat = 5", 5, "did you mean 'rate'?"),
            ("flows = 64\nrate = \"5mbits\"\n", 2, "5mbits"),
            ("flows = 64\nrate = \n", 2, ""),
            (
                "[queues]\nstandard = \"bfifo\"\n[queues.responsive]\nkind = \"codel\"\ntargt = \"5ms\"\n",
                5,
                "targt",
            ),
            (
                "[queues]\nstandard = \"bfifo\"\n[queues.responsive]\nkind = \"codl\"\ntarget = \"5ms\"\n",
                4,
                "codl",
            ),
            ("[queues]\nstandard = \"bfifo\"\nresponsiv = \"bfifo\"\n", 3, "did you mean 'responsive'?"),
            ("[queues]\nstandard = \"netem\"\nresponsive = \"bfifo\"\n", 2, "netem"),
            ("flows = 64\nqueues = \"bfifo\"\n", 2, "STANDARD/RESPONSIVE"),
            ("rate = \"5mbit\"\nstandard = \"bfifo\"\n", 2, "a key of the table [queues]"),
            (
                "[law]\npreset = \"paper\"\nspin_debounce = 99\nmss = 1000\n",
                3,
                "spin_debounce: 99 is not 1 to 16",
            ),
            ("[law]\nmss = 1000\nspin_debounc = 9\n", 3, "did you mean 'spin_debounce'?"),
            (
                "[law]\nmss = 1000\npreset = \"papers\"\n",
                3,
                "preset: 'papers' is not robust, paper or comsys",
            ),
            ("[law]\nmss = \"many\"\ntie = 3\n", 2, "mss: 'many' is not 1 to 65535"),
        ] {
            let (at, problem) = mistake(text);
            assert_eq!(at, line, "{text}: {problem}");
            assert!(problem.contains(says), "{text}: {problem}");
        }
    }
}
