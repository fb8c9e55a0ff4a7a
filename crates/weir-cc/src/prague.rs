//! TCP Prague: DCTCP for the Internet's L4S service. Its window has a fraction, it goes on growing while it reduces, it
//! paces, and on round trips below 25 ms it comes to grow no faster than at 25 ms.
//!
//! | `tcp_prague.c` 0.6 (L4STeam/linux), the later one | here |
//! |---|---|
//! | alpha of 2^20 kept 16 times as large (gain 1/16), begins at 1, from the first mark on updated once per round trip, and not before the target has passed when independent of the round trip | the same |
//! | a mark (in Open) reduces by alpha / 2 without bias, at most once per round trip, or target | the same |
//! | every unmarked packet grows the window, also while reducing: `ai / cwnd`, ai = (rtt / 25 ms)^2 after 500 rounds below 25 ms (`RTT_CONTROL_RATE`), else 1 | the same |
//! | the integer window follows its fractional one by a step per acknowledgement; each step down ends slow start | the same; slow start moves both |
//! | a step down from 2 packets (`MIN_CWND`) sets both windows to 2 | the same |
//! | a loss halves, and stops growth until recovered; so does a timeout, unless what had been sent when marks or losses were last answered is still missing (`tcp_enter_loss`) | the same |
//! | pacing at 100 % of the fractional window per round trip, of whole packets with headers; 200 % in slow start's first half | of payload (3.5 % less), at least 2 packets; the same in slow start |
//! | bursts of 2^-12 s at that rate, at least `tcp_min_tso_segs`, 2 (one packet until 2020, and in UDP Prague) | the same; the least number is the transport's |
//! | 0.7's rate in place of the window when independent of the round trip, 3 % lower and higher alternately | none |
//! | fallback to classic ECN (off by default), Reno without AccECN | none |
//!
//! | 0.6 in 2022 and still in March 2023 ([`PragueVersion::Whole`]) | here |
//! |---|---|
//! | the window is whole packets; what it has grown and shrunk since its last step is kept apart, and makes a step by one packet when it comes to one (`cwnd_cnt`) | the same |
//! | a mark reduces by alpha / 2 of the whole window, growth is per whole window | the same |
//! | unmarked packets in slow start grow the window, and a reduction waits | the same |
//! | after a timeout the window is 1; the first acknowledgement makes it 2, but where the timeout comes while marks or losses are still being answered, of which no controller is told anew (`tcp_enter_loss`) | the same |
//! | pacing at 100 % of the whole window, or of what is in flight if that is more, of packets with headers | the same, with headers of 52 bytes (IPv4 and time stamps) |

use weir_core::{Duration, Rate, Time};

use crate::bbr::micros_of;
use crate::episode::{Episode, State};
use crate::window::NO_THRESHOLD;
use crate::{Ack, Controller, EcnUse, Setup, Timeout};

/// alpha and the window have this many binary digits after the point.
const BITS: u32 = 20;
const ONE: u64 = 1 << BITS;
/// The gain is 1/16.
const SHIFT: u32 = 4;
const MINIMUM: u32 = 2;
/// `prague_burst_shift`: 2^-12 s.
const BURST: Duration = Duration::from_nanos(1_000_000_000 >> 12);
/// The largest window, in packets.
const LARGEST: u32 = 1 << 26;
/// Above this round-trip time growth is never scaled, in microseconds.
const MAX_SCALED_US: u64 = 100_000;

/// Bytes of an IPv4 header and a TCP header with time stamps.
const HEADERS: u32 = 52;

/// How the window has its fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PragueVersion {
    /// Whole packets, and a step of one when growth and cuts since the last step add up to one, as in `tcp_prague.c`
    /// in 2022. So the window follows up to two packets late, and swings by more.
    Whole,
    /// A fractional window, which is also what is paced, and the next whole number above it, as in later ones.
    #[default]
    Fractional,
}

