//! Reads packets out of capture files: classic pcap (microseconds or nanoseconds, either byte order) and pcapng
//! (draft-ietf-opsawg-pcapng: several sections and interfaces, their clock resolutions and offsets, enhanced, simple
//! and obsolete packet blocks), plain or packed with gzip or zstd, from anything that implements [`Read`]. Opening
//! files is the caller's part.
//!
//! `pcap-parser` decodes records and blocks, but only one whole record at a time: the framing is done here, so that
//! memory stays bounded whatever lengths a damaged file claims, and an error names the byte where the trouble begins.
//! Packets before that byte have been handed out and stay good.

mod error;
mod layers;
mod link;
mod packed;

use std::io::{self, Read};

use pcap_parser::pcapng::{Block, parse_block_be, parse_block_le};
use pcap_parser::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header};
use weir_core::Time;

use packed::Unpacked;

pub use error::CaptureError;
pub use layers::{Packet, Unread};
pub use link::{Captured, LinkType, link_name};

/// The longest packet that is read, libpcap's own limit (`MAXIMUM_SNAPLEN`). A longer one is taken for damage.
pub const MAX_PACKET_BYTES: u32 = 262_144;

/// The longest pcapng packet or interface block: a packet and 64 kB of options. Blocks of other types are skipped over
/// at any length.
pub const MAX_BLOCK_BYTES: u32 = MAX_PACKET_BYTES + 65_536;

/// Interfaces in one pcapng section; more are taken for damage.
const MAX_INTERFACES: usize = 65_536;

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    snap: u32,
    /// As in the option `if_tsresol`: a negative power of ten, or of two with the highest bit.
    resolution: u8,
    offset_secs: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pcap { big_endian: bool, nanos: bool, modified: bool, link: LinkType },
    Pcapng { big_endian: bool },
}

/// Hands out the packets of one capture, in the order of the file.
#[derive(Debug)]
pub struct CaptureReader<R: Read> {
    input: io::BufReader<Unpacked<R>>,
    offset: u64,
    format: Format,
    block: Vec<u8>,
    interfaces: Vec<Interface>,
    section: u32,
    number: u64,
    last: Time,
    failed: bool,
}

/// Where in the block buffer a packet's bytes are, and what is known of it.
struct Found {
    at: usize,
    len: usize,
    wire_bytes: u32,
    time: Option<Time>,
    link: LinkType,
    interface: u32,
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

impl<R: Read> CaptureReader<R> {
    /// Reads the file's header.
    ///
    /// # Errors
    /// For what is no capture, for a header cut short, and if the system cannot read.
    pub fn new(input: R) -> Result<Self, CaptureError> {
        let mut reader = Self {
            input: io::BufReader::with_capacity(65_536, Unpacked::new(input)?),
            offset: 0,
            format: Format::Pcapng { big_endian: false },
            block: Vec::new(),
            interfaces: Vec::new(),
            section: 0,
            number: 0,
            last: Time::ZERO,
            failed: false,
        };
        let got = reader.fill(4)?;
        if got == 0 {
            return Err(CaptureError::Empty);
        }
        if let Some((format, command)) = compression(&reader.block) {
            return Err(CaptureError::Compressed { format, command });
        }
        if got < 4 {
            return Err(CaptureError::Truncated { offset: 0, what: "file header", missing: 24 - got as u64 });
        }
        match u32::from_le_bytes([reader.block[0], reader.block[1], reader.block[2], reader.block[3]]) {
            SECTION => {
                reader.section(0)?;
            }
            0xa1b2_c3d4 | 0xa1b2_3c4d | 0xa1b2_cd34 | 0xd4c3_b2a1 | 0x4d3c_b2a1 => reader.file_header()?,
            _ => {
                let magic = reader.block[..4].iter().map(|byte| format!("{byte:02x}")).collect();
                return Err(CaptureError::NotACapture { magic });
            }
        }
        Ok(reader)
    }

