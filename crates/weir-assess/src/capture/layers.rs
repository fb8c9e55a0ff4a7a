//! What stands before the IP header that is judged. The law's own parser (`bpf/packet.h`) reads what a bottleneck
//! meets: Ethernet with two tags and PPPoE. Where it finds no TCP or UDP, the rest is opened here: more tags, MPLS (RFC
//! 3032), PPP (RFC 1661), IEEE 802.11, and tunnels through IP: GRE (RFC 2784, 2890, 2637), IP in IP (RFC 2003, 2473,
//! 4213).

use weir_core::Ecn;

use super::link::{Captured, LinkType};
use weir_law::{Kind, ParsedPacket, Start, parse_cut};

/// Tunnels within each other that are opened.
const MAX_TUNNELS: usize = 8;
/// VLAN tags, or MPLS labels, in one stack.
const MAX_TAGS: usize = 16;

/// A captured packet whose headers were read.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The frame from where its headers were read; offsets in `headers` count from here.
    pub frame: &'a [u8],
    /// Its length on the wire from there on.
    pub wire_bytes: u32,
    /// What it begins with there.
    pub start: Start,
    /// The headers. CE on the outside of a tunnel is taken inside, as its end does (RFC 6040).
    pub headers: ParsedPacket,
    /// Whether it came out of a tunnel: MPLS, GRE or IP in IP.
    pub tunnelled: bool,
}

/// Why a frame gave no IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unread {
    /// A link type that is not read.
    Link,
    /// Another network protocol.
    NotIp,
    /// A header before IP is cut short.
    Cut,
    /// IEEE 802.11 data whose payload is encrypted.
    WifiEncrypted,
    /// IEEE 802.11 management and control frames, fragments, aggregates, and data without payload.
    WifiOther,
    /// MPLS without IP or Ethernet behind the labels.
    Mpls,
    /// GRE without IP, or with options that are not read.
    Gre,
    /// PPP that carries no plain IP: control, compressed or multilink.
    Ppp,
    /// In more than eight tunnels.
    TooDeep,
}

/// What comes at an offset.
#[derive(Clone, Copy)]
struct Inside {
    at: usize,
    start: Start,
    tunnel: bool,
}

impl Inside {
    const fn ip(at: usize) -> Self {
        Self { at, start: Start::Ip, tunnel: false }
    }

    const fn through_tunnel(self) -> Self {
        Self { tunnel: true, ..self }
    }
}

type Step = Result<Inside, Unread>;

/// Reads the headers of a captured frame.
pub(super) fn open<'a>(captured: &Captured<'a>) -> Result<Packet<'a>, Unread> {
    let whole = Bytes(captured.frame);
    let mut inside = match captured.link {
        LinkType::Ethernet => Inside { at: 0, start: Start::Ethernet, tunnel: false },
        LinkType::Ip => Inside::ip(0),
        LinkType::Loopback => Inside::ip(4),
        LinkType::Cooked => whole.by_type(whole.word(14)?, 16)?,
        LinkType::Cooked2 => whole.by_type(whole.word(0)?, 20)?,
        LinkType::Ppp => whole.ppp(0)?,
        LinkType::Hdlc => match whole.octet(0)? {
            0x0f | 0x8f => whole.by_type(whole.word(2)?, 4)?,
            _ => whole.ppp(0)?,
        },
        LinkType::PppEther => whole.pppoe(0)?,
        LinkType::Wifi => whole.wifi(0, false)?,
        LinkType::Radiotap => whole.radiotap()?,
        LinkType::Other(_) => return Err(Unread::Link),
    };
    // The simple headers of cooked and loopback captures are the capture's own, not the link's.
    let mut foreign = matches!(
        captured.link,
        LinkType::Ppp | LinkType::Hdlc | LinkType::PppEther | LinkType::Wifi | LinkType::Radiotap
    ) || (captured.link == LinkType::Cooked && inside.at > 16)
        || (captured.link == LinkType::Cooked2 && inside.at > 20);
    let (mut frame, mut wire_bytes) = (captured.frame, captured.wire_bytes);
    let (mut outer, mut tunnelled) = (Ecn::NotEct, false);
    for _ in 0..=MAX_TUNNELS {
        tunnelled |= inside.tunnel;
        frame = frame.get(inside.at..).unwrap_or(&[]);
        wire_bytes = wire_bytes.saturating_sub(u32::try_from(inside.at).unwrap_or(u32::MAX));
        let headers = parse_cut(frame, wire_bytes, inside.start);
        let bytes = Bytes(frame);
        let next = match headers.kind() {
            Kind::NotIp if inside.start == Start::Ethernet => Some(bytes.by_type(bytes.word(12)?, 14)?),
            Kind::Other => bytes.tunnel(&headers)?,
            _ => None,
        };
        let Some(next) = next else {
            let headers = outside(headers, outer, foreign);
            return Ok(Packet { frame, wire_bytes, start: inside.start, headers, tunnelled });
        };
        if headers.kind() == Kind::Other {
            outer = through(headers.ecn(), outer);
        }
        inside = next;
        foreign = true;
    }
    Err(Unread::TooDeep)
}

