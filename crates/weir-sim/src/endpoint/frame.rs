//! What travels between the ends. A data packet's numbers fit the `handle` of a [`weir_core::Packet`], so a queue
//! carries nothing but the packet itself.

use weir_core::{Duration, Time};

const SEQUENCE_BITS: u32 = 32;
const NUMBER_BITS: u32 = 30;

/// What is in a data packet. Numbers are cut to their lower bits on the wire, as TCP's and QUIC's are, and completed by
/// the receiver, which knows about where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    /// Counts transmissions (QUIC's packet number).
    pub(crate) number: u64,
    /// Counts packets of the stream; the same in a retransmission.
    pub(crate) sequence: u64,
    /// The sender has answered an ECN echo (TCP's CWR).
    pub(crate) reduced: bool,
    /// QUIC's spin bit (RFC 9000 section 17.4).
    pub(crate) spin: bool,
}

impl Data {
    pub(crate) fn pack(self) -> u64 {
        (self.sequence & mask(SEQUENCE_BITS))
            | (self.number & mask(NUMBER_BITS)) << SEQUENCE_BITS
            | u64::from(self.reduced) << 62
            | u64::from(self.spin) << 63
    }

    /// Whether `handle` is of this packet, but perhaps for the spin bit.
    #[inline]
    pub(crate) fn is_packed_in(self, handle: u64) -> bool {
        (self.pack() ^ handle) << 1 == 0
    }

    /// The spin bit in `handle`.
    #[inline]
    pub(crate) fn spin_of(handle: u64) -> bool {
        handle >> 63 == 1
    }

    /// Completes the numbers of `handle` to those nearest to what the receiver expects.
    pub(crate) fn unpack(handle: u64, number: u64, sequence: u64) -> Self {
        Self {
            number: nearest(handle >> SEQUENCE_BITS & mask(NUMBER_BITS), NUMBER_BITS, number),
            sequence: nearest(handle & mask(SEQUENCE_BITS), SEQUENCE_BITS, sequence),
            reduced: handle >> 62 & 1 == 1,
            spin: Self::spin_of(handle),
        }
    }
}

/// A packet at the receiver: one segment, or several in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving {
    /// The numbers of the first segment, as they are on the wire.
    pub(crate) handle: u64,
    pub(crate) segments: u16,
    /// Payload bytes of all segments.
    pub(crate) payload: u32,
    /// Payload bytes of a full segment; only the last may be shorter.
    pub(crate) size: u32,
    /// CE, on all segments.
    pub(crate) marked: bool,
    /// When it was sent.
    pub(crate) sent: Time,
}

const fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The number with these lower bits that is nearest to `expected`.
fn nearest(low: u64, bits: u32, expected: u64) -> u64 {
    // The difference of the lower bits, with its sign.
    let ahead = (low.wrapping_sub(expected) << (64 - bits)) as i64 >> (64 - bits);
    expected.checked_add_signed(ahead).unwrap_or(low)
}

/// Ranges of packet numbers in an acknowledgement: as many as SACK blocks fit beside timestamps (RFC 2018), and the
/// newest.
pub(crate) const RANGES: usize = 4;

/// An acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckFrame {
    /// When it reaches the sender.
    pub(crate) at: Time,
    /// Counts acknowledgements, so that the sender knows when one was lost.
    pub(crate) index: u32,
    /// Packets received, newest range first, from the first number to before the second; empty ones at the end.
    pub(crate) ranges: [(u64, u64); RANGES],
    /// Nothing below this number is news since the acknowledgement before.
    pub(crate) fresh: u64,
    /// The stream has arrived without a gap up to before this packet.
    pub(crate) next: u64,
    /// Packets received with CE so far.
    pub(crate) ce: u64,
    /// ECE.
    pub(crate) echo: bool,
    /// The spin bit of the packet that carries the acknowledgement.
    pub(crate) spin: bool,
    /// How long the newest packet had to wait for it.
    pub(crate) delay: Duration,
}

#[cfg(test)]
mod tests {
    use super::Data;

    #[test]
    fn numbers_survive_the_wire() {
        for base in [0, 5, (1 << 30) - 2, 1 << 30, (1_u64 << 32) - 1, 1 << 40] {
            for offset in [0_u64, 1, 1000, 1 << 20] {
                let data =
                    Data { number: base + offset, sequence: base + offset / 2, reduced: true, spin: false };
                assert_eq!(Data::unpack(data.pack(), base, base), data);
                // An old packet that comes late.
                assert_eq!(Data::unpack(data.pack(), base + 2 * offset, base + 2 * offset), data);
            }
        }
        // Nothing lies below zero.
        let data = Data { number: (1 << 30) - 1, sequence: (1 << 32) - 1, reduced: false, spin: true };
        assert_eq!(Data::unpack(data.pack(), 0, 5), data);
    }
}
