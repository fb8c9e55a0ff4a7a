//! One direction's sequence space: which ranges were sent and not yet acknowledged, which are missing, and which of
//! that was repaired. All is kept by sequence number, in trees, so that a packet costs the logarithm of what is kept
//! wherever in the window it falls; how many ranges one packet may touch is bounded on the average.

use std::collections::{BTreeMap, VecDeque};

use weir_core::{Duration, Time};

use super::flows::Interface;
use super::infer::{LossEvidence, Segment, Signalled};

/// Unacknowledged segments that are remembered per direction.
const MAX_SEGMENTS: usize = 16_384;
/// Holes that are remembered per direction.
const MAX_HOLES: usize = 1_024;
/// Repairs that a later DSACK can take back.
const MAX_REPAIRS: usize = 1_024;
/// A jump in sequence space that no window allows (RFC 7323 section 2.3): the capture has missed something.
const MAX_JUMP: u64 = 1 << 30;
/// Copies of a packet that come within this time were made by the capture, where no round trip is known.
const COPY_TIME: Duration = Duration::from_millis(1);
/// Bytes per segment where no SYN announced them: 1500 less headers.
const DEFAULT_MSS: u32 = 1_460;
/// Ranges that a packet may touch, on the average over the packets of a connection.
const STEPS: u32 = 32;
/// Ranges that it may touch beyond the average, once: a whole window that is sent again.
const MAX_DEBT: u32 = 16_384;

/// Signals of one direction by packet number, from the first packet on that is not judged yet.
#[derive(Debug, Default)]
pub(super) struct Signals {
    by_packet: BTreeMap<u64, Signalled>,
    /// Packets that the receiver's echo marks, until it is known whether the capture shows CE itself.
    echoed: Vec<u64>,
    behind: u64,
}

impl Signals {
    /// Notes something about a packet; false if that has been judged.
    pub(super) fn note(&mut self, packet: u64, change: impl FnOnce(&mut Signalled)) -> bool {
        if packet < self.behind {
            return false;
        }
        change(self.by_packet.entry(packet).or_default());
        true
    }

    pub(super) fn take(&mut self, packet: u64) -> Signalled {
        self.by_packet.remove(&packet).unwrap_or_default()
    }

    pub(super) fn kept(&self) -> usize {
        self.by_packet.len() + self.echoed.len()
    }
}

/// A range that was sent; it begins at its key.
#[derive(Clone, Copy, Debug)]
struct Sent {
    end: u64,
    packet: u64,
    time: Time,
    tsval: Option<u32>,
    interface: Interface,
    again: bool,
    sacked: bool,
}

/// A range that was not seen; it begins at its key.
#[derive(Clone, Copy, Debug)]
struct Hole {
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
pub(super) struct Space {
    pub(super) isn: Option<u32>,
    pub(super) started: bool,
    pub(super) mss: Option<u16>,
    pub(super) shortest_ack: Option<Duration>,
    pub(super) evidence: LossEvidence,
    /// Right edge of what was sent, counted on through wraps.
    next: u64,
    acked: u64,
    /// Ranges of `sent` and `holes` do not overlap.
    sent: BTreeMap<u64, Sent>,
    holes: BTreeMap<u64, Hole>,
    repairs: VecDeque<Repair>,
    packets: u64,
    echoing: bool,
    /// Ranges touched beyond the average.
    debt: u32,
}

impl Space {
    /// Forgets the sequence space of the last connection and hands out its evidence.
    pub(super) fn reopen(&mut self) -> LossEvidence {
        std::mem::take(self).evidence
    }

    pub(super) fn kept(&self) -> usize {
        self.sent.len() + self.holes.len() + self.repairs.len()
    }

    /// Forgets the older half of all that is kept.
    pub(super) fn halve(&mut self) {
        let before = self.kept();
        for _ in 0..self.sent.len().div_ceil(2) {
            self.sent.pop_first();
        }
        for _ in 0..self.holes.len().div_ceil(2) {
            self.holes.pop_first();
        }
        self.repairs.drain(..self.repairs.len().div_ceil(2));
        self.repairs.shrink_to_fit();
        self.evidence.forgotten += (before - self.kept()) as u64;
    }

    /// Books the marks that the echo reported, unless the capture shows CE itself (`marked`).
    pub(super) fn settle(&mut self, marked: bool, signals: &mut Signals, behind: u64) {
        signals.behind = behind;
        for packet in std::mem::take(&mut signals.echoed) {
            if !marked && !signals.note(packet, |signalled| signalled.marks += 1) {
                self.evidence.forgotten += 1;
            }
        }
    }

