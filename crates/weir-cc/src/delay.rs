//! The delay-based rule that a host picks behind fair queuing: faster by 1 % while the round trip is within 5 ms of the
//! shortest ever seen, slower by 5 % else. Bachl, Fabini and Zseby, "Detecting Fair Queuing for Better Congestion
//! Control", section III-B, with what its program (CN-TU/PCC-Uspace) does where the paper is silent.
//!
//! | paper, or program | here |
//! |---|---|
//! | rtt <= min + 5 ms: rate +1 %, else -5 % | times 1/0.99 and 1/1.05, as the program |
//! | one decision per monitor interval of 1.5 smoothed round trips and its feedback (program) | the same |
//! | mean round trip of the interval; the minimum never expires (program) | the same |
//! | starts at 1 Mbit/s and doubles per interval until the first loss; one interval more; goes on with its goodput (program, one flow) | the same |
//! | no answer to loss, no least and no largest rate, nothing bounds what is in flight (program) | the same: that is its known weakness |
//! | retransmissions, timer of 10 s (program) | the transport's; a timeout changes nothing |

use weir_core::{Duration, Rate, Time};

use crate::monitor::Monitor;
use crate::{Ack, Controller, EcnUse, Sent, Setup};

/// Bits per second to begin with.
const FIRST_RATE: f64 = 1e6;
/// Queueing that is accepted.
const TOLERANCE: Duration = Duration::from_millis(5);
const FASTER: f64 = 1.0 / 0.99;
const SLOWER: f64 = 1.0 / 1.05;
/// Length of an interval in smoothed round trips.
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
    smoothed: Duration,
    monitor: Monitor,
}

impl Delay {
    /// A connection that begins. `ecn` only says what its packets carry; it does not answer to marks.
    pub fn new(ecn: EcnUse, _setup: &Setup) -> Self {
        Self {
            ecn,
            stage: Stage::Doubling,
            rate: FIRST_RATE,
            smoothed: Duration::ZERO,
            monitor: Monitor::default(),
        }
    }

    /// A connection that has found its rate, as after the detection of fair queuing.
    pub fn from_rate(ecn: EcnUse, rate: Rate, setup: &Setup) -> Self {
        let rate = rate.bits_per_sec() as f64;
        Self { stage: Stage::Steady, rate, ..Self::new(ecn, setup) }
    }

    fn decide(&mut self, loss: f64, mean_rtt: Option<f64>, min_rtt: Duration) {
        match self.stage {
            Stage::Doubling if loss == 0.0 => self.rate *= 2.0,
            Stage::Doubling => self.stage = Stage::Full,
            Stage::Full => {
                self.rate *= 1.0 - loss;
                self.stage = Stage::Steady;
            }
            Stage::Steady => {
                let Some(rtt) = mean_rtt else { return };
                let near = rtt <= (min_rtt + TOLERANCE).as_secs_f64();
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
        let length = self.smoothed.scale(ROUND_TRIPS);
        self.monitor.on_sent(sent, |_| length);
    }

    fn on_ack(&mut self, ack: &Ack) {
        if self.smoothed == Duration::ZERO && ack.smoothed_rtt > Duration::ZERO {
            self.monitor.plan(&[self.rate]);
        }
        self.smoothed = ack.smoothed_rtt;
        self.monitor.on_ack(ack);
        if let Some([interval]) = self.monitor.results(ack.now) {
            let (loss, mean_rtt) = (interval.loss(), interval.mean_rtt());
            self.decide(loss, mean_rtt, ack.min_rtt);
            self.monitor.plan(&[self.rate]);
        }
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: u64) {}

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
    use crate::EcnUse;
    use crate::testing::{Path, setup};
    use weir_core::Duration;

    #[test]
    fn five_milliseconds_decide() {
        let mut delay = Delay::new(EcnUse::Off, &setup());
        delay.stage = Stage::Steady;
        let min = Duration::from_millis(10);
        delay.decide(0.0, Some(0.0149), min);
        assert!((delay.rate - 1e6 / 0.99).abs() < 1.0);
        delay.decide(0.5, Some(0.0151), min);
        assert!((delay.rate - 1e6 / 0.99 / 1.05).abs() < 1.0);
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