/// How Prague depends on the round-trip time, and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PragueParams {
    /// How the window has its fraction.
    pub version: PragueVersion,
    /// Shorter round trips grow as if they were this long: 25 ms; zero for no such rule. (15 ms in the versions of
    /// 2020.)
    pub target: Duration,
    /// Rounds after slow start from which on that holds: 500.
    pub transition: u32,
}

impl Default for PragueParams {
    fn default() -> Self {
        Self { version: PragueVersion::default(), target: Duration::from_millis(25), transition: 500 }
    }
}

/// TCP Prague.
#[derive(Clone, Debug)]
pub struct Prague {
    params: PragueParams,
    mss: u32,
    episode: Episode,
    window: u32,
    threshold: u32,
    /// The window with its fraction, times 2^20: in the version of whole packets with what waits for the next step, and
    /// so below zero after a timeout.
    exact: i64,
    /// Payload bytes in flight.
    in_flight: u64,
    /// 16 alpha, times 2^20.
    alpha: u64,
    alpha_at: Time,
    reduced_at: Option<Time>,
    seen_mark: bool,
    in_loss: bool,
    delivered: u64,
    marked: u64,
    round_end: u64,
    rounds: u32,
    /// Growth per window of unmarked packets, times 2^20.
    increase: u64,
    smoothed: Duration,
}

/// So many packets, times 2^20.
fn packets(count: u32) -> i64 {
    i64::from(count) << BITS
}

impl Prague {
    /// A connection that begins.
    pub fn new(params: PragueParams, setup: &Setup) -> Self {
        let window = setup.initial_window.max(1);
        Self {
            params,
            mss: setup.mss.max(1),
            episode: Episode::default(),
            window,
            threshold: NO_THRESHOLD,
            exact: packets(window),
            in_flight: 0,
            alpha: ONE << SHIFT,
            alpha_at: Time::ZERO,
            reduced_at: None,
            seen_mark: false,
            in_loss: false,
            delivered: 0,
            marked: 0,
            round_end: 0,
            rounds: 0,
            increase: ONE,
            smoothed: Duration::ZERO,
        }
    }

    /// The estimate of the share of marked packets, times 2^20.
    pub const fn alpha(&self) -> u64 {
        self.alpha >> SHIFT
    }

