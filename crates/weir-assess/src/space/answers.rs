//! What the other end says it has: acknowledgements, SACK blocks, duplicates that it reports, echoed marks.

use std::ops::Range;

use weir_core::Duration;

use super::{Lie, MAX_DEBT, MAX_HOLES, Repair, Space};
use crate::infer::Segment;
use crate::plausible::{SLACK, WIDE};
use crate::signals::Signals;

impl Space {
    /// Takes an acknowledgement that came from the other end; `soon` is as with [`Self::sent`].
    pub(crate) fn acknowledged(
        &mut self,
        segment: &Segment<'_>,
        echo: bool,
        soon: Option<Duration>,
        signals: &mut Signals,
    ) {
        if !self.started || !self.may_have(segment, soon, signals) {
            return;
        }
        let (tcp, options) = (segment.tcp, segment.options);
        let ack = self.extend(tcp.ack);
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
        // What was sent before the first packet here says nothing of what is in flight.
        if ack <= self.acked || ack < self.base {
            return;
        }
        self.widest = self.widest.max(self.next.saturating_sub(self.low())).min(WIDE);
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
        while let Some(first) = self.has.first_entry()
            && *first.get() <= ack
        {
            first.remove();
        }
        while let Some(first) = self.holes.first_entry()
            && first.get().end <= ack
        {
            let (start, hole) = first.remove_entry();
            self.evidence.missed_bytes += hole.end - start;
        }
    }

    /// Whether the other end can have what it says it has. If that is elsewhere, it may confirm what was seen there.
    fn may_have(&mut self, segment: &Segment<'_>, soon: Option<Duration>, signals: &mut Signals) -> bool {
        let ack = self.extend(segment.tcp.ack);
        let lie = self.lie(ack, self.next + SLACK);
        if lie == Lie::Near {
            let blocks = &segment.options.sack[..segment.options.sack_blocks];
            for (_, right) in blocks {
                if self.extend(*right) > self.next + SLACK {
                    self.strays.answer(*right, false);
                }
            }
        } else {
            let counts = lie == Lie::Elsewhere;
            self.evidence.implausible += u64::from(counts);
            self.strays.answer(segment.tcp.ack, counts);
        }
        if self.believes() {
            self.go_there(soon, signals);
        }
        self.lie(self.extend(segment.tcp.ack), self.next + SLACK) != Lie::Elsewhere
    }

    /// Marks what the receiver has. Blocks grow on both sides and into each other, so what earlier ones told is
    /// remembered, and only what is new is walked through.
    fn sacked(&mut self, left: u64, right: u64) {
        if left >= right || right > self.next + SLACK {
            return;
        }
        let (mut from, mut to, mut at) = (left, right, left);
        if let Some((&start, &end)) = self.has.range(..left).next_back()
            && end >= left
        {
            (from, to, at) = (start, right.max(end), end);
        }
        while let Some((&start, &end)) = self.has.range(left..=right).next() {
            self.has.remove(&start);
            self.mark(at..start, left..right);
            (to, at) = (to.max(end), at.max(end));
        }
        self.mark(at..right, left..right);
        self.has.insert(from, to);
        if self.has.len() > MAX_HOLES {
            self.has.pop_first();
        }
    }

    /// Marks the ranges that lie in a block and reach into `new`, which earlier ones did not tell.
    fn mark(&mut self, new: Range<u64>, block: Range<u64>) {
        if new.is_empty() {
            return;
        }
        if self.debt >= MAX_DEBT {
            self.evidence.forgotten += 1;
            return;
        }
        let over = self.sent.range(block.start..=new.start).next_back().map_or(new.start, |(at, _)| *at);
        for (_, sent) in self.sent.range_mut(over..new.end) {
            self.debt += u32::from(sent.sacked);
            sent.sacked |= sent.end <= block.end;
        }
    }

    /// The receiver has had these bytes twice: what was taken for a loss of them was none.
    fn duplicate(&mut self, left: u64, right: u64, signals: &mut Signals) {
        let overlaps = |repair: &Repair| repair.losses > 0 && repair.start < right && left < repair.end;
        let Some(at) = self.repairs.iter().rposition(overlaps) else { return };
        let Repair { start, end, packet, losses, after } = self.repairs[at];
        let taken = self.segments(end.min(right) - start.max(left)).min(losses);
        self.repairs[at].losses -= taken;
        signals.take_back(packet, taken);
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
            signals.echo(marked.packet);
            self.evidence.marks_by_echo += 1;
        }
    }
}
