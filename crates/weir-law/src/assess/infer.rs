//! Finds the congestion signals that a capture shows of TCP: losses from sequence numbers, and marks from the receiver's
//! echo. Nobody at the bottleneck tells; it is inferred, as tcptrace and Wireshark do, but with the question of where the
//! capture point is kept open:
//!
//! - After the bottleneck a loss is a hole in sequence space that a retransmission fills later. It belongs to the packet
//!   that showed the hole.
//! - Before the bottleneck a loss is the second transmission of bytes that were seen. It belongs to the packet that
//!   carried them the time before.
//!
//! Not losses are: a hole that fills at once or by an older packet (reordering), bytes sent again that were acknowledged
//! (keep-alives, spurious retransmissions), those that the receiver reports as duplicates (DSACK, RFC 2883), and copies
//! that the capture made, at once or on another interface. Since the packet that a loss belongs to is known only later, signals are kept by packet number.

use std::collections::{BTreeMap, VecDeque};

use weir_core::{Duration, Time};

use super::tcp::{Handshake, TcpOptions};
use crate::parsed::Tcp;

/// Unacknowledged segments that are remembered per direction.
const MAX_SEGMENTS: usize = 16_384;
/// Holes that are remembered per direction.
const MAX_HOLES: usize = 1_024;
/// Repairs that a later DSACK can take back.
const MAX_REPAIRS: usize = 1_024;
/// Packets with signals per direction.
const MAX_SIGNALLED: usize = 1 << 20;
/// A jump in sequence space that no window allows (RFC 7323 section 2.3): the capture has missed something.
const MAX_JUMP: u64 = 1 << 30;
/// Copies of a packet that come within this time were made by the capture, where no round trip is known.
const COPY_TIME: Duration = Duration::from_millis(1);
/// Bytes per segment where no SYN told: 1500 less headers.
const DEFAULT_MSS: u32 = 1_460;

/// What one packet turned out to mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Signalled {
    /// Segments that were lost with it.
    pub(super) losses: u32,
    /// Marks that it got behind the capture point.
    pub(super) marks: u32,
    /// It is the capture's copy of a packet.
    pub(super) copy: bool,
    /// It opens a new connection on used addresses and ports.
    pub(super) opens: bool,
}

/// What was seen of losses and their look-alikes in one direction. Counts are segments unless they say packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LossEvidence {
    /// Holes filled by a retransmission: lost before the capture point.
    pub before_capture_point: u64,
    /// Bytes seen twice: lost behind the capture point.
    pub after_capture_point: u64,
    /// Marks behind the capture point that the receiver's ECE told of.
    pub marks_by_echo: u64,
    /// Packets that filled a hole out of order; no loss.
    pub reordered: u64,
    /// Retransmissions of what had arrived, keep-alives among them; no loss.
    pub needless: u64,
    /// Bytes that were acknowledged but never captured.
    pub missed_bytes: u64,
    /// Segments, holes and signals that were forgotten because there were too many.
    pub forgotten: u64,
}

/// A TCP segment at the capture point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) packet: u64,
    pub(super) time: Time,
    pub(super) interface: u32,
    pub(super) tcp: &'a Tcp,
    pub(super) options: &'a TcpOptions,
    pub(super) payload: u32,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    start: u64,
    end: u64,
    packet: u64,
    time: Time,
    tsval: Option<u32>,
    interface: u32,
    again: bool,
    sacked: bool,
}

