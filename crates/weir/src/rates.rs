//! Rates in bytes per second where bits may be meant: `100mbps` is 800 Mbit/s for `tc`, and so for Weir, while most who
//! write it mean 100 Mbit/s. It is taken as `tc` takes it, and said.

use weir_core::Rate;

use crate::talk;

/// What to say of `text` if it is a rate in bytes per second.
pub(crate) fn note(text: &str) -> Option<String> {
    let lower = text.trim().to_ascii_lowercase();
    let number = lower.strip_suffix("bps")?;
    let rate: Rate = lower.parse().ok()?;
    Some(format!(
        "{text} is {rate}, since bps is bytes per second, as in tc; for bits per second write '{number}bit'"
    ))
}

/// Says it of the value of a key, if it is to be said.
pub(crate) fn warn(key: &str, text: &str) {
    if let Some(note) = note(text) {
        talk::say!("weir: warning: {key}: {note}");
    }
}

#[cfg(test)]
mod tests {
    use super::note;

    #[test]
    fn only_bytes_per_second_are_meant() {
        for text in ["100mbit", "100", "5kb", "mbps", "fast", "1.2.3mbps", "100mbps/s", ""] {
            assert_eq!(note(text), None, "{text}");
        }
        let said = note("100mbps").unwrap();
        assert!(said.starts_with("100mbps is 800mbit,") && said.ends_with("write '100mbit'"), "{said}");
        assert!(note("8000 bps").unwrap().contains("is 64kbit"));
    }
}