    fn is_whole(&self) -> bool {
        self.params.version == PragueVersion::Whole
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    fn is_independent(&self) -> bool {
        self.params.target > Duration::ZERO && !self.in_slow_start() && self.rounds >= self.params.transition
    }

    fn update_increase(&mut self) {
        let (rtt, target) = (micros_of(self.smoothed), micros_of(self.params.target));
        let scaled = self.is_independent() && rtt > 0 && rtt <= MAX_SCALED_US && rtt < target;
        self.increase = if scaled {
            (u128::from(rtt * rtt) << BITS).saturating_add(u128::from(target * target / 2)) as u64
                / (target * target)
        } else {
            ONE
        };
    }

    fn reduce(&mut self, now: Time) {
        if self.is_independent() && self.reduced_at.is_some_and(|at| now.since(at) < self.params.target) {
            return;
        }
        self.reduced_at = Some(now);
        let of = if self.is_whole() { packets(self.window) } else { self.exact };
        let cut = i128::from(self.alpha()) * i128::from(of) + i128::from(ONE);
        self.exact -= (cut >> (BITS + 1)) as i64;
    }

    fn lose(&mut self) {
        self.exact -= self.exact >> 1;
        self.in_loss = true;
    }

    /// Grows by the unmarked packets; false if slow start has used them all.
    fn grow(&mut self, ack: &Ack) -> bool {
        let mut clean = ack.delivered.packets.saturating_sub(ack.ce.packets);
        if clean == 0 || self.in_loss || !ack.window_limited {
            return true;
        }
        if self.in_slow_start() {
            let grown = self.window.saturating_add(clean).min(self.threshold).min(LARGEST);
            clean -= clean.min(grown - self.window);
            self.exact += packets(grown - self.window);
            self.window = grown;
        }
        if clean > 0 {
            let window = if self.is_whole() { u64::from(self.window) } else { self.whole() };
            let by = u64::from(clean) * self.increase + window / 2;
            let by = (by / window).max(u64::from(clean));
            self.exact = (self.exact + by as i64).min(packets(LARGEST));
        }
        clean > 0
    }

    /// The fractional window rounded up, at least 1.
    fn whole(&self) -> u64 {
        u64::try_from(self.exact).unwrap_or(0).div_ceil(ONE).max(1)
    }

    /// A step of one packet, once growth or cuts have come to one.
    fn step(&mut self) {
        if self.exact <= packets(self.window) - packets(1) {
            self.window -= 1;
            if self.window < MINIMUM {
                self.window = MINIMUM;
                self.exact = packets(MINIMUM);
            }
            self.threshold = self.window;
        } else if self.exact >= packets(self.window + 1) {
            self.window += 1;
        } else {
            return;
        }
        self.update_increase();
    }

    fn follow(&mut self) {
        let wanted = self.whole();
        if self.window <= MINIMUM && wanted < u64::from(MINIMUM) {
            // A step below the minimum forgets what was cut beyond it, so that the first clean packets count.
            self.exact = packets(MINIMUM);
        } else if u64::from(self.window) > wanted && self.window > MINIMUM {
            self.window -= 1;
            self.threshold = self.window;
        } else if u64::from(self.window) < wanted {
            self.window += 1;
        }
    }

    fn update_alpha(&mut self, ack: &Ack) {
        let passed = !self.is_independent() || ack.now.since(self.alpha_at) >= self.params.target;
        if ack.una < self.round_end || !passed {
            return;
        }
        if self.seen_mark {
            let share = (self.marked << BITS) / self.delivered.max(1);
            self.alpha = (self.alpha - (self.alpha >> SHIFT) + share).min(ONE << SHIFT);
            self.alpha_at = ack.now;
        }
        (self.delivered, self.marked, self.round_end) = (0, 0, ack.next);
        if !self.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
        self.update_increase();
    }
}

impl Controller for Prague {
    fn name(&self) -> &'static str {
        match self.params.version {
            PragueVersion::Whole => "prague-2022",
            PragueVersion::Fractional => "prague",
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.smoothed = ack.smoothed_rtt;
        self.delivered += u64::from(ack.delivered.packets);
        self.marked += u64::from(ack.ce.packets);
        self.seen_mark |= ack.ce.packets > 0;
        let recovers = self.episode.on_ack(ack, ack.ce.packets > 0);
        if self.episode.ended() {
            self.in_loss = false;
        }
        match self.episode.state() {
            State::Recovery if recovers => self.lose(),
            State::Cwr if self.episode.began(ack) => self.reduce(ack.now),
            _ => {}
        }
        let done = self.grow(ack);
        match self.params.version {
            PragueVersion::Whole if done => self.step(),
            PragueVersion::Whole => {}
            PragueVersion::Fractional => self.follow(),
        }
        self.in_flight = ack.in_flight;
        self.update_alpha(ack);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if self.episode.on_timeout(timeout) {
            self.lose();
        }
        if self.is_whole() {
            self.exact += packets(1) - packets(self.window);
        }
        self.window = 1;
    }

    fn window(&self) -> u64 {
        u64::from(self.window) * u64::from(self.mss)
    }

    fn pacing(&self) -> Option<Rate> {
        if self.smoothed == Duration::ZERO {
            return None;
        }
        // Bytes of a round trip, times 2^20.
        let bytes = match self.params.version {
            PragueVersion::Whole => {
                let window = u128::from(self.window().max(self.in_flight)) << BITS;
                window * u128::from(self.mss + HEADERS) / u128::from(self.mss)
            }
            PragueVersion::Fractional => {
                let exact = u64::try_from(self.exact.max(packets(MINIMUM))).unwrap_or(0);
                u128::from(exact) * u128::from(self.mss)
            }
        };
        let bits = bytes * 8 * 1_000_000_000 / u128::from(self.smoothed.as_nanos());
        let bits = bits >> BITS;
        let twice = self.window < self.threshold / 2;
        let bits = if twice { bits * 2 } else { bits };
        Some(Rate::from_bits_per_sec(bits.min(u128::from(u64::MAX)) as u64))
    }

