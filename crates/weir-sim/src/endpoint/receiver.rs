//! The receiving end: what has arrived, when it says so, and how it echoes marks.
//!
//! | source | here |
//! |---|---|
//! | delayed ACKs: every second packet or after a timeout (RFC 5681 section 4.2, RFC 9000 section 13.2.2) | [`ReceiverConfig`], with any number of packets for stretched ACKs |
//! | an ACK at once while there is a gap in the stream and when it is filled (RFC 5681 section 4.2), or a packet out of order (RFC 9000 section 13.2.1) | the same |
//! | SACK compression: beyond a gap three packets are told of one by one, then those of a millisecond or a third of the round trip together (the kernel's `__tcp_ack_snd_check`) | [`ReceiverConfig::compress`] |
//! | the kernel acknowledges the first packets of a connection one by one (quick ACKs) | [`ReceiverConfig::quick`] |
//! | classic ECN: ECE until CWR (RFC 3168 section 6.1.3) | [`Feedback::Classic`] |
//! | DCTCP: ECE tells the state of the packets acknowledged; a change sends what is held back (RFC 8257 section 3.2) | [`Feedback::Dctcp`] |
//! | generic receive offload: what comes within a time is taken, and acknowledged, together (the kernel's `gro_flush_timeout`; at most 64 kB, and not across a gap) | [`ReceiverConfig::gro`] |
//! | QUIC's and accurate ECN's counts (RFC 9000 section 13.4.1, RFC 9768) | [`Feedback::Counted`] |

use weir_core::{Duration, Time};

use super::frame::{AckFrame, Arriving, Data, RANGES};
use super::notes::{Note, Notes};
use super::stream::Arrived;

/// How marks are told to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Feedback {
    /// A mark is echoed until the sender says that it has answered (RFC 3168).
    #[default]
    Classic,
    /// Each acknowledgement says whether its packets were marked (RFC 8257).
    Dctcp,
    /// Each acknowledgement has the number of marked packets so far (RFC 9000, RFC 9768).
    Counted,
}

/// Parameters of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// An acknowledgement for this many packets; at least 1. Two unless told.
    pub every: u32,
    /// The longest that a packet waits for one. The kernel's shortest is 40 ms, QUIC's usual `max_ack_delay` 25 ms.
    pub delay: Duration,
    /// Packets at the beginning that are acknowledged one by one.
    pub quick: u32,
    /// How long after a packet others are taken together with it before an acknowledgement goes out; zero for not at all.
    pub gro: Duration,
    /// How long packets beyond a gap wait to be told of together, after the first three of that gap (the kernel's SACK
    /// compression, `tcp_comp_sack_delay_ns`); zero for not at all.
    pub compress: Duration,
    /// How marks are told.
    pub feedback: Feedback,
}

/// Packets beyond a gap that are told of one by one (`TCP_FASTRETRANS_THRESH`).
const TOLD_AT_ONCE: u32 = 3;
/// Packets that are told of together at most (`tcp_comp_sack_nr`).
const COMPRESSED: u32 = 44;
/// The share of a round trip that they wait for at most (`tcp_comp_sack_rtt_percent`).
const COMPRESSION: f64 = 0.33;
/// Segments that are taken together at most: 64 kB.
const GRO_SEGMENTS: u32 = 45;

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self {
            every: 2,
            delay: Duration::from_millis(40),
            quick: 16,
            gro: Duration::ZERO,
            compress: Duration::from_millis(1),
            feedback: Feedback::Classic,
        }
    }
}

impl ReceiverConfig {
    /// A kernel's, on a path of this round trip.
    pub(crate) fn tcp(feedback: Feedback, rtt: Duration) -> Self {
        let usual = Self::default();
        Self { feedback, compress: usual.compress.min(rtt.scale(COMPRESSION)), ..usual }
    }

    /// As RFC 9000 has it.
    pub(crate) fn quic(feedback: Feedback) -> Self {
        let delay = Duration::from_millis(25);
        Self { feedback, delay, quick: 0, compress: Duration::ZERO, ..Self::default() }
    }
}

