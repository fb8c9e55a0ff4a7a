//! What is wanted as a line of words in iproute2's manner: `eth0 rate 500mbit queues bfifo/codel split borrow`. Unlike
//! there a repeated word is an error, and an unknown one is answered with the nearest known.

pub(super) use weir_core::words::hint as nearest;

use super::keys::Keys;
use super::setup::SetupError;

/// The words that take a value, with an example of it.
const WORDS: &[(&str, &str)] = &[
    ("dev", "eth0"),
    ("rate", "500mbit"),
    ("ingress_rate", "100mbit"),
    ("direction", "both"),
    ("queues", "bfifo/codel"),
    ("split", "hard"),
    ("share", "50/50"),
    ("limit", "1000p"),
    ("rtt", "100ms"),
    ("flows", "65536"),
    ("preset", "paper"),
    ("set", "min_window_segments=2"),
];
/// The words that stand alone.
const FLAGS: &[&str] = &["ecn", "noecn", "replace"];

/// Reads words. The first may be the device without `dev`. A hyphen in a word is as good as an underscore.
///
/// # Errors
/// Names the word that is unknown, repeated, without value or with a bad one.
pub fn parse<T: AsRef<str>>(words: &[T]) -> Result<Keys, SetupError> {
    let mut keys = Keys::default();
    let mut seen: Vec<String> = Vec::new();
    let mut rest = words.iter().map(AsRef::as_ref).enumerate();
    while let Some((at, text)) = rest.next() {
        let word = text.replace('-', "_");
        let is_word = WORDS.iter().any(|(known, _)| *known == word) || FLAGS.contains(&word.as_str());
        if !is_word {
            if at == 0 {
                keys.dev = Some(text.to_owned());
                seen.push("dev".to_owned());
                continue;
            }
            let known: Vec<&str> =
                WORDS.iter().map(|(known, _)| *known).chain(FLAGS.iter().copied()).collect();
            return Err(SetupError::unknown(text, "word of weir up", nearest(&word, known)));
        }
        let name = if word == "noecn" { "ecn" } else { word.as_str() };
        if name != "set" && seen.iter().any(|seen| seen == name) {
            return Err(SetupError::Repeated { word: name.to_owned() });
        }
        seen.push(name.to_owned());
        let value = match WORDS.iter().find(|(known, _)| *known == word) {
            None => "",
            Some((_, example)) => match rest.next() {
                Some((_, value)) => value,
                None => return Err(SetupError::NoValue { word, example }),
            },
        };
        keys.put(&word, value)?;
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn refusal(line: &str) -> String {
        parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap_err().to_string()
    }

    #[test]
    fn a_device_needs_no_word() {
        for line in ["eth0 rate 10mbit", "dev eth0 rate 10mbit", "rate 10mbit dev eth0"] {
            let keys = parse(&line.split(' ').collect::<Vec<_>>()).unwrap();
            assert_eq!(keys.dev.as_deref(), Some("eth0"), "{line}");
            assert_eq!(keys.rate, Some("10mbit".parse().unwrap()));
        }
        // A device whose name is a word is written with `dev`.
        assert_eq!(parse(&["dev", "rate", "rate", "1mbit"]).unwrap().dev.as_deref(), Some("rate"));
    }

    #[test]
    fn slips_are_answered_with_what_was_meant() {
        for (line, says) in [
            ("eth0 rat 10mbit", "'rat' is not a word of weir up; did you mean 'rate'?"),
            ("eth0 xyzzy", "'xyzzy' is not a word of weir up; known are dev, rate"),
            ("eth0 rate", "'rate' needs a value after it, such as 'rate 500mbit'"),
            ("eth0 rate 10mbits", "rate: '10mbits' is not a rate such as"),
            ("eth0 rate 1mbit rate 2mbit", "'rate' is given twice; leave one out"),
            ("eth0 ecn noecn", "'ecn' is given twice; leave one out"),
            ("eth0 queues codel", "queues: 'codel' is not STANDARD/RESPONSIVE"),
            (
                "eth0 queues coddel/codel",
                "'coddel' is not a queue that can stand under HTB; did you mean 'codel'?",
            ),
            (
                "eth0 queues codel:tagret=5ms/codel",
                "'tagret' is not an option of codel; did you mean 'target'?",
            ),
            ("eth0 queues bfifo:ecn/codel", "'ecn' is not an option of bfifo; known are limit"),
            ("eth0 queues bfifo:limit=10p/codel", "limit: bfifo counts bytes"),
            ("eth0 direction in", "direction: 'in' is not egress, ingress or both"),
            ("eth0 split soft", "split: 'soft' is not hard (each queue keeps to its share) or borrow"),
            ("eth0 share 0/5", "share: '0/5' is not STANDARD/RESPONSIVE"),
            ("eth0 set min_window_segmens=2", "did you mean 'min_window_segments'?"),
            ("eth0 set min_window_segments", "write NAME=VALUE"),
            ("eth0 preset papr", "preset: 'papr' is not robust, paper or comsys"),
            ("eth0 flows many", "flows: 'many' is not a number"),
        ] {
            let said = refusal(line);
            assert!(said.contains(says), "{line}: {said}");
        }
    }
}
