//! A captured frame and what it begins with: link types by the value that captures have for them.

use weir_core::Time;

use super::layers::{self, Packet, Unread};
use weir_law::{ParsedPacket, Start};

/// What a captured frame begins with, by its LINKTYPE value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Ethernet (1).
    Ethernet,
    /// The IP header: RAW (101, and 12 and 14 as some systems write it), IPV4 (228), IPV6 (229).
    Ip,
    /// Four bytes of address family: NULL (0) and LOOP (108).
    Loopback,
    /// Linux cooked (113): 16 bytes.
    Cooked,
    /// Linux cooked version 2 (276): 20 bytes.
    Cooked2,
    /// PPP, with or without HDLC's address and control (9).
    Ppp,
    /// PPP in HDLC-like framing (50), or Cisco's HDLC: the first octet shows which. C_HDLC (104) likewise.
    Hdlc,
    /// The header of PPP over Ethernet (51).
    PppEther,
    /// IEEE 802.11 (105).
    Wifi,
    /// IEEE 802.11 after a radiotap header (127).
    Radiotap,
    /// Any other value: not read.
    Other(u16),
}

impl LinkType {
    /// The meaning of a LINKTYPE value (tcpdump.org's list of link-layer header types).
    pub const fn from_value(value: u16) -> Self {
        match value {
            1 => Self::Ethernet,
            12 | 14 | 101 | 228 | 229 => Self::Ip,
            0 | 108 => Self::Loopback,
            113 => Self::Cooked,
            276 => Self::Cooked2,
            9 => Self::Ppp,
            50 | 104 => Self::Hdlc,
            51 => Self::PppEther,
            105 => Self::Wifi,
            127 => Self::Radiotap,
            other => Self::Other(other),
        }
    }
}

/// The name of a LINKTYPE value that is not read, where it is one that is met with.
pub const fn link_name(value: u16) -> Option<&'static str> {
    Some(match value {
        6 => "Token Ring",
        8 => "SLIP",
        11 | 100 => "ATM",
        107 => "Frame Relay",
        117 => "OpenBSD pflog",
        119 => "802.11 with a Prism header",
        163 => "802.11 with an AVS header",
        166 => "PPP with a direction",
        187 | 201 | 254 => "Bluetooth",
        189 | 220 | 249 | 266 => "USB",
        192 => "PPI",
        195 | 215 | 230 => "IEEE 802.15.4",
        227 => "CAN",
        239 => "NFLOG",
        252 => "Wireshark's exported PDUs",
        253 => "netlink",
        _ => return None,
    })
}

/// A packet of a capture. Borrows the reader's buffer until the next one is read.
#[derive(Clone, Copy, Debug)]
pub struct Captured<'a> {
    /// Counts packets of the file from 0.
    pub number: u64,
    /// When it was captured: nanoseconds since 1970. That of the packet before where it has none of its own.
    pub time: Time,
    /// Whether it has a time of its own; simple packet blocks do not.
    pub timed: bool,
    /// What its first bytes are.
    pub link: LinkType,
    /// Which interface it was captured on: pcapng's number in the section, or the index in Linux cooked version 2. In
    /// Linux cooked packets of the first version 1 for outgoing packets and 0 for others; else 0.
    pub interface: u32,
    /// Which section of a pcapng file it is in, from 1 on; 0 in a pcap file. Interfaces of different sections say
    /// nothing of each other.
    pub section: u32,
    /// Its length on the wire, at least that of `frame`.
    pub wire_bytes: u32,
    /// The bytes that were captured of it.
    pub frame: &'a [u8],
}

impl<'a> Captured<'a> {
    /// Opens the layers before IP and tunnels through IP, and reads the packet's headers.
    ///
    /// # Errors
    /// Says what was found where no IP header is.
    pub fn open(&self) -> Result<Packet<'a>, Unread> {
        layers::open(self)
    }

    /// The same, for those who do not ask why there is none.
    pub fn packet(&self) -> Option<Packet<'a>> {
        self.open().ok()
    }

    /// What [`parse_cut`](weir_law::parse_cut) takes: the frame from where its headers are read, its length on the wire
    /// from there on, and what comes first. `None` where no IP header is.
    pub fn view(&self) -> Option<(&'a [u8], u32, Start)> {
        self.packet().map(|packet| (packet.frame, packet.wire_bytes, packet.start))
    }

    /// The packet's headers; `None` where no IP header is.
    pub fn headers(&self) -> Option<ParsedPacket> {
        self.packet().map(|packet| packet.headers)
    }
}
