//! The ECN field of the IP header (RFC 3168 section 5).

use serde::{Deserialize, Serialize};

/// An ECN codepoint: the two low bits of the IPv4 TOS octet or of the IPv6 traffic class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not take part in ECN (00).
    #[default]
    NotEct = 0b00,
    /// ECN-capable, the codepoint of scalable senders (01, RFC 9331).
    Ect1 = 0b01,
    /// ECN-capable, the codepoint of classic senders (10).
    Ect0 = 0b10,
    /// Congestion experienced (11).
    Ce = 0b11,
}

impl Ecn {
    /// Reads the codepoint from the two low bits of a TOS or traffic-class octet; the other bits are ignored.
    pub const fn from_bits(octet: u8) -> Self {
        match octet & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits as they stand in the header.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Whether a queue may answer congestion with CE rather than a drop: any codepoint but Not-ECT.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }
}

#[cfg(test)]
mod tests {
    use super::Ecn;

    #[test]
    fn codepoints_survive_the_header() {
        for bits in 0..4 {
            assert_eq!(Ecn::from_bits(0xfc | bits).bits(), bits);
        }
        assert!(!Ecn::NotEct.is_capable());
        assert!(Ecn::Ce.is_capable());
    }
}
