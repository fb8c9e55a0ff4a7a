//! Rates and sizes with iproute2's units: `10mbit`, `30kb`.
//!
//! As in `tc`, rate prefixes are decimal (`kbit` = 1000 bit/s), size prefixes binary (`kb` = 1024 bytes), `bps` is
//! bytes per second, and letters may be of either case (iproute2 `lib/utils.c`, `lib/utils_math.c`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::time::Duration;

/// A data rate in bits per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A quantity that could not be read; the message says what would have been right.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{text}' is not {expected}{hint}")]
pub struct ParseUnitError {
    text: String,
    expected: &'static str,
    hint: &'static str,
}

impl Rate {
    /// The highest rate, for what nothing holds back.
    pub const MAX: Self = Self(u64::MAX);

    /// A rate of `bits` bits per second.
    pub const fn from_bits_per_sec(bits: u64) -> Self {
        Self(bits)
    }

    /// Bits per second.
    pub const fn bits_per_sec(self) -> u64 {
        self.0
    }

    /// How long `bytes` take at this rate, rounded up to whole nanoseconds; for ever at rate zero.
    ///
    /// One packet's rounding does not matter, a link's would add up: links keep the remainder (see
    /// [`Rate::serialize`]).
    pub const fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        let nanos = (bytes as u128 * 8_000_000_000).div_ceil(self.0 as u128);
        Duration::from_nanos(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 })
    }

    /// How long `bytes` take at this rate, carrying what is left of a nanosecond in `remainder` from packet to packet,
    /// so that a link's long-run rate is exact. `remainder` starts at zero and belongs to one link and one rate.
    pub const fn serialize(self, bytes: u64, remainder: &mut u64) -> Duration {
        if self.0 == 0 {
            return Duration::MAX;
        }
        // All packets, in one division of the machine's own width.
        if let Some(nanobits) = bytes.checked_mul(8_000_000_000)
            && let Some(scaled) = nanobits.checked_add(*remainder)
        {
            *remainder = scaled % self.0;
            return Duration::from_nanos(scaled / self.0);
        }
        let scaled = bytes as u128 * 8_000_000_000 + *remainder as u128;
        *remainder = (scaled % self.0 as u128) as u64;
        Duration::from_nanos((scaled / self.0 as u128) as u64)
    }

    /// Whole bytes that this rate carries in `duration`, rounded down.
    pub const fn bytes_in(self, duration: Duration) -> Bytes {
        let bytes = self.0 as u128 * duration.as_nanos() as u128 / 8_000_000_000;
        Bytes(if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 })
    }

    /// `fraction` of this rate, rounded to whole bits per second. For settings, not for the packet path.
    pub fn scale(self, fraction: f64) -> Self {
        Self((self.0 as f64 * fraction).round() as u64)
    }
}

const RATE_UNITS: &[(&str, u64)] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("tbit", 1_000_000_000_000),
    ("bps", 8),
    ("kbps", 8_000),
    ("mbps", 8_000_000),
    ("gbps", 8_000_000_000),
];

const SIZE_UNITS: &[(&str, u64)] = &[
    ("b", 1),
    ("k", 1 << 10),
    ("kb", 1 << 10),
    ("m", 1 << 20),
    ("mb", 1 << 20),
    ("g", 1 << 30),
    ("gb", 1 << 30),
];

impl FromStr for Rate {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        parse_scaled(text, RATE_UNITS, Some(1), "a rate such as 500kbit, 10mbit or 1gbit").map(Self)
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        parse_scaled(text, SIZE_UNITS, Some(1), "a size such as 1500b, 30kb or 2mb").map(Self)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) =
            *RATE_UNITS[..5].iter().rev().find(|(_, scale)| self.0 >= *scale).unwrap_or(&RATE_UNITS[0]);
        write_scaled(f, self.0, scale, unit)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only exact multiples get a prefix, so that what is printed reads back as the same number.
        let exact = [("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10)]
            .into_iter()
            .find(|(_, scale)| self.0 >= *scale && self.0.is_multiple_of(*scale));
        match exact {
            Some((unit, scale)) => write!(f, "{}{unit}", self.0 / scale),
            None => write!(f, "{}b", self.0),
        }
    }
}

macro_rules! serde_as_text {
    ($($unit:ty),*) => {$(
        impl Serialize for $unit {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $unit {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserialize(deserializer)
            }
        }
    )*};
}
serde_as_text!(Rate, Bytes);

