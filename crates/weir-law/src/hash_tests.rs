//! The hash of the live table spreads structured keys as chance would: what `bpf/table.h` proves of any two keys, and
//! what it does to families of keys as networks have them.

use weir_core::{Random, Seed};

use crate::ffi::Key;
use crate::live::{SEED_WORDS, open_seed};
use crate::live_ffi::{TableParams, bucket_of, hash, hash_ipv4, prepare_hash, tag_of};

const BUCKETS: u32 = 512;

fn random() -> Random {
    Seed { seed: 17, run: 0 }.stream("hash")
}

fn table(random: &mut Random) -> TableParams {
    let seed: [u64; SEED_WORDS] = std::array::from_fn(|_| random.next_u64());
    TableParams { seed, bucket_mask: BUCKETS - 1, ..TableParams::default() }
}

/// A key from its forty octets.
fn key(octets: &[u8; 40]) -> Key {
    let port = |at: usize| u16::from_ne_bytes([octets[at], octets[at + 1]]);
    Key {
        low: octets[..16].try_into().unwrap(),
        high: octets[16..32].try_into().unwrap(),
        low_port: port(32),
        high_port: port(34),
        protocol: octets[36],
        reserved: octets[37..].try_into().unwrap(),
    }
}

fn octets(random: &mut Random) -> [u8; 40] {
    std::array::from_fn(|_| random.next_u64() as u8)
}

fn flipped(octets: &[u8; 40], bits: &[usize]) -> [u8; 40] {
    let mut other = *octets;
    bits.iter().for_each(|bit| other[bit / 8] ^= 1 << (bit % 8));
    other
}

/// IPv4 flow `n` of a family: addresses and ports from a function.
fn ipv4(low: u32, high: u32, ports: (u16, u16), protocol: u8) -> Key {
    let mapped = |address: u32| {
        let mut octets = [0; 16];
        (octets[10], octets[11]) = (0xff, 0xff);
        octets[12..].copy_from_slice(&address.to_be_bytes());
        octets
    };
    let (low, high) = (mapped(low), mapped(high));
    Key { low, high, low_port: ports.0, high_port: ports.1, protocol, reserved: [0; 3] }
}

#[test]
fn the_hash_is_the_mixed_sum_of_the_products() {
    let mut random = random();
    for _ in 0..1000 {
        let (table, octets) = (table(&mut random), octets(&mut random));
        let word = |at: usize| u64::from(u32::from_ne_bytes(octets[4 * at..4 * at + 4].try_into().unwrap()));
        // The lower half of a 64-bit word comes first where the lower octets do.
        let half = |at: usize| if cfg!(target_endian = "little") { word(at) } else { word(at ^ 1) };
        let sum = (0..5).fold(table.seed[10], |sum, pair| {
            let first = table.seed[2 * pair].wrapping_add(half(2 * pair));
            let second = table.seed[2 * pair + 1].wrapping_add(half(2 * pair + 1));
            sum.wrapping_add(first.wrapping_mul(second))
        });
        let upper = (sum >> 32) as u32;
        let mixed = (upper ^ upper >> 15).wrapping_mul(0x9e37_79b1);
        let found = hash(&table, &key(&octets));
        assert_eq!(found, mixed ^ mixed >> 12);
        assert_eq!(bucket_of(&table, found), (found % BUCKETS) as usize);
        assert_eq!(tag_of(found), (found >> 16).max(1));
    }
    let open = TableParams { seed: open_seed(1), ..TableParams::default() };
    assert_ne!(hash(&open, &Key::default()), hash(&open, &Key { protocol: 6, ..Key::default() }));
}

#[test]
fn the_short_way_for_ipv4_gives_the_same() {
    let mut random = random();
    for _ in 0..1000 {
        let mut table = table(&mut random);
        prepare_hash(&mut table);
        let [low, high, ports] = std::array::from_fn(|_| random.next_u64() as u32);
        let key = ipv4(low, high, ((ports >> 16) as u16, ports as u16), 6);
        assert_eq!(hash_ipv4(&table, &key), hash(&table, &key));
    }
}

