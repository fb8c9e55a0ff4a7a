//! What to answer to a word that is not known: the known word that was probably meant.
//!
//! The similarity is Jaro's with Winkler's bonus for a common beginning (Winkler, 1990): 1 for equal words, 0 for words
//! without a common letter. It forgives letters that are missing, added, changed or exchanged, and does so more readily
//! towards the end of a word, where most slips of typing are.

/// Below this similarity no word is near enough to be what was meant: `remo` and `reno` have 0.87, `remo` and `bbr1` 0.
const NEAR: f64 = 0.75;

/// Names that [`hint`] lists at most.
const LISTED: usize = 100;

/// The known word that was probably meant by `word`, if one is near enough. Upper and lower case are the same.
///
/// ```
/// use weir_core::words::nearest;
/// assert_eq!(nearest("coddle", ["pfifo", "codel"]), Some("codel"));
/// assert_eq!(nearest("wfq", ["pfifo", "codel"]), None);
/// ```
pub fn nearest<S: AsRef<str>>(word: &str, known: impl IntoIterator<Item = S>) -> Option<S> {
    let word = word.to_lowercase();
    known
        .into_iter()
        .map(|known| (strsim::jaro_winkler(&word, &known.as_ref().to_lowercase()), known))
        .filter(|(similarity, _)| *similarity >= NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// The end of an error about `word`: `; did you mean 'codel'?`, or else what is known.
///
/// ```
/// use weir_core::words::hint;
/// assert_eq!(hint("coddle", ["pfifo", "codel"]), "; did you mean 'codel'?");
/// assert_eq!(hint("wfq", ["pfifo", "codel"]), "; known are pfifo, codel");
/// ```
pub fn hint<S: AsRef<str>>(word: &str, known: impl IntoIterator<Item = S>) -> String {
    hint_in("'", word, known)
}

/// As [`hint`], with `quote` around the word that was probably meant.
pub fn hint_in<S: AsRef<str>>(quote: &str, word: &str, known: impl IntoIterator<Item = S>) -> String {
    let known: Vec<S> = known.into_iter().collect();
    if let Some(near) = nearest(word, known.iter()) {
        return format!("; did you mean {quote}{}{quote}?", near.as_ref());
    }
    let names: Vec<&str> = known.iter().take(LISTED).map(AsRef::as_ref).collect();
    match known.len().saturating_sub(LISTED) {
        0 if names.is_empty() => "; it has none".to_owned(),
        0 => format!("; known are {}", names.join(", ")),
        more => format!("; known are {} and {more} more", names.join(", ")),
    }
}

/// The unknown word and the known ones of an error that serde's derived code makes of them: ``unknown field `x`,
/// expected one of `a`, `b` ``. Nothing of other errors, and where nothing is known.
pub fn unknown(message: &str) -> Option<(&str, Vec<&str>)> {
    let is_unknown = message.contains("unknown field") || message.contains("unknown variant");
    let mut quoted = message.split('`').skip(1).step_by(2);
    let word = quoted.next().filter(|_| is_unknown)?;
    let known: Vec<&str> = quoted.collect();
    (!known.is_empty()).then_some((word, known))
}

#[cfg(test)]
mod tests {
    use super::{LISTED, hint, hint_in, nearest, unknown};

    #[test]
    fn slips_find_their_word_and_strangers_none() {
        let known = ["rate", "rtt", "qdisc", "min_window_segments", "TCP cubic"];
        for (word, meant) in [
            ("rat", "rate"),
            ("Rate", "rate"),
            ("raet", "rate"),
            ("qdics", "qdisc"),
            ("min_windw_segments", "min_window_segments"),
            ("tcp cubik", "TCP cubic"),
        ] {
            assert_eq!(nearest(word, known), Some(meant), "{word}");
        }
        for word in ["", "x", "jitter", "limit"] {
            assert_eq!(nearest(word, known), None, "{word}");
        }
        assert_eq!(nearest("rate", [""; 0]), None);
    }

    #[test]
    fn hints_name_one_word_or_what_is_known() {
        assert_eq!(hint_in("`", "rat", ["rate", "rtt"]), "; did you mean `rate`?");
        assert_eq!(hint("x", ["rate", "rtt"]), "; known are rate, rtt");
        assert_eq!(hint("x", [""; 0]), "; it has none");
        let many = hint("x", vec!["rate"; LISTED + 2]);
        assert!(many.ends_with("rate and 2 more"), "{many}");
    }

    #[test]
    fn words_of_serdes_errors_are_found() {
        let message = "unknown field `stak`, expected one of `name`, `stack`";
        assert_eq!(unknown(message), Some(("stak", vec!["name", "stack"])));
        assert_eq!(unknown("unknown field `x`, there are no fields"), None);
        assert_eq!(unknown("invalid type: `1`, expected `2`"), None);
    }
}
