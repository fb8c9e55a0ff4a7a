//! For use behind fair queuing, where the rate of a flow is its share of the link and nobody else's queue: keeps in
//! flight what the share carries in the shortest round trip, and one or two packets more. With the rate of a packet
//! train it begins at its share at once.
//!
//! Unlike [`Delay`](crate::Delay) it answers to loss, bounds what is in flight, and knows the shortest round trip of
//! ten seconds only.
//!
//! Once per round trip of at least 8 packets:
//!
//! - A queue of t / 4 or more, t being the target: the share is what was delivered.
//! - Less: the share is at least what was delivered, and it tries 3 % more for two round trips; 6, 12 and 25 % if the
//!   queue stays empty, but not beyond what last led to loss.
//! - More than 2 % lost, in rounds without a queue by more than chance: the share is what was delivered, sent at
//!   0.99 of it for six rounds, with half the target. For 100 rounds a late host makes up for nothing.
//! - A timeout: half the share.
//! - The shortest round trip is 8 s old: a quarter less in flight for a round trip, so that a standing queue shows.
//! - The share stays a tenth lower than it was: what seems to wait may be no queue, but a host or a radio link that is
//!   late. A quarter less in flight for two round trips shows that: by how much the mean round trip of the second
//!   exceeds the shortest is scatter, not queue. From then on a round's mean less scatter shows the queue, and t is at
//!   least half of the scatter. Every 64 rounds two others show whether there is less of it.
//!
//! Round trips of small packets, as of a handshake, do not count.
//!
//! t is 1.5 packet times at the share, at least 0.5 ms, and at most 3 ms or one packet time, below which no queue can
//! be held. Sources: Keshav, "A Control-Theoretic Approach to Flow Control" (SIGCOMM 1991), for the rate of packet
//! pairs as a flow's share; the constants were chosen in the simulator.

use weir_core::{Duration, Rate, Time};

use crate::bbr::micros;
use crate::filter::MaxFilter;
use crate::{Ack, Controller, EcnUse, Sent, Setup, Timeout};

/// A train's rate is a little high where the train met an empty queue.
const OF_TRAIN: f64 = 0.98;
const LEAST_TARGET: f64 = 0.5e-3;
const MOST_TARGET: f64 = 3e-3;
const TARGET_PACKETS: f64 = 1.5;
const ROUND_PACKETS: u64 = 8;
const FASTER: f64 = 0.03;
const FASTEST: f64 = 0.25;
/// Rounds until it is known what a faster one has come to.
const ROUNDS_FASTER: u32 = 2;
/// Packets may leave a little faster than the share, so that the window and not pacing sets what is in flight.
const PACING: f64 = 1.02;
/// Of the packets; below it losses are taken to be random.
const LOSS: f64 = 0.02;
/// Packets that were lost beyond that, in rounds on end, by which losses are more than chance (Page, "Continuous
/// Inspection Schemes", 1954): so many, and one more for each [`EXCESS_PACKETS`] of a round, up to three. One percent
/// of random losses then pass for more once in some thousands of packets.
const EXCESS: f64 = 1.0;
const EXCESS_PACKETS: f64 = 40.0;
const MOST_EXCESS: f64 = 3.0;
const AFTER_LOSS: f64 = 0.99;
const ROUNDS_AFTER_LOSS: u32 = 6;
/// So long after a loss the buffer is taken for too short for what a late host would send at once.
const ROUNDS_SHORT: u32 = 100;
/// Of the target, in a buffer that does not hold it.
const LEAST_ROOM: f64 = 0.25;
const MORE_ROOM: f64 = 0.1;
const DRAIN: f64 = 0.75;
/// What is left of the share for so many rounds when scatter is looked for, and rounds until it may be looked for
/// again. A link that has become slower has shown its rate by then.
const LEFT: f64 = 0.9;
const ROUNDS_FALLEN: u32 = 4;
const ROUNDS_LOOK: u32 = 16;
const ROUNDS_LOOK_AGAIN: u32 = 64;
/// Of the shortest round trip, what scatter is taken for at most.
const MOST_SCATTER: f64 = 0.5;
/// Of the scatter, what the queue is to be at least.
const TARGET_SCATTER: f64 = 0.5;
/// Of the largest packet, what those are at least whose round trips count.
const FULL: f64 = 0.9;
const MIN_RTT_US: u64 = 10_000_000;
const REFRESH_US: u64 = 8_000_000;
/// In flight at most, in products of share and shortest round trip.
const MOST_PRODUCTS: f64 = 2.0;
const LEAST_PACKETS: f64 = 3.0;
/// Packets per round trip at the least.
const FLOOR_PACKETS: f64 = 2.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Doubles each round until a queue or a loss shows; left out with a known rate.
    Starting,
    Steady,
    /// Lets the queue run dry for a round.
    Draining,
    /// The same, and then another round to see what scatter there is without a queue.
    Looking {
        is_dry: bool,
    },
}

