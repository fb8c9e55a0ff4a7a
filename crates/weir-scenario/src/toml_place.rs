//! Where in a TOML text a key is, so that an error about its value can name the line.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The bytes of the value at `path`, such as `flow.0.rate`; of what encloses it, where it is missing.
pub fn span(table: &Spanned<DeTable<'_>>, path: &str) -> Range<usize> {
    let mut steps = path.split('.');
    let Some((key, mut value)) = steps.next().and_then(|step| table.get_ref().get_key_value(step)) else {
        return table.span();
    };
    // Of a key with a value in many lines, the first line is the one to look at.
    let mut found = first(key.span(), value);
    for step in steps {
        let (inner, place) = match value.get_ref() {
            DeValue::Table(table) => match table.get_key_value(step) {
                Some((key, inner)) => (inner, first(key.span(), inner)),
                None => break,
            },
            DeValue::Array(items) => match step.parse().ok().and_then(|index: usize| items.get(index)) {
                Some(inner) => (inner, inner.span()),
                None => break,
            },
            _ => break,
        };
        (value, found) = (inner, place);
    }
    found
}

/// A table stands where its header is; another value itself.
fn first(key: Range<usize>, value: &Spanned<DeValue<'_>>) -> Range<usize> {
    match value.get_ref() {
        DeValue::Array(items) => items.iter().next().map_or(key, Spanned::span),
        DeValue::Table(_) => key,
        _ => value.span(),
    }
}

/// The key, such as `flow.0.rate`, that byte `offset` of a text belongs to: its name, its value, or the header of its
/// table. None if that is the whole of the text.
pub fn key_at(text: &str, offset: usize) -> Option<String> {
    DeTable::parse(text).ok().and_then(|table| key_in(table.get_ref(), offset, ""))
}

fn key_in(table: &DeTable<'_>, offset: usize, place: &str) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let here =
            if place.is_empty() { key.get_ref().to_string() } else { format!("{place}.{}", key.get_ref()) };
        if key.span().contains(&offset) { Some(here) } else { value_in(value, offset, &here) }
    })
}

fn value_in(value: &Spanned<DeValue<'_>>, offset: usize, here: &str) -> Option<String> {
    let inner = match value.get_ref() {
        DeValue::Table(table) => key_in(table, offset, here),
        DeValue::Array(items) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| value_in(item, offset, &format!("{here}.{index}")))
        }
        _ => None,
    };
    inner.or_else(|| value.span().contains(&offset).then(|| here.to_owned()))
}

/// The line of byte `offset` in `text`, counted from 1.
pub fn line(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}

/// The line of the value at `path` in a text that is sound TOML.
pub fn line_of(text: &str, path: &str) -> usize {
    DeTable::parse(text).map_or(1, |table| line(text, span(&table, path).start))
}

#[cfg(test)]
mod tests {
    use super::{key_at, line_of};

    #[test]
    fn what_stands_somewhere_belongs_to_a_key() {
        let text = "a = 1\n[b]\nc = { d = 2 }\n\n[[flow]]\nx = 1\n[[flow]]\ny = [\n 3,\n 4]\n[e.f]\n";
        for (part, key) in [
            ("a", "a"),
            ("1", "a"),
            ("b]", "b"),
            ("c", "b.c"),
            ("2", "b.c.d"),
            ("x", "flow.0.x"),
            ("4", "flow.1.y.1"),
            ("[[flow", "flow.0"),
            ("flow", "flow"),
            ("e.f", "e"),
            ("f]", "e.f"),
        ] {
            assert_eq!(key_at(text, text.find(part).unwrap()).as_deref(), Some(key), "{part}");
        }
        assert_eq!(key_at(text, text.len()), None);
    }

    #[test]
    fn keys_are_found_and_so_is_what_encloses_a_missing_one() {
        let text = "a = 1\n[b]\nc = { d = 2 }\n\n[[flow]]\nx = 1\n[[flow]]\ny = [\n 3,\n 4]\n";
        for (path, line) in [
            ("a", 1),
            ("b", 2),
            ("b.c", 3),
            ("b.c.d", 3),
            ("b.missing", 2),
            ("flow", 5),
            ("flow.0.x", 6),
            ("flow.1.x", 7),
            ("flow.1.y.1", 10),
            ("flow.7", 5),
        ] {
            assert_eq!(line_of(text, path), line, "{path}");
        }
    }
}
