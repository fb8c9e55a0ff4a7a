//! Finds the congestion signals that a capture shows of TCP: losses from sequence numbers, and marks from the
//! receiver's echo. The bottleneck reports nothing: signals are inferred, as tcptrace and Wireshark do, but without
//! assuming where the capture point is:
//!
//! - After the bottleneck a loss is a hole in sequence space that a retransmission fills later. It belongs to the
//!   packet that showed the hole.
//! - Before the bottleneck a loss is the second transmission of bytes that were seen. It belongs to the packet that
//!   carried them the time before.
//!
//! Not losses are: a hole that fills at once or by an older packet (reordering), bytes sent again that were
//! acknowledged (keep-alives, spurious retransmissions), those that the receiver reports as duplicates (DSACK, RFC
//! 2883), and copies that the capture made, at once or on another interface. Since the packet that a loss belongs to is
//! known only later, signals are kept by packet number. `space` keeps one direction's sequence numbers, `plausible` those
//! that may not be its own; here is what both directions have in common.

use std::collections::VecDeque;

use weir_core::{Duration, Time};

use super::flows::Interface;
use super::signals::Signals;
use super::space::Space;
use super::tcp::{Handshake, TcpOptions};
use weir_law::Tcp;

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
    /// Marks behind the capture point that the receiver's ECE reported.
    pub marks_by_echo: u64,
    /// Packets that filled a hole out of order; no loss.
    pub reordered: u64,
    /// Retransmissions of what had arrived, keep-alives among them; no loss.
    pub needless: u64,
    /// Bytes that were acknowledged but never captured.
    pub missed_bytes: u64,
    /// Packets with sequence numbers or acknowledgements far from all others, which were left out. Forged and damaged
    /// ones are among them.
    pub implausible: u64,
    /// Segments, holes and signals that were forgotten because there were too many, or that came too late.
    pub forgotten: u64,
}

/// A TCP segment at the capture point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment<'a> {
    pub(super) packet: u64,
    pub(super) time: Time,
    pub(super) interface: Interface,
    pub(super) tcp: &'a Tcp,
    pub(super) options: &'a TcpOptions,
    pub(super) payload: u32,
}

/// A SYN on addresses and ports that are in use. It opens a connection once the other end has answered it: anyone can
/// send one.
#[derive(Clone, Copy, Debug)]
struct Opening {
    packet: u64,
    isn: u32,
    payload: u32,
    mss: Option<u16>,
    /// From direction 1.
    high: bool,
}

impl Opening {
    /// Where the data behind the SYN and its own go on.
    const fn edge(&self) -> u32 {
        self.isn.wrapping_add(1).wrapping_add(self.payload)
    }

    /// Whether this acknowledges it, with all, some or none of the data that it brought.
    const fn is_answered(&self, ack: u32) -> bool {
        ack.wrapping_sub(self.isn.wrapping_add(1)) <= self.payload
    }
}

/// Both directions of one TCP flow, over all connections on its addresses and ports.
#[derive(Debug, Default)]
pub(super) struct Inference {
    sides: [Space; 2],
    handshake: Handshake,
    opening: Option<Opening>,
    classic_ecn: bool,
    marked: [bool; 2],
    /// Directions with packets since the connection opened.
    heard: [bool; 2],
    found: Found,
}

/// What was found in both directions of a flow and not yet taken out.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Signals by packet number.
    signals: [Signals; 2],
    /// What they were made of in the connections before the last one, oldest first.
    closed: VecDeque<[LossEvidence; 2]>,
    /// The same of the last connection, once the flow has ended.
    last: [LossEvidence; 2],
}

impl Found {
    /// Takes out what packet `number` of direction `from` turned out to mean.
    pub(super) fn take(&mut self, from: usize, number: u64) -> Signalled {
        self.signals[from].take(number)
    }

    /// Takes out what the signals of the oldest connection that is left were made of.
    pub(super) fn evidence(&mut self) -> [LossEvidence; 2] {
        let Some(oldest) = self.closed.pop_front() else { return self.last };
        if self.closed.is_empty() {
            self.closed = VecDeque::new();
        }
        oldest
    }

    /// Signals and connections that are kept: what the memory is taken by.
    pub(super) fn kept(&self) -> usize {
        self.signals[0].kept() + self.signals[1].kept() + self.closed.len()
    }

    /// Whether nothing was found, so that it need not be kept.
    pub(super) fn is_empty(&self) -> bool {
        self.kept() == 0 && self.last == [LossEvidence::default(); 2]
    }
}