/// What a round trip brought.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// It ends when a packet arrives that was sent when so many had been delivered.
    end: u64,
    /// When its first acknowledgement came, and bytes and packets since.
    began: Option<Time>,
    bytes: u64,
    packets: u64,
    lost: u64,
    /// Shortest round trip in it, the sum of all in seconds, and their number.
    rtt: Option<Duration>,
    rtts: f64,
    samples: u32,
    app_limited: bool,
}

/// The controller.
#[derive(Clone, Debug)]
pub struct Share {
    ecn: EcnUse,
    mss: f64,
    initial: f64,
    stage: Stage,
    /// Payload bits per second, and how much more is tried.
    share: f64,
    more: f64,
    gain: f64,
    /// Of the target, what the buffer holds.
    room: f64,
    after_loss: u32,
    /// Rounds for which the buffer is taken for short.
    short: u32,
    /// Packets lost beyond [`LOSS`], summed up while there are any.
    excess: f64,
    /// What was delivered when it last lost; zero: nothing speaks against more.
    ceiling: f64,
    /// When it answered to loss; of packets sent before, further losses are the same.
    answered: Time,
    trying: u32,
    /// When its first packet was sent; what arrives of earlier ones says nothing of the share.
    began: Option<Time>,
    round: Round,
    /// The shortest round trip in microseconds, as its distance from the longest number.
    shortest: MaxFilter,
    shortest_at: u64,
    /// Bytes of the largest packet that arrived.
    largest: f64,
    /// By how much a round's mean round trip exceeds the shortest though nothing waits, in seconds.
    scatter: f64,
    /// Rounds since one showed the scatter, and the most that was delivered in one since.
    looked: u32,
    top: f64,
    /// Rounds on end in which the share was less than [`LEFT`] of that.
    fallen: u32,
}

impl Share {
    /// A connection that begins; steadily, if `setup` has the rate of its path. `ecn` only says what its packets carry;
    /// it does not answer to marks.
    pub fn new(ecn: EcnUse, setup: &Setup) -> Self {
        let known = setup.rate.map(|rate| rate.bits_per_sec() as f64 * OF_TRAIN);
        let mss = f64::from(setup.mss.max(1));
        let initial = f64::from(setup.initial_window.max(1)) * mss;
        Self {
            ecn,
            mss,
            initial,
            stage: if known.is_some() { Stage::Steady } else { Stage::Starting },
            // A nominal round trip of 100 ms, until the handshake's or a sample is known.
            share: known.unwrap_or(initial * 8.0 / 0.1),
            more: 0.0,
            gain: FASTER,
            room: 1.0,
            after_loss: 0,
            short: 0,
            excess: 0.0,
            ceiling: 0.0,
            answered: Time::ZERO,
            trying: 0,
            began: None,
            round: Round::default(),
            shortest: MaxFilter::default(),
            shortest_at: 0,
            largest: mss * FULL,
            scatter: 0.0,
            looked: 0,
            top: 0.0,
            fallen: 0,
        }
    }

    fn min_rtt(&self) -> Option<f64> {
        let distance = self.shortest.get();
        (distance > 0).then(|| (u64::MAX - distance) as f64 / 1e6)
    }

    fn saw_rtt(&mut self, now: Time, rtt: Duration) {
        let now = micros(now);
        let rtt = (rtt.as_nanos() / 1000).max(1);
        let before = self.shortest.get();
        let known = self.shortest.update(MIN_RTT_US, now, u64::MAX - rtt);
        if u64::MAX - rtt >= before || known < before {
            self.shortest_at = now;
        }
    }

