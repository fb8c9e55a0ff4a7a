//! The receiving end: what has arrived, when it says so, and how it echoes marks.
//!
//! | source | here |
//! |---|---|
//! | delayed ACKs: every second packet or after a timeout (RFC 5681 section 4.2, RFC 9000 section 13.2.2) | [`ReceiverConfig`], with any number of packets for stretched ACKs |
//! | an ACK at once while there is a gap in the stream and when it is filled (RFC 5681 section 4.2), or a packet out of order (RFC 9000 section 13.2.1) | the same |
//! | SACK compression: beyond a gap three packets are reported one by one, then those of a millisecond or a third of the round trip together (the kernel's `__tcp_ack_snd_check`) | [`ReceiverConfig::compress`] |
//! | the kernel acknowledges packets one by one (quick ACKs): the first of a connection, those after a gap in time longer than its timeout (`tcp_event_data_recv`), and those after one that had arrived in order already (`tcp_data_queue`) | [`ReceiverConfig::quick`], [`ReceiverConfig::idle`] |
//! | classic ECN: ECE until CWR (RFC 3168 section 6.1.3) | [`Feedback::Classic`] |
//! | DCTCP: ECE gives the state of the packets acknowledged; a change sends what is held back, and acknowledges at once the packet that brought it (RFC 8257 section 3.2, `dctcp_ece_ack_update`) | [`Feedback::Dctcp`] |
//! | the kernel acknowledges a packet with CWR at once, for its sender may have a window of one packet (`tcp_ecn_accept_cwr`) | the same, with [`Feedback::Classic`] and [`Feedback::Dctcp`] |
//! | it acknowledges two packets at once from the first mark on that classic ECN has to echo (`tcp_data_ecn_check`) | not |
//! | generic receive offload: what comes within a time is taken, and acknowledged, together (the kernel's `gro_flush_timeout`; at most 64 kB, and not across a gap) | [`ReceiverConfig::gro`] |
//! | QUIC counts marks, and acknowledges each marked packet at once (RFC 9000 sections 13.4.1 and 13.2.1) | [`Feedback::Counted`] |
//! | accurate ECN counts marks, and acknowledges at once where marking begins (RFC 9768 section 3.2.2.5.1) or ends (the kernel's `tcp_ecn_received_counters`) | [`Feedback::AccEcn`] |

use weir_core::{Duration, Time};

use super::frame::{AckFrame, Arriving, Data, RANGES};
use super::notes::{Note, Notes};
use super::stream::Arrived;

/// How marks are reported to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Feedback {
    /// A mark is echoed until the sender says that it has answered (RFC 3168).
    #[default]
    Classic,
    /// Each acknowledgement says whether its packets were marked (RFC 8257).
    Dctcp,
    /// Each acknowledgement has the number of marked packets so far, each of which is acknowledged at once (RFC 9000).
    Counted,
    /// The same number, but only a packet is acknowledged at once that is marked unlike the one before it (RFC 9768).
    AccEcn,
}

/// Parameters of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// An acknowledgement for this many packets; at least 1. Two by default.
    pub every: u32,
    /// The longest that a packet waits for one. The kernel's shortest is 40 ms, QUIC's usual `max_ack_delay` 25 ms.
    pub delay: Duration,
    /// Packets that are acknowledged one by one: the first, those after nothing came for `idle`, and those after one
    /// that comes once more.
    pub quick: u32,
    /// The kernel's retransmission timeout of an end that sends no data: longer than the round trip by 200 ms, or by two
    /// more round trips if that is longer.
    pub idle: Duration,
    /// How long after a packet others are taken together with it before an acknowledgement goes out; zero for not at
    /// all.
    pub gro: Duration,
    /// How long packets beyond a gap wait to be reported together, after the first three of that gap (the kernel's SACK
    /// compression, `tcp_comp_sack_delay_ns`); zero for not at all.
    pub compress: Duration,
    /// How marks are reported.
    pub feedback: Feedback,
}

/// Packets beyond a gap that are reported one by one (`TCP_FASTRETRANS_THRESH`).
const TOLD_AT_ONCE: u32 = 3;
/// Packets that are reported together at most (`tcp_comp_sack_nr`).
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
            idle: Duration::from_millis(200),
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
        // A timeout from the one round trip that is measured, that of the handshake (RFC 6298 section 2.2).
        let idle = rtt + usual.idle.max(rtt * 2);
        Self { feedback, idle, compress: usual.compress.min(rtt.scale(COMPRESSION)), ..usual }
    }

    /// As RFC 9000 has it.
    pub(crate) fn quic(feedback: Feedback) -> Self {
        let delay = Duration::from_millis(25);
        Self { feedback, delay, quick: 0, compress: Duration::ZERO, ..Self::default() }
    }
}