/// The receiving end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    config: ReceiverConfig,
    stream: Arrived,
    ranges: [(u64, u64); RANGES],
    /// The newest number that was received, and one.
    expected: u64,
    fresh: u64,
    index: u32,
    waiting: u32,
    /// When the newest packet came.
    newest: Time,
    /// An acknowledgement is due then, if packets wait for one.
    due: Time,
    /// What comes until then is taken together.
    together: Time,
    taken: u32,
    /// The gap that packets were last told of one by one for, and how many were.
    gap: (u64, u32),
    /// Packets beyond it that wait to be told of.
    compressed: u32,
    ce: u64,
    echo: bool,
    spin: bool,
    /// Packets from which on some are acknowledged one by one.
    opened: u64,
    notes: Option<Box<Notes>>,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

impl Receiver {
    pub(crate) fn new(config: ReceiverConfig) -> Self {
        Self {
            config: ReceiverConfig { every: config.every.max(1), ..config },
            stream: Arrived::default(),
            ranges: [(0, 0); RANGES],
            expected: 0,
            fresh: u64::MAX,
            index: 0,
            waiting: 0,
            newest: Time::ZERO,
            due: Time::MAX,
            together: Time::ZERO,
            taken: 0,
            gap: (0, 0),
            compressed: 0,
            ce: 0,
            echo: false,
            spin: false,
            opened: 0,
            notes: None,
            packets: 0,
            bytes: 0,
        }
    }

    /// From now on there is a note of what each acknowledgement says on the wire.
    pub(crate) fn keep_notes(&mut self) {
        self.notes = Some(Box::default());
    }

    /// A new connection on the same ports: numbers count on.
    pub(crate) fn reopen(&mut self) {
        (self.waiting, self.due, self.fresh) = (0, Time::MAX, u64::MAX);
        (self.echo, self.spin, self.together) = (false, false, Time::ZERO);
        self.opened = self.packets;
    }

    /// The note of an acknowledgement, if notes are kept.
    pub(crate) fn note(&mut self, index: u32) -> Note {
        self.notes.as_mut().map(|notes| notes.read(index)).unwrap_or_default()
    }

    /// What the receiver makes of a packet's numbers.
    #[inline]
    pub(crate) fn read(&self, handle: u64) -> Data {
        Data::unpack(handle, self.expected, self.stream.next())
    }

    /// The stream has arrived without a gap up to before this packet.
    pub(crate) fn next(&self) -> u64 {
        self.stream.next()
    }

    /// What it tells of marks now: whether it echoes one, and how many packets came with CE.
    pub(crate) fn marks(&self) -> (bool, u64) {
        (self.echo, self.ce)
    }

    /// When a packet that waits is acknowledged at the latest; [`Time::MAX`] if none waits.
    pub(crate) fn due(&self) -> Time {
        self.due
    }

    /// Whether what waits is to be acknowledged before a packet with this marking is taken (RFC 8257 section 3.2).
    pub(crate) fn tells_apart(&self, marked: bool) -> bool {
        self.config.feedback == Feedback::Dctcp && marked != self.echo && self.waiting > 0
    }

