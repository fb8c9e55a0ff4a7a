//! The delay-based rule that a host picks behind fair queuing: faster by 1 % while the round trip is within 5 ms of the
//! shortest ever seen, slower by 5 % else. Bachl, Fabini and Zseby, "Detecting Fair Queuing for Better Congestion
//! Control", section III-B, with what its program (CN-TU/PCC-Uspace) does where the paper is silent.
//!
//! | paper, or program | here |
//! |---|---|
//! | rtt <= min + 5 ms: rate +1 %, else -5 % | times 1/0.99 and 1/1.05, as the program |
//! | one decision per monitor interval of 1.5 mean round trips and its feedback; a sample is a quarter of the mean (program) | the same |
//! | mean round trip of the interval; the minimum never expires (program) | the same |
//! | an interval of which all is lost: faster (program: no number is not larger) | the same |
//! | an interval of a single packet decides nothing (program) | it decides |
//! | starts at 1 Mbit/s and doubles per interval; the first loss begins an interval anew, and with its goodput it goes on (program, one flow) | the same, without the jitter; with [`Setup::rate`] it goes on with that |
//! | no answer to loss, no least and no largest rate, nothing bounds what is in flight (program) | the same: that is its known weakness |
//! | retransmissions, timer of 10 s (program) | the transport's; a timeout changes nothing |

use weir_core::{Duration, Rate};

use crate::monitor::{MeanRtt, Monitor};
use crate::{Ack, Controller, EcnUse, Sent, Setup, Timeout};

/// Bits per second to begin with.
const FIRST_RATE: f64 = 1e6;
/// Queueing that is accepted.
const TOLERANCE: Duration = Duration::from_millis(5);
const FASTER: f64 = 1.0 / 0.99;
const SLOWER: f64 = 1.0 / 1.05;
/// Length of an interval in mean round trips.
const ROUND_TRIPS: f64 = 1.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Doubling,
    /// A loss was seen: the buffer is full, the next interval measures the goodput.
    Full,
    Steady,
}

/// The delay-based rule.
#[derive(Clone, Debug)]
pub struct Delay {
    ecn: EcnUse,
    stage: Stage,
    rate: f64,
    mean: MeanRtt,
    min_rtt: Duration,
    monitor: Monitor,
}

impl Delay {
    /// A connection that begins; steadily, if `setup` has the rate of its path. `ecn` only says what its packets carry;
    /// it does not answer to marks.
    pub fn new(ecn: EcnUse, setup: &Setup) -> Self {
        Self {
            ecn,
            stage: if setup.rate.is_some() { Stage::Steady } else { Stage::Doubling },
            rate: setup.rate.map_or(FIRST_RATE, |rate| rate.bits_per_sec() as f64),
            mean: MeanRtt::default(),
            min_rtt: Duration::MAX,
            monitor: Monitor::default(),
        }
    }

    fn decide(&mut self, loss: f64, mean_rtt: Option<f64>) {
        match self.stage {
            Stage::Doubling => self.rate *= 2.0,
            Stage::Full => {
                self.rate *= 1.0 - loss;
                self.stage = Stage::Steady;
            }
            Stage::Steady => {
                let most = (self.min_rtt + TOLERANCE).as_secs_f64();
                let near = mean_rtt.is_none_or(|rtt| rtt <= most);
                self.rate *= if near { FASTER } else { SLOWER };
            }
        }
    }
}

impl Controller for Delay {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn on_sent(&mut self, sent: &Sent) {
        let length = self.mean.get().scale(ROUND_TRIPS);
        self.monitor.on_sent(sent, |_| length);
    }

    fn on_ack(&mut self, ack: &Ack) {
        let first = self.mean.get() == Duration::ZERO;
        self.mean.on_ack(ack);
        self.min_rtt = self.min_rtt.min(ack.min_rtt);
        if first && self.mean.get() > Duration::ZERO {
            self.monitor.plan(&[self.rate]);
        }
        self.monitor.on_ack(ack);
        if self.stage == Stage::Doubling && ack.lost.packets > 0 {
            self.stage = Stage::Full;
            self.monitor.plan(&[self.rate]);
        }
        if let Some([interval]) = self.monitor.results(ack.now) {
            let (loss, mean_rtt) = (interval.loss(), interval.mean_rtt());
            self.decide(loss, mean_rtt);
            self.monitor.plan(&[self.rate]);
        }
    }