    /// The queue to have, in seconds.
    fn target(&self) -> f64 {
        let packet = self.mss * 8.0 / self.share.max(1.0);
        let target = (TARGET_PACKETS * packet).clamp(LEAST_TARGET, MOST_TARGET.max(packet));
        target.max(TARGET_SCATTER * self.scatter)
    }

    /// Ends a round at `now`.
    fn decide(&mut self, now: Time) {
        let round = self.round;
        let (Some(began), Some(rtt), Some(min_rtt)) = (round.began, round.rtt, self.min_rtt()) else {
            return;
        };
        let elapsed = now.since(began).as_secs_f64();
        if elapsed <= 0.0 || round.bytes == 0 {
            return;
        }
        let delivered = round.bytes as f64 * 8.0 / elapsed;
        let (rtt, target) = (rtt.as_secs_f64(), self.target() * self.room);
        let beyond = (round.rtts / f64::from(round.samples.max(1)) - min_rtt).max(0.0);
        let queue = if self.scatter > 0.0 { beyond - self.scatter } else { rtt - min_rtt }.max(0.0);
        let packets = (round.lost + round.packets) as f64;
        self.excess = (self.excess + round.lost as f64 - LOSS * packets).max(0.0);
        let waits = queue >= target / 4.0;
        // What is lost while packets wait is lost by their queue.
        let bound = if waits { 0.0 } else { (EXCESS + packets / EXCESS_PACKETS).min(MOST_EXCESS) };
        let loses = self.excess > bound;
        self.looked = self.looked.saturating_add(1);
        match self.stage {
            Stage::Starting | Stage::Steady => {}
            Stage::Looking { is_dry: false } => {
                self.stage = Stage::Looking { is_dry: true };
                return;
            }
            Stage::Looking { is_dry: true } => {
                self.stage = Stage::Steady;
                self.see_scatter(beyond.min(MOST_SCATTER * min_rtt));
                return;
            }
            Stage::Draining => {
                self.stage = Stage::Steady;
                return;
            }
        }
        if self.stage == Stage::Starting {
            if !loses && queue < target.max(min_rtt / 8.0) && !round.app_limited {
                self.share *= 2.0;
                return;
            }
            self.stage = Stage::Steady;
        }
        self.after_loss = self.after_loss.saturating_sub(1);
        self.short = self.short.saturating_sub(1);
        self.trying = self.trying.saturating_sub(1);
        if delivered > self.ceiling * (1.0 + FASTER / 2.0) {
            self.ceiling = 0.0;
        }
        if loses {
            self.excess = 0.0;
            self.after_loss = ROUNDS_AFTER_LOSS;
            self.short = ROUNDS_SHORT;
            self.answered = now;
            self.room = (self.room / 2.0).max(LEAST_ROOM);
            self.slow_down(self.share.min(delivered));
            self.ceiling = self.share;
        } else if waits {
            self.room = (self.room + MORE_ROOM).min(1.0);
            self.slow_down(if round.app_limited { self.share } else { delivered });
        } else if !round.app_limited && self.after_loss == 0 && self.trying == 0 {
            self.share = self.share.max(delivered);
            if self.share * (1.0 + self.gain) > self.ceiling && self.ceiling > 0.0 {
                self.gain = FASTER;
            }
            self.more = self.gain;
            self.gain = (self.gain * 2.0).min(FASTEST);
            self.trying = ROUNDS_FASTER;
        }
        self.top = self.top.max(delivered);
        self.share = self.share.max(FLOOR_PACKETS * self.mss * 8.0 / rtt);
        let is_old = micros(now).saturating_sub(self.shortest_at) > REFRESH_US;
        if is_old {
            self.shortest_at = micros(now);
        }
        self.fallen = if self.share < LEFT * self.top { self.fallen + 1 } else { 0 };
        let may_be_less = self.scatter > 0.0 && self.looked >= ROUNDS_LOOK_AGAIN;
        if may_be_less || self.fallen >= ROUNDS_FALLEN && self.looked >= ROUNDS_LOOK {
            self.stage = Stage::Looking { is_dry: false };
        } else if is_old {
            self.stage = Stage::Draining;
        }
    }

