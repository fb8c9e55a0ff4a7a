//! The edge marker of core-stateless resource sharing: gives each packet of a flow a value, from which a bottleneck
//! that knows no flows can tell what to mark ([`Csaqm`](crate::Csaqm)). Pure: the state of one flow is a value here;
//! time and randomness are passed in.
//!
//! The value of a packet is that of a rate ([`value_of`]): if a flow sends at rate R, its packets' values are spread so
//! that those of at least the value of a rate x <= R carry the rate x. All flows use one decreasing function, so
//! packets above some value carry the same rate of every flow that sends that much: equal shares.
//!
//! Sources: S. Nádas, Z. R. Turányi and S. Rácz, "Per Packet Value: A Practical Concept for Network Resource Sharing",
//! IEEE GLOBECOM 2016; the scalable-CC paper section III, which names the marker but not its details. The authors'
//! code is not public; public reconstructions (an ns-3 module, P4 programs) differ from each other.
//!
//! | reconstructions | here |
//! |---|---|
//! | random-rate: value of r x R, r uniform in (0, 1] | [`RateMarker`], the same |
//! | R: a moving average of length/gap, or the bytes of the last four packets | a leaking average over a time, which a burst without gaps does not upset |
//! | token buckets: levels of 10^(1 + i/30) kbit/s, i = 0..149; the value of the first bucket with enough tokens | [`BucketMarker`], the same levels up to 1 Gbit/s |
//! | 16-bit values, by a table or 65535 x 900/(rate + 900) | 16-bit values by logarithm, 2048 steps an octave from 64 bit/s to 274 Gbit/s |

use weir_core::{Duration, Random, Rate, Time};

/// Binary digits of a rate's logarithm behind the point.
const FRACTION: u32 = 11;
/// The logarithm of the lowest rate that is distinguished from zero: 64 bit/s.
const LOWEST: u32 = 6;

/// The value of a rate, 1 to 65535: falls with the logarithm of the rate, interpolated linearly within octaves.
///
/// Any strictly decreasing function gives the same shares; this one needs no more than integers and keeps a resolution
/// of 1/2048 or better over all rates.
pub fn value_of(rate: Rate) -> u16 {
    let bits = rate.bits_per_sec().max(1 << LOWEST);
    let octave = bits.ilog2();
    // The digits below the leading one.
    let fraction = ((u128::from(bits) << FRACTION) >> octave) as u32 & ((1 << FRACTION) - 1);
    let position = ((octave - LOWEST) << FRACTION) | fraction;
    (u16::MAX - u16::try_from(position).unwrap_or(u16::MAX)).max(1)
}

/// How an edge values packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// Random rates below the flow's rate as averaged over the time (50 ms is of the order of a round trip).
    Rate(Duration),
    /// Token buckets that hold what their rate carries in the time.
    Buckets(Duration),
}

/// The random-rate marker's state of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct RateMarker {
    /// Bytes of the average: what has come less what has leaked.
    level: u64,
    last: Time,
}

impl RateMarker {
    /// The value of a packet of `wire_bytes` that comes at `now`. `average` is over what time the flow's rate is
    /// measured. A new flow's rate is low at first, so its first packets have high values.
    pub fn value(&mut self, wire_bytes: u32, now: Time, average: Duration, random: &mut Random) -> u16 {
        let average = average.as_nanos().max(1);
        let gap = now.since(self.last).as_nanos().min(average);
        // 1 - gap/average for e^(-gap/average): at a steady gap, the rate comes out as length/gap exactly.
        let kept = u128::from(self.level) * u128::from(average - gap) / u128::from(average);
        self.level = kept as u64 + u64::from(wire_bytes);
        self.last = now;
        let rate = u128::from(self.level) * 8_000_000_000 / u128::from(average);
        let drawn = random.below(u64::try_from(rate).unwrap_or(u64::MAX)).saturating_add(1);
        value_of(Rate::from_bits_per_sec(drawn))
    }
}