/// What the layers around a packet do to its headers.
fn outside(mut headers: ParsedPacket, outer: Ecn, foreign: bool) -> ParsedPacket {
    if foreign {
        headers.opened(through(headers.ecn(), outer));
    }
    headers
}

/// The codepoint of a packet that comes out of a tunnel (RFC 6040 section 4.2).
const fn through(inner: Ecn, outer: Ecn) -> Ecn {
    match (inner, outer) {
        (Ecn::NotEct, _) => Ecn::NotEct,
        (_, Ecn::Ce) => Ecn::Ce,
        (Ecn::Ect0, Ecn::Ect1) => Ecn::Ect1,
        (inner, _) => inner,
    }
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn octet(&self, at: usize) -> Result<u8, Unread> {
        self.0.get(at).copied().ok_or(Unread::Cut)
    }

    fn word(&self, at: usize) -> Result<u16, Unread> {
        Ok(u16::from_be_bytes([self.octet(at)?, self.octet(at + 1)?]))
    }

    /// What an EtherType at the end of a header announces, which goes on at `at`.
    fn by_type(&self, mut kind: u16, mut at: usize) -> Step {
        for _ in 0..MAX_TAGS {
            match kind {
                0x0800 | 0x86dd => return Ok(Inside::ip(at)),
                0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                    kind = self.word(at + 2)?;
                    at += 4;
                }
                0x8847 | 0x8848 => return self.mpls(at),
                0x8864 => return self.pppoe(at),
                0x6558 => return Ok(Inside { at, start: Start::Ethernet, tunnel: true }),
                _ => return Err(Unread::NotIp),
            }
        }
        Err(Unread::TooDeep)
    }

    /// Behind the labels only the first octet shows what follows (RFC 4928): the version of IP, or the zeros of a
    /// pseudowire's control word, after which comes Ethernet (RFC 4448).
    fn mpls(&self, mut at: usize) -> Step {
        for _ in 0..MAX_TAGS {
            let bottom = self.octet(at + 2)? & 1 != 0;
            at += 4;
            if bottom {
                return match self.octet(at)? >> 4 {
                    4 | 6 => Ok(Inside::ip(at).through_tunnel()),
                    0 => Ok(Inside { at: at + 4, start: Start::Ethernet, tunnel: true }),
                    _ => Err(Unread::Mpls),
                };
            }
        }
        Err(Unread::TooDeep)
    }

    /// A session's header: version and type 1, code 0 (RFC 2516).
    fn pppoe(&self, at: usize) -> Step {
        match self.word(at)? {
            0x1100 => self.ppp(at + 6),
            _ => Err(Unread::Ppp),
        }
    }

    /// With or without address and control, and the protocol in one or two octets (RFC 1661 section 6.5).
    fn ppp(&self, mut at: usize) -> Step {
        if self.octet(at)? == 0xff && self.octet(at + 1)? == 0x03 {
            at += 2;
        }
        let first = self.octet(at)?;
        let (protocol, at) = if first & 1 != 0 { (first.into(), at + 1) } else { (self.word(at)?, at + 2) };
        match protocol {
            0x0021 | 0x0057 => Ok(Inside::ip(at)),
            0x0281 | 0x0283 => self.mpls(at),
            _ => Err(Unread::Ppp),
        }
    }

    /// What the IP packet that `headers` were read from carries; `None` if it is no tunnel.
    fn tunnel(&self, headers: &ParsedPacket) -> Result<Option<Inside>, Unread> {
        let Some(at) = headers.l4_offset() else { return Ok(None) };
        match headers.protocol() {
            4 | 41 => Ok(Some(Inside::ip(at).through_tunnel())),
            47 => self.gre(at).map(|inside| Some(inside.through_tunnel())),
            137 => self.mpls(at).map(Some),
            _ => Ok(None),
        }
    }

    fn gre(&self, at: usize) -> Step {
        let (flags, kind) = (self.word(at)?, self.word(at + 2)?);
        let optional = |bit: u16| if flags & bit != 0 { 4 } else { 0 };
        let (sum, routing, key, sequence, acknowledged) = (0x8000, 0x4000, 0x2000, 0x1000, 0x0080);
        match flags & 7 {
            0 if flags & routing == 0 => {
                let at = at + 4 + optional(sum) + optional(key) + optional(sequence);
                match kind {
                    0x880b => self.ppp(at),
                    _ => self.by_type(kind, at).map_err(|unread| match unread {
                        Unread::NotIp => Unread::Gre,
                        other => other,
                    }),
                }
            }
            // PPTP's; without a sequence number it only acknowledges.
            1 if kind == 0x880b && flags & sequence != 0 => {
                self.ppp(at + 8 + optional(sequence) + optional(acknowledged))
            }
            _ => Err(Unread::Gre),
        }
    }

    /// An IEEE 802.11 frame at `at` (IEEE 802.11-2020 section 9.2 and 9.3.2); `padded` to whole words behind its
    /// header.
    fn wifi(&self, at: usize, padded: bool) -> Step {
        let (control, flags) = (self.octet(at)?, self.octet(at + 1)?);
        // Version 0, data, with a payload.
        if control & 0x0f != 0x08 || control & 0x40 != 0 {
            return Err(Unread::WifiOther);
        }
        if flags & 0x40 != 0 {
            return Err(Unread::WifiEncrypted);
        }
        let mut header = if flags & 3 == 3 { 30 } else { 24 };
        if control & 0x80 != 0 {
            // An aggregate has headers of its own before each packet.
            if self.octet(at + header)? & 0x80 != 0 {
                return Err(Unread::WifiOther);
            }
            header += if flags & 0x80 != 0 { 6 } else { 2 };
        }
        if self.octet(at + 22)? & 0x0f != 0 {
            return Err(Unread::WifiOther);
        }
        let at = at + if padded { header.next_multiple_of(4) } else { header };
        // LLC with SNAP and an EtherType (RFC 1042).
        match (self.word(at)?, self.word(at + 2)?, self.word(at + 4)?) {
            (0xaaaa, 0x0300, 0x0000) => self.by_type(self.word(at + 6)?, at + 8),
            _ => Err(Unread::NotIp),
        }
    }

    /// The header that radiotap.org describes: what matters is its length, and one bit in its second field.
    fn radiotap(&self) -> Step {
        let length = usize::from(u16::from_le_bytes([self.octet(2)?, self.octet(3)?]));
        let present = self.octet(4)?;
        // Further words of presence bits follow where the highest bit is set.
        let mut at = 8;
        while self.octet(at - 1)? & 0x80 != 0 {
            at += 4;
            if at > length {
                return Err(Unread::WifiOther);
            }
        }
        if present & 1 != 0 {
            at = at.next_multiple_of(8) + 8;
        }
        let padded = present & 2 != 0 && self.octet(at)? & 0x20 != 0;
        self.wifi(length, padded)
    }
}
