//! A frame's headers as `bpf/packet.h` reads them, with the standard library's address types, and the one thing that a
//! queue writes into a frame: CE, with the IPv4 checksum mended (RFC 1624).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use weir_core::{Bytes, Ecn};

use crate::ffi;
use crate::flow::FlowKey;

/// Which header a frame begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Start {
    /// Ethernet, with up to two VLAN tags and PPPoE.
    #[default]
    Ethernet,
    /// IPv4 or IPv6, by the version in the first octet (TUN devices, raw captures).
    Ip,
}

impl Start {
    const fn raw(self) -> u32 {
        match self {
            Self::Ethernet => 0,
            Self::Ip => 1,
        }
    }
}

/// What a frame turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Neither IPv4 nor IPv6 where the parser looks for them.
    NotIp,
    /// A header is cut short.
    Truncated,
    /// A fragment other than the first; it has no ports.
    Fragment,
    /// TCP.
    Tcp,
    /// UDP whose payload does not look like QUIC.
    Udp,
    /// UDP whose payload has QUIC's fixed bit.
    Quic,
    /// IP with another transport protocol, or behind more IPv6 headers than are followed.
    Other,
    /// Lengths or versions that contradict each other.
    Malformed,
}

/// The fields of a TCP header that the law reads (RFC 9293).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// Sequence number of the first octet.
    pub seq: u32,
    /// Acknowledgement number; meaningful with the ACK flag.
    pub ack: u32,
    /// Flags as on the wire: FIN 0x01, SYN 0x02, RST 0x04, PSH 0x08, ACK 0x10, ECE 0x40, CWR 0x80.
    pub flags: u8,
    /// Receive window, unscaled.
    pub window: u16,
    /// Timestamp value and echo (RFC 7323).
    pub timestamps: Option<(u32, u32)>,
    /// The SACK right edge furthest beyond `ack` (RFC 2018).
    pub sack_right: Option<u32>,
}

impl Tcp {
    /// Whether FIN is set.
    pub const fn fin(&self) -> bool {
        self.flags & 0x01 != 0
    }

    /// Whether SYN is set.
    pub const fn syn(&self) -> bool {
        self.flags & 0x02 != 0
    }

    /// Whether RST is set.
    pub const fn rst(&self) -> bool {
        self.flags & 0x04 != 0
    }

    /// Whether ACK is set.
    pub const fn has_ack(&self) -> bool {
        self.flags & 0x10 != 0
    }
}

/// What QUIC shows without keys (RFC 8999; spin bit RFC 9000 section 17.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quic {
    /// The datagram opens with a long header.
    pub long: bool,
    /// A version 1 or 2 Initial packet is inside.
    pub initial: bool,
    /// The spin bit of the short header, where the datagram has one, alone or after long ones.
    pub spin: Option<bool>,
}

/// A frame's headers. Plain data, without the frame's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedPacket(ffi::Packet);

/// Reads the headers of a whole frame. Never fails: what cannot be read has a [`Kind`] that says so.
pub fn parse(frame: &[u8], start: Start) -> ParsedPacket {
    parse_cut(frame, u32::try_from(frame.len()).unwrap_or(u32::MAX), start)
}

/// Reads the headers of a frame of which only a beginning is at hand, such as one cut by a capture's snap length.
/// `wire_bytes` is its length on the wire: no packet is longer than that, whatever its headers say, and those without a
/// length (super-packets above 64 kB) are as long.
pub fn parse_cut(frame: &[u8], wire_bytes: u32, start: Start) -> ParsedPacket {
    ParsedPacket(ffi::parse(frame, wire_bytes, start.raw()))
}

/// As [`parse_cut`], the way that the kernel's programs read the usual packet (`bpf/fast_path.h`): of TCP's options only
/// timestamps in front, and `None` for what is not usual. Native code has no use for it but to compare the two.
pub fn glance(frame: &[u8], wire_bytes: u32, start: Start) -> Option<ParsedPacket> {
    ffi::glance(frame, wire_bytes, start.raw()).map(ParsedPacket)
}

impl ParsedPacket {
    pub(crate) const fn raw(&self) -> &ffi::Packet {
        &self.0
    }

    /// The same packet as [`glance`] has it: where that says that it left some of TCP's options unread, without them.
    #[must_use]
    pub const fn as_glanced(self, quick: &Self) -> Self {
        const STAMPS: u8 = 0x01;
        const UNREAD: u8 = 0x80;
        let tcp_options = quick.0.tcp_options;
        let read = ffi::Packet { sack_right: 0, tcp_options, ..self.0 };
        match (tcp_options & UNREAD == 0, tcp_options & STAMPS == 0) {
            (true, _) => self,
            (false, false) => Self(read),
            (false, true) => Self(ffi::Packet { tsval: 0, tsecr: 0, ..read }),
        }
    }

    /// What the frame is.
    pub const fn kind(&self) -> Kind {
        match self.0.kind {
            1 => Kind::Truncated,
            2 => Kind::Fragment,
            3 => Kind::Tcp,
            4 => Kind::Udp,
            5 => Kind::Quic,
            6 => Kind::Other,
            7 => Kind::Malformed,
            _ => Kind::NotIp,
        }
    }