    /// How many bytes of the capture have been read, unpacked.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next packet, or `None` at the end of the file.
    ///
    /// # Errors
    /// Where the file is damaged or cut short; nothing is read after that, and further calls give `None`.
    #[allow(clippy::should_implement_trait, reason = "the packet borrows the reader")]
    pub fn next(&mut self) -> Result<Option<Captured<'_>>, CaptureError> {
        if self.failed {
            return Ok(None);
        }
        let found = match self.format {
            Format::Pcap { .. } => self.record(),
            Format::Pcapng { .. } => self.packet_block(),
        };
        let found = match found {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.failed = true;
                return Err(error);
            }
        };
        let number = self.number;
        self.number += 1;
        self.last = found.time.unwrap_or(self.last);
        let frame = &self.block[found.at..found.at + found.len];
        let interface = match (found.link, frame) {
            (LinkType::Cooked2, [_, _, _, _, a, b, c, d, ..]) => u32::from_be_bytes([*a, *b, *c, *d]),
            (LinkType::Cooked, [0, 4, ..]) => 1,
            _ => found.interface,
        };
        Ok(Some(Captured {
            number,
            time: self.last,
            timed: found.time.is_some(),
            link: found.link,
            interface,
            section: self.section,
            wire_bytes: found.wire_bytes.max(found.len as u32),
            frame,
        }))
    }

    /// Fills the block buffer from the file up to `upto` bytes. Returns how many it holds: fewer only at the file's
    /// end.
    fn fill(&mut self, upto: usize) -> Result<usize, CaptureError> {
        let have = self.block.len();
        let want = upto.saturating_sub(have) as u64;
        match self.input.by_ref().take(want).read_to_end(&mut self.block) {
            Ok(read) => {
                self.offset += read as u64;
                Ok(self.block.len())
            }
            Err(source) => {
                self.offset += (self.block.len() - have) as u64;
                Err(self.unreadable(source))
            }
        }
    }

    /// Distinguishes the system's errors from those of the compression.
    fn unreadable(&self, source: io::Error) -> CaptureError {
        use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
        let offset = self.offset;
        let packing = source.raw_os_error().is_none()
            && matches!(source.kind(), InvalidData | InvalidInput | Other | UnexpectedEof);
        match self.input.get_ref().format() {
            Some(format) if packing => CaptureError::Packed { offset, format, source },
            _ => CaptureError::Read { offset, source },
        }
    }

    fn need(&mut self, upto: usize, start: u64, what: &'static str) -> Result<(), CaptureError> {
        let got = self.fill(upto)?;
        if got < upto {
            return Err(CaptureError::Truncated { offset: start, what, missing: (upto - got) as u64 });
        }
        Ok(())
    }

    fn file_header(&mut self) -> Result<(), CaptureError> {
        self.need(24, 0, "file header")?;
        let Ok((_, header)) = parse_pcap_header(&self.block) else {
            return Err(CaptureError::Malformed { offset: 0, what: "the file header cannot be read" });
        };
        self.format = Format::Pcap {
            big_endian: header.is_bigendian(),
            nanos: header.is_nanosecond_precision(),
            modified: header.is_modified_format(),
            // The upper bits are about frame check sequences (draft-ietf-opsawg-pcap).
            link: LinkType::from_value((header.network.0 & 0xffff) as u16),
        };
        Ok(())
    }

    fn record(&mut self) -> Result<Option<Found>, CaptureError> {
        let Format::Pcap { big_endian, nanos, modified, link } = self.format else { return Ok(None) };
        let header = if modified { 24 } else { 16 };
        let start = self.offset;
        self.block.clear();
        if self.fill(header)? == 0 {
            return Ok(None);
        }
        self.need(header, start, "packet header")?;
        let length = self.word(8, big_endian);
        if length > MAX_PACKET_BYTES {
            return Err(CaptureError::TooLong {
                offset: start,
                what: "packet",
                length: length.into(),
                limit: MAX_PACKET_BYTES.into(),
            });
        }
        self.need(header + length as usize, start, "packet")?;
        let parse = match (modified, big_endian) {
            (true, _) => parse_pcap_frame_modified,
            (false, true) => parse_pcap_frame_be,
            (false, false) => parse_pcap_frame,
        };
        let Ok((_, frame)) = parse(&self.block) else {
            return Err(CaptureError::Malformed { offset: start, what: "a packet header cannot be read" });
        };
        let scale = if nanos { 1 } else { 1_000 };
        let nanos = u64::from(frame.ts_sec) * 1_000_000_000 + u64::from(frame.ts_usec) * scale;
        Ok(Some(Found {
            at: header,
            len: frame.data.len(),
            wire_bytes: frame.origlen,
            time: Some(Time::from_nanos(nanos)),
            link,
            interface: 0,
        }))
    }

    fn word(&self, at: usize, big_endian: bool) -> u32 {
        let bytes = [self.block[at], self.block[at + 1], self.block[at + 2], self.block[at + 3]];
        if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// Reads on until a block with a packet.
    fn packet_block(&mut self) -> Result<Option<Found>, CaptureError> {
        loop {
            let Format::Pcapng { big_endian } = self.format else { return Ok(None) };
            let start = self.offset;
            self.block.clear();
            if self.fill(8)? == 0 {
                return Ok(None);
            }
            self.need(8, start, "block header")?;
            let found = match self.word(0, big_endian) {
                SECTION => {
                    self.section(start)?;
                    None
                }
                INTERFACE => {
                    self.whole(start, big_endian, "interface block")?;
                    self.interface(start, big_endian)?;
                    None
                }
                OBSOLETE_PACKET | SIMPLE_PACKET | ENHANCED_PACKET => {
                    self.whole(start, big_endian, "packet block")?;
                    Some(self.packet(start, big_endian)?)
                }
                _ => {
                    self.skip(start, big_endian)?;
                    None
                }
            };
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// The length that the block at `start` claims, of which at least eight bytes are in the buffer.
    fn length(&self, start: u64, big_endian: bool) -> Result<u32, CaptureError> {
        let length = self.word(4, big_endian);
        if length < 12 || !length.is_multiple_of(4) {
            return Err(CaptureError::Malformed { offset: start, what: "a block has an impossible length" });
        }
        Ok(length)
    }

    /// Completes the block in the buffer.
    fn whole(&mut self, start: u64, big_endian: bool, what: &'static str) -> Result<(), CaptureError> {
        let length = self.length(start, big_endian)?;
        if length > MAX_BLOCK_BYTES {
            let (length, limit) = (length.into(), MAX_BLOCK_BYTES.into());
            return Err(CaptureError::TooLong { offset: start, what, length, limit });
        }
        self.need(length as usize, start, what)?;
        if self.word(length as usize - 4, big_endian) != length {
            return Err(CaptureError::Malformed { offset: start, what: "a block has two different lengths" });
        }
        Ok(())
    }

    /// Leaves a block of another type behind without keeping it.
    fn skip(&mut self, start: u64, big_endian: bool) -> Result<(), CaptureError> {
        let rest = u64::from(self.length(start, big_endian)?) - 8;
        let skipped = io::copy(&mut self.input.by_ref().take(rest), &mut io::sink());
        let skipped = skipped.map_err(|source| self.unreadable(source))?;
        self.offset += skipped;
        if skipped < rest {
            return Err(CaptureError::Truncated { offset: start, what: "block", missing: rest - skipped });
        }
        Ok(())
    }

    /// A section header: a new byte order, and interfaces count from 0 again.
    fn section(&mut self, start: u64) -> Result<(), CaptureError> {
        self.need(12, start, "section header")?;
        let big_endian = match self.word(8, false) {
            0x1a2b_3c4d => false,
            0x4d3c_2b1a => true,
            _ => {
                return Err(CaptureError::Malformed { offset: start, what: "a section has no byte order" });
            }
        };
        self.whole(start, big_endian, "section header")?;
        if !matches!(parse(&self.block, big_endian), Some(Block::SectionHeader(_))) {
            return Err(CaptureError::Malformed { offset: start, what: "a section header cannot be read" });
        }
        self.interfaces.clear();
        self.section = self.section.wrapping_add(1);
        self.format = Format::Pcapng { big_endian };
        Ok(())
    }

    fn interface(&mut self, start: u64, big_endian: bool) -> Result<(), CaptureError> {
        let Some(Block::InterfaceDescription(block)) = parse(&self.block, big_endian) else {
            return Err(CaptureError::Malformed { offset: start, what: "an interface block cannot be read" });
        };
        let mut interface = Interface {
            link: LinkType::from_value(block.linktype.0 as u16),
            snap: block.snaplen,
            resolution: 6,
            offset_secs: 0,
        };
        for option in &block.options {
            match (option.code.0, option.as_bytes()) {
                (9, Ok(&[resolution, ..])) => interface.resolution = resolution,
                (14, Ok(bytes)) => {
                    if let Ok(bytes) = <[u8; 8]>::try_from(bytes) {
                        interface.offset_secs =
                            if big_endian { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) };
                    }
                }
                (0, _) => break,
                _ => {}
            }
        }
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(CaptureError::Malformed { offset: start, what: "a section has too many interfaces" });
        }
        self.interfaces.push(interface);
        Ok(())
    }

    fn packet(&self, start: u64, big_endian: bool) -> Result<Found, CaptureError> {
        let broken = CaptureError::Malformed { offset: start, what: "a packet block cannot be read" };
        let unknown = CaptureError::Malformed {
            offset: start,
            what: "a packet names an interface that is not described",
        };
        let interface = |index: u32| self.interfaces.get(index as usize).copied();
        match parse(&self.block, big_endian) {
            Some(Block::EnhancedPacket(packet)) => {
                let Some(on) = interface(packet.if_id) else { return Err(unknown) };
                let time = Some(on.time(packet.ts_high, packet.ts_low));
                let found = Found {
                    at: 28,
                    len: packet.caplen as usize,
                    wire_bytes: packet.origlen,
                    time,
                    link: on.link,
                    interface: packet.if_id,
                };
                self.inside(found, start)
            }
            Some(Block::SimplePacket(packet)) => {
                let Some(on) = interface(0) else { return Err(unknown) };
                let snap = if on.snap == 0 { u32::MAX } else { on.snap };
                let len = packet.origlen.min(snap).min(packet.data.len() as u32);
                let found = Found {
                    at: 12,
                    len: len as usize,
                    wire_bytes: packet.origlen,
                    time: None,
                    link: on.link,
                    interface: 0,
                };
                self.inside(found, start)
            }
            // Type 2, which the parser hands out undecoded: interface and drops have 16 bits, the rest is as in type 6.
            Some(Block::Unknown(packet)) if packet.data.len() >= 20 => {
                let halves = [self.block[8], self.block[9]];
                let index = if big_endian { u16::from_be_bytes(halves) } else { u16::from_le_bytes(halves) };
                let Some(on) = interface(index.into()) else { return Err(unknown) };
                let word = |at| self.word(at, big_endian);
                let found = Found {
                    at: 28,
                    len: word(20) as usize,
                    wire_bytes: word(24),
                    time: Some(on.time(word(12), word(16))),
                    link: on.link,
                    interface: index.into(),
                };
                self.inside(found, start)
            }
            _ => Err(broken),
        }
    }

    /// Checks a packet's place in the block, whose last four bytes are its length again.
    fn inside(&self, found: Found, start: u64) -> Result<Found, CaptureError> {
        if found.len > self.block.len().saturating_sub(found.at + 4) {
            return Err(CaptureError::Malformed { offset: start, what: "a packet is longer than its block" });
        }
        Ok(found)
    }
}