    fn burst(&self) -> Option<Duration> {
        Some(BURST)
    }

    fn ecn(&self) -> EcnUse {
        EcnUse::Scalable
    }
}

#[cfg(test)]
mod tests {
    use super::{Episode, ONE, Prague, PragueParams, PragueVersion, packets};
    use crate::testing::{Fate, Path, setup};
    use crate::{Controller, Timeout};
    use weir_core::{Duration, Ecn, Time};

    #[test]
    fn the_cut_is_half_of_alpha_and_unbiased() {
        let mut prague = Prague::new(PragueParams::default(), &setup());
        prague.exact = packets(100);
        prague.alpha = (ONE / 10) << 4;
        prague.reduce(Time::from_nanos(1));
        // 5 packets off, to a rounding error of alpha.
        assert!((prague.exact as f64 / ONE as f64 - 95.0).abs() < 1e-4);
        prague.lose();
        assert!((prague.exact as f64 / ONE as f64 - 47.5).abs() < 1e-4);
        assert_eq!(prague.ecn().codepoint(), Ecn::Ect1);
    }

    #[test]
    fn a_recovery_is_over_though_a_mark_comes_with_its_end() {
        let mut prague = Prague::new(PragueParams::default(), &setup());
        let mut path = Path::grown(&mut prague);
        path.round(&mut prague, |index| index == 0);
        assert!(prague.in_loss);
        for _ in 0..3 {
            path.marked_round(&mut prague, |_| false, |_| true);
        }
        assert!(!prague.in_loss, "{:?}", prague.episode);
    }

    #[test]
    fn two_packets_a_round_trip_are_left_where_all_are_marked() {
        let mut prague = Prague::new(PragueParams::default(), &setup());
        let mut path = Path::new(20);
        for _ in 0..200 {
            path.marked_round(&mut prague, |_| false, |_| true);
            assert!(prague.window >= 2 && prague.exact > packets(1), "{} {}", prague.window, prague.exact);
        }
        assert_eq!(prague.window, 2);
        let mut packets = |rounds: u32| {
            (0..rounds).map(|_| path.marked_round(&mut prague, |_| false, |_| false)).sum::<usize>()
        };
        let first = packets(1);
        assert!((2..=3).contains(&first), "{first}");
        // Once the marks end, it grows by a packet a round trip from there.
        let later = packets(10);
        assert!((50..=90).contains(&later), "{later}");
    }

    #[test]
    fn short_round_trips_grow_with_the_square_after_the_transition() {
        let mut prague = Prague::new(PragueParams::default(), &setup());
        prague.threshold = 5;
        prague.smoothed = Duration::from_millis(5);
        prague.update_increase();
        assert_eq!(prague.increase, ONE);
        prague.rounds = 500;
        prague.update_increase();
        // (5 / 25)^2.
        assert_eq!(prague.increase, (ONE as f64 / 25.0).round() as u64);
        prague.smoothed = Duration::from_millis(40);
        prague.update_increase();
        assert_eq!(prague.increase, ONE);
    }

    fn whole() -> Prague {
        let params = PragueParams { version: PragueVersion::Whole, ..PragueParams::default() };
        let mut prague = Prague::new(params, &setup());
        prague.threshold = prague.window;
        prague
    }

    #[test]
    fn whole_packets_step_when_a_packet_has_come_together() {
        let mut prague = whole();
        let first = prague.window;
        // In quarters of a packet: growth and cuts below one packet together make no step.
        for (by, window) in
            [(3, first), (-3, first), (-3, first), (-1, first - 1), (3, first - 1), (1, first)]
        {
            prague.exact += by * packets(1) / 4;
            prague.step();
            assert_eq!(prague.window, window, "{by}");
        }
    }

