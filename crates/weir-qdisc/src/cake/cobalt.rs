//! COBALT, the AQM of CAKE for one queue: a CoDel that slows down by itself, and BLUE against what does not answer.
//! Source: the kernel's `net/sched/sch_cake.c` (`cobalt_*`), in the same integers: nanoseconds, and 1/sqrt(count) in
//! Q0.32.
//!
//! | kernel | here |
//! |---|---|
//! | 1/sqrt(count) from a table for counts below 16 (four Newton steps each), then one step a count | the same |
//! | above target: longer than `target` and than four packet times; with `ingress` also than two for each bulk flow | the same without `ingress` |
//! | one signal when due, mark where possible; below target the count falls at the same pace | the same |
//! | BLUE: overflow adds 1/256, an empty queue takes 1/4096 off, each at most once in a target | the same |
//! | BLUE drops whatever ECN says, and may drop a packet that was just marked | the same |
//! | `ecn_marked` set by an arriving CE | a `Mark` with `ecn_in` CE |

use weir_core::{Duration, Ecn, Packet, Random, Time};

/// What an overflow adds to BLUE's probability of 2^32: 1/256.
const BLUE_UP: u32 = 1 << 24;
/// What an empty queue takes off: 1/4096.
const BLUE_DOWN: u32 = 1 << 20;
/// Counts with a root of their own (`REC_INV_SQRT_CACHE`).
const ROOTS: usize = 16;

/// Parameters of the law (`struct cobalt_params`).
#[derive(Clone, Debug)]
pub(super) struct CobaltParams {
    /// Acceptable sojourn time.
    pub(super) target: Duration,
    /// How long it may be exceeded before the first signal; the next come after `interval / sqrt(count)`.
    pub(super) interval: Duration,
    /// How long an MTU takes on the link; zero if its rate is not known.
    pub(super) mtu_time: Duration,
    roots: [u32; ROOTS],
}

impl CobaltParams {
    /// As CAKE computes them for a link (`cake_set_rate`).
    pub(super) fn new(rtt: Duration, target: Duration, mtu_time: Duration) -> Self {
        let own = (mtu_time * 3 / 2).max(target);
        let interval =
            Duration::from_nanos((rtt.as_nanos() + own.as_nanos()).saturating_sub(target.as_nanos()));
        let mut roots = [u32::MAX; ROOTS];
        let mut root = u32::MAX;
        for (count, place) in roots.iter_mut().enumerate().skip(1) {
            for _ in 0..4 {
                root = newton_step(root, count as u32);
            }
            *place = root;
        }
        Self { target: own, interval: interval.max(own * 2), mtu_time, roots }
    }

    fn after(&self, time: Time, root: u32) -> Time {
        // The kernel multiplies as if the interval had 32 bits (`reciprocal_scale`): 4.29 s at most.
        let interval = u64::from(self.interval.as_nanos() as u32);
        time + Duration::from_nanos((interval * u64::from(root)) >> 32)
    }
}

/// One Newton step of 1/sqrt(count) in Q0.32: `r/2 * (3 - count * r^2)`.
fn newton_step(root: u32, count: u32) -> u32 {
    let square = (u64::from(root) * u64::from(root)) >> 32;
    let rest = (3u64 << 32).wrapping_sub(u64::from(count).wrapping_mul(square));
    // A quarter now and a half later, so that the product stays within 64 bits.
    ((rest >> 2).wrapping_mul(u64::from(root)) >> 31) as u32
}

/// The state of the law for one queue (`struct cobalt_vars`).
#[derive(Clone, Debug, Default)]
pub(super) struct Cobalt {
    count: u32,
    /// 1/sqrt(count) in Q0.32. Zero before the first signal, as in the kernel.
    root: u32,
    drop_next: Time,
    blue_changed: Time,
    /// BLUE's probability of 2^32.
    drop_probability: u32,
    dropping: bool,
}

/// What becomes of a packet that is to leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// It was marked CE.
    pub(super) marked: bool,
    /// It should be dropped.
    pub(super) drop: bool,
}

impl Cobalt {
    fn set_count(&mut self, params: &CobaltParams, count: u32) {
        self.count = count;
        self.root = match params.roots.get(count as usize) {
            Some(root) => *root,
            None => newton_step(self.root, count),
        };
    }

