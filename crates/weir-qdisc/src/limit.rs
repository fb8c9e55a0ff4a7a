//! The limit of a queue as configurations give it: packets (`1000p`), bytes (`64kb`), a multiple of the
//! bandwidth-delay product (`1bdp`) or the longest time that a packet may wait (`20ms`). The paper sizes every queue to
//! the BDP of its own share of the link (CRQ section IV-A); its prototype turns that into a byte limit for drop-tail
//! and, by division by 1500, into a packet limit for CoDel. iproute2 takes a bare number, whose unit depends on the
//! discipline; here the unit must be written.

use std::fmt;
use std::str::FromStr;

use weir_core::{Bytes, Duration, Rate};

use crate::keys::ConfigError;

/// How much a queue may hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Packets: `1000p`.
    Packets(u32),
    /// Wire bytes: `64kb`.
    Bytes(Bytes),
    /// A multiple of rate x round-trip time, the rate being the queue's own share of the link: `0.5bdp`.
    Bdp(f64),
    /// What the link sends in this time at the rate that is the queue's own: `20ms`.
    Time(Duration),
}

impl Limit {
    /// The limit in wire bytes. `None` for packets, whose length is not known.
    pub fn bytes(self, rate: Rate, rtt: Duration) -> Option<u64> {
        match self {
            Self::Packets(_) => None,
            Self::Bytes(bytes) => Some(bytes.0),
            // The cast saturates, and takes what is not a number as zero.
            Self::Bdp(factor) => Some((rate.bytes_in(rtt).0 as f64 * factor).round() as u64),
            Self::Time(time) => Some(rate.bytes_in(time).0),
        }
    }

    /// The limit in packets; a BDP and a time are counted in packets of `packet` bytes: the link's MTU, which is 1500
    /// in the CRQ prototype. `None` for bytes.
    pub fn packets(self, rate: Rate, rtt: Duration, packet: u32) -> Option<u32> {
        match self {
            Self::Packets(packets) => Some(packets),
            Self::Bytes(_) => None,
            Self::Bdp(_) | Self::Time(_) => {
                let packets = self.bytes(rate, rtt)? / u64::from(packet.max(1));
                Some(u32::try_from(packets).unwrap_or(u32::MAX))
            }
        }
    }
}

impl FromStr for Limit {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let bad =
            || ConfigError::value(text, "a limit such as 1000p (packets), 64kb (bytes), 20ms or 0.5bdp");
        let lower = text.trim().to_ascii_lowercase();
        let plain = |number: &str| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if let Some(factor) = lower.strip_suffix("bdp") {
            let factor = factor.trim_end();
            return factor.parse().ok().filter(|_| plain(factor)).map(Self::Bdp).ok_or_else(bad);
        }
        if let Some(packets) = lower.strip_suffix('p') {
            return packets.trim_end().parse().map(Self::Packets).map_err(|_| bad());
        }
        if plain(&lower) {
            return Err(bad());
        }
        if let Ok(time) = lower.parse() {
            return Ok(Self::Time(time));
        }
        lower.parse().map(Self::Bytes).map_err(|_| bad())
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Bdp(factor) => write!(f, "{factor}bdp"),
            Self::Time(time) => time.fmt(f),
        }
    }
}

/// Reads and writes types in configurations as the text of their `FromStr` and `Display`.
macro_rules! serde_as_words {
    ($($value:ty),*) => {$(
        impl ::serde::Serialize for $value {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $value {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }
    )*};
}
pub(crate) use serde_as_words;
serde_as_words!(Limit);

/// An enum that configurations name by a word each.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        pub enum $name:ident ($expected:literal) {
            $($(#[$about:meta])* $word:literal => $variant:ident,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$about])* $variant,)*
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(match self {
                    $(Self::$variant => $word,)*
                })
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::ConfigError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err($crate::ConfigError::value(text, $expected)),
                }
            }
        }

        $crate::limit::serde_as_words!($name);
    };
}
pub(crate) use choice;

#[cfg(test)]
mod tests {
    use super::Limit;
    use weir_core::{Bytes, Duration, Rate};

    #[test]
    fn limits_read_with_units_only() {
        assert_eq!("1000p".parse(), Ok(Limit::Packets(1000)));
        assert_eq!("64KB".parse(), Ok(Limit::Bytes(Bytes(65536))));
        assert_eq!("0.5bdp".parse(), Ok(Limit::Bdp(0.5)));
        assert_eq!("2 bdp".parse(), Ok(Limit::Bdp(2.0)));
        assert_eq!("20ms".parse(), Ok(Limit::Time(Duration::from_millis(20))));
        for bad in [
            "",
            "1000",
            "p",
            "bdp",
            "-1p",
            "-1bdp",
            "1e3bdp",
            "nanbdp",
            "infbdp",
            "1.5p",
            "-5ms",
            "5 m s",
            "99999999999p",
        ] {
            let error = bad.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains("1000p"), "{bad}: {error}");
        }
    }

    #[test]
    fn printing_reads_back() {
        for text in ["1p", "64kb", "1514b", "1bdp", "0.25bdp", "20ms", "1.5us"] {
            assert_eq!(text.parse::<Limit>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_bdp_and_a_time_count_bytes_or_packets_of_1500() {
        // The paper's queue of CRQ section IV-B: 50 Mbit/s and 100 ms.
        let (rate, rtt) = (Rate::from_bits_per_sec(50_000_000), Duration::from_millis(100));
        assert_eq!(Limit::Bdp(1.0).bytes(rate, rtt), Some(625_000));
        assert_eq!(Limit::Bdp(1.0).packets(rate, rtt, 1500), Some(416));
        let time = Limit::Time(Duration::from_millis(20));
        assert_eq!((time.bytes(rate, rtt), time.packets(rate, rtt, 1500)), (Some(125_000), Some(83)));
        assert_eq!(Limit::Bdp(f64::NAN).bytes(rate, rtt), Some(0));
        assert_eq!(Limit::Bdp(f64::INFINITY).bytes(rate, rtt), Some(u64::MAX));
        assert_eq!(
            (Limit::Packets(7).bytes(rate, rtt), Limit::Bytes(Bytes(7)).packets(rate, rtt, 1500)),
            (None, None)
        );
    }
}
