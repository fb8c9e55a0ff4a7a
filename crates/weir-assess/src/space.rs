//! One direction's sequence space: which ranges were sent and not yet acknowledged, which are missing, and which of
//! that was repaired. All is kept by sequence number, in trees, so that a packet costs the logarithm of what is kept
//! wherever in the window it falls; how many ranges one packet may touch is bounded on the average.

mod answers;

use std::collections::{BTreeMap, VecDeque};

use weir_core::{Duration, Time};

use super::flows::Interface;
use super::infer::{LossEvidence, Segment, Signalled};
use super::plausible::{Piece, SLACK, Strays, WIDE};
use super::signals::Signals;

/// Unacknowledged segments that are remembered per direction.
const MAX_SEGMENTS: usize = 16_384;
/// Holes that are remembered per direction.
const MAX_HOLES: usize = 1_024;
/// Repairs that a later DSACK can take back.
const MAX_REPAIRS: usize = 1_024;
/// A jump in sequence space that no window allows (RFC 7323 section 2.3): what lies beyond begins anew.
const MAX_JUMP: u64 = 1 << 30;
/// Copies of a packet that come within this time were made by the capture, where no round trip is known.
const COPY_TIME: Duration = Duration::from_millis(1);
/// Bytes per segment where no SYN announced them: 1500 less headers.
const DEFAULT_MSS: u32 = 1_460;
/// Ranges that a packet may touch, on the average over the packets of a connection.
const STEPS: u32 = 32;
/// Ranges that it may touch beyond the average, once: a whole window that is sent again.
const MAX_DEBT: u32 = 16_384;

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