    #[test]
    fn whole_packets_are_cut_and_paced_as_such() {
        let mut prague = whole();
        prague.window = 100;
        prague.exact = packets(100) + (ONE / 2) as i64;
        prague.alpha = (ONE / 10) << 4;
        prague.smoothed = Duration::from_millis(10);
        let rate = |prague: &Prague| prague.pacing().unwrap().bits_per_sec();
        // Of the whole window with headers, whatever waits for the next step.
        assert_eq!(rate(&prague), u64::from(prague.mss + 52) * 100 * 8 * 100);
        prague.in_flight = 110 * u64::from(prague.mss);
        assert_eq!(rate(&prague), u64::from(prague.mss + 52) * 110 * 8 * 100);
        prague.reduce(Time::from_nanos(1));
        assert!((prague.exact as f64 / ONE as f64 - 95.5).abs() < 1e-4);
        assert_eq!(prague.window, 100);
    }

    #[test]
    fn whole_packets_are_two_again_with_the_first_acknowledgement_after_a_timeout() {
        let mut prague = whole();
        prague.on_timeout(&Timeout { now: Time::from_nanos(1), in_flight: 0, next: 0 });
        assert_eq!(prague.window, 1);
        prague.step();
        assert_eq!((prague.window, prague.exact), (2, packets(2)));
    }

    #[test]
    fn whole_packets_stay_one_after_a_timeout_while_a_mark_is_answered() {
        let mut prague = whole();
        let mut path = Path::new(20);
        for _ in 0..40 {
            path.marked_round(&mut prague, |_| false, |_| true);
        }
        assert_eq!(prague.window, 2);
        // The first of two is marked, and the second still missing.
        path.step(&mut prague, &mut || Fate::Marked);
        let before = prague.clone();
        for (answers, window) in [(true, 1), (false, 2)] {
            let mut prague = before.clone();
            if !answers {
                prague.episode = Episode::default();
            }
            prague.exact = packets(2);
            prague.on_timeout(&Timeout { now: Time::from_nanos(1), in_flight: 0, next: 0 });
            prague.step();
            assert_eq!(prague.window, window, "{answers}");
        }
    }

    #[test]
    fn whole_packets_in_slow_start_wait_with_a_cut_for_packets_that_are_all_marked() {
        let mut prague = whole();
        prague.threshold = u32::MAX;
        prague.reduce(Time::from_nanos(1));
        let mut path = Path::new(20);
        path.marked_round(&mut prague, |_| false, |_| false);
        let grown = prague.window;
        assert_eq!(grown, 2 * setup().initial_window);
        path.marked_round(&mut prague, |_| false, |_| true);
        assert!(prague.window < grown && prague.threshold == prague.window, "{grown} {}", prague.window);
    }

    #[test]
    fn on_a_step_the_link_is_full_with_a_short_queue() {
        let cells = [(10, 25), (10, 0), (40, 25)];
        let versions = [PragueVersion::Whole, PragueVersion::Fractional];
        for ((rtt_ms, target), version) in
            versions.iter().flat_map(|version| cells.map(|cell| (cell, *version)))
        {
            let params =
                PragueParams { version, target: Duration::from_millis(target), ..PragueParams::default() };
            let mut prague = Prague::new(params, &setup());
            // 100 Mbit/s of full packets, marks from 1 ms on.
            let mut path = Path::bottleneck(rtt_ms, 8_633, 1000).marking_from(9);
            path.rate_over(&mut prague, Duration::from_secs(20));
            (path.rtt_sum, path.rtt_count) = (0, 0);
            let rate = path.rate_over(&mut prague, Duration::from_secs(10));
            let queue_ms = path.mean_rtt() - rtt_ms as f64;
            assert!(rate > 0.95 * 8_633.0, "{rtt_ms} {target}: {rate}");
            assert!((0.1..2.0).contains(&queue_ms), "{rtt_ms} {target}: {queue_ms}");
            assert_eq!(path.lost(), 0);
        }
    }
}
