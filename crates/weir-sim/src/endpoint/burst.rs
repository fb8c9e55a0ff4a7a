//! Super-packets: full packets in a row that a sender hands over as one (generic segmentation offload), which queues
//! see as one and a receiver takes as one.
//!
//! Its length is that of all its segments with all their headers, as the kernel counts it (`qdisc_pkt_len_init`). Only
//! the last segment may be short. CWR is on the first alone (RFC 3168 section 6.1.2).

use weir_core::{FlowId, Packet, Time};

use super::sender::Outgoing;

/// Segments that fit an IPv4 packet of at most 65535 bytes, of TCP (52 + 45 x 1448) as of QUIC (28 + 45 x 1452).
pub const LARGEST_GSO: u16 = 45;

/// A super-packet in the making.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    first: Outgoing,
    last_bytes: u32,
    wire_bytes: u32,
    segments: u16,
}

impl Burst {
    pub(crate) fn new(first: Outgoing) -> Self {
        Self { first, last_bytes: first.wire_bytes, wire_bytes: first.wire_bytes, segments: 1 }
    }

    pub(crate) fn segments(&self) -> u16 {
        self.segments
    }

    /// Takes `next` in, if it continues what there is.
    pub(crate) fn take(&mut self, next: &Outgoing) -> bool {
        let (first, behind) = (&self.first, u64::from(self.segments));
        let continues = next.data.number == first.data.number + behind
            && next.data.sequence == first.data.sequence + behind
            && next.data.spin == first.data.spin
            && !next.data.reduced
            && next.ecn == first.ecn
            && self.last_bytes == first.wire_bytes
            && next.wire_bytes <= first.wire_bytes;
        if continues {
            self.last_bytes = next.wire_bytes;
            self.wire_bytes += next.wire_bytes;
            self.segments += 1;
        }
        continues
    }

    pub(crate) fn packet(&self, id: u64, flow: FlowId, now: Time) -> Packet {
        let wire_bytes = self.wire_bytes;
        Packet { wire_bytes, segments: self.segments, ..self.first.packet(id, flow, now) }
    }
}

#[cfg(test)]
mod tests {
    use weir_core::{Ecn, FlowId, Time};

    use super::Burst;
    use crate::endpoint::frame::Data;
    use crate::endpoint::sender::Outgoing;

    fn out(number: u64, sequence: u64, wire_bytes: u32) -> Outgoing {
        let data = Data { number, sequence, reduced: false, spin: false };
        Outgoing { data, wire_bytes, ecn: Ecn::Ect0 }
    }

    #[test]
    fn only_what_continues_is_taken_and_the_short_one_is_the_last() {
        let mut burst = Burst::new(out(7, 5, 1514));
        assert!(!burst.take(&out(9, 6, 1514)), "another transmission is between");
        assert!(!burst.take(&out(8, 3, 1514)), "sent again");
        assert!(!burst.take(&Outgoing { ecn: Ecn::NotEct, ..out(8, 6, 1514) }));
        let answers = Data { reduced: true, ..out(8, 6, 0).data };
        assert!(!burst.take(&Outgoing { data: answers, ..out(8, 6, 1514) }));
        assert!(burst.take(&out(8, 6, 1514)) && burst.take(&out(9, 7, 100)));
        assert!(!burst.take(&out(10, 8, 1514)), "a short one is the last");
        let packet = burst.packet(1, FlowId(0), Time::ZERO);
        assert_eq!((packet.segments, packet.wire_bytes, packet.ecn), (3, 2 * 1514 + 100, Ecn::Ect0));
        assert_eq!(Data::unpack(packet.handle, 7, 5), out(7, 5, 0).data);
    }
}
