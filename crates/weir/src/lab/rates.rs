//! Rates in bytes per second in a scenario's file, where bits may be meant: [`crate::rates`].

use std::path::Path;

use toml::Value;

use crate::rates::{note, warn};

/// Keys of a scenario whose text is no quantity.
const TEXTS: &[&str] = &["name", "trace"];

/// Warns of all values in a scenario's file that are rates in bytes per second.
pub(super) fn warn_of_scenario(path: &Path) {
    // What is no file cannot be read twice.
    let is_file = std::fs::metadata(path).is_ok_and(|file| file.is_file());
    let text = is_file.then(|| std::fs::read_to_string(path).ok()).flatten().unwrap_or_default();
    let Ok(table) = toml::from_str(&text) else { return };
    for (key, text) in rates(&Value::Table(table), "") {
        warn(&format!("{}: {key}", path.display()), &text);
    }
}

/// The words of all values that are rates in bytes per second, each with its key.
fn rates(value: &Value, key: &str) -> Vec<(String, String)> {
    let inside = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
    match value {
        Value::String(text) => text
            .split_whitespace()
            .filter(|word| note(word).is_some())
            .map(|word| (key.to_owned(), word.to_owned()))
            .collect(),
        Value::Array(values) => values
            .iter()
            .enumerate()
            .flat_map(|(index, value)| rates(value, &inside(&index.to_string())))
            .collect(),
        Value::Table(table) => table
            .iter()
            .filter(|(name, _)| !TEXTS.contains(&name.as_str()))
            .flat_map(|(name, value)| rates(value, &inside(name)))
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::rates;

    #[test]
    fn all_rates_of_a_scenario_are_found() {
        let text = "name = '1mbps'\n[bottleneck]\nrate = '100mbps'\nqdisc = 'tbf rate 2kbps burst 3kb'\n\
                    [[flow]]\nrate = '1mbit'\n[[flow]]\nrate = '3mbps'\nbytes = 5\n";
        let found = rates(&toml::from_str(text).unwrap(), "");
        let found: Vec<_> = found.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
        assert_eq!(
            found,
            [("bottleneck.qdisc", "2kbps"), ("bottleneck.rate", "100mbps"), ("flow.1.rate", "3mbps")]
        );
    }
}
