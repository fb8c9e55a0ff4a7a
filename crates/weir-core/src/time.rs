//! Time as integer nanoseconds, so that the laws compute what the kernel computes and rates do not drift.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::{ParseUnitError, parse_scaled};

/// A point in time: nanoseconds since the run began. Virtual in the simulator, monotonic in real worlds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(u64);

/// A length of time in nanoseconds.
///
/// Parses and prints with a unit as iproute2 does: `20us`, `5ms`, `1.5s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than any point that is reached.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the start of the run.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start of the run, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// How long ago `earlier` was; zero if it lies in the future.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest duration.
    pub const MAX: Self = Self(u64::MAX);

    /// A duration of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A duration of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// A duration of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// A duration of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1_000_000_000)
    }

    /// The length in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The length in milliseconds, for reports.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The length in seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The same length as the standard library's type.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }

    /// `fraction` of this duration, rounded to the nearest nanosecond. For settings, not for the packet path.
    pub fn scale(self, fraction: f64) -> Self {
        Self((self.0 as f64 * fraction).round() as u64)
    }
}

impl Add<Duration> for Time {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl Sub<Duration> for Time {
    type Output = Self;
    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, by: Self) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, by: Self) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, by: u64) -> Self {
        Self(self.0.saturating_mul(by))
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, by: u64) -> Self {
        Self(self.0 / by)
    }
}

impl From<std::time::Duration> for Duration {
    fn from(value: std::time::Duration) -> Self {
        Self(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    }
}

const UNITS: &[(&str, u64)] = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

impl FromStr for Duration {
    type Err = ParseUnitError;
    fn from_str(text: &str) -> Result<Self, ParseUnitError> {
        // A bare number is refused unless it is zero: iproute2 reads it as microseconds, people as seconds.
        parse_scaled(text, UNITS, None, "a time such as 20us, 5ms or 1.5s").map(Self)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, scale) = *UNITS.iter().rev().find(|(_, scale)| self.0 >= *scale).unwrap_or(&UNITS[0]);
        crate::units::write_scaled(f, self.0, scale, unit)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::units::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Time};

    #[test]
    fn durations_round_trip_through_text() {
        for text in ["0ns", "999ns", "20us", "5ms", "1.5s", "100ms", "60s"] {
            let duration: Duration = text.parse().unwrap();
            assert_eq!(duration.to_string(), text);
        }
        assert_eq!("0".parse(), Ok(Duration::ZERO));
        assert!("5".parse::<Duration>().unwrap_err().to_string().contains("unit"));
        assert!("-5ms".parse::<Duration>().is_err());
        assert!("99999999999s".parse::<Duration>().is_err());
    }

    #[test]
    fn time_never_wraps() {
        assert_eq!(Time::ZERO - Duration::from_secs(1), Time::ZERO);
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time::from_nanos(3).since(Time::from_nanos(5)), Duration::ZERO);
    }
}