    /// Takes a packet. Tells whether an acknowledgement is to go out at once.
    #[inline]
    pub(crate) fn receive(&mut self, now: Time, packet: &Arriving) -> bool {
        let Arriving { data, segments, payload, size, marked, sent } = *packet;
        let count = u64::from(segments);
        self.packets += count;
        self.ce += if marked { count } else { 0 };
        match self.config.feedback {
            Feedback::Classic => {
                if data.reduced {
                    self.echo = false;
                }
                self.echo |= marked;
            }
            Feedback::Dctcp => self.echo = marked,
            Feedback::Counted => {}
        }
        let in_order = data.number == self.expected;
        if data.number >= self.expected {
            self.spin = !data.spin;
        }
        let (before, had_gap) = (self.stream.next(), self.stream.has_gap());
        let mut news = false;
        for segment in 0..count {
            self.note_number(data.number + segment);
            let new = self.stream.insert(data.sequence + segment);
            news |= new;
            if new {
                self.bytes += u64::from(size.min(payload.saturating_sub(segment as u32 * size)));
            }
            if let Some(notes) = &mut self.notes {
                let sequence = data.sequence + segment;
                notes.heard(sequence, !new, sent, self.stream.next() > sequence);
            }
        }
        self.fresh = self.fresh.min(data.number);
        self.waiting += u32::from(segments);
        self.newest = now;
        let next = self.stream.next();
        let counted = self.config.feedback == Feedback::Counted && marked;
        let quick = self.packets <= self.opened + u64::from(self.config.quick);
        let beyond = self.stream.has_gap();
        let gap = if self.config.compress == Duration::ZERO {
            !in_order || data.sequence >= next || next > before + count
        } else {
            !news || had_gap || beyond
        };
        let may_wait = news && beyond && next <= before + count && !quick && !counted;
        if may_wait && self.config.compress > Duration::ZERO && self.compresses(next) {
            self.due = self.due.min(now + self.config.compress);
            return false;
        }
        let enough = self.waiting >= self.config.every || quick;
        if now >= self.together {
            self.together = now + self.config.gro;
            self.taken = 0;
        }
        self.taken += u32::from(segments);
        if gap || counted || (enough && (now >= self.together || self.taken >= GRO_SEGMENTS)) {
            self.together = Time::ZERO;
            return true;
        }
        if enough {
            self.due = self.due.min(self.together);
        } else if self.due == Time::MAX {
            self.due = now + self.config.delay;
        }
        false
    }

    /// Whether a packet beyond the gap before `next` waits to be told of (`__tcp_ack_snd_check`).
    fn compresses(&mut self, next: u64) -> bool {
        if self.gap.0 != next {
            self.gap = (next, 0);
        }
        if self.gap.1 < TOLD_AT_ONCE {
            self.gap.1 += 1;
            return false;
        }
        self.compressed += 1;
        self.compressed < COMPRESSED
    }

    /// The acknowledgement for what waits.
    #[inline]
    pub(crate) fn acknowledge(&mut self, now: Time) -> AckFrame {
        if let Some(notes) = &mut self.notes {
            notes.write(self.index, &self.stream);
        }
        let frame = AckFrame {
            at: now,
            index: self.index,
            ranges: self.ranges,
            fresh: self.fresh,
            next: self.stream.next(),
            ce: self.ce,
            echo: self.echo,
            spin: self.spin,
            delay: now.since(self.newest),
        };
        self.index = self.index.wrapping_add(1);
        (self.waiting, self.compressed) = (0, 0);
        self.due = Time::MAX;
        self.fresh = u64::MAX;
        frame
    }

    /// Adds a packet number to the ranges; the oldest range is forgotten when there are too many.
    #[inline]
    fn note_number(&mut self, number: u64) {
        if number < self.expected {
            return self.note_late(number);
        }
        let newest = &mut self.ranges[0];
        if number == newest.1 {
            newest.1 += 1;
        } else {
            self.ranges.copy_within(0..RANGES - 1, 1);
            self.ranges[0] = (number, number + 1);
        }
        self.expected = number + 1;
    }

    /// Adds a number that newer ones have overtaken.
    #[cold]
    fn note_late(&mut self, number: u64) {
        // Next to a range that is known, or one of its own, which takes the place of the oldest.
        if self.ranges.iter().any(|(from, to)| (*from..*to).contains(&number)) {
            return;
        }
        let mut ranges = [(number, number + 1); RANGES + 1];
        ranges[..RANGES].copy_from_slice(&self.ranges);
        ranges.sort_unstable_by(|a, b| b.cmp(a));
        let mut last = 0;
        for at in 1..ranges.len() {
            let (from, to) = ranges[at];
            if from == to {
                break;
            }
            if ranges[last].0 <= to {
                ranges[last].0 = ranges[last].0.min(from);
            } else {
                last += 1;
                ranges[last] = (from, to);
            }
        }
        ranges[last + 1..].fill((0, 0));
        self.ranges.copy_from_slice(&ranges[..RANGES]);
    }
}

#[cfg(test)]
mod tests {
    use super::{AckFrame, Arriving, Data, Duration, Feedback, Receiver, ReceiverConfig, Time};