/// Reads a quantity from text or, where a bare number has a meaning, from a number.
pub(crate) fn deserialize<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = ParseUnitError>,
{
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "this is neither text with a unit, such as \"10mbit\" or \"5ms\", nor a whole number"
    )]
    enum Quantity {
        Number(u64),
        Text(String),
    }
    let text = match Quantity::deserialize(deserializer)? {
        Quantity::Number(number) => number.to_string(),
        Quantity::Text(text) => text,
    };
    text.parse().map_err(serde::de::Error::custom)
}

/// Parses `NUMBER[UNIT]` with at most nine decimals into an integer number of base units.
pub(crate) fn parse_scaled(
    text: &str,
    units: &[(&str, u64)],
    bare: Option<u64>,
    expected: &'static str,
) -> Result<u64, ParseUnitError> {
    let fail = |hint| ParseUnitError { text: text.to_owned(), expected, hint };
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..split], text[split..].trim_start().to_ascii_lowercase());
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || decimals.len() > 9 || decimals.contains('.') {
        return Err(fail(""));
    }
    let scale = if unit.is_empty() {
        let is_zero = number.bytes().all(|digit| matches!(digit, b'0' | b'.'));
        bare.or(is_zero.then_some(1)).ok_or_else(|| fail(": the unit is missing"))?
    } else {
        units
            .iter()
            .find_map(|(name, scale)| (*name == unit).then_some(*scale))
            .ok_or_else(|| fail(": unknown unit"))?
    };
    let too_large = || fail(": too large");
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let decimals: u128 = format!("{decimals:0<9}").parse().map_err(|_| fail(""))?;
    let fraction = (decimals * u128::from(scale) / 1_000_000_000) as u64;
    whole.checked_mul(scale).and_then(|value| value.checked_add(fraction)).ok_or_else(too_large)
}

/// Prints `value / scale` with as many decimals as it takes to be exact, up to nine.
pub(crate) fn write_scaled(f: &mut fmt::Formatter<'_>, value: u64, scale: u64, unit: &str) -> fmt::Result {
    let decimals = u128::from(value % scale) * 1_000_000_000 / u128::from(scale);
    if decimals == 0 {
        write!(f, "{}{unit}", value / scale)
    } else {
        let text = format!("{decimals:09}");
        write!(f, "{}.{}{unit}", value / scale, text.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Rate};
    use crate::Duration;

    #[test]
    fn rates_and_sizes_read_as_in_tc() {
        assert_eq!("10mbit".parse(), Ok(Rate::from_bits_per_sec(10_000_000)));
        assert_eq!("1.5Gbit".parse(), Ok(Rate::from_bits_per_sec(1_500_000_000)));
        assert_eq!("1mbps".parse(), Ok(Rate::from_bits_per_sec(8_000_000)));
        assert_eq!("30kb".parse(), Ok(Bytes(30 * 1024)));
        assert_eq!("1500".parse(), Ok(Bytes(1500)));
        assert_eq!(
            "10mbits".parse::<Rate>().unwrap_err().to_string(),
            "'10mbits' is not a rate such as 500kbit, 10mbit or 1gbit: unknown unit"
        );
        for bad in ["", "mbit", "1..2mbit", ".5mbit", "99999999999tbit", "1e3bit"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn printing_reads_back() {
        for bits in [0, 1, 999, 1_000, 1_234_567, 1_000_000_000, 98_765_432_100] {
            let rate = Rate::from_bits_per_sec(bits);
            assert_eq!(rate.to_string().parse(), Ok(rate), "{rate}");
            assert_eq!(Bytes(bits).to_string().parse(), Ok(Bytes(bits)));
        }
    }

    #[test]
    fn a_link_does_not_drift() {
        let rate = Rate::from_bits_per_sec(7_777_777);
        let mut remainder = 0;
        let nanos: u64 = (0..100_000).map(|_| rate.serialize(1514, &mut remainder).as_nanos()).sum();
        let exact = 1514u128 * 100_000 * 8_000_000_000 / 7_777_777;
        assert_eq!(u128::from(nanos), exact);
        // More than fits 64 bits: the same as in three parts.
        let (mut remainder, mut parts) = (5, 5);
        let whole = rate.serialize(6_000_000_000, &mut remainder);
        let sum = rate.serialize(2_000_000_000, &mut parts).as_nanos()
            + rate.serialize(2_000_000_000, &mut parts).as_nanos()
            + rate.serialize(2_000_000_000, &mut parts).as_nanos();
        assert_eq!((whole.as_nanos(), remainder), (sum, parts));
        assert_eq!(rate.time_for(1514).as_nanos(), (1514u64 * 8_000_000_000).div_ceil(7_777_777));
        assert_eq!(Rate::from_bits_per_sec(8_000).bytes_in(Duration::from_secs(2)), Bytes(2_000));
    }
}