/// What a packet asks of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// To be acknowledged with others.
    Plain,
    /// To be reported at once.
    Urgent,
    /// To be reported at once, with what is taken together with it.
    Told,
    /// To wait with others beyond a gap.
    Compressed,
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
    /// The gap beyond which packets were last reported one by one.
    gap: u64,
    /// How many were.
    beyond_gap: u32,
    /// Packets beyond it that wait to be reported.
    compressed: u32,
    ce: u64,
    echo: bool,
    /// Whether the newest packet was marked.
    newest_marked: bool,
    spin: bool,
    /// Packets from which on some are acknowledged one by one.
    quick_from: u64,
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
            gap: 0,
            beyond_gap: 0,
            compressed: 0,
            ce: 0,
            echo: false,
            newest_marked: false,
            spin: false,
            quick_from: 0,
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
        (self.echo, self.newest_marked) = (false, false);
        (self.spin, self.together) = (false, Time::ZERO);
        self.quick_from = self.packets;
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

    /// What it reports of marks now: whether it echoes one, and how many packets came with CE.
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

    /// Takes a packet. Returns whether an acknowledgement is to go out at once.
    #[inline]
    pub(crate) fn receive(&mut self, now: Time, packet: Arriving) -> bool {
        let Arriving { handle, segments, payload, size, marked, .. } = packet;
        if now.since(self.newest) > self.config.idle {
            self.quick_from = self.packets;
        }
        self.packets += u64::from(segments);
        self.waiting += u32::from(segments);
        self.newest = now;
        let quick = self.packets <= self.quick_from + u64::from(self.config.quick);
        let expected =
            Data { number: self.expected, sequence: self.stream.next(), reduced: false, spin: false };
        // Nearly all are: one segment, the next of the stream and of those sent, without news of marks.
        let plain = segments == 1
            && expected.is_packed_in(handle)
            && !(marked || self.newest_marked || self.echo || self.stream.has_gap() || self.notes.is_some());
        let order = if plain {
            self.spin = !Data::spin_of(handle);
            self.fresh = self.fresh.min(expected.number);
            self.note_number(expected.number);
            self.stream.insert(expected.sequence);
            self.bytes += u64::from(size.min(payload));
            Order::Plain
        } else {
            self.sort(packet, quick)
        };
        if order == Order::Compressed {
            self.due = self.due.min(now + self.config.compress);
            return false;
        }
        let enough = self.waiting >= self.config.every || quick || order == Order::Told;
        let alone = self.config.gro == Duration::ZERO || self.takes_alone(now, segments);
        if order == Order::Urgent || (enough && alone) {
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

    /// Whether a packet is taken without waiting for others (generic receive offload).
    fn takes_alone(&mut self, now: Time, segments: u16) -> bool {
        if now >= self.together {
            self.together = now + self.config.gro;
            self.taken = 0;
        }
        self.taken += u32::from(segments);
        self.taken >= GRO_SEGMENTS
    }

    /// Sorts the segments of any packet into what has arrived, and says what they ask for.
    #[inline(never)]
    fn sort(&mut self, packet: Arriving, quick: bool) -> Order {
        let Arriving { handle, segments, payload, size, marked, sent } = packet;
        let (data, count) = (self.read(handle), u64::from(segments));
        self.fresh = self.fresh.min(data.number);
        self.ce += if marked { count } else { 0 };
        let tells = match self.config.feedback {
            Feedback::Classic => {
                if data.reduced {
                    self.echo = false;
                }
                self.echo |= marked;
                data.reduced
            }
            Feedback::Dctcp => std::mem::replace(&mut self.echo, marked) != marked || data.reduced,
            Feedback::Counted => marked,
            Feedback::AccEcn => self.newest_marked != marked,
        };
        self.newest_marked = marked;
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
        if data.sequence + count <= before {
            self.quick_from = self.packets;
        }
        let next = self.stream.next();
        let beyond = self.stream.has_gap();
        let gap = if self.config.compress == Duration::ZERO {
            !in_order || data.sequence >= next || next > before + count
        } else {
            !news || had_gap || beyond
        };
        let may_wait = news && beyond && next <= before + count && !quick && !tells;
        if may_wait && self.config.compress > Duration::ZERO && self.compresses(next) {
            Order::Compressed
        } else if gap {
            Order::Urgent
        } else if !tells {
            Order::Plain
        } else {
            match self.config.feedback {
                Feedback::Classic | Feedback::Dctcp => Order::Urgent,
                Feedback::Counted | Feedback::AccEcn => Order::Told,
            }
        }
    }

    /// Whether a packet beyond the gap before `next` waits to be reported (`__tcp_ack_snd_check`).
    fn compresses(&mut self, next: u64) -> bool {
        if self.gap != next {
            (self.gap, self.beyond_gap) = (next, 0);
        }
        if self.beyond_gap < TOLD_AT_ONCE {
            self.beyond_gap += 1;
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
mod tests;