    /// A round in which nothing waited had its mean so much above the shortest round trip.
    fn see_scatter(&mut self, seen: f64) {
        let scatter = if seen < self.scatter { (self.scatter + seen) / 2.0 } else { seen };
        // So little is what the host's clock and the packets' own time make.
        self.scatter = if scatter < LEAST_TARGET / 2.0 { 0.0 } else { scatter };
        (self.looked, self.top, self.fallen) = (0, 0.0, 0);
    }

    fn slow_down(&mut self, share: f64) {
        self.share = share;
        self.more = 0.0;
        self.gain = FASTER;
        self.trying = 0;
    }
}

impl Controller for Share {
    fn name(&self) -> &'static str {
        "share"
    }

    fn on_handshake(&mut self, rtt: Duration) {
        if self.stage == Stage::Starting && rtt > Duration::ZERO {
            self.share = self.initial * 8.0 / rtt.as_secs_f64();
        }
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.began.get_or_insert(sent.now);
    }

    fn on_ack(&mut self, ack: &Ack) {
        // A small packet, as of a handshake, leaves the bottleneck sooner than a full one though nothing waits.
        let size = ack.delivered.bytes as f64 / f64::from(ack.delivered.packets.max(1));
        self.largest = self.largest.max(size);
        if let Some(rtt) = ack.rtt.filter(|_| size >= FULL * self.largest) {
            self.saw_rtt(ack.now, rtt);
            self.round.rtt = Some(self.round.rtt.map_or(rtt, |shortest| shortest.min(rtt)));
            self.round.rtts += rtt.as_secs_f64();
            self.round.samples += 1;
        }
        let own = |sent: Time| self.began.is_some_and(|began| sent >= began);
        if own(ack.lost_sent) && ack.lost_sent > self.answered {
            self.round.lost += u64::from(ack.lost.packets);
        }
        if ack.delivered.packets == 0 || !own(ack.delivered_sent) {
            return;
        }
        self.round.app_limited |= ack.app_limited;
        if self.round.began.is_none() {
            self.round.began = Some(ack.now);
            self.round.end = ack.total_delivered;
        } else {
            self.round.bytes += ack.delivered.bytes;
            self.round.packets += u64::from(ack.delivered.packets);
        }
        let over = ack.rate.is_none_or(|sample| sample.prior_delivered >= self.round.end);
        if over && self.round.packets >= ROUND_PACKETS {
            self.decide(ack.now);
            self.round = Round { end: ack.total_delivered, began: Some(ack.now), ..Round::default() };
        }
    }

    fn on_timeout(&mut self, _: &Timeout) {
        self.stage = Stage::Steady;
        self.after_loss = ROUNDS_AFTER_LOSS;
        let floor = self.min_rtt().map_or(0.0, |rtt| FLOOR_PACKETS * self.mss * 8.0 / rtt);
        self.slow_down((self.share / 2.0).max(floor));
        self.round = Round::default();
    }

    fn window(&self) -> u64 {
        let Some(min_rtt) = self.min_rtt() else {
            return (self.initial + LEAST_PACKETS * self.mss) as u64;
        };
        let bytes = self.share / 8.0;
        let wanted = match self.stage {
            Stage::Starting => MOST_PRODUCTS * bytes * min_rtt,
            Stage::Steady => bytes * (1.0 + self.more) * (min_rtt + self.scatter + self.target() * self.room),
            Stage::Draining | Stage::Looking { .. } => DRAIN * bytes * min_rtt,
        };
        let most = MOST_PRODUCTS * bytes * min_rtt;
        // A whole packet more or less matters where few are in flight.
        ((wanted.min(most) / self.mss).ceil().max(LEAST_PACKETS) * self.mss) as u64
    }

    fn pacing(&self) -> Option<Rate> {
        let factor = if self.after_loss > 0 { AFTER_LOSS } else { PACING + self.more };
        Some(Rate::from_bits_per_sec((self.share * factor) as u64))
    }

    fn burst(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn made_up(&self) -> Option<Duration> {
        (self.short > 0).then_some(Duration::ZERO)
    }

    fn ecn(&self) -> EcnUse {
        self.ecn
    }
}