    /// `number` counted on through wraps, as the value nearest to the right edge.
    fn extend(&self, number: u32) -> u64 {
        let ahead = number.wrapping_sub(self.next as u32) as i32;
        self.next.saturating_add_signed(ahead.into())
    }

    fn segments(&self, bytes: u64) -> u32 {
        let mss = self.mss.filter(|mss| *mss > 0).map_or(DEFAULT_MSS, u32::from);
        u32::try_from(bytes.div_ceil(mss.into())).unwrap_or(u32::MAX)
    }

    /// Whether one more range may be touched for this packet.
    fn step(&mut self) -> bool {
        if self.debt >= MAX_DEBT {
            self.evidence.forgotten += 1;
            return false;
        }
        self.debt += 1;
        true
    }

    /// Takes a segment of this direction; `rtt` is the least time in which a retransmission can follow a loss.
    pub(super) fn sent(&mut self, segment: &Segment<'_>, rtt: Option<Duration>, signals: &mut Signals) {
        self.packets += 1;
        self.debt = self.debt.saturating_sub(STEPS);
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
            self.old(start, end.min(edge), end <= edge, segment, rtt, signals);
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
        let tsval = segment.tcp.timestamps.map(|(value, _)| value);
        let (packet, time, passed) = (segment.packet, segment.time, self.packets);
        self.insert_hole(start, Hole { end, packet, time, tsval, passed });
    }

    fn insert_hole(&mut self, start: u64, hole: Hole) {
        if self.holes.len() >= MAX_HOLES {
            self.holes.pop_first();
            self.evidence.forgotten += 1;
        }
        self.holes.insert(start, hole);
    }

    /// Keeps a sent range. One that goes on where an earlier one of the same packet ended is joined to it, so that what
    /// was sent again as a whole is one range and not as many as it was made of.
    fn remember(&mut self, start: u64, end: u64, segment: &Segment<'_>, again: bool) {
        if again
            && let Some((_, before)) = self.sent.range_mut(..start).next_back()
            && (before.packet, before.end, before.sacked) == (segment.packet, start, false)
        {
            before.end = end;
            return;
        }
        let sent = Sent {
            end,
            packet: segment.packet,
            time: segment.time,
            tsval: segment.tcp.timestamps.map(|(value, _)| value),
            interface: segment.interface,
            again,
            sacked: false,
        };
        self.insert(start, sent);
    }

    fn insert(&mut self, start: u64, sent: Sent) {
        if self.sent.len() >= MAX_SEGMENTS {
            self.sent.pop_first();
            self.evidence.forgotten += 1;
        }
        self.sent.insert(start, sent);
    }

    /// Bytes below the right edge: a filled hole, a retransmission, or neither.
    fn old(
        &mut self,
        start: u64,
        end: u64,
        whole: bool,
        segment: &Segment<'_>,
        rtt: Option<Duration>,
        signals: &mut Signals,
    ) {
        if end <= self.acked {
            self.evidence.needless += 1;
            return;
        }
        let tsval = segment.tcp.timestamps.map(|(value, _)| value);
        let soon = rtt.map(|rtt| rtt / 2);
        self.fill(start, end, tsval, soon, segment, signals);
        let over = self.sent.range(..=start).next_back().filter(|(_, sent)| sent.end > start);
        let mut next = over.map_or(start, |(at, _)| *at);
        while let Some((&at, &before)) = self.sent.range(next..end).next() {
            if !self.step() {
                return;
            }
            let (from, to) = (at.max(start), before.end.min(end));
            next = to;
            if before.packet == segment.packet {
                continue;
            }
            let elapsed = segment.time.since(before.time);
            let same_stamp = tsval == before.tsval;
            let copied = elapsed < soon.unwrap_or(COPY_TIME) || segment.interface.is_other(before.interface);
            if same_stamp && copied {
                if whole && from == start && to == end {
                    self.signal(segment.packet, signals, |signalled| signalled.copy = true);
                }
                continue;
            }
            if before.sacked {
                self.evidence.needless += 1;
                continue;
            }
            let losses = self.segments(to - from);
            self.lost(Repair { start: from, end: to, packet: before.packet, losses, after: true }, signals);
            self.resent(at, before, from, to, segment);
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
        signals: &mut Signals,
    ) {
        let over = self.holes.range(..=start).next_back().filter(|(_, hole)| hole.end > start);
        let mut next = over.map_or(start, |(at, _)| *at);
        while let Some((&at, &hole)) = self.holes.range(next..end).next() {
            if !self.step() {
                return;
            }
            let (from, to) = (at.max(start), hole.end.min(end));
            next = to;
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
                self.lost(
                    Repair { start: from, end: to, packet: hole.packet, losses, after: false },
                    signals,
                );
            }
            self.remember(from, to, segment, true);
            self.holes.remove(&at);
            for (start, end) in [(at, from), (to, hole.end)] {
                if start < end {
                    self.insert_hole(start, Hole { end, ..hole });
                }
            }
        }
    }