/// Levels of the token-bucket marker.
const LEVELS: usize = 150;

/// The rate of the highest level, in bit/s. Flows that send more differ by nothing.
pub(crate) const HIGHEST: u64 = 926_118_728;

/// The largest depth of buckets, so that tokens fit 64 bits.
const DEEPEST: Duration = Duration::from_secs(4);

/// What all flows of a token-bucket marker share.
#[derive(Clone, Debug)]
pub struct BucketLevels {
    /// Bit/s, rising. 32 bits, so that a product with a time is one instruction for several levels.
    rates: [u32; LEVELS],
    /// What a bucket holds, in the unit of [`BucketMarker`].
    full: [i64; LEVELS],
    /// Values of packets that a level lets pass.
    values: [u16; LEVELS],
}

impl BucketLevels {
    /// Buckets that hold what their rate carries in `depth`, four seconds at most. Smaller buckets than a packet never
    /// let one pass, so `depth` sets the lowest rate of a value: 12 Mbit/s for packets of 1500 bytes at 1 ms.
    pub fn new(depth: Duration) -> Self {
        let depth = depth.min(DEEPEST).as_nanos() as i64;
        let rates =
            std::array::from_fn(|level| (10_000.0 * libm::pow(10.0, level as f64 / 30.0)).round() as u32);
        let full = rates.map(|rate| i64::from(rate) * depth);
        let values = rates.map(|rate| value_of(Rate::from_bits_per_sec(rate.into())));
        Self { rates, full, values }
    }

    /// `tokens` of a level after `gap` nanoseconds.
    #[inline]
    fn fill(&self, level: usize, tokens: i64, gap: u32) -> i64 {
        (tokens + (u64::from(self.rates[level]) * u64::from(gap)) as i64).min(self.full[level])
    }
}

/// The token-bucket marker's state of one flow.
#[derive(Clone, Debug)]
pub struct BucketMarker {
    /// Tokens in units of 1 bit x 1 ns / s, so that filling leaves no remainder. Below zero where packets of lower
    /// levels have taken more than there was.
    tokens: Box<[i64; LEVELS]>,
    last: Time,
}

impl BucketMarker {
    /// A flow with full buckets.
    pub fn new(shared: &BucketLevels, now: Time) -> Self {
        Self { tokens: Box::new(shared.full), last: now }
    }

    /// The value of a packet of `wire_bytes` that comes at `now`: that of the lowest rate whose bucket has tokens for
    /// it, which it takes from that bucket and all of higher rates. The least value if the flow is above all rates.
    pub fn value(&mut self, shared: &BucketLevels, wire_bytes: u32, now: Time) -> u16 {
        let gap = now.since(self.last).min(DEEPEST).as_nanos() as u32;
        // Packets are shorter than 16 MiB; the bound keeps a wrong length from an overflow.
        let needed = i64::from(wire_bytes.min(1 << 24)) * 8_000_000_000;
        self.last = now;
        // Two loops, of which the second has no condition: half the time of one.
        let lowest = self.tokens.iter_mut().enumerate().position(|(level, tokens)| {
            *tokens = shared.fill(level, *tokens, gap);
            *tokens >= needed
        });
        let Some(lowest) = lowest else { return 1 };
        self.tokens[lowest] -= needed;
        for level in lowest + 1..LEVELS {
            self.tokens[level] = shared.fill(level, self.tokens[level], gap) - needed;
        }
        shared.values[lowest]
    }
}

#[cfg(test)]
mod tests {
    use super::{BucketLevels, BucketMarker, HIGHEST, LEVELS, RateMarker, value_of};
    use weir_core::{Duration, Rate, Seed, Time};

    fn rate(bits: u64) -> Rate {
        Rate::from_bits_per_sec(bits)
    }

