//! What is wanted as a line of words in iproute2's manner: `eth0 rate 500mbit standard bfifo responsive codel ecn split
//! shared`. The words of a queue are those of scenarios and stand behind `standard` or `responsive`. Unlike
//! there a repeated word is an error, and an unknown one is answered with the nearest known.

pub(super) use weir_core::words::hint as nearest;
use weir_qdisc::config::GivenQdisc;

use super::keys::Keys;
use super::setup::SetupError;

/// The words that take a value, with an example of it.
const WORDS: &[(&str, &str)] = &[
    ("dev", "eth0"),
    ("rate", "500mbit"),
    ("ingress_rate", "100mbit"),
    ("direction", "both"),
    ("queues", "bfifo/codel"),
    ("standard", "bfifo limit 1bdp"),
    ("responsive", "codel ecn"),
    ("split", "hard"),
    ("sharing", "50:50"),
    ("limit", "1000p"),
    ("rtt", "100ms"),
    ("flows", "65536"),
    ("preset", "paper"),
    ("set", "lapse_round_trips=16"),
];
/// The words that stand alone.
const FLAGS: &[&str] = &["ecn", "noecn", "replace"];

/// A word in whose place there is another one, with which it is answered.
const FORMER: &str = "share";

/// Reads words. The first may be the device without `dev`. A hyphen in a word is as good as an underscore.
///
/// # Errors
/// Names the word that is unknown, repeated, without value or with a bad one.
pub fn parse<T: AsRef<str>>(words: &[T]) -> Result<Keys, SetupError> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let mut keys = Keys::default();
    let mut seen: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(text) = words.get(at) {
        let word = text.replace('-', "_");
        if !is_word(&word) {
            if at == 0 {
                keys.dev = Some((*text).to_owned());
                seen.push("dev".to_owned());
                at += 1;
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
        at += 1;
        let length = match word.as_str() {
            "standard" | "responsive" => queue_length(&words[at..]),
            // The former word has a value, too; what it says is answered with the new one.
            _ => usize::from(!FLAGS.contains(&word.as_str())),
        };
        if at + length > words.len() || (length == 0 && !FLAGS.contains(&word.as_str())) {
            let example =
                WORDS.iter().find(|(known, _)| *known == word).map_or("50:50", |(_, example)| example);
            return Err(SetupError::NoValue { word, example });
        }
        keys.put(&word, &words[at..at + length].join(" "))?;
        at += length;
    }
    Ok(keys)
}

fn is_word(word: &str) -> bool {
    word == FORMER || FLAGS.contains(&word) || WORDS.iter().any(|(known, _)| *known == word)
}

/// How many of the words behind `standard` or `responsive` are the queue's: one if they were quoted, otherwise all of
/// its kind, and with them an unknown word, which is best answered by the kind.
fn queue_length(words: &[&str]) -> usize {
    match words.first() {
        None => 0,
        Some(first) if first.contains(char::is_whitespace) => 1,
        Some(_) => {
            let known = GivenQdisc::length(words);
            let next = words[known..].iter().position(|word| is_word(&word.replace('-', "_")));
            known + if next == Some(0) { 0 } else { usize::from(known < words.len()) }
        }
    }
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
    fn a_queue_has_its_own_words_and_no_more() {
        for line in [
            "eth0 rate 10mbit standard bfifo limit 64kb responsive codel ecn target 1ms split hard flows 64",
            "eth0 flows 64 responsive codel ecn target 1ms rate 10mbit split hard standard bfifo limit 64kb",
        ] {
            let keys = parse(&line.split(' ').collect::<Vec<_>>()).unwrap();
            let queues = keys.queues.unwrap();
            assert_eq!(queues.standard.unwrap().to_string(), "bfifo limit 64kb");
            assert_eq!(queues.responsive.unwrap().to_string(), "codel ecn target 1ms");
            assert_eq!((keys.flows, keys.ecn, keys.limit), (Some(64), None, None), "{line}");
        }
        // Quoted, and both in one text.
        let quoted = parse(&["eth0", "standard", "fq_codel flows 8", "flows", "64"]).unwrap();
        assert_eq!(quoted.flows, Some(64));
        let both = parse(&["eth0", "queues", "bfifo limit 64kb/codel ecn", "flows", "64"]).unwrap();
        assert_eq!(both.queues.unwrap().responsive.unwrap().to_string(), "codel ecn");
        // The first queue that names it has the word.
        let keys = parse(&["eth0", "standard", "cake", "isolation", "flows", "unlimited", "ecn"]).unwrap();
        assert_eq!(keys.ecn, Some(true));
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
            ("eth0 queues coddel/codel", "'coddel' is not a queue of the kernel; did you mean 'codel'?"),
            ("eth0 standard codel tagret 5ms", "'tagret' is not a word of codel; did you mean 'target'?"),
            ("eth0 standard codel target", "'target' needs a value after it"),
            ("eth0 standard", "'standard' needs a value after it, such as 'standard bfifo limit 1bdp'"),
            ("eth0 standard bfifo ecn replace ecn", "'ecn' is given twice"),
            (
                "eth0 queues codel:ecn,target=5ms/codel",
                "queues: 'codel:ecn,target=5ms' is written 'codel ecn target 5ms'",
            ),
            ("eth0 share 30/70", "share: 'share 30/70' is written 'sharing 30:70'"),
            ("eth0 sharing 30/70", "sharing: '30/70' is written '30:70'"),
            ("eth0 split borrow", "split: 'borrow' is written 'shared'"),
            ("eth0 direction in", "direction: 'in' is not egress, ingress or both"),
            ("eth0 split soft", "split: 'soft' is not 'hard' (each queue keeps to its share) or 'shared'"),
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