    /// The IP version, 4 or 6, where an IP header was read.
    pub const fn ip_version(&self) -> Option<u8> {
        match self.0.ip_version {
            0 => None,
            version => Some(version),
        }
    }

    /// The IP protocol number behind all extension headers that were followed; 0 without an IP header.
    pub const fn protocol(&self) -> u8 {
        self.0.protocol
    }

    /// Says that the packet was found behind layers that the law's own parser does not open, such as a tunnel whose end
    /// gives it the codepoint `ecn`.
    pub const fn opened(&mut self, ecn: Ecn) {
        self.0.layers |= 0x01;
        self.0.ecn = ecn as u8;
    }

    const fn has_ports(&self) -> bool {
        matches!(self.kind(), Kind::Tcp | Kind::Udp | Kind::Quic)
    }

    /// Sender address and port of a TCP or UDP packet.
    pub fn source(&self) -> Option<SocketAddr> {
        self.has_ports().then(|| endpoint(self.0.src, self.0.src_port))
    }

    /// Receiver address and port of a TCP or UDP packet.
    pub fn destination(&self) -> Option<SocketAddr> {
        self.has_ports().then(|| endpoint(self.0.dst, self.0.dst_port))
    }

    /// The flow of a TCP or UDP packet; both directions give the same key.
    pub fn flow_key(&self) -> Option<FlowKey> {
        self.has_ports().then(|| FlowKey::from_raw(&ffi::key(&self.0, true).0))
    }

    /// The ECN codepoint; Not-ECT without an IP header.
    pub const fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.0.ecn)
    }

    /// Where in the frame the octet with the ECN field is: bits 1..0 of it in IPv4, 5..4 in IPv6.
    pub const fn ecn_offset(&self) -> Option<usize> {
        match self.0.ip_version {
            0 => None,
            _ => Some(self.0.ecn_offset as usize),
        }
    }

    /// Where in the frame the IP header begins.
    pub const fn l3_offset(&self) -> Option<usize> {
        match self.0.ip_version {
            0 => None,
            _ => Some(self.0.l3_offset as usize),
        }
    }

    /// Where in the frame the transport header begins, if there is one.
    pub const fn l4_offset(&self) -> Option<usize> {
        match self.0.l4_offset {
            0 => None,
            offset => Some(offset as usize),
        }
    }

    /// IP header and payload as the IP header says, whatever part of it is at hand; 0 without an IP header.
    pub const fn ip_bytes(&self) -> Bytes {
        Bytes(self.0.ip_bytes as u64)
    }

    /// Bytes after the TCP or UDP header, by the same measure; 0 for other packets.
    pub const fn payload_bytes(&self) -> Bytes {
        Bytes(self.0.payload_bytes as u64)
    }

    /// Whether more fragments follow this first one.
    pub const fn is_first_fragment(&self) -> bool {
        self.0.layers & 0x04 != 0
    }

    /// The TCP header's fields.
    pub fn tcp(&self) -> Option<Tcp> {
        let raw = &self.0;
        (self.kind() == Kind::Tcp).then(|| Tcp {
            seq: raw.tcp_seq,
            ack: raw.tcp_ack,
            flags: raw.tcp_flags,
            window: raw.tcp_window,
            timestamps: (raw.tcp_options & 0x01 != 0).then_some((raw.tsval, raw.tsecr)),
            sack_right: (raw.tcp_options & 0x02 != 0).then_some(raw.sack_right),
        })
    }

    /// What QUIC shows.
    pub fn quic(&self) -> Option<Quic> {
        let flags = self.0.quic_flags;
        (self.kind() == Kind::Quic).then_some(Quic {
            long: flags & 0x01 != 0,
            initial: flags & 0x08 != 0,
            spin: if flags & 0x02 != 0 { Some(flags & 0x04 != 0) } else { None },
        })
    }
}

/// Sets CE in `frame`, from which `packet` was parsed. Returns false, and changes nothing, for a packet that is not
/// ECN-capable or not IP, and where `frame` is too short to be that packet's. A packet that carries CE already is left
/// as it is and counts as done.
pub fn write_ce(frame: &mut [u8], packet: &ParsedPacket) -> bool {
    let Some(at) = packet.ecn_offset() else { return false };
    let (Some(version), true) = (packet.ip_version(), packet.ecn().is_capable()) else { return false };
    if version == 6 {
        let Some(octet) = frame.get_mut(at) else { return false };
        *octet |= 0x30;
        return true;
    }
    // The checksum is 10 bytes into the header, the octet with the ECN field 1.
    let Some(header) = frame.get_mut(at - 1..at + 11) else { return false };
    let old = u16::from_be_bytes([header[0], header[1]]);
    header[1] |= 0b11;
    let new = u16::from_be_bytes([header[0], header[1]]);
    let checksum = u16::from_be_bytes([header[10], header[11]]);
    // RFC 1624 equation 3: HC' = ~(~HC + ~m + m')
    let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    true
}

/// The address as the standard library has it: IPv4 where it is mapped.
pub(crate) fn endpoint(address: [u8; 16], port: u16) -> SocketAddr {
    let address = Ipv6Addr::from(address);
    SocketAddr::new(address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4), port)
}
