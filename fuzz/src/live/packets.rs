//! Eight pairs of ends and what they have sent: those with even numbers speak IPv4, the others IPv6.

use weir_core::CycleId;
use weir_law::Direction;

use super::input::{Number, TcpStep, UdpStep};

/// The bytes at hand, and the length on the wire.
type Frame = (Vec<u8>, u32);

const ACK: u8 = 0x10;

/// What one end has sent and seen.
#[derive(Clone, Debug, Default)]
struct Peer {
    /// The next sequence number, by direction.
    next: [u32; 2],
    last: Frame,
    stamp: CycleId,
}

#[derive(Debug)]
pub(super) struct Peers([Peer; 8]);

impl Default for Peers {
    fn default() -> Self {
        let peer = |flow: u8| Peer {
            // One of them is shortly before the wrap.
            next: [if flow == 2 { u32::MAX - 20_000 } else { 1_000 }, 500_000],
            last: tcp(flow.into(), Direction::Forward, [1, 1], ACK, 0, 0),
            stamp: CycleId(0),
        };
        Self([0, 1, 2, 3, 4, 5, 6, 7].map(peer))
    }
}

impl Peers {
    pub(super) fn tcp(&mut self, step: &TcpStep) -> Frame {
        let peer = &mut self.0[usize::from(step.flow)];
        let from = usize::from(step.direction == Direction::Reverse);
        let seq = resolve(step.seq, peer.next[from]);
        let ack = resolve(step.ack, peer.next[1 - from]);
        let phantom = u32::from(step.flags & 0x02 != 0) + u32::from(step.flags & 0x01 != 0);
        if step.seq == Number::Next {
            peer.next[from] = seq.wrapping_add(u32::from(step.payload)).wrapping_add(phantom);
        }
        tcp(step.flow.into(), step.direction, [seq, ack], step.flags, step.ecn, step.payload.into())
    }

    pub(super) fn udp(&self, step: &UdpStep) -> Frame {
        let short = [step.first];
        let start: &[u8] = match step.long {
            0 => &short,
            // No connection IDs, no token, four bytes of payload; version 1.
            1 => &[0xc0, 0, 0, 0, 1, 0, 0, 0, 4, 1, 2, 3, 4],
            2 => &[0xe0, 0, 0, 0, 1, 0, 0, 4, 1, 2, 3, 4],
            _ => &[0xc0, 0, 0, 0, 1, 0, 0, 0, 4, 1, 2, 3, 4, step.first],
        };
        let payload = u32::from(step.payload % 9_000).max(start.len() as u32);
        let mut header = ports(step.flow.into(), step.direction).to_vec();
        header.extend(((8 + payload) as u16).to_be_bytes());
        header.extend([0, 0]);
        header.extend(start);
        ip(step.flow.into(), step.direction, 17, &header, payload - start.len() as u32, step.ecn)
    }

    pub(super) fn last(&self, flow: u8) -> Frame {
        self.0[usize::from(flow)].last.clone()
    }

    pub(super) fn remember(&mut self, flow: u8, frame: &[u8], wire: u32) {
        self.0[usize::from(flow)].last = (frame.to_vec(), wire);
    }

    pub(super) fn stamp(&mut self, flow: u8, cycle: CycleId) {
        self.0[usize::from(flow)].stamp = cycle;
    }

    pub(super) fn stamped(&self, flow: u8) -> CycleId {
        self.0[usize::from(flow)].stamp
    }
}

fn resolve(number: Number, next: u32) -> u32 {
    match number {
        Number::Next => next,
        Number::Before(by) => next.wrapping_sub(by),
        Number::Beyond(by) => next.wrapping_add(by),
        Number::Raw(value) => value,
    }
}

/// Enough payload for an entry, an answer, and one packet more.
pub(super) fn newcomer(number: u32) -> [(Vec<u8>, u32, Direction); 3] {
    let flow = 16 + 2 * number;
    let data = |seq| tcp(flow, Direction::Forward, [seq, 1], ACK, 0, 7_000);
    let answer = tcp(flow, Direction::Reverse, [1, 7_001], ACK, 0, 0);
    let with = |(frame, wire): Frame, direction| (frame, wire, direction);
    [
        with(data(1), Direction::Forward),
        with(answer, Direction::Reverse),
        with(data(7_001), Direction::Forward),
    ]
}

/// Flows are told apart by the client's port and, past 2^15 of them, by its address.
fn ports(flow: u32, direction: Direction) -> [u8; 4] {
    let (server, client) = (443u16.to_be_bytes(), (20_000 + (flow & 0x7fff) as u16).to_be_bytes());
    match direction {
        Direction::Forward => [server[0], server[1], client[0], client[1]],
        Direction::Reverse => [client[0], client[1], server[0], server[1]],
    }
}

fn tcp(flow: u32, direction: Direction, [seq, ack]: [u32; 2], flags: u8, ecn: u8, payload: u32) -> Frame {
    let mut header = ports(flow, direction).to_vec();
    header.extend(seq.to_be_bytes());
    header.extend(ack.to_be_bytes());
    header.extend([0x50, flags, 0x20, 0, 0, 0, 0, 0]);
    ip(flow, direction, 6, &header, payload, ecn)
}

/// An IP header with room for `rest` and `payload` more bytes, which are not there.
fn ip(flow: u32, direction: Direction, protocol: u8, rest: &[u8], payload: u32, ecn: u8) -> Frame {
    let length = rest.len() as u32 + payload;
    let client = [(flow >> 23) as u8, (flow >> 15) as u8];
    // The server has the higher address for half of the flows.
    let server = if flow & 4 == 0 { 1 } else { 250 };
    let mut frame = Vec::with_capacity(40 + rest.len());
    let is_v6 = flow & 1 != 0;
    let mut ends = [[10, 0, 0, server], [10, client[0], client[1], 9]];
    if direction == Direction::Reverse {
        ends.reverse();
    }
    if is_v6 {
        // No length where it does not fit, as BIG TCP does it.
        let told = u16::try_from(length).unwrap_or(0).to_be_bytes();
        frame.extend([0x60, ecn << 4, 0, 0, told[0], told[1], protocol, 64]);
        for end in ends {
            frame.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0]);
            frame.extend(end);
        }
    } else {
        let told = u16::try_from(20 + length).unwrap_or(0).to_be_bytes();
        frame.extend([0x45, ecn, told[0], told[1], 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend(ends.as_flattened());
    }
    let header = frame.len() as u32;
    frame.extend(rest);
    (frame, header + length)
}