#[derive(Clone, Copy, Debug)]
struct Hole {
    start: u64,
    end: u64,
    packet: u64,
    time: Time,
    tsval: Option<u32>,
    /// Packets of this direction before it.
    passed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Repair {
    start: u64,
    end: u64,
    packet: u64,
    losses: u32,
    after: bool,
}

/// One direction's sequence space.
#[derive(Debug, Default)]
struct Side {
    isn: Option<u32>,
    started: bool,
    /// Right edge of what was sent, counted on through wraps.
    next: u64,
    acked: u64,
    sent: VecDeque<Sent>,
    holes: Vec<Hole>,
    repairs: VecDeque<Repair>,
    packets: u64,
    mss: Option<u16>,
    shortest_ack: Option<Duration>,
    echoing: bool,
    signalled: BTreeMap<u64, Signalled>,
    evidence: LossEvidence,
    echo_marks: Vec<u64>,
}

/// Both directions of one TCP flow, over all connections on its addresses and ports.
#[derive(Debug, Default)]
pub(super) struct Inference {
    sides: [Side; 2],
    handshake: Handshake,
    classic_ecn: bool,
    marked: [bool; 2],
    /// Evidence of the connections before the present one.
    closed: VecDeque<[LossEvidence; 2]>,
}

/// What was found in both directions of a flow.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Signals by packet number.
    pub(super) signalled: [BTreeMap<u64, Signalled>; 2],
    /// What they were made of, connection by connection.
    pub(super) evidence: VecDeque<[LossEvidence; 2]>,
}

impl Inference {
    /// Takes a packet of direction `from` (0 or 1) that had CE or not.
    pub(super) fn packet(&mut self, from: usize, segment: &Segment<'_>, ce: bool) {
        let tcp = segment.tcp;
        if tcp.syn() {
            self.syn(from, segment);
        }
        self.handshake.packet(from, segment.time, tcp);
        self.marked[from] |= ce && segment.payload > 0;
        let rtt = self.shortest_round_trip();
        if tcp.has_ack() && !tcp.rst() {
            let echo = self.classic_ecn && !tcp.syn() && tcp.flags & 0x40 != 0;
            self.sides[1 - from].acknowledged(segment, echo);
        }
        self.sides[from].sent(segment, rtt);
    }

    /// Ends the flow.
    pub(super) fn finish(self) -> Found {
        let [mut low, mut high] = self.sides;
        let mut evidence = self.closed;
        evidence.push_back([low.evidence, high.evidence]);
        for (at, side) in [&mut low, &mut high].into_iter().enumerate() {
            if self.marked[at] {
                // CE in the capture: the echo tells of those marks, not of others behind the capture point.
                evidence.iter_mut().for_each(|pair| pair[at].marks_by_echo = 0);
                continue;
            }
            for packet in std::mem::take(&mut side.echo_marks) {
                side.signal(packet, |signalled| signalled.marks += 1);
            }
        }
        Found { signalled: [low.signalled, high.signalled], evidence }
    }

    fn syn(&mut self, from: usize, segment: &Segment<'_>) {
        let (tcp, side) = (segment.tcp, &mut self.sides[from]);
        let used = side.isn.map_or(side.started, |isn| isn != tcp.seq);
        if used && !tcp.has_ack() {
            let opened = self.sides[from].signal(segment.packet, |signalled| signalled.opens = true);
            let evidence = self.sides.each_mut().map(Side::reopen);
            if opened {
                self.closed.push_back(evidence);
            }
            self.classic_ecn = false;
        }
        let side = &mut self.sides[from];
        side.isn = Some(tcp.seq);
        side.mss = segment.options.mss.or(side.mss);
        if tcp.has_ack() {
            // RFC 3168 section 6.1.1: ECE without CWR accepts; AccECN's answers (RFC 9768 section 3.1.1) all differ.
            self.classic_ecn = tcp.flags & 0xc0 == 0x40;
        }
    }

    /// The least time in which a retransmission can follow a loss.
    fn shortest_round_trip(&self) -> Option<Duration> {
        match (self.handshake.rtt, self.sides[0].shortest_ack, self.sides[1].shortest_ack) {
            (Some(rtt), _, _) => Some(rtt),
            (None, Some(a), Some(b)) => Some(a + b),
            _ => None,
        }
    }
}