    fn data(number: u64, sequence: u64) -> Data {
        Data { number, sequence, reduced: false, spin: false }
    }

    fn config(feedback: Feedback) -> ReceiverConfig {
        ReceiverConfig { quick: 0, feedback, ..ReceiverConfig::default() }
    }

    fn acks(receiver: &mut Receiver, at: u64, data: Data, marked: bool) -> Vec<(u64, u64, bool)> {
        burst(receiver, at, data, 1, 1000, marked)
    }

    fn burst(
        receiver: &mut Receiver,
        at: u64,
        data: Data,
        segments: u16,
        payload: u32,
        marked: bool,
    ) -> Vec<(u64, u64, bool)> {
        let mut out = Vec::new();
        let now = Time::from_nanos(at);
        let packet = Arriving { data, segments, payload, size: 1000, marked, sent: now };
        let mut reply = |ack: AckFrame| out.push((ack.ranges[0].1, ack.next, ack.echo));
        if receiver.tells_apart(marked) {
            reply(receiver.acknowledge(now));
        }
        if receiver.receive(now, &packet) {
            reply(receiver.acknowledge(now));
        }
        out
    }

    #[test]
    fn every_second_packet_and_at_once_after_a_gap() {
        let mut receiver = Receiver::new(config(Feedback::Classic));
        assert_eq!(acks(&mut receiver, 0, data(0, 0), false), []);
        assert_eq!(receiver.due(), Time::ZERO + Duration::from_millis(40));
        assert_eq!(acks(&mut receiver, 1, data(1, 1), false), [(2, 2, false)]);
        assert_eq!(receiver.due(), Time::MAX);
        // Packet 2 is lost; each that follows is acknowledged until it has come again.
        assert_eq!(acks(&mut receiver, 2, data(3, 3), false), [(4, 2, false)]);
        assert_eq!(acks(&mut receiver, 3, data(4, 4), false), [(5, 2, false)]);
        assert_eq!(acks(&mut receiver, 4, data(5, 2), false), [(6, 5, false)]);
        assert_eq!((receiver.bytes, receiver.packets), (5000, 5));
        assert_eq!(acks(&mut receiver, 5, data(6, 5), false), []);
    }

    #[test]
    fn a_super_packet_is_acknowledged_once_and_its_mark_counts_for_all_segments() {
        let mut receiver = Receiver::new(config(Feedback::Counted));
        assert_eq!(burst(&mut receiver, 0, data(0, 0), 10, 9_400, false), [(10, 10, false)]);
        assert_eq!((receiver.packets, receiver.bytes, receiver.ce), (10, 9_400, 0));
        assert_eq!(burst(&mut receiver, 1, data(10, 10), 3, 3_000, true), [(13, 13, false)]);
        assert_eq!(receiver.ce, 3);
        // Again, for nothing.
        assert_eq!(burst(&mut receiver, 2, data(13, 9), 2, 2_000, false).len(), 1);
        assert_eq!(receiver.bytes, 12_400);
    }

    #[test]
    fn what_comes_close_together_is_acknowledged_together() {
        let gro = Duration::from_micros(50);
        let mut receiver = Receiver::new(ReceiverConfig { gro, ..config(Feedback::Classic) });
        for number in 0..5 {
            assert_eq!(acks(&mut receiver, number * 1_000, data(number, number), false), []);
        }
        assert_eq!(receiver.due(), Time::from_nanos(50_000));
        assert_eq!(receiver.acknowledge(receiver.due()).next, 5);
        // One alone still waits for a second, or for its delay.
        assert_eq!(acks(&mut receiver, 60_000, data(5, 5), false), []);
        assert_eq!(receiver.due(), Time::from_nanos(40_060_000));
        assert_eq!(acks(&mut receiver, 70_000, data(6, 6), false), []);
        assert_eq!(receiver.due(), Time::from_nanos(110_000));
        // A gap is told at once.
        assert_eq!(acks(&mut receiver, 80_000, data(8, 8), false), [(9, 7, false)]);
    }