#[test]
fn every_difference_of_one_bit_moves_a_key() {
    // Over 4096 secrets eight agreements in nine bits are to be expected, none in 32. Thirty or more have a probability
    // of 2e-9 for each of the 320 bits. Top bits of words, which a mix of XOR and multiplications can pass unchanged,
    // are among them.
    const SECRETS: usize = 4096;
    let mut random = random();
    let (mut buckets, mut tags, mut all) = ([0; 320], [0; 320], 0);
    for _ in 0..SECRETS {
        let (table, octets) = (table(&mut random), octets(&mut random));
        let one = hash(&table, &key(&octets));
        for bit in 0..320 {
            let other = hash(&table, &key(&flipped(&octets, &[bit])));
            buckets[bit] += u32::from(bucket_of(&table, one) == bucket_of(&table, other));
            tags[bit] += u32::from(tag_of(one) == tag_of(other));
            all += u32::from(one == other);
        }
    }
    assert!(*buckets.iter().max().unwrap() < 30, "{buckets:?}");
    let mean = f64::from(buckets.iter().sum::<u32>()) / 320.0;
    assert!((mean - 8.0).abs() < 1.0, "{mean}");
    // 65,536 tags: 0.06 agreements for a bit, 20 in all.
    assert!(*tags.iter().max().unwrap() < 5 && tags.iter().sum::<u32>() < 50, "{tags:?}");
    assert_eq!(all, 0);
}

#[test]
fn no_pair_of_differences_cancels() {
    // All 51,040 pairs of bits under sixteen secrets: with the 32 bits that count, 0.0002 agreements are to be
    // expected.
    let mut random = random();
    let (mut buckets, mut tried) = (0u64, 0u64);
    for _ in 0..16 {
        let (table, octets) = (table(&mut random), octets(&mut random));
        let one = hash(&table, &key(&octets));
        for first in 0..320 {
            for second in 0..first {
                let other = hash(&table, &key(&flipped(&octets, &[first, second])));
                assert_ne!(one, other, "bits {first} and {second}");
                buckets += u64::from(bucket_of(&table, one) == bucket_of(&table, other));
                tried += 1;
            }
        }
    }
    let share = buckets as f64 * f64::from(BUCKETS) / tried as f64;
    assert!((0.7..1.3).contains(&share), "{share}");
}

#[test]
fn families_of_flows_spread_as_chance_does() {
    type Family = fn(u32) -> Key;
    let families: [(&str, Family); 7] = [
        ("sequential client ports", |n| ipv4(0x0a00_0001, 0x0a00_0002, (443, 32_768 + n as u16), 17)),
        ("sequential clients", |n| ipv4(0x0a00_0001, 0x0a01_0000 + n, (443, 50_000), 6)),
        ("sequential servers", |n| ipv4(0x0a01_0000 + n, 0xc0a8_0001, (443, 50_000), 6)),
        ("addresses and ports together", |n| {
            ipv4(0x0a00_0000 + n, 0x0a01_0000 + n, (n as u16, n as u16), 17)
        }),
        ("one network in each", |n| ipv4(n << 20, 0xc0a8_0001, (443, 50_000), 6)),
        ("both protocols", |n| ipv4(1, 2, (443, (n / 2) as u16), if n % 2 == 0 { 6 } else { 17 })),
        ("top bits and bottom bits", |n| {
            let high = (n & 0x3f) << 26;
            ipv4(0x0a00_0001 ^ high, 0x0b00_0000 ^ n >> 6, (443, 50_000), 6)
        }),
    ];
    const KEYS: u32 = 4096;
    const SECRETS: u32 = 200;
    let mut random = random();
    for (name, family) in families {
        let (mut all, mut worst, mut fullest) = (0u64, 0, 0);
        for _ in 0..SECRETS {
            let table = table(&mut random);
            let mut buckets = [0u64; BUCKETS as usize];
            (0..KEYS).for_each(|n| buckets[bucket_of(&table, hash(&table, &family(n)))] += 1);
            let pairs: u64 = buckets.iter().map(|keys| keys * keys.saturating_sub(1) / 2).sum();
            all += pairs;
            worst = worst.max(pairs);
            fullest = fullest.max(*buckets.iter().max().unwrap());
        }
        let expected = f64::from(KEYS) * f64::from(KEYS - 1) / 2.0 / f64::from(BUCKETS);
        let (mean, worst) = (all as f64 / f64::from(SECRETS) / expected, worst as f64 / expected);
        println!(
            "{name}: pairs in one bucket {mean:.3} of chance, worst secret {worst:.3}, fullest {fullest} of 8"
        );
        // The mean is what is proven of pairs. The number of pairs has a standard deviation of 0.8 % of chance for keys
        // thrown at random; a bucket with 40 of them where 8 are expected has a probability of 1e-15.
        assert!((0.99..1.01).contains(&mean), "{name}: {mean}");
        assert!(worst < 1.1 && fullest < 40, "{name}: {worst}, {fullest}");
    }
}
