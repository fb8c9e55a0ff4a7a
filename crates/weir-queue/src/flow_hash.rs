//! Which of a discipline's queues a flow is put into. The kernel hashes the 5-tuple with a key drawn at boot
//! (`skb_get_hash`, SipHash); here the 5-tuple has become a [`FlowId`] before, which is mixed with a key drawn from the
//! run's seed by SplitMix64's finaliser. Either way flows may collide, and do so differently under another key.
//! Packets of no flow ([`FlowId::NONE`]) share one queue, as packets that the kernel cannot dissect do.

use weir_core::{FlowId, Random};

/// A keyed hash of flows.
#[derive(Clone, Debug)]
pub struct FlowHash {
    key: u64,
}

impl FlowHash {
    /// A hash whose key is drawn from `random`.
    pub fn new(random: &mut Random) -> Self {
        Self { key: random.next_u64() }
    }

    /// 32 bits for a flow.
    pub fn of(&self, flow: FlowId) -> u32 {
        let mut z = self.key.wrapping_add(u64::from(flow.0).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }

    /// A queue below `queues` for a flow (`reciprocal_scale`).
    pub fn queue(&self, flow: FlowId, queues: u32) -> usize {
        ((u64::from(self.of(flow)) * u64::from(queues)) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::FlowHash;
    use weir_core::{FlowId, Seed};

    #[test]
    fn flows_spread_evenly_and_by_the_key() {
        let hash = |run| FlowHash::new(&mut Seed { seed: 1, run }.stream("fq_codel"));
        let (first, again, second) = (hash(0), hash(0), hash(1));
        let mut counts = [0u32; 64];
        let mut moved = 0;
        for flow in (0..64_000).map(FlowId) {
            counts[first.queue(flow, 64)] += 1;
            assert_eq!(first.of(flow), again.of(flow));
            moved += u32::from(first.queue(flow, 64) != second.queue(flow, 64));
        }
        // 1000 a queue, standard deviation 32; a 64th of the flows stays by chance.
        assert!(counts.iter().all(|count| (840..1160).contains(count)), "{counts:?}");
        assert!((62_500..63_500).contains(&moved), "{moved}");
    }
}