#[cfg(test)]
mod tests {
    use super::Share;
    use crate::testing::{Fate, MSS, Path, random, setup};
    use crate::{Controller, EcnUse, Setup};
    use weir_core::{Duration, Rate};

    /// Packets of 1448 bytes per second in 10 Mbit/s.
    const TEN_MBIT: u64 = 863;

    fn knowing(mbit: f64) -> Share {
        let rate = Some(Rate::from_bits_per_sec((mbit * 1e6) as u64));
        Share::new(EcnUse::Off, &Setup { rate, ..setup() })
    }

    #[test]
    fn it_begins_at_the_rate_of_the_train_and_holds_a_packet_or_two() {
        let mut share = knowing(10.0);
        assert_eq!(share.pacing(), Some(Rate::from_bits_per_sec(9_996_000)));
        let mut path = Path::bottleneck(50, TEN_MBIT, 100);
        path.rate_over(&mut share, Duration::from_secs(2));
        (path.rtt_sum, path.rtt_count) = (0, 0);
        let rate = path.rate_over(&mut share, Duration::from_secs(30));
        assert!(rate > 0.97 * TEN_MBIT as f64, "{rate}");
        // A packet takes 1.2 ms; one is always on the link.
        assert!(path.mean_rtt() < 50.0 + 1.2 + 3.0, "{}", path.mean_rtt());
        assert_eq!(path.lost(), 0);
    }

    #[test]
    fn it_finds_its_rate_by_itself() {
        let mut share = Share::new(EcnUse::Off, &setup());
        let mut path = Path::bottleneck(40, 4 * TEN_MBIT, 200);
        path.rate_over(&mut share, Duration::from_secs(3));
        let rate = path.rate_over(&mut share, Duration::from_secs(5));
        assert!(rate > 0.95 * 4.0 * TEN_MBIT as f64, "{rate}");
    }

    #[test]
    fn a_buffer_of_one_packet_costs_little() {
        let mut share = knowing(20.0);
        let mut path = Path::bottleneck(50, 2 * TEN_MBIT, 1);
        let rate = path.rate_over(&mut share, Duration::from_secs(30));
        let loss = path.lost() as f64 / (path.lost() + path.delivered()) as f64;
        assert!(rate > 0.90 * 2.0 * TEN_MBIT as f64 && loss < 0.03, "{rate}, {loss} lost");
    }

    #[test]
    fn a_late_host_makes_up_for_nothing_after_a_loss() {
        let mut share = knowing(20.0);
        let mut path = Path::bottleneck(50, 2 * TEN_MBIT, 100);
        path.rate_over(&mut share, Duration::from_secs(2));
        assert_eq!((path.lost(), share.made_up()), (0, None));
        let mut path = Path::bottleneck(50, 2 * TEN_MBIT, 1);
        let mut share = knowing(20.0);
        path.rate_over(&mut share, Duration::from_secs(5));
        assert_eq!(share.made_up(), Some(Duration::ZERO), "{} lost", path.lost());
    }

    #[test]
    fn it_follows_a_share_that_halves_and_comes_back() {
        let mut share = knowing(20.0);
        let mut path = Path::bottleneck(30, 2 * TEN_MBIT, 200);
        path.rate_over(&mut share, Duration::from_secs(2));
        path.set_rate(TEN_MBIT);
        path.rate_over(&mut share, Duration::from_secs(2));
        (path.rtt_sum, path.rtt_count) = (0, 0);
        let rate = path.rate_over(&mut share, Duration::from_secs(5));
        assert!(rate > 0.95 * TEN_MBIT as f64, "{rate}");
        assert!(path.mean_rtt() < 30.0 + 6.0, "{}", path.mean_rtt());
        path.set_rate(2 * TEN_MBIT);
        path.rate_over(&mut share, Duration::from_secs(1));
        let rate = path.rate_over(&mut share, Duration::from_secs(3));
        assert!(rate > 0.93 * 2.0 * TEN_MBIT as f64, "{rate}");
    }