impl Side {
    /// Forgets the sequence space of the last connection and hands out its evidence; signals stay.
    fn reopen(&mut self) -> LossEvidence {
        let evidence = self.evidence;
        *self = Self {
            signalled: std::mem::take(&mut self.signalled),
            echo_marks: std::mem::take(&mut self.echo_marks),
            ..Self::default()
        };
        evidence
    }

    /// `number` counted on through wraps, as the value nearest to the right edge.
    fn extend(&self, number: u32) -> u64 {
        let ahead = number.wrapping_sub(self.next as u32) as i32;
        self.next.saturating_add_signed(ahead.into())
    }

    /// Notes something about a packet; false if there is no room for it.
    fn signal(&mut self, packet: u64, change: impl FnOnce(&mut Signalled)) -> bool {
        if self.signalled.len() >= MAX_SIGNALLED && !self.signalled.contains_key(&packet) {
            self.evidence.forgotten += 1;
            return false;
        }
        change(self.signalled.entry(packet).or_default());
        true
    }

    fn segments(&self, bytes: u64) -> u32 {
        let mss = self.mss.filter(|mss| *mss > 0).map_or(DEFAULT_MSS, u32::from);
        u32::try_from(bytes.div_ceil(mss.into())).unwrap_or(u32::MAX)
    }

    fn sent(&mut self, segment: &Segment<'_>, rtt: Option<Duration>) {
        self.packets += 1;
        let (syn, fin) = (u64::from(segment.tcp.syn()), u64::from(segment.tcp.fin()));
        if u64::from(segment.payload) + syn + fin == 0 {
            return;
        }
        // The sender's window ends well before half the sequence space; what lies beyond begins anew.
        let far = |side: &Self, start: u64| start > side.next.max(side.acked) + MAX_JUMP;
        if !self.started || far(self, self.extend(segment.tcp.seq)) {
            self.started = true;
            // One round of sequence space below the first packet keeps earlier numbers positive.
            self.next = (1 << 32) + u64::from(segment.tcp.seq) + syn;
            self.acked = 0;
            self.sent.clear();
            self.holes.clear();
        }
        let start = self.extend(segment.tcp.seq) + syn;
        let end = start + u64::from(segment.payload);
        if start > self.next {
            self.hole(start, segment);
        }
        let edge = self.next;
        if start < edge && segment.payload > 0 {
            self.old(start, end.min(edge), end <= edge, segment, rtt);
        }
        if end > edge {
            self.remember(start.max(edge), end, segment, false);
        }
        self.next = edge.max(start).max(end + fin);
    }

    fn hole(&mut self, end: u64, segment: &Segment<'_>) {
        let start = self.next.max(self.acked);
        self.evidence.missed_bytes += end.min(start) - self.next.min(end);
        if start >= end {
            return;
        }
        if self.holes.len() == MAX_HOLES {
            self.holes.remove(0);
            self.evidence.forgotten += 1;
        }
        let tsval = segment.tcp.timestamps.map(|(value, _)| value);
        let (packet, time, passed) = (segment.packet, segment.time, self.packets);
        self.holes.push(Hole { start, end, packet, time, tsval, passed });
    }

    /// Keeps a sent range, in order of sequence numbers.
    fn remember(&mut self, start: u64, end: u64, segment: &Segment<'_>, again: bool) {
        let sent = Sent {
            start,
            end,
            packet: segment.packet,
            time: segment.time,
            tsval: segment.tcp.timestamps.map(|(value, _)| value),
            interface: segment.interface,
            again,
            sacked: false,
        };
        self.insert(sent);
    }

    fn insert(&mut self, sent: Sent) {
        if self.sent.len() >= MAX_SEGMENTS {
            self.sent.pop_front();
            self.evidence.forgotten += 1;
        }
        let at = self.sent.partition_point(|other| other.start < sent.start);
        self.sent.insert(at, sent);
    }