    fn signal(&mut self, packet: u64, signals: &mut Signals, change: impl FnOnce(&mut Signalled)) {
        self.evidence.forgotten += u64::from(!signals.note(packet, change));
    }

    fn lost(&mut self, repair: Repair, signals: &mut Signals) {
        let losses = u64::from(repair.losses);
        if repair.after {
            self.evidence.after_capture_point += losses;
        } else {
            self.evidence.before_capture_point += losses;
        }
        self.signal(repair.packet, signals, |signalled| {
            signalled.losses = signalled.losses.saturating_add(repair.losses);
        });
        if self.repairs.len() == MAX_REPAIRS {
            self.repairs.pop_front();
        }
        self.repairs.push_back(repair);
    }

    /// Gives `from..to` of the remembered range at `at` to the packet that sent it again.
    fn resent(&mut self, at: u64, whole: Sent, from: u64, to: u64, segment: &Segment<'_>) {
        self.sent.remove(&at);
        for (start, end) in [(at, from), (to, whole.end)] {
            if start < end {
                self.insert(start, Sent { end, ..whole });
            }
        }
        self.remember(from, to, segment, true);
    }

    /// Takes an acknowledgement that came from the other end.
    pub(super) fn acknowledged(&mut self, segment: &Segment<'_>, echo: bool, signals: &mut Signals) {
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
            // RFC 2883 section 4: the first block reports a duplicate if it lies below the acknowledgement or inside
            // the second block.
            let inside = blocks.get(1).is_some_and(|second| second.0 <= left && right <= second.1);
            if right <= ack || inside {
                self.duplicate(left, right, signals);
            }
        }
        if echo && !self.echoing {
            self.echoed(ack, signals);
        }
        self.echoing = echo;
        for &(left, right) in blocks.iter().filter(|block| block.0 >= ack) {
            self.sacked(left, right);
        }
        if ack <= self.acked {
            return;
        }
        self.acked = ack;
        while let Some(first) = self.sent.first_entry()
            && first.get().end <= ack
        {
            let first = first.remove();
            if first.end == ack && !first.again {
                let delay = segment.time.since(first.time);
                self.shortest_ack = Some(self.shortest_ack.map_or(delay, |shortest| shortest.min(delay)));
            }
        }
        while let Some(first) = self.holes.first_entry()
            && first.get().end <= ack
        {
            let (start, hole) = first.remove_entry();
            self.evidence.missed_bytes += hole.end - start;
        }
    }

    /// Marks what the receiver has. Later blocks only grow, so the walk ends where an earlier one came to.
    fn sacked(&mut self, left: u64, right: u64) {
        for (_, sent) in self.sent.range_mut(left.min(right)..right).rev() {
            if sent.end > right {
                continue;
            }
            if sent.sacked {
                break;
            }
            sent.sacked = true;
        }
    }

    /// The receiver has had these bytes twice: what was taken for a loss of them was none.
    fn duplicate(&mut self, left: u64, right: u64, signals: &mut Signals) {
        let overlaps = |repair: &Repair| repair.losses > 0 && repair.start < right && left < repair.end;
        let Some(at) = self.repairs.iter().rposition(overlaps) else { return };
        let Repair { start, end, packet, losses, after } = self.repairs[at];
        let taken = self.segments(end.min(right) - start.max(left)).min(losses);
        self.repairs[at].losses -= taken;
        if let Some(signalled) = signals.by_packet.get_mut(&packet) {
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
    fn echoed(&mut self, ack: u64, signals: &mut Signals) {
        let before = self.sent.range(..ack).next_back();
        if let Some((_, marked)) = before.or_else(|| self.sent.first_key_value()) {
            signals.echoed.push(marked.packet);
            self.evidence.marks_by_echo += 1;
        }
    }
}
