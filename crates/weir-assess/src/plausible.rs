//! Which sequence numbers can be a connection's own. A forged or damaged packet has any number, and must neither open a
//! hole nor acknowledge what is in flight; but a capture misses packets, and ports are used again, so that the true
//! numbers can go on anywhere. The rule is the law's (`weir_tcp_fits` in `bpf/law.h`): what lies near what is in flight
//! counts at once, anything else once the other end has confirmed it or several packets in a row lie there. Until then
//! it is set aside here, so that nothing is lost of what turns out to be true.

use weir_core::Time;

use super::flows::Interface;
use super::infer::Segment;

/// How far from what is in flight a number counts at once: the largest window without scaling (RFC 9293 section 3.1).
pub(super) const SLACK: u64 = 65_536;
/// Windows above this are rare. Numbers so far ahead are believed without an answer, for a burst of losses makes such a
/// gap; those so far behind are old packets.
pub(super) const WIDE: u64 = 1 << 24;
/// So many packets in a row that lie together are the connection's own.
const IN_A_ROW: usize = 8;

/// What a segment adds to its direction's sequence space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) packet: u64,
    pub(super) time: Time,
    pub(super) interface: Interface,
    pub(super) tsval: Option<u32>,
    /// Where its payload begins, behind the SYN if it is one.
    pub(super) seq: u32,
    pub(super) payload: u32,
    pub(super) fin: bool,
    /// Packets of this direction up to it.
    pub(super) passed: u64,
}

impl Piece {
    pub(super) fn new(segment: &Segment<'_>, passed: u64) -> Self {
        Self {
            packet: segment.packet,
            time: segment.time,
            interface: segment.interface,
            tsval: segment.tcp.timestamps.map(|(value, _)| value),
            seq: segment.tcp.seq.wrapping_add(u32::from(segment.tcp.syn())),
            payload: segment.payload,
            fin: segment.tcp.fin(),
            passed,
        }
    }

    fn end(&self) -> u32 {
        self.seq.wrapping_add(self.payload)
    }
}

/// Segments and acknowledgements that lie together, away from what is in flight.
#[derive(Debug, Default)]
pub(super) struct Strays {
    /// The last few segments, oldest first.
    pieces: Vec<Piece>,
    /// Where they begin, with those that are not kept any more.
    from: u32,
    /// The last acknowledgement or selective acknowledgement.
    ack: Option<u32>,
    /// How many segments and acknowledgements were counted as implausible.
    counted: [u64; 2],
}

impl Strays {
    /// Takes a segment, and forgets those that it does not lie with. `counts` says that it is counted as implausible.
    pub(super) fn segment(&mut self, piece: Piece, counts: bool) {
        let together = self.pieces.last().is_some_and(|last| is_near(piece.seq, last.end()));
        if !together {
            self.pieces.clear();
            self.counted[0] = 0;
            self.from = piece.seq;
        } else if (piece.seq.wrapping_sub(self.from) as i32) < 0 {
            self.from = piece.seq;
        }
        if self.pieces.len() == IN_A_ROW {
            self.pieces.remove(0);
        }
        self.pieces.push(piece);
        self.counted[0] += u64::from(counts);
    }

    /// Takes the edge of what the other end says it has. `counts` says that it is counted as implausible.
    pub(super) fn answer(&mut self, edge: u32, counts: bool) {
        if !self.ack.is_some_and(|last| is_near(edge, last)) {
            self.counted[1] = 0;
        }
        self.ack = Some(edge);
        self.counted[1] += u64::from(counts);
    }

    /// Where the segments begin, if there are any.
    pub(super) fn from(&self) -> Option<u32> {
        (!self.pieces.is_empty()).then_some(self.from)
    }

    /// Whether the last answer is to these segments.
    pub(super) fn are_answered(&self) -> bool {
        let (Some(ack), Some(last)) = (self.ack, self.pieces.last()) else { return false };
        let low = self.from.wrapping_sub(SLACK as u32);
        u64::from(ack.wrapping_sub(low)) <= u64::from(last.end().wrapping_sub(self.from)) + 2 * SLACK
    }

    /// Whether these are several in a row.
    pub(super) fn are_many(&self) -> bool {
        self.pieces.len() == IN_A_ROW
    }

    /// The segments, and how many packets were counted as implausible that are not. `answered` says whether answers are
    /// among them.
    pub(super) fn believed(self, answered: bool) -> (Vec<Piece>, u64) {
        (self.pieces, self.counted[0] + if answered { self.counted[1] } else { 0 })
    }

    /// Segments that are kept: what the memory is taken by.
    pub(super) fn kept(&self) -> usize {
        self.pieces.len()
    }
}

/// Whether two numbers can be in the same flight.
fn is_near(a: u32, b: u32) -> bool {
    u64::from((a.wrapping_sub(b) as i32).unsigned_abs()) <= SLACK
}
