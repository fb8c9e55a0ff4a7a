//! Text that does not speak to the terminal. Names of interfaces, flows and files come from others, and the kernel
//! takes nearly every character in them: one that a terminal obeys (Unicode's Cc: C0, DEL and C1, with ESC and CSI
//! among them) is shown by its number instead.

use std::borrow::Cow;
use std::fmt::Write as _;

/// `text` with `\u{1b}` in place of the control character 1b. Ends of lines and tabulators stay.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    shown(text, |letter, out| {
        out.extend(letter.escape_unicode());
    })
}

/// The same for JSON: `\u009b`, so that it stays JSON of the same meaning. Its writer has left DEL and C1 as they are;
/// all other control characters are ends of lines or its own indentation.
pub(crate) fn plain_json(json: &str) -> Cow<'_, str> {
    shown(json, |letter, out| {
        let _ = write!(out, "\\u{:04x}", u32::from(letter));
    })
}

fn shown(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    let speaks = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    if !text.contains(speaks) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if speaks(letter) { escape(letter, &mut out) } else { out.push(letter) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::{plain, plain_json};

    #[test]
    fn every_control_character_is_shown_by_its_number() {
        for letter in (0..=0x10_ffff).filter_map(char::from_u32) {
            let text = format!("a{letter}b");
            let shown = plain(&text);
            let stays = !letter.is_control() || letter == '\n' || letter == '\t';
            assert_eq!(shown == text, stays, "{letter:?}");
            assert!(stays || shown.chars().all(|letter| !letter.is_control()), "{shown:?}");
        }
        assert_eq!(plain("\u{1b}[31m\u{9b}2J"), "\\u{1b}[31m\\u{9b}2J");
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({ "name": (0..0x100).filter_map(char::from_u32).collect::<String>() });
        let written = serde_json::to_string_pretty(&value).unwrap();
        let shown = plain_json(&written);
        assert!(shown.chars().all(|letter| letter == '\n' || !letter.is_control()), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
