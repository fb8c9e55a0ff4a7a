//! The frames of a network's packets: what connections count and agree on, and the packets with which they begin.

use std::collections::BTreeMap;

use weir_core::{Duration, Ecn, Time};

use super::frame::{self, Headers, Quic, Tcp, TcpEcn};
use super::wire::{Transport, Wire};
use crate::observer::{Carried, Opening, Way};

/// Bytes in front of QUIC's.
const UP_TO_UDP: u32 = 14 + 20 + 8;

/// What a connection is on the wire.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    ecn: TcpEcn,
    /// The first sequence number of the end that asks; it counts connections on the same ports.
    client: u32,
    /// When the handshake's last packet was sent: what the first data echoes.
    opened: Time,
}

/// Makes the headers of a network's packets at one link, for an observer that [watches
/// headers](crate::Observer::watches_headers) and [what returns](crate::Observer::watches_return).
#[derive(Clone, Debug, Default)]
pub struct Frames {
    connections: Vec<Connection>,
    /// Packets that open connections, still to come, in the order of their times; and whether they go down.
    opening: BTreeMap<(Time, u64), (bool, Headers)>,
    asked: u64,
}

impl Frames {
    /// A connection over the link opens. Its handshake is not simulated; [`handshake`](Self::handshake) gives its
    /// packets at the times at which they would have passed. Other links on its path delay it by `before` this link and
    /// `behind` it.
    pub fn opens(&mut self, opening: &Opening, [before, behind]: [Duration; 2], wire: &Wire) {
        let index = opening.flow.0 as usize;
        if index >= self.connections.len() {
            self.connections.resize(index + 1, Connection::default());
        }
        let connection = &mut self.connections[index];
        connection.ecn = opening.ecn.into();
        connection.client = connection.client.wrapping_add(1);
        let Connection { ecn, client, .. } = *connection;
        let rtt = opening.around + opening.behind;
        let around = opening.around + before * 2;
        let asks = wire.asks_down();
        // When this link has the first data, and how far it is from here to the end that sends it and back.
        let (data, turn) =
            if asks { (opening.data + behind, rtt - around) } else { (opening.data + before, around) };
        let times = [turn + rtt, rtt, turn].map(|back| (data - back).max(opening.now));
        connection.opened = times[2];
        let ways = [asks, !asks, asks];
        let packets = match wire.transport() {
            Transport::Udp => return,
            Transport::Quic => ways.map(|down| frame::initial(wire, down)),
            Transport::Tcp => {
                let [syn, answer, done] = Tcp::handshake([client, opening.offset as u32], ecn, times);
                [(syn, asks), (answer, !asks), (done, asks)]
                    .map(|(packet, down)| frame::tcp(wire, down, Ecn::NotEct, &packet, 0))
            }
        };
        for ((time, packet), down) in times.into_iter().zip(packets).zip(ways) {
            self.asked += 1;
            self.opening.insert((time, self.asked), (down, packet));
        }
    }

    /// Takes the next packet that opens a connection and has passed by `now`: when, whether it goes down, from the
    /// server to the client, and its headers. Call it until it has none before you write a packet down, and the times
    /// are in order.
    pub fn handshake(&mut self, now: Time) -> Option<(Time, bool, Headers)> {
        let first = self.opening.first_entry().filter(|first| first.key().0 <= now)?;
        let ((time, _), (down, headers)) = first.remove_entry();
        Some((time, down, headers))
    }

    /// A packet as it comes to the link: what it echoes is no older than its connection.
    #[must_use]
    pub fn arriving(&self, carried: &Carried) -> Carried {
        let mut carried = *carried;
        if let Some(connection) = self.connections.get(carried.flow.0 as usize)
            && carried.sent >= connection.opened
        {
            carried.echoed = carried.echoed.max(connection.opened);
        }
        carried
    }

    /// The headers of a packet that has the codepoint `ecn` by then.
    pub fn packet(&self, carried: &Carried, ecn: Ecn, wire: &Wire) -> Headers {
        let down = carried.way == Way::Forward;
        match wire.transport() {
            Transport::Tcp => {
                let Connection { ecn: agreed, client, .. } =
                    self.connections.get(carried.flow.0 as usize).copied().unwrap_or_default();
                // The first byte of an end's stream follows its SYN.
                let number = |first: u32, offset: u64| first.wrapping_add(offset as u32).wrapping_add(1);
                let [own, other] = if down == wire.asks_down() { [client, 0] } else { [0, client] };
                let numbers = [number(own, carried.offset), number(other, carried.acknowledged)];
                let blocks = carried.blocks.map(|(from, to)| {
                    if from < to { (number(other, from), number(other, to)) } else { (0, 0) }
                });
                let packet = Tcp::open(numbers, agreed, carried, blocks);
                frame::tcp(wire, down, ecn, &packet, carried.payload)
            }
            Transport::Quic => {
                let short = Quic::Short { spin: carried.spin };
                frame::quic(wire, down, ecn, short, wire.frame_bytes(carried) - UP_TO_UDP)
            }
            Transport::Udp => frame::udp(wire, down, ecn, carried.payload),
        }
    }
}