    /// Bytes below the right edge: a filled hole, a retransmission, or neither.
    fn old(&mut self, start: u64, end: u64, whole: bool, segment: &Segment<'_>, rtt: Option<Duration>) {
        if end <= self.acked {
            self.evidence.needless += 1;
            return;
        }
        let tsval = segment.tcp.timestamps.map(|(value, _)| value);
        let soon = rtt.map(|rtt| rtt / 2);
        self.fill(start, end, tsval, soon, segment);
        let mut at = self.sent.partition_point(|sent| sent.end <= start);
        while let Some(&before) = self.sent.get(at)
            && before.start < end
        {
            let (from, to) = (before.start.max(start), before.end.min(end));
            if before.packet == segment.packet || from >= to {
                at += 1;
                continue;
            }
            let elapsed = segment.time.since(before.time);
            let same_stamp = tsval == before.tsval;
            let copied = elapsed < soon.unwrap_or(COPY_TIME) || segment.interface != before.interface;
            if same_stamp && copied {
                if whole && from == start && to == end {
                    self.signal(segment.packet, |signalled| signalled.copy = true);
                }
                at += 1;
                continue;
            }
            if before.sacked {
                self.evidence.needless += 1;
                at += 1;
                continue;
            }
            let losses = self.segments(to - from);
            self.lost(Repair { start: from, end: to, packet: before.packet, losses, after: true });
            self.resent(at, from, to, segment);
            at = self.sent.partition_point(|sent| sent.start < to);
        }
    }

    /// Fills holes with `start..end`: by a retransmission, which is a loss, or by a packet that was only late.
    fn fill(
        &mut self,
        start: u64,
        end: u64,
        tsval: Option<u32>,
        soon: Option<Duration>,
        segment: &Segment<'_>,
    ) {
        let mut at = 0;
        while let Some(&hole) = self.holes.get(at) {
            let (from, to) = (hole.start.max(start), hole.end.min(end));
            if from >= to {
                at += 1;
                continue;
            }
            let newer = match (tsval, hole.tsval) {
                (Some(mine), Some(other)) => mine.wrapping_sub(other) as i32,
                _ => 0,
            };
            let early = match soon {
                Some(soon) => segment.time.since(hole.time) < soon,
                None => self.packets - hole.passed < 3,
            };
            if newer < 0 || (newer == 0 && early) {
                self.evidence.reordered += 1;
            } else {
                let losses = self.segments(to - from);
                self.lost(Repair { start: from, end: to, packet: hole.packet, losses, after: false });
            }
            self.remember(from, to, segment, true);
            self.holes.remove(at);
            for (start, end) in [(to, hole.end), (hole.start, from)] {
                if start < end {
                    self.holes.insert(at, Hole { start, end, ..hole });
                }
            }
            at = self.holes.partition_point(|other| other.start < to);
        }
    }

    fn lost(&mut self, repair: Repair) {
        let losses = u64::from(repair.losses);
        if repair.after {
            self.evidence.after_capture_point += losses;
        } else {
            self.evidence.before_capture_point += losses;
        }
        self.signal(repair.packet, |signalled| {
            signalled.losses = signalled.losses.saturating_add(repair.losses);
        });
        if self.repairs.len() == MAX_REPAIRS {
            self.repairs.pop_front();
        }
        self.repairs.push_back(repair);
    }

    /// Gives `from..to` of the remembered range at `at` to the packet that sent it again.
    fn resent(&mut self, at: usize, from: u64, to: u64, segment: &Segment<'_>) {
        if let Some(sent) = self.sent.get_mut(at).filter(|sent| (sent.start, sent.end) == (from, to)) {
            let tsval = segment.tcp.timestamps.map(|(value, _)| value);
            let (packet, time, interface) = (segment.packet, segment.time, segment.interface);
            *sent = Sent { packet, time, tsval, interface, again: true, sacked: false, ..*sent };
            return;
        }
        let Some(whole) = self.sent.remove(at) else { return };
        for (start, end) in [(whole.start, from), (to, whole.end)] {
            if start < end {
                self.insert(Sent { start, end, ..whole });
            }
        }
        self.remember(from, to, segment, true);
    }

