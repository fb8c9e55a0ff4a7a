//! Questions to the kernel's rtnetlink (rtnetlink(7), net/core/rtnetlink.c), as bytes.
//!
//! What is read here is compared or put back as it was, so nothing is interpreted that need not be: typed bindings know
//! the options of a few qdiscs only, and what they do not know does not survive them.

use std::io;

use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr};

// Messages (linux/rtnetlink.h).
/// Asks for links.
pub const RTM_GETLINK: u16 = 18;
/// Asks for a route.
pub const RTM_GETROUTE: u16 = 26;
/// Adds or changes a qdisc.
pub const RTM_NEWQDISC: u16 = 36;
/// Asks for qdiscs.
pub const RTM_GETQDISC: u16 = 38;
/// Adds or changes a filter.
pub const RTM_NEWTFILTER: u16 = 44;
/// Removes filters.
pub const RTM_DELTFILTER: u16 = 45;
/// Asks for filters.
pub const RTM_GETTFILTER: u16 = 46;
// Flags (linux/netlink.h).
/// Makes it if it is not there.
pub const NLM_F_CREATE: u16 = 0x400;
/// Changes nothing that is there.
pub const NLM_F_EXCL: u16 = 0x200;
/// Replaces what is there.
pub const NLM_F_REPLACE: u16 = 0x100;
/// Asks for all there are.
pub const NLM_F_DUMP: u16 = 0x300;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
/// That the answer was cut short by a change meanwhile.
const NLM_F_DUMP_INTR: u16 = 0x10;
/// Flags of an error message: the request is left out; explanations follow.
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSGERR_ATTR_MSG: u16 = 1;
const HEADER: usize = 16;
/// Bits of an attribute's type that are flags: nested, network byte order.
const TYPE_MASK: u16 = 0x3fff;

/// A conversation.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// One attribute: type and value.
pub type Attribute<'a> = (u16, &'a [u8]);

impl Netlink {
    /// Opens one with the network namespace of the calling thread.
    ///
    /// # Errors
    /// If there is no such socket.
    pub fn open() -> io::Result<Self> {
        Self::of(NETLINK_ROUTE)
    }

    /// The same with its netfilter (net/netfilter/nfnetlink.c), which takes CAP_NET_ADMIN.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn open_netfilter() -> io::Result<Self> {
        Self::of(NETLINK_NETFILTER)
    }

    fn of(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // Only explains errors; a kernel that cannot is no obstacle.
        let _ = socket.set_ext_ack(true);
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends a request and returns the payloads of all answers.
    ///
    /// # Errors
    /// If the kernel refuses, with what it says.
    pub fn ask(&mut self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        loop {
            match self.ask_once(kind, flags, payload) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                answer => return answer,
            }
        }
    }

    fn ask_once(&mut self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let flags = flags | NLM_F_REQUEST | if flags & NLM_F_DUMP == NLM_F_DUMP { 0 } else { NLM_F_ACK };
        let mut message = Vec::with_capacity(HEADER + payload.len());
        message.extend(((HEADER + payload.len()) as u32).to_ne_bytes());
        message.extend(kind.to_ne_bytes());
        message.extend(flags.to_ne_bytes());
        message.extend(self.sequence.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend(payload);
        self.socket.send(&message, 0)?;
        let mut answers = Vec::new();
        let mut torn = false;
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = bytes.as_slice();
            while rest.len() >= HEADER {
                let length = u32_at(rest, 0) as usize;
                if length < HEADER || length > rest.len() {
                    return Err(io::Error::other("the kernel's answer is cut off"));
                }
                let (kind, flags, sequence) = (u16_at(rest, 4), u16_at(rest, 6), u32_at(rest, 8));
                let body = &rest[HEADER..length];
                rest = &rest[align(length).min(rest.len())..];
                if sequence != self.sequence {
                    continue;
                }
                torn |= flags & NLM_F_DUMP_INTR != 0;
                match kind {
                    NLMSG_DONE if torn => return Err(io::ErrorKind::Interrupted.into()),
                    NLMSG_DONE => return Ok(answers),
                    NLMSG_ERROR => return verdict(body, flags).map(|()| answers),
                    _ => answers.push(body.to_vec()),
                }
            }
        }
    }
}

/// What an error message says; zero is success.
fn verdict(body: &[u8], flags: u16) -> io::Result<()> {
    if body.len() < 4 {
        return Err(io::Error::other("the kernel's error is cut off"));
    }
    let code = -(u32_at(body, 0) as i32);
    if code == 0 {
        return Ok(());
    }
    let error = io::Error::from_raw_os_error(code);
    let request = if flags & NLM_F_CAPPED != 0 || body.len() < 8 { HEADER } else { u32_at(body, 4) as usize };
    let said = (flags & NLM_F_ACK_TLVS != 0)
        .then(|| body.get(4 + align(request)..))
        .flatten()
        .and_then(|rest| attributes(rest).find(|(kind, _)| *kind == NLMSGERR_ATTR_MSG))
        .map(|(_, text)| text_of(text));
    Err(match said {
        Some(said) => io::Error::new(error.kind(), format!("{said} ({error})")),
        None => error,
    })
}

/// The attributes in `bytes`, until one does not fit.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = Attribute<'_>> {
    std::iter::from_fn(move || {
        if bytes.len() < 4 {
            return None;
        }
        let (length, kind) = (usize::from(u16_at(bytes, 0)), u16_at(bytes, 2) & TYPE_MASK);
        let value = bytes.get(4..length)?;
        bytes = &bytes[align(length).min(bytes.len())..];
        Some((kind, value))
    })
}

/// Appends an attribute.
pub fn put(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend(((4 + value.len()) as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(align(message.len()), 0);
}

/// Text up to its terminating zero.
pub fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

fn align(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// The number at `at`, or zero behind the end.
pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_ne_bytes)
}

/// As [`u16_at`], of 32 bits.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
}