impl Inference {
    /// Takes a packet of direction `from` (0 or 1) that had CE or not.
    pub(super) fn packet(&mut self, from: usize, segment: &Segment<'_>, ce: bool) {
        let tcp = segment.tcp;
        self.handshake.packet(from, segment.time, tcp);
        if tcp.syn() {
            if !self.syn(from, segment) {
                return;
            }
        } else if let Some(opening) = self.opening
            && usize::from(opening.high) == from
            && !self.heard[1 - from]
            && tcp.seq == opening.edge()
        {
            // Of the other end the capture has nothing, so no answer either: what goes on from the SYN bears it out.
            self.open(opening, from, segment);
        }
        self.heard[from] = true;
        self.marked[from] |= ce && segment.payload > 0;
        let soon = self.shortest_round_trip().map(|rtt| rtt / 2);
        let signals = &mut self.found.signals;
        if tcp.has_ack() && !tcp.rst() {
            let echo = self.classic_ecn && !tcp.syn() && tcp.flags & 0x40 != 0;
            self.sides[1 - from].acknowledged(segment, echo, soon, &mut signals[1 - from]);
        }
        self.sides[from].sent(segment, soon, &mut signals[from]);
    }

    /// Segments, holes and repairs that are kept: what the memory is taken by, beside [`Found::kept`].
    pub(super) fn kept(&self) -> usize {
        self.sides[0].kept() + self.sides[1].kept()
    }

    /// Forgets the older half of the segments, holes and repairs.
    pub(super) fn halve(&mut self) {
        self.sides.iter_mut().for_each(Space::halve);
    }

    /// What was found up to here and not yet taken out.
    pub(super) fn found(&mut self) -> &mut Found {
        &mut self.found
    }

    /// Makes ready for packets to be judged, of which number `behind` is the first: marks that the echo reported are
    /// booked, and signals of packets before `behind` come too late.
    pub(super) fn settle(&mut self, behind: u64) {
        for (at, side) in self.sides.iter_mut().enumerate() {
            side.settle(self.marked[at], &mut self.found.signals[at], behind);
        }
    }

    /// Ends the flow. `behind` is the first packet that is not judged yet.
    pub(super) fn finish(mut self, behind: u64) -> Found {
        self.settle(behind);
        for (at, side) in self.sides.iter().enumerate() {
            self.found.last[at] = side.evidence;
            if self.marked[at] {
                // CE in the capture: the echo reports those marks, not others behind the capture point.
                self.found.last[at].marks_by_echo = 0;
                self.found.closed.iter_mut().for_each(|pair| pair[at].marks_by_echo = 0);
            }
        }
        self.found
    }

    /// Takes a SYN or its answer. Returns whether it belongs to the connection.
    fn syn(&mut self, from: usize, segment: &Segment<'_>) -> bool {
        let (tcp, mss) = (segment.tcp, segment.options.mss);
        if !tcp.has_ack() {
            let own = self.sides[from].isn == Some(tcp.seq);
            if self.sides.iter().any(|side| side.started) {
                if !own {
                    let (packet, payload, high) = (segment.packet, segment.payload, from == 1);
                    self.opening = Some(Opening { packet, isn: tcp.seq, payload, mss, high });
                }
                return own;
            }
        } else {
            match self.opening {
                Some(opening) if usize::from(opening.high) != from && opening.is_answered(tcp.ack) => {
                    self.open(opening, from, segment);
                }
                _ if self.sides[from].started && self.sides[from].isn != Some(tcp.seq) => {
                    self.sides[from].evidence.implausible += 1;
                    return false;
                }
                _ => {}
            }
            // RFC 3168 section 6.1.1: ECE without CWR accepts; AccECN's answers (RFC 9768 section 3.1.1) all differ.
            self.classic_ecn = tcp.flags & 0xc0 == 0x40;
        }
        let side = &mut self.sides[from];
        side.isn = Some(tcp.seq);
        side.mss = mss.or(side.mss);
        true
    }

    /// Opens a connection, which `segment` of direction `from` bears out, and closes the one before.
    fn open(&mut self, opening: Opening, from: usize, segment: &Segment<'_>) {
        let client = usize::from(opening.high);
        let signals = &mut self.found.signals;
        // A SYN that has been judged was counted to the connection before.
        let opened = signals[client].note(opening.packet, |signalled| signalled.opens = true)
            || signals[from].note(segment.packet, |signalled| signalled.opens = true);
        self.sides[client].evidence.forgotten += u64::from(!opened);
        let evidence = self.sides.each_mut().map(Space::reopen);
        if opened {
            self.found.closed.push_back(evidence);
        }
        let side = &mut self.sides[client];
        (side.isn, side.mss) = (Some(opening.isn), opening.mss);
        side.begin(opening.edge());
        self.opening = None;
        self.classic_ecn = false;
        self.heard = [false; 2];
    }

    /// The least time in which a retransmission can follow a loss.
    fn shortest_round_trip(&self) -> Option<Duration> {
        self.handshake.shortest(self.sides.each_ref().map(|side| side.shortest_ack))
    }
}