    #[test]
    fn beyond_a_gap_packets_are_told_of_together_after_the_first_three() {
        let mut receiver = Receiver::new(config(Feedback::Classic));
        assert_eq!(acks(&mut receiver, 0, data(0, 0), false), []);
        // Packet 1 is lost. The first acknowledgement tells of packet 0 as well.
        for number in 2..5 {
            assert_eq!(acks(&mut receiver, number, data(number, number), false), [(number + 1, 1, false)]);
        }
        assert_eq!(acks(&mut receiver, 5, data(5, 5), false), []);
        assert_eq!(receiver.due(), Time::from_nanos(1_000_005));
        assert_eq!(acks(&mut receiver, 600_000, data(6, 6), false), []);
        // The second does not put it off.
        assert_eq!(receiver.due(), Time::from_nanos(1_000_005));
        assert_eq!(receiver.acknowledge(receiver.due()).ranges[0], (2, 7));
        // Packet 8 is lost too: the gap is the same. It is told of at once that it moves.
        assert_eq!(acks(&mut receiver, 2_000_000, data(8, 8), false), []);
        assert_eq!(acks(&mut receiver, 2_000_001, data(9, 1), false), [(10, 7, false)]);
        for number in 10..14 {
            let told = acks(&mut receiver, 2_100_000, data(number, number - 1), false).len();
            assert_eq!(told, usize::from(number < 13));
        }
        assert_eq!(receiver.due(), Time::from_nanos(3_100_000));
        // It is filled, and that ends the waiting.
        assert_eq!(acks(&mut receiver, 2_200_000, data(14, 7), false), [(15, 13, false)]);
        assert_eq!(receiver.due(), Time::MAX);
    }

    #[test]
    fn a_short_path_waits_for_a_third_of_its_round_trip_and_quic_not_at_all() {
        let compress =
            |micros| ReceiverConfig::tcp(Feedback::Classic, Duration::from_micros(micros)).compress;
        assert_eq!((compress(100), compress(20_000)), (Duration::from_micros(33), Duration::from_millis(1)));
        let mut receiver = Receiver::new(ReceiverConfig::quic(Feedback::Counted));
        for number in 1..8 {
            assert_eq!(acks(&mut receiver, number, data(number, number), false).len(), 1);
        }
    }

    #[test]
    fn classic_marks_are_echoed_until_answered() {
        let mut receiver = Receiver::new(ReceiverConfig { every: 1, ..config(Feedback::Classic) });
        assert_eq!(acks(&mut receiver, 0, data(0, 0), true), [(1, 1, true)]);
        assert_eq!(acks(&mut receiver, 1, data(1, 1), false), [(2, 2, true)]);
        let answer = Data { reduced: true, ..data(2, 2) };
        assert_eq!(acks(&mut receiver, 2, answer, false), [(3, 3, false)]);
    }

    #[test]
    fn dctcp_tells_marked_packets_from_others() {
        let mut receiver = Receiver::new(config(Feedback::Dctcp));
        assert_eq!(acks(&mut receiver, 0, data(0, 0), false), []);
        // The packet that was held back is acknowledged without the echo.
        assert_eq!(acks(&mut receiver, 1, data(1, 1), true), [(1, 1, false)]);
        assert_eq!(acks(&mut receiver, 2, data(2, 2), true), [(3, 3, true)]);
        assert_eq!(acks(&mut receiver, 3, data(3, 3), false), []);
    }

    #[test]
    fn reordered_packets_join_their_ranges() {
        let mut receiver = Receiver::new(config(Feedback::Counted));
        for number in [0, 1, 5, 3, 2, 4] {
            acks(&mut receiver, number, data(number, number), false);
        }
        let ack = receiver.acknowledge(Time::from_nanos(9));
        assert_eq!((ack.ranges, ack.next), ([(0, 6), (0, 0), (0, 0), (0, 0)], 6));
        // More gaps than ranges: the oldest is forgotten, and what comes again changes nothing.
        for number in [10, 20, 30, 40, 25, 25, 31] {
            acks(&mut receiver, number, data(number, number), false);
        }
        let ack = receiver.acknowledge(Time::from_nanos(99));
        assert_eq!(ack.ranges, [(40, 41), (30, 32), (25, 26), (20, 21)]);
    }
}