/// Where a number lies beside what can be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lie {
    Near,
    /// Behind it, where only old packets are.
    Old,
    Elsewhere,
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
    /// Where it begins, counted on through wraps like all that follows.
    base: u64,
    /// Right edge of what was sent.
    next: u64,
    /// Up to where it was acknowledged; 0 while none of it was.
    acked: u64,
    /// The most that was in flight when an acknowledgement came.
    widest: u64,
    /// What lies elsewhere.
    strays: Strays,
    /// Ranges of `sent` and `holes` do not overlap.
    sent: BTreeMap<u64, Sent>,
    holes: BTreeMap<u64, Hole>,
    repairs: VecDeque<Repair>,
    /// What the other end has beyond a gap, by where it begins.
    has: BTreeMap<u64, u64>,
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
        self.sent.len() + self.holes.len() + self.repairs.len() + self.has.len() + self.strays.kept()
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
        self.has.clear();
        self.strays = Strays::default();
        self.evidence.forgotten += (before - self.kept()) as u64;
    }

    /// Books the marks that the echo reported, as [`Signals::settle`] says.
    pub(super) fn settle(&mut self, marked: bool, signals: &mut Signals, behind: u64) {
        self.evidence.forgotten += signals.settle(marked, behind);
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

    /// Begins with this number, and knows nothing of what was before.
    pub(super) fn begin(&mut self, number: u32) {
        self.started = true;
        // One round of sequence space below the first packet keeps earlier numbers positive.
        self.base = (1 << 32) + u64::from(number);
        self.next = self.base;
        self.acked = 0;
        self.widest = 0;
        self.sent.clear();
        self.holes.clear();
        self.repairs.clear();
        self.has.clear();
    }

    /// The left edge of what can be in flight.
    fn low(&self) -> u64 {
        self.acked.max(self.base)
    }

    /// Where a number lies that counts up to `high`. Behind the acknowledged, as far as was ever in flight, it is that
    /// of a packet on its way when the acknowledgement passed here.
    fn lie(&self, number: u64, high: u64) -> Lie {
        let low = self.low();
        let behind = if self.acked == 0 { MAX_JUMP } else { WIDE };
        match () {
            () if number > high || number + behind < low => Lie::Elsewhere,
            () if number + self.widest.max(SLACK) < low => Lie::Old,
            () => Lie::Near,
        }
    }

    /// Takes a segment of this direction; `soon` is half of the least time in which a retransmission can follow a loss.
    pub(super) fn sent(&mut self, segment: &Segment<'_>, soon: Option<Duration>, signals: &mut Signals) {
        self.packets += 1;
        self.debt = self.debt.saturating_sub(STEPS);
        let piece = Piece::new(segment, self.packets);
        if piece.payload == 0 && !segment.tcp.syn() && !piece.fin {
            return;
        }
        if !self.started {
            self.begin(piece.seq);
        }
        let lie = self.lie(self.extend(piece.seq), self.next.max(self.acked) + SLACK);
        if lie != Lie::Elsewhere {
            let edge = self.next;
            self.put(&piece, soon, signals);
            if self.next > edge {
                // The connection goes on here, so nothing from elsewhere is its own.
                self.strays = Strays::default();
            }
        }
        if lie != Lie::Near {
            let counts = lie == Lie::Elsewhere;
            self.evidence.implausible += u64::from(counts);
            self.strays.segment(piece, counts);
            if self.believes() {
                self.go_there(soon, signals);
            }
        }
    }

    /// Whether the segments from elsewhere are the connection's own. The other end can confirm it always. Several in a
    /// row do where losses explain the gap, or where no answer has told what is in flight. Old packets are expected,
    /// and so are answers to them, which takes both.
    fn believes(&self) -> bool {
        let Some(from) = self.strays.from().map(|from| self.extend(from)) else { return false };
        let (answered, many) = (self.strays.are_answered(), self.strays.are_many());
        match () {
            () if self.acked == 0 || (self.next..=self.next + WIDE).contains(&from) => answered || many,
            () if from < self.low() && from + WIDE >= self.low() => answered && many,
            () => answered,
        }
    }

    /// Goes on where the segments from elsewhere are: behind a gap, or anew.
    fn go_there(&mut self, soon: Option<Duration>, signals: &mut Signals) {
        let strays = std::mem::take(&mut self.strays);
        let (Some(number), answered) = (strays.from(), strays.are_answered()) else { return };
        let from = self.extend(number);
        let (pieces, counted) = strays.believed(answered);
        if self.acked > 0 && from < self.next {
            // The others were taken for old ones that came again.
            let old = (pieces.len() as u64).saturating_sub(counted);
            self.evidence.needless = self.evidence.needless.saturating_sub(old);
        }
        self.evidence.implausible = self.evidence.implausible.saturating_sub(counted);
        let reach = if answered && self.acked > 0 { MAX_JUMP } else { WIDE };
        if from > self.next && from - self.next <= reach {
            self.hole(from, &pieces[0]);
            self.next = from;
        } else {
            self.begin(number);
        }
        // Those that came in between were seen, if not kept: no hole.
        let first = self.extend(pieces[0].seq);
        self.next = self.next.max(first);
        for piece in &pieces {
            self.put(piece, soon, signals);
        }
    }

    /// Puts a segment where its number is.
    fn put(&mut self, piece: &Piece, soon: Option<Duration>, signals: &mut Signals) {
        let start = self.extend(piece.seq);
        let end = start + u64::from(piece.payload);
        if start > self.next {
            self.hole(start, piece);
        }
        let edge = self.next;
        if start < edge && piece.payload > 0 {
            self.old(start, end.min(edge), end <= edge, piece, soon, signals);
        }
        if end > edge {
            self.remember(start.max(edge), end, piece, false);
        }
        self.next = edge.max(start).max(end + u64::from(piece.fin));
    }

    fn hole(&mut self, end: u64, piece: &Piece) {
        let start = self.next.max(self.acked);
        self.evidence.missed_bytes += end.min(start) - self.next.min(end);
        if start >= end {
            return;
        }
        let Piece { packet, time, tsval, passed, .. } = *piece;
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
    fn remember(&mut self, start: u64, end: u64, piece: &Piece, again: bool) {
        if again
            && let Some((_, before)) = self.sent.range_mut(..start).next_back()
            && (before.packet, before.end, before.sacked) == (piece.packet, start, false)
        {
            before.end = end;
            return;
        }
        let sent = Sent {
            end,
            packet: piece.packet,
            time: piece.time,
            tsval: piece.tsval,
            interface: piece.interface,
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
        piece: &Piece,
        soon: Option<Duration>,
        signals: &mut Signals,
    ) {
        if end <= self.acked {
            self.evidence.needless += 1;
            return;
        }
        self.fill(start, end, piece, soon, signals);
        let over = self.sent.range(..=start).next_back().filter(|(_, sent)| sent.end > start);
        let mut next = over.map_or(start, |(at, _)| *at);
        while let Some((&at, &before)) = self.sent.range(next..end).next() {
            if !self.step() {
                return;
            }
            let (from, to) = (at.max(start), before.end.min(end));
            next = to;
            if before.packet == piece.packet {
                continue;
            }
            let elapsed = piece.time.since(before.time);
            let same_stamp = piece.tsval == before.tsval;
            let copied = elapsed < soon.unwrap_or(COPY_TIME) || piece.interface.is_other(before.interface);
            if same_stamp && copied {
                if whole && from == start && to == end {
                    self.signal(piece.packet, signals, |signalled| signalled.copy = true);
                }
                continue;
            }
            if before.sacked {
                self.evidence.needless += 1;
                continue;
            }
            let losses = self.segments(to - from);
            self.lost(Repair { start: from, end: to, packet: before.packet, losses, after: true }, signals);
            self.resent(at, before, from, to, piece);
        }
    }

    /// Fills holes with `start..end`: by a retransmission, which is a loss, or by a packet that was only late.
    fn fill(&mut self, start: u64, end: u64, piece: &Piece, soon: Option<Duration>, signals: &mut Signals) {
        let over = self.holes.range(..=start).next_back().filter(|(_, hole)| hole.end > start);
        let mut next = over.map_or(start, |(at, _)| *at);
        while let Some((&at, &hole)) = self.holes.range(next..end).next() {
            if !self.step() {
                return;
            }
            let (from, to) = (at.max(start), hole.end.min(end));
            next = to;
            let newer = match (piece.tsval, hole.tsval) {
                (Some(mine), Some(other)) => mine.wrapping_sub(other) as i32,
                _ => 0,
            };
            let early = match soon {
                Some(soon) => piece.time.since(hole.time) < soon,
                None => piece.passed.saturating_sub(hole.passed) < 3,
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
            self.remember(from, to, piece, true);
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
    fn resent(&mut self, at: u64, whole: Sent, from: u64, to: u64, piece: &Piece) {
        self.sent.remove(&at);
        for (start, end) in [(at, from), (to, whole.end)] {
            if start < end {
                self.insert(start, Sent { end, ..whole });
            }
        }
        self.remember(from, to, piece, true);
    }
}