    /// Takes an acknowledgement that came from the other end.
    fn acknowledged(&mut self, segment: &Segment<'_>, echo: bool) {
        if !self.started {
            return;
        }
        let (tcp, options) = (segment.tcp, segment.options);
        let ack = self.extend(tcp.ack);
        if ack > self.next + MAX_JUMP {
            return;
        }
        let blocks: [(u64, u64); 4] =
            options.sack.map(|(left, right)| (self.extend(left), self.extend(right)));
        let blocks = &blocks[..options.sack_blocks];
        if let Some(&(left, right)) = blocks.first()
            && left < right
        {
            // RFC 2883 section 4: the first block reports a duplicate if it lies below the acknowledgement or inside the
            // second block.
            let inside = blocks.get(1).is_some_and(|second| second.0 <= left && right <= second.1);
            if right <= ack || inside {
                self.duplicate(left, right);
            }
        }
        if echo && !self.echoing {
            self.echoed(ack);
        }
        self.echoing = echo;
        for &(left, right) in blocks.iter().filter(|block| block.0 >= ack) {
            self.sacked(left, right);
        }
        if ack <= self.acked {
            return;
        }
        self.acked = ack;
        while let Some(first) = self.sent.front()
            && first.end <= ack
        {
            if first.end == ack && !first.again {
                let delay = segment.time.since(first.time);
                self.shortest_ack = Some(self.shortest_ack.map_or(delay, |shortest| shortest.min(delay)));
            }
            self.sent.pop_front();
        }
        let evidence = &mut self.evidence;
        self.holes.retain(|hole| {
            let known = hole.end > ack;
            if !known {
                evidence.missed_bytes += hole.end - hole.start;
            }
            known
        });
    }

    /// Marks what the receiver has. Later blocks only grow, so the walk ends where an earlier one came to.
    fn sacked(&mut self, left: u64, right: u64) {
        let mut at = self.sent.partition_point(|sent| sent.end <= right);
        while at > 0 {
            at -= 1;
            let sent = &mut self.sent[at];
            if sent.start < left || sent.sacked {
                break;
            }
            sent.sacked = true;
        }
    }

    /// The receiver has had these bytes twice: what was taken for a loss of them was none.
    fn duplicate(&mut self, left: u64, right: u64) {
        let overlaps = |repair: &Repair| repair.losses > 0 && repair.start < right && left < repair.end;
        let Some(at) = self.repairs.iter().rposition(overlaps) else { return };
        let Repair { start, end, packet, losses, after } = self.repairs[at];
        let taken = self.segments(end.min(right) - start.max(left)).min(losses);
        self.repairs[at].losses -= taken;
        if let Some(signalled) = self.signalled.get_mut(&packet) {
            signalled.losses = signalled.losses.saturating_sub(taken);
        }
        let counted = if after {
            &mut self.evidence.after_capture_point
        } else {
            &mut self.evidence.before_capture_point
        };
        *counted = counted.saturating_sub(taken.into());
        self.evidence.needless += u64::from(taken);
    }

    /// The first ECE of an episode: the segment that it acknowledges was marked, or one shortly before.
    fn echoed(&mut self, ack: u64) {
        let at = self.sent.partition_point(|sent| sent.start < ack);
        let marked = at.checked_sub(1).or(Some(0)).and_then(|at| self.sent.get(at));
        if let Some(packet) = marked.map(|sent| sent.packet) {
            if self.echo_marks.len() < MAX_SIGNALLED {
                self.echo_marks.push(packet);
                self.evidence.marks_by_echo += 1;
            } else {
                self.evidence.forgotten += 1;
            }
        }
    }
}