    #[test]
    fn scatter_is_no_queue() {
        for (rtt, tens, most) in [(20, 1, 4), (20, 10, 4), (50, 5, 8)] {
            let mut share = knowing(10.0 * tens as f64);
            let mut path = Path::bottleneck(rtt, tens * TEN_MBIT, 200).scattered(most);
            path.rate_over(&mut share, Duration::from_secs(5));
            (path.rtt_sum, path.rtt_count) = (0, 0);
            let rate = path.rate_over(&mut share, Duration::from_secs(20));
            let part = rate / (tens * TEN_MBIT) as f64;
            assert!(part > 0.85, "{part} of {tens}0 Mbit/s over {rtt} ms with up to {most} ms more");
            // A packet on the link, all the scatter, and a queue of 3 ms.
            let most = rtt as f64 + 1.2 + most as f64 + 3.0;
            assert!(path.mean_rtt() < most, "{} ms", path.mean_rtt());
        }
    }

    #[test]
    fn a_small_packet_of_the_handshake_shows_no_queue() {
        let mut path = Path::bottleneck(20, TEN_MBIT, 100).beginning_small();
        let mut share = Share::new(EcnUse::Off, &setup());
        path.rate_over(&mut share, Duration::from_secs(2));
        // A full packet takes 1.2 ms at the bottleneck.
        assert!(share.min_rtt().is_some_and(|rtt| rtt > 0.021), "{:?}", share.min_rtt());
    }

    #[test]
    fn it_answers_to_loss_but_not_to_half_a_percent() {
        let mut draws = random("loss");
        let mut share = knowing(10.0);
        let mut path = Path::bottleneck(40, TEN_MBIT, 50);
        let mut fate =
            |percent: u64| if draws.below(1000) < 10 * percent / 2 { Fate::Lost } else { Fate::Arrives };
        path.run(&mut share, Duration::from_secs(10), &mut || fate(1));
        let kept = path.delivered();
        assert!(kept as f64 > 0.85 * 10.0 * TEN_MBIT as f64, "{kept}");
        path.run(&mut share, Duration::from_secs(10), &mut || fate(40));
        assert!(
            (path.delivered() - kept) as f64 <= 0.5 * 10.0 * TEN_MBIT as f64,
            "{}",
            path.delivered() - kept
        );
    }

    #[test]
    fn one_percent_of_random_losses_takes_little_more() {
        for (rtt, tens) in [(10, 10), (40, 1), (100, 5)] {
            let mut draws = random("one percent");
            let mut share = knowing(10.0 * tens as f64);
            let mut path = Path::bottleneck(rtt, tens * TEN_MBIT, 100);
            path.run(&mut share, Duration::from_secs(20), &mut || {
                if draws.below(100) < 1 { Fate::Lost } else { Fate::Arrives }
            });
            let part = path.delivered() as f64 / (20 * tens * TEN_MBIT) as f64;
            assert!(part > 0.9, "{part} of {tens}0 Mbit/s over {rtt} ms");
        }
    }

    #[test]
    fn a_path_that_became_longer_is_no_queue_for_long() {
        let mut share = knowing(10.0);
        let mut path = Path::bottleneck(20, TEN_MBIT, 100);
        path.rate_over(&mut share, Duration::from_secs(5));
        path.set_rtt(40);
        path.rate_over(&mut share, Duration::from_secs(15));
        let rate = path.rate_over(&mut share, Duration::from_secs(5));
        assert!(rate > 0.95 * TEN_MBIT as f64, "{rate}");
    }

    #[test]
    fn what_is_in_flight_has_a_bound() {
        let mut share = knowing(10.0);
        let mut path = Path::bottleneck(50, TEN_MBIT, 100);
        path.rate_over(&mut share, Duration::from_secs(5));
        // A product of 10 Mbit/s and 51.2 ms, and what is to wait.
        let product = 10e6 / 8.0 * 0.0512;
        let window = share.window() as f64;
        assert!((product..1.1 * product).contains(&window), "{window}");
        let rate = share.pacing().unwrap();
        share.on_timeout(&path.timeout());
        let halved = share.pacing().unwrap().bits_per_sec() as f64 / rate.bits_per_sec() as f64;
        assert!((0.45..0.55).contains(&halved), "{halved}");
        assert!(share.window() >= u64::from(MSS));
    }
}
