//! Named random streams: the same seed gives the same draws for ever, and adding a flow shifts no other flow's.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, public domain reference), its state filled by SplitMix64 from
//! (seed, run, name). Both are a few lines and fixed here, because distributions of general-purpose crates have
//! changed their value streams between major versions, and a stored seed must give the same bytes in ten years.

use serde::{Deserialize, Serialize};

/// What makes a run repeatable: a seed, and the number of the run under that seed (as ns-3's `RngSeed` and `RngRun`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Seed {
    /// Chosen by the user; stored with the results.
    pub seed: u64,
    /// Independent repetitions count up from zero.
    pub run: u64,
}

/// One stream of random numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

impl Seed {
    /// The stream called `name`. Streams of different names are independent; asking twice gives the same stream.
    pub fn stream(self, name: &str) -> Random {
        // FNV-1a folds the name; SplitMix64 then spreads (seed, run, name) over the whole state.
        let name = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut mixer = self.seed;
        let mut state = [0; 4];
        for word in [self.run, name] {
            mixer = split_mix(&mut mixer) ^ word;
        }
        for word in &mut state {
            *word = split_mix(&mut mixer);
        }
        Random { state }
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s0.wrapping_add(*s3).rotate_left(23).wrapping_add(*s0);
        let t = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= t;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number below `bound`, all equally likely (Lemire's method with rejection); zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= threshold {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number in [0, 1) with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One of `items`, all equally likely; `None` if there are none.
    pub fn choose<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.below(items.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::{Random, Seed};

    #[test]
    fn generator_matches_the_reference() {
        // First outputs of the reference xoshiro256++ from state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        let expected = [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386];
        assert_eq!(expected.map(|_| random.next_u64()), expected);
    }

    #[test]
    fn streams_are_fixed_and_independent() {
        let seed = Seed { seed: 7, run: 0 };
        let (mut a, mut again) = (seed.stream("flow 1"), seed.stream("flow 1"));
        assert!((0..100).all(|_| a.next_u64() == again.next_u64()));
        let first = |seed: Seed, name| seed.stream(name).next_u64();
        assert_ne!(first(seed, "flow 1"), first(seed, "flow 2"));
        assert_ne!(first(seed, "flow 1"), first(Seed { run: 1, ..seed }, "flow 1"));
        assert_ne!(first(seed, "flow 1"), first(Seed { seed: 8, ..seed }, "flow 1"));
    }

    #[test]
    fn draws_are_uniform() {
        let mut random = Seed::default().stream("test");
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[random.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
        let mean = (0..10_000).map(|_| random.unit()).sum::<f64>() / 10_000.0;
        assert!((0.49..0.51).contains(&mean), "{mean}");
        assert_eq!(random.below(0), 0);
        assert_eq!(random.choose::<u8>(&[]), None);
    }
}
