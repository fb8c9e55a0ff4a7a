//! A log-linear histogram of integers: exact below 32, then 32 buckets an octave, so no value is off by more than 1/32.
//!
//! Fixed size and integer only, so that recording is a few instructions on the packet path and an eBPF map can hold the
//! same buckets.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeStruct};

const SUB_BITS: u32 = 5;
const SUB: usize = 1 << SUB_BITS;
/// Buckets for every `u64`.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// Counts of values by size.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into(), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

fn index(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let octave = value.ilog2() - SUB_BITS;
    (octave as usize + 1) * SUB + ((value >> octave) as usize - SUB)
}

/// The smallest and the largest value that fall into bucket `index`.
fn ends(index: usize) -> (u64, u64) {
    if index < SUB {
        return (index as u64, index as u64);
    }
    let octave = index / SUB - 1;
    let low = ((index % SUB + SUB) as u64) << octave;
    (low, low + ((1u64 << octave) - 1))
}

/// The largest value that falls into bucket `index`.
fn upper(index: usize) -> u64 {
    ends(index).1
}

impl Histogram {
    /// An empty histogram. Allocates its 15 kB now and nothing later.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.buckets[index(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// From counts by the [largest value](Self::buckets) of their buckets: mean, least and largest are then those of
    /// the buckets' largest values, up to 1/32 too high.
    pub fn of_buckets(buckets: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut histogram = Self::new();
        for (value, count) in buckets.into_iter().filter(|(_, count)| *count > 0) {
            let bucket = &mut histogram.buckets[index(value)];
            *bucket = bucket.saturating_add(count);
            histogram.count = histogram.count.saturating_add(count);
            histogram.sum += u128::from(value) * u128::from(count);
            histogram.min = histogram.min.min(value);
            histogram.max = histogram.max.max(value);
        }
        histogram
    }

    /// Adds another histogram's counts to this one.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value, exact; `None` if there are none.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value, exact; `None` if there are none.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean, exact up to floating point; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The size that `quantile` (0 to 1) of the values do not exceed; `None` if there are none. The values of a bucket
    /// are taken to be spread evenly over it, so it is off by less than 1/32, and by far less where they are many.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let mut rank = ((quantile.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        for (index, &count) in self.buckets.iter().enumerate() {
            if rank > count {
                rank -= count;
                continue;
            }
            let (low, high) = ends(index);
            let (low, high) = (low.max(self.min), high.min(self.max));
            let part = u128::from(high - low) * u128::from(rank) / u128::from(count);
            return Some(low + part as u64);
        }
        None
    }

    /// Non-empty buckets from small to large: the largest value of the bucket, and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| (upper(index), *count))
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count)
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max())
            .finish()
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Histogram", 7)?;
        out.serialize_field("count", &self.count)?;
        out.serialize_field("mean", &self.mean())?;
        out.serialize_field("min", &self.min())?;
        out.serialize_field("p50", &self.quantile(0.5))?;
        out.serialize_field("p99", &self.quantile(0.99))?;
        out.serialize_field("max", &self.max())?;
        out.serialize_field("buckets", &self.buckets().collect::<Vec<_>>())?;
        out.end()
    }
}

/// What was written, to the last count; the sum up to what the mean's floating point keeps.
impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Written {
            mean: Option<f64>,
            min: Option<u64>,
            max: Option<u64>,
            buckets: Vec<(u64, u64)>,
        }
        let written = Written::deserialize(deserializer)?;
        let mut histogram = Self::new();
        for (value, count) in written.buckets {
            histogram.buckets[index(value)] = count;
            histogram.count = histogram
                .count
                .checked_add(count)
                .ok_or_else(|| de::Error::custom("a histogram's counts are too large"))?;
        }
        if histogram.count > 0 {
            let missing = || de::Error::missing_field("mean, min or max of a histogram that is not empty");
            let mean = written.mean.ok_or_else(missing)?;
            histogram.min = written.min.ok_or_else(missing)?;
            histogram.max = written.max.ok_or_else(missing)?;
            let of = |value| histogram.buckets[index(value)];
            if histogram.min > histogram.max || of(histogram.min) == 0 || of(histogram.max) == 0 {
                return Err(de::Error::custom(
                    "a histogram's least or largest value is in none of its buckets",
                ));
            }
            histogram.sum = (mean * histogram.count as f64).round() as u128;
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Histogram, ends, index, upper};

    #[test]
    fn buckets_tile_the_numbers() {
        for i in 1..BUCKETS {
            let (low, high) = ends(i);
            assert_eq!((low, index(low), index(high)), (upper(i - 1) + 1, i, i));
            assert!((high - low) * 32 <= low, "bucket {i} is wider than 1/32");
        }
        assert_eq!((index(u64::MAX), upper(BUCKETS - 1)), (BUCKETS - 1, u64::MAX));
    }

    #[test]
    fn quantiles_are_close_and_extremes_exact() {
        let mut histogram = Histogram::new();
        assert_eq!((histogram.quantile(0.5), histogram.max(), histogram.mean()), (None, None, None));
        (1..=10_000).for_each(|value| histogram.record(value));
        for (quantile, exact) in [(0.5, 5_000), (0.99, 9_900), (0.001, 10)] {
            let got = histogram.quantile(quantile).unwrap();
            assert_eq!(got, exact);
        }
        assert_eq!((histogram.min(), histogram.max()), (Some(1), Some(10_000)));
        assert_eq!((histogram.quantile(0.0), histogram.quantile(1.0)), (Some(1), Some(10_000)));
        assert_eq!(histogram.mean(), Some(5_000.5));
    }

    #[test]
    fn a_quantile_is_off_by_less_than_a_bucket_and_never_beyond_what_was_seen() {
        let mut histogram = Histogram::new();
        // All at one end of a bucket of 32 values, 1024 to 1055, and one far above.
        (0..99).for_each(|_| histogram.record(1024));
        assert_eq!(histogram.quantile(0.9), Some(1024), "one value alone is known exactly");
        histogram.record(9000);
        assert_eq!(histogram.quantile(0.5), Some(1024 + 31 * 50 / 99));
        assert_eq!((histogram.quantile(0.99), histogram.quantile(1.0)), (Some(1055), Some(9000)));
    }

    #[test]
    fn merging_is_recording_both() {
        let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for value in 0..1000u64 {
            let target = if value % 3 == 0 { &mut a } else { &mut b };
            target.record(value * value);
            both.record(value * value);
        }
        a.merge(&b);
        assert!(a == both);
    }
}