impl Interface {
    /// Nanoseconds since 1970 of a time stamp in this interface's units (draft-ietf-opsawg-pcapng section 4.2).
    fn time(&self, high: u32, low: u32) -> Time {
        let units = u128::from(u64::from(high) << 32 | u64::from(low));
        let power = u32::from(self.resolution & 0x7f);
        let nanos = if self.resolution & 0x80 != 0 {
            (units * 1_000_000_000) >> power
        } else if power <= 9 {
            units * 10u128.pow(9 - power)
        } else {
            10u128.checked_pow(power - 9).map_or(0, |scale| units / scale)
        };
        let nanos = nanos as i128 + i128::from(self.offset_secs) * 1_000_000_000;
        Time::from_nanos(nanos.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

fn parse(block: &[u8], big_endian: bool) -> Option<Block<'_>> {
    let parsed = if big_endian { parse_block_be(block) } else { parse_block_le(block) };
    parsed.ok().map(|(_, block)| block)
}

/// Compressions that are recognised but not read, and the command that decompresses them to standard output.
fn compression(start: &[u8]) -> Option<(&'static str, &'static str)> {
    match start {
        [0x1f, 0x8b, ..] => Some(("gzip", "zcat")),
        [0x28, 0xb5, 0x2f, 0xfd] => Some(("zstd", "zstdcat")),
        [0xfd, b'7', b'z', b'X'] => Some(("xz", "xzcat")),
        [b'B', b'Z', b'h', _] => Some(("bzip2", "bzcat")),
        [0x04, 0x22, 0x4d, 0x18] => Some(("lz4", "lz4cat")),
        _ => None,
    }
}
