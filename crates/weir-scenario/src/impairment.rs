//! The words of links that vary their delay, lose packets or let some overtake others, and files of traces.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use weir_core::Duration;
use weir_sim::{Impairment, Trace};

use crate::key::{Quantity, Value, plain};
use crate::toml_file;

/// The longest trace, in bytes: an hour at 100 Mbit/s.
const LONGEST_TRACE: u64 = 256 << 20;

/// A share of packets: a percentage such as `0.1%`, as `tc netem` writes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Share(f64);

impl Share {
    /// 0 to 1.
    pub fn fraction(self) -> f64 {
        self.0 / 100.0
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.trim().strip_suffix('%').map(str::trim_end);
        // What Rust reads as a number besides digits and a point has no place here.
        let plain = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'));
        plain
            .and_then(|number| number.parse().ok())
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(Self)
            .ok_or_else(|| {
                format!("'{text}' is not a share; give a percentage from 0% to 100%, such as 0.1%")
            })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

/// How much a delay varies: `2ms`, or `2ms reorder` where packets of a flow may overtake each other by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Jitter {
    /// The delay is between so much less and so much more, all equally likely.
    pub spread: Duration,
    /// Whether packets may overtake each other.
    pub reorders: bool,
}

impl FromStr for Jitter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let spread = time(words.next(), text, "jitter", "2ms or 2ms reorder")?;
        match (words.next(), words.next()) {
            (None, _) => Ok(Self { spread, reorders: false }),
            (Some("reorder"), None) => Ok(Self { spread, reorders: true }),
            _ => Err(format!(
                "'{text}' is not a jitter; give a time, such as 2ms, and perhaps the word reorder"
            )),
        }
    }
}

impl fmt::Display for Jitter {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}{}", self.spread, if self.reorders { " reorder" } else { "" })
    }
}

/// Packets that come later than the others: `1% 5ms`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reorder {
    /// How many.
    pub share: Share,
    /// By how much.
    pub delay: Duration,
}

impl FromStr for Reorder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let share = words.next().unwrap_or_default().parse()?;
        let delay = time(words.next(), text, "reordering", "1% 5ms: which share comes how much later")?;
        if words.next().is_some() || delay == Duration::ZERO {
            return Err(format!(
                "'{text}' is not a reordering; give a share and a time above 0, such as 1% 5ms"
            ));
        }
        Ok(Self { share, delay })
    }
}

impl fmt::Display for Reorder {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {}", self.share, self.delay)
    }
}

pub(super) fn time(word: Option<&str>, text: &str, what: &str, example: &str) -> Result<Duration, String> {
    let word =
        word.ok_or_else(|| format!("'{text}' is not a {what}; the time is missing; give {example}"))?;
    word.parse().map_err(|error| format!("'{text}' is not a {what}: {error}; give {example}"))
}

/// Texts of these types.
macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    )*};
}
pub(super) use as_text;
as_text!(Share, Jitter, Reorder);

plain!(Share, TraceFile);

impl Value for Jitter {
    fn quantity(&self) -> Option<Quantity> {
        Some(Quantity::Time(self.spread))
    }
}

impl Value for Reorder {
    fn quantity(&self) -> Option<Quantity> {
        Some(Quantity::Time(self.delay))
    }
}

/// The impairments that three keys of a link name.
pub(super) fn impairment(
    jitter: Option<Jitter>,
    loss: Option<Share>,
    reorder: Option<Reorder>,
) -> Impairment {
    Impairment {
        jitter: jitter.map(|jitter| jitter.spread).unwrap_or_default(),
        jitter_reorders: jitter.is_some_and(|jitter| jitter.reorders),
        loss: loss.map_or(0.0, Share::fraction),
        reorder: reorder.map_or(0.0, |reorder| reorder.share.fraction()),
        reorder_delay: reorder.map(|reorder| reorder.delay).unwrap_or_default(),
    }
}

/// Gives the text of a trace's file, by its path.
pub type ReadTrace<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// The text of a trace's file, which is on the disk.
///
/// # Errors
/// If it cannot be read, is no regular file, is too long, or is not text.
pub fn read_trace(path: &Path) -> io::Result<String> {
    toml_file::read_regular(path, LONGEST_TRACE)
}

/// The file of a trace, by its path from the scenario's file, and what is in it once it has been read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "PathBuf", into = "PathBuf")]
pub struct TraceFile {
    path: PathBuf,
    trace: Option<Arc<Trace>>,
    sha256: String,
}

impl TraceFile {
    /// What is in it; `None` if the scenario was not read from a file.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        self.trace.as_ref()
    }

    /// The SHA-256 hash of what is in it, in hexadecimal digits; empty if the scenario was not read from a file.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// Where it is, from the scenario's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file by `read`, from `folder` unless its path is absolute.
    pub(super) fn read(&mut self, folder: &Path, read: ReadTrace<'_>) -> Result<Arc<Trace>, String> {
        let path = folder.join(&self.path);
        let text = read(&path).map_err(|error| {
            format!(
                "cannot read {}: {error}; give the path of a mahimahi trace from this file",
                path.display()
            )
        })?;
        let trace = Trace::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let hash = digest(&SHA256, text.as_bytes());
        self.sha256 = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Arc::clone(self.trace.insert(Arc::new(trace))))
    }
}

impl From<PathBuf> for TraceFile {
    fn from(path: PathBuf) -> Self {
        Self { path, trace: None, sha256: String::new() }
    }
}

impl From<TraceFile> for PathBuf {
    fn from(file: TraceFile) -> Self {
        file.path
    }
}

#[cfg(test)]
mod tests {
    use super::{Jitter, Reorder, Share};

    #[test]
    fn words_read_and_write_and_say_what_is_wrong() {
        for text in ["0.1%", "0%", "100%", "12.5%"] {
            assert_eq!(text.parse::<Share>().unwrap().to_string(), text);
        }
        for text in ["1", "0.01", "-1%", "101%", "%", "NaN%", "1e1%", "x%"] {
            let message = text.parse::<Share>().unwrap_err();
            assert!(message.contains("such as 0.1%"), "{message}");
        }
        for text in ["2ms", "500us reorder"] {
            assert_eq!(text.parse::<Jitter>().unwrap().to_string(), text);
        }
        for (text, says) in [("2", "the unit is missing"), ("2ms keep", "the word reorder"), ("", "give 2ms")]
        {
            let message = text.parse::<Jitter>().unwrap_err();
            assert!(message.contains(says), "{text}: {message}");
        }
        assert_eq!("1% 5ms".parse::<Reorder>().unwrap().to_string(), "1% 5ms");
        for (text, says) in [
            ("1%", "the time is missing"),
            ("5ms 1%", "a percentage"),
            ("1% 0ms", "above 0"),
            ("1% 5ms 2", "such as 1% 5ms"),
        ] {
            let message = text.parse::<Reorder>().unwrap_err();
            assert!(message.contains(says), "{text}: {message}");
        }
    }
}