    /// A packet of this queue had to be dropped for want of room.
    pub(super) fn overflowed(&mut self, params: &CobaltParams, now: Time) {
        if now.since(self.blue_changed) > params.target {
            self.drop_probability = self.drop_probability.saturating_add(BLUE_UP);
            self.blue_changed = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// The queue had its turn and was empty.
    pub(super) fn found_empty(&mut self, params: &CobaltParams, now: Time) {
        if self.drop_probability > 0 && now.since(self.blue_changed) > params.target {
            self.drop_probability = self.drop_probability.saturating_sub(BLUE_DOWN);
            self.blue_changed = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.set_count(params, self.count - 1);
            self.drop_next = params.after(self.drop_next, self.root);
        }
    }

    /// Whether the state would be the same as of a queue that never was.
    pub(super) fn at_rest(&self, now: Time) -> bool {
        self.drop_probability == 0 && self.count == 0 && now >= self.drop_next
    }

    /// Judges a packet that has left the queue, and marks it where it would be dropped otherwise.
    pub(super) fn judge(
        &mut self,
        params: &CobaltParams,
        packet: &mut Packet,
        now: Time,
        random: &mut Random,
    ) -> Verdict {
        let sojourn = now.since(packet.arrived);
        let over = sojourn > params.target && sojourn > params.mtu_time * 4;
        let mut due = self.count > 0 && now >= self.drop_next;
        // From before a new episode sets the time, as in the kernel: an episode that begins after a rest of more than
        // an interval is due at once.
        let mut late = now > self.drop_next;
        let mut verdict = Verdict::default();
        if over {
            if !self.dropping {
                self.dropping = true;
                self.drop_next = params.after(now, self.root);
            }
            self.count = self.count.max(1);
        } else {
            self.dropping = false;
        }
        if due && self.dropping {
            verdict.marked = packet.ecn.is_capable();
            verdict.drop = !verdict.marked;
            if verdict.marked {
                packet.ecn = Ecn::Ce;
            }
            self.set_count(params, self.count.saturating_add(1));
            self.drop_next = params.after(self.drop_next, self.root);
            late = now > self.drop_next;
        } else {
            while due {
                self.set_count(params, self.count - 1);
                self.drop_next = params.after(self.drop_next, self.root);
                late = now > self.drop_next;
                due = self.count > 0 && now >= self.drop_next;
            }
        }
        if self.drop_probability > 0 {
            verdict.drop |= ((random.next_u64() >> 32) as u32) < self.drop_probability;
        }
        // With no count, the time says until when the queue counts as active.
        if self.count == 0 {
            self.drop_next = now + params.interval;
        } else if late && !verdict.drop {
            self.drop_next = now;
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::{BLUE_DOWN, BLUE_UP, Cobalt, CobaltParams, Verdict};
    use weir_core::{Duration, Ecn, FlowId, Packet, Random, Seed, Time};

    const NOTHING: Verdict = Verdict { marked: false, drop: false };
    const DROP: Verdict = Verdict { marked: false, drop: true };

    fn params() -> CobaltParams {
        CobaltParams::new(Duration::from_millis(100), Duration::from_millis(5), Duration::ZERO)
    }

    fn random() -> Random {
        Seed::default().stream("cobalt")
    }

    fn at(micros: u64) -> Time {
        Time::ZERO + Duration::from_micros(micros)
    }

    /// The verdict on a packet that has waited for `wait` microseconds.
    fn judge(cobalt: &mut Cobalt, now: u64, wait: u64, ecn: Ecn) -> Verdict {
        let mut packet = Packet::new(0, FlowId(0), 1514, at(now - wait)).with_ecn(ecn);
        let verdict = cobalt.judge(&params(), &mut packet, at(now), &mut random());
        assert_eq!(packet.ecn == Ecn::Ce, verdict.marked);
        verdict
    }

    #[test]
    fn a_slow_link_stretches_target_and_interval() {
        let times = |params: CobaltParams| (params.target.as_nanos(), params.interval.as_nanos());
        assert_eq!(times(params()), (5_000_000, 100_000_000));
        // 1514 bytes at 1 Mbit/s take 12.112 ms: 1.5 of them, and 100 ms + 18.168 ms - 5 ms.
        let slow = |rtt| {
            CobaltParams::new(
                Duration::from_millis(rtt),
                Duration::from_millis(5),
                Duration::from_micros(12_112),
            )
        };
        assert_eq!(times(slow(100)), (18_168_000, 113_168_000));
        assert_eq!(times(slow(10)), (18_168_000, 36_336_000), "at least two targets");
    }

    #[test]
    fn roots_are_exact_where_codels_single_step_is_not() {
        let mut cobalt = Cobalt::default();
        let mut worst = 0f64;
        for count in 1..1000 {
            cobalt.set_count(&params(), count);
            let exact = 1.0 / f64::from(count).sqrt();
            worst = worst.max((f64::from(cobalt.root) / 2f64.powi(32) / exact - 1.0).abs());
        }
        assert!(worst < 0.002, "{worst}");
    }

    #[test]
    fn signals_come_after_an_interval_and_then_faster() {
        let mut cobalt = Cobalt::default();
        // A busy queue whose count came down from one to none: the root is one.
        cobalt.set_count(&params(), 0);
        assert_eq!(judge(&mut cobalt, 10_000, 5_000, Ecn::NotEct), NOTHING);
        assert!(!cobalt.dropping, "at the target is not above it");
        assert_eq!(judge(&mut cobalt, 20_000, 5_001, Ecn::NotEct), NOTHING);
        assert_eq!(judge(&mut cobalt, 119_999, 6_000, Ecn::NotEct), NOTHING);
        assert_eq!(judge(&mut cobalt, 120_000, 6_000, Ecn::NotEct), DROP);
        // Four Newton steps from 1 give 0.70671 for 1/sqrt(2).
        assert_eq!(judge(&mut cobalt, 190_670, 6_000, Ecn::NotEct), NOTHING);
        assert_eq!(judge(&mut cobalt, 190_671, 6_000, Ecn::Ect1), Verdict { marked: true, drop: false });
        assert_eq!(cobalt.count, 3);
        // And 0.57735 for 1/sqrt(3).
        assert_eq!(judge(&mut cobalt, 248_405, 6_000, Ecn::NotEct), NOTHING);
        assert_eq!(judge(&mut cobalt, 248_407, 6_000, Ecn::NotEct), DROP);
    }

    #[test]
    fn the_first_signal_of_all_and_the_first_after_a_rest_are_due_at_once() {
        let mut cobalt = Cobalt::default();
        assert_eq!(judge(&mut cobalt, 10_000, 5_001, Ecn::NotEct), NOTHING);
        assert_eq!(judge(&mut cobalt, 10_001, 5_001, Ecn::NotEct), DROP);
        let mut rested = Cobalt::default();
        rested.set_count(&params(), 0);
        assert_eq!(judge(&mut rested, 10_000, 0, Ecn::NotEct), NOTHING);
        assert_eq!(judge(&mut rested, 110_001, 5_001, Ecn::NotEct), NOTHING);
        assert_eq!(judge(&mut rested, 110_002, 5_001, Ecn::NotEct), DROP);
    }

    #[test]
    fn the_count_falls_below_target_at_the_pace_at_which_it_rose() {
        let mut cobalt = Cobalt { count: 3, root: params().roots[3], dropping: true, ..Cobalt::default() };
        // Due at 0, at 70.7 ms with a count of 2 and at 170.7 ms with a count of 1.
        assert_eq!(judge(&mut cobalt, 60_000, 1_000, Ecn::NotEct), NOTHING);
        assert_eq!((cobalt.count, cobalt.dropping), (2, false));
        assert_eq!(judge(&mut cobalt, 71_000, 1_000, Ecn::NotEct), NOTHING);
        assert_eq!(cobalt.count, 1);
        assert!(!cobalt.at_rest(at(71_000)));
        cobalt.found_empty(&params(), at(170_712));
        assert_eq!(cobalt.count, 0);
        assert!(!cobalt.at_rest(at(270_000)) && cobalt.at_rest(at(270_712)));
    }

    #[test]
    fn short_waits_and_few_packets_are_never_over_target() {
        let slow = CobaltParams::new(
            Duration::from_millis(100),
            Duration::from_millis(5),
            Duration::from_micros(12_112),
        );
        for (wait, over) in [(18_169, false), (48_448, false), (48_449, true)] {
            let mut cobalt = Cobalt::default();
            let mut packet = Packet::new(0, FlowId(0), 1514, at(0));
            cobalt.judge(&slow, &mut packet, at(wait), &mut random());
            assert_eq!(cobalt.dropping, over, "{wait}");
        }
    }

    #[test]
    fn blue_rises_by_256ths_falls_by_4096ths_and_ignores_ecn() {
        let mut cobalt = Cobalt::default();
        let params = params();
        for now in [6_000, 7_000, 11_000, 11_001, 30_000] {
            cobalt.overflowed(&params, at(now));
        }
        // Once in more than 5 ms: at 6000, 11001 and 30000.
        assert_eq!(cobalt.drop_probability, 3 * BLUE_UP);
        cobalt.found_empty(&params, at(35_000));
        assert_eq!(cobalt.drop_probability, 3 * BLUE_UP, "not within a target of the last change");
        cobalt.found_empty(&params, at(35_001));
        assert_eq!(cobalt.drop_probability, 3 * BLUE_UP - BLUE_DOWN);
        cobalt.drop_probability = u32::MAX;
        cobalt.count = 0;
        assert_eq!(judge(&mut cobalt, 40_000, 0, Ecn::Ect1), DROP);
        cobalt.overflowed(&params, at(50_000));
        assert_eq!(cobalt.drop_probability, u32::MAX, "no further than certainty");
    }
}