    fn on_timeout(&mut self, _: &Timeout) {}

    fn window(&self) -> u64 {
        u64::MAX
    }

    fn pacing(&self) -> Option<Rate> {
        Some(Rate::from_bits_per_sec(self.rate as u64))
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }
}

#[cfg(test)]
mod tests {
    use super::{Delay, Stage};
    use crate::testing::{Fate, Path, setup};
    use crate::{EcnUse, Setup};
    use weir_core::{Duration, Rate};

    #[test]
    fn five_milliseconds_decide() {
        let mut delay = Delay::new(EcnUse::Off, &setup());
        delay.stage = Stage::Steady;
        delay.min_rtt = Duration::from_millis(10);
        let mut rate = 1e6;
        // Whatever the loss; an interval of which nothing came back is no reason to be slower.
        for (loss, rtt, factor) in [
            (0.0, Some(0.0149), 1.0 / 0.99),
            (0.5, Some(0.0151), 1.0 / 1.05),
            (0.9, Some(0.0150), 1.0 / 0.99),
            (1.0, None, 1.0 / 0.99),
        ] {
            delay.decide(loss, rtt);
            rate *= factor;
            assert!((delay.rate - rate).abs() < 1e-6, "{rtt:?}");
        }
    }

    #[test]
    fn a_known_rate_needs_no_start() {
        let rate = Some(Rate::from_bits_per_sec(9_000_000));
        let mut delay = Delay::new(EcnUse::Off, &Setup { rate, ..setup() });
        let mut path = Path::bottleneck(10, 863, 100);
        // It begins as fast as it is told, and takes a step per 2.5 round trips.
        let packets = path.rate_over(&mut delay, Duration::from_millis(500));
        assert!((750.0..863.0).contains(&packets), "{packets}");
        let steps = libm::log(delay.rate / 9e6) / libm::log(1.0 / 0.99);
        assert!((15.0..21.0).contains(&steps), "{steps}");
        assert_eq!(path.lost(), 0);
    }

    #[test]
    fn the_first_loss_ends_the_doubling_at_once() {
        let mut delay = Delay::new(EcnUse::Off, &setup());
        let mut path = Path::bottleneck(50, 863, 20);
        while path.lost() == 0 {
            path.step(&mut delay, &mut || Fate::Arrives);
        }
        assert_eq!(delay.stage, Stage::Full);
        let rate = delay.rate;
        while delay.stage == Stage::Full {
            path.step(&mut delay, &mut || Fate::Arrives);
            assert!(delay.rate <= rate);
        }
        // 863 packets/s of 1448 bytes are 10 Mbit/s.
        assert!((9e6..11e6).contains(&delay.rate), "{}", delay.rate);
    }

    #[test]
    fn alone_it_settles_near_five_milliseconds_of_queue() {
        // Figure 3: 10 Mbit/s, 10 ms, a buffer of 100 packets.
        let mut delay = Delay::new(EcnUse::Off, &setup());
        let mut path = Path::bottleneck(10, 863, 100);
        path.rate_over(&mut delay, Duration::from_secs(10));
        assert_eq!(delay.stage, Stage::Steady);
        let lost = path.lost();
        (path.rtt_sum, path.rtt_count) = (0, 0);
        let rate = path.rate_over(&mut delay, Duration::from_secs(20));
        assert!(rate > 0.93 * 863.0, "{rate}");
        assert!((10.0..20.0).contains(&path.mean_rtt()), "{}", path.mean_rtt());
        assert_eq!(path.lost(), lost);
    }

    #[test]
    fn a_buffer_of_one_packet_lets_it_grow_for_ever() {
        // The published rule's weakness: no queue, no delay, so nothing holds it back.
        let mut delay = Delay::new(EcnUse::Off, &setup());
        let mut path = Path::bottleneck(10, 863, 1);
        path.rate_over(&mut delay, Duration::from_secs(20));
        assert!(path.lost() > path.delivered(), "{} of {}", path.lost(), path.delivered());
    }
}