    #[test]
    fn values_fall_with_the_rate_and_tell_rates_apart() {
        assert_eq!(value_of(rate(0)), u16::MAX);
        assert_eq!(value_of(rate(64)), u16::MAX);
        // One octave is 2048 steps.
        assert_eq!(value_of(rate(128)), u16::MAX - 2048);
        assert_eq!(value_of(rate(192)), u16::MAX - 2048 - 1024);
        assert_eq!(value_of(rate(u64::MAX)), 1);
        let mut last = u16::MAX;
        let mut bits = 1000u64;
        while bits < 200_000_000_000 {
            let value = value_of(rate(bits));
            assert!(value < last, "{bits}");
            last = value;
            bits += bits / 1000;
        }
    }

    /// Of packets sent at `sent` bit/s, the rate of those that are valued at least as `below`.
    fn rate_above(values: &[u16], sent: f64, below: u64) -> f64 {
        let least = value_of(rate(below));
        let above = values.iter().filter(|value| **value >= least).count();
        sent * above as f64 / values.len() as f64
    }

    fn gap(bytes: u64, bits: u64) -> Duration {
        rate(bits).time_for(bytes)
    }

    #[test]
    fn random_rates_sample_the_flows_rate_evenly() {
        let mut random = Seed::default().stream("edge");
        for (bytes, sent) in [(1000, 8_000_000u64), (200, 1_000_000), (1514, 40_000_000)] {
            let mut marker = RateMarker::default();
            let mut now = Time::ZERO;
            let mut values: Vec<u16> = (0..22_000)
                .map(|_| {
                    now += gap(bytes, sent);
                    marker.value(bytes as u32, now, Duration::from_millis(50), &mut random)
                })
                .collect();
            values.drain(..2000);
            for share in [1, 3, 5, 9] {
                let below = sent * share / 10;
                let got = rate_above(&values, sent as f64, below) / below as f64;
                assert!((0.95..1.05).contains(&got), "{share}/10 of {sent}: {got}");
            }
            assert!(values.iter().all(|value| *value >= value_of(rate(sent + sent / 20))));
        }
    }

    #[test]
    fn a_new_flow_has_high_values() {
        let mut random = Seed::default().stream("edge");
        let mut marker = RateMarker::default();
        // A burst of ten packets at once: 120 kbit in 50 ms at most, however fast they come.
        let values: Vec<u16> =
            (0..10).map(|_| marker.value(1500, Time::ZERO, Duration::from_millis(50), &mut random)).collect();
        assert!(values.iter().all(|value| *value >= value_of(rate(2_400_000))));
    }

    #[test]
    fn buckets_let_each_level_have_its_rate() {
        let shared = BucketLevels::new(Duration::from_millis(100));
        assert_eq!((shared.rates[0], shared.rates[30], shared.rates[60]), (10_000, 100_000, 1_000_000));
        assert_eq!(u64::from(shared.rates[LEVELS - 1]), HIGHEST);
        let (bytes, sent) = (1000, 20_000_000u64);
        let mut marker = BucketMarker::new(&shared, Time::ZERO);
        let mut now = Time::ZERO;
        let mut values: Vec<u16> = (0..25_000)
            .map(|_| {
                now += gap(bytes, sent);
                marker.value(&shared, bytes as u32, now)
            })
            .collect();
        // Without the first second, in which buckets were full.
        values.drain(..2500);
        for below in [1_000_000, 5_000_000, 10_000_000] {
            let level = *shared.rates.iter().rev().find(|rate| **rate <= below).unwrap();
            let got = rate_above(&values, sent as f64, level.into()) / f64::from(level);
            assert!((0.98..1.02).contains(&got), "{level}: {got}");
        }
    }

    #[test]
    fn above_all_levels_packets_have_the_least_value() {
        let shared = BucketLevels::new(Duration::from_millis(1));
        let mut marker = BucketMarker::new(&shared, Time::ZERO);
        // 926 kbit in the largest bucket: 77 packets of 1500 bytes at once.
        let values: Vec<u16> = (0..100).map(|_| marker.value(&shared, 1500, Time::ZERO)).collect();
        assert_eq!(values.iter().position(|value| *value == 1), Some(77));
    }
}
