//! A writer of pcapng capture files with nanosecond times, one interface per queue, and comments on packets.
//!
//! The format is the IETF's draft-ietf-opsawg-pcapng: a section header block, one interface description block per
//! interface, then enhanced packet blocks. Unlike a classic pcap file it can say which queue a packet left and why it
//! was marked, and Wireshark shows both. Only writing lives here; captures are read elsewhere.

use std::io::{self, Write};

use thiserror::Error;

/// Link type of Ethernet frames (`LINKTYPE_ETHERNET`).
pub const LINK_ETHERNET: u16 = 1;
/// Link type of bare IP packets (`LINKTYPE_RAW`).
pub const LINK_RAW_IP: u16 = 101;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// Option codes: `opt_comment`, `shb_userappl`, `if_name`, `if_tsresol`.
const COMMENT: u16 = 1;
const USER_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const TIME_RESOLUTION: u16 = 9;
/// `if_tsresol` of nanoseconds: ten to the power of minus nine.
const NANOSECONDS: u8 = 9;

/// A capture that could not be written.
#[derive(Debug, Error)]
pub enum PcapngError {
    /// The file system refused.
    #[error("cannot write the capture: {0}")]
    Io(#[from] io::Error),
    /// The packet names an interface that the file does not describe.
    #[error("interface {interface} is not one of the {described} that the capture was created with")]
    Interface {
        /// The index that was given.
        interface: u32,
        /// How many there are.
        described: u32,
    },
}

/// Writes one section to `W`.
#[derive(Debug)]
pub struct PcapngWriter<W: Write> {
    out: W,
    interfaces: u32,
    snaplen: u32,
}

impl<W: Write> PcapngWriter<W> {
    /// Describes `interfaces`, all of one `link_type`, in `out`. Packets are cut to `snaplen` bytes; 0 keeps them
    /// whole. Each packet is several small writes, so `out` should be buffered.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(out: W, interfaces: &[&str], link_type: u16, snaplen: u32) -> Result<Self, PcapngError> {
        let mut writer = Self { out, interfaces: interfaces.len() as u32, snaplen };
        writer.section_header()?;
        for name in interfaces {
            writer.interface_description(name, link_type)?;
        }
        Ok(writer)
    }

    /// Writes one packet of interface `interface` (an index into the names given at the start), seen
    /// `time_ns_since_epoch` nanoseconds after 1970 began. `bytes` is what was captured of its `original_len` bytes. A
    /// comment longer than 65535 bytes is cut. Allocates nothing.
    ///
    /// # Errors
    /// If there is no such interface, or the file cannot be written.
    pub fn packet(
        &mut self,
        interface: u32,
        time_ns_since_epoch: u64,
        original_len: u32,
        bytes: &[u8],
        comment: Option<&str>,
    ) -> Result<(), PcapngError> {
        if interface >= self.interfaces {
            return Err(PcapngError::Interface { interface, described: self.interfaces });
        }
        let limit = if self.snaplen == 0 { u32::MAX } else { self.snaplen } as usize;
        let bytes = &bytes[..bytes.len().min(limit)];
        let comment = comment.map(cut).filter(|text| !text.is_empty());
        let options = comment.map_or(0, |text| option_len(text.len()) + 4);
        let length = 32 + padded(bytes.len()) + options;
        self.words(&[
            ENHANCED_PACKET,
            length as u32,
            interface,
            (time_ns_since_epoch >> 32) as u32,
            time_ns_since_epoch as u32,
            bytes.len() as u32,
            original_len.max(bytes.len() as u32),
        ])?;
        self.padded_bytes(bytes)?;
        if let Some(text) = comment {
            self.option(COMMENT, text.as_bytes())?;
            self.words(&[0])?;
        }
        Ok(self.words(&[length as u32])?)
    }

    /// Writes out what is buffered and hands the destination back. Without it a full disk at the end goes unnoticed.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub fn finish(mut self) -> Result<W, PcapngError> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn section_header(&mut self) -> io::Result<()> {
        let application = concat!("weir ", env!("CARGO_PKG_VERSION")).as_bytes();
        let length = (28 + option_len(application.len()) + 4) as u32;
        // Version 1.0; a section length of -1 says "read on to find out".
        self.words(&[SECTION_HEADER, length, BYTE_ORDER_MAGIC, 1, u32::MAX, u32::MAX])?;
        self.option(USER_APPLICATION, application)?;
        self.words(&[0, length])
    }

    fn interface_description(&mut self, name: &str, link_type: u16) -> io::Result<()> {
        let name = cut(name).as_bytes();
        let length = (20 + option_len(name.len()) + option_len(1) + 4) as u32;
        self.words(&[INTERFACE_DESCRIPTION, length, u32::from(link_type), self.snaplen])?;
        self.option(INTERFACE_NAME, name)?;
        self.option(TIME_RESOLUTION, &[NANOSECONDS])?;
        self.words(&[0, length])
    }

    fn words(&mut self, words: &[u32]) -> io::Result<()> {
        words.iter().try_for_each(|word| self.out.write_all(&word.to_le_bytes()))
    }

    fn option(&mut self, code: u16, value: &[u8]) -> io::Result<()> {
        self.out.write_all(&code.to_le_bytes())?;
        self.out.write_all(&(value.len() as u16).to_le_bytes())?;
        self.padded_bytes(value)
    }

    fn padded_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.write_all(&[0; 3][..padded(bytes.len()) - bytes.len()])
    }
}

/// Blocks and options end on multiples of four bytes.
fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn option_len(value: usize) -> usize {
    4 + padded(value)
}

/// The longest beginning of `text` that an option can hold.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(usize::from(u16::MAX))]
}

#[cfg(test)]
mod tests {
    use pcap_parser::{Block, PcapBlockOwned, PcapNGReader, traits::PcapReaderIterator};

    use super::{LINK_ETHERNET, PcapngError, PcapngWriter};

    /// Everything in a file, as an independent reader sees it.
    fn read(file: &[u8]) -> Vec<String> {
        let mut reader = PcapNGReader::new(1 << 18, file).unwrap();
        let mut seen = Vec::new();
        while let Ok((offset, block)) = reader.next() {
            let options = |options: &[pcap_parser::PcapNGOption<'_>]| {
                let text = |option: &pcap_parser::PcapNGOption<'_>| {
                    let value = &option.value[..usize::from(option.len)];
                    let value = if option.code.0 == 9 {
                        format!("{value:?}")
                    } else {
                        String::from_utf8_lossy(value).into()
                    };
                    format!(" {}={value}", option.code.0)
                };
                options.iter().filter(|option| option.code.0 != 0).map(text).collect::<String>()
            };
            seen.push(match block {
                PcapBlockOwned::NG(Block::SectionHeader(header)) => {
                    format!(
                        "section {}.{}{}",
                        header.major_version,
                        header.minor_version,
                        options(&header.options)
                    )
                }
                PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => format!(
                    "interface link {} snaplen {} resolution {:?}{}",
                    interface.linktype.0,
                    interface.snaplen,
                    interface.ts_resolution(),
                    options(&interface.options)
                ),
                PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => format!(
                    "packet if {} at {} is {:?} of {}{}",
                    packet.if_id,
                    (u64::from(packet.ts_high) << 32) | u64::from(packet.ts_low),
                    &packet.data[..packet.caplen as usize],
                    packet.origlen,
                    options(&packet.options)
                ),
                _ => "other".to_owned(),
            });
            reader.consume(offset);
        }
        seen
    }

    #[test]
    fn another_reader_sees_what_was_written() {
        let mut writer =
            PcapngWriter::new(Vec::new(), &["standard", "responsive"], LINK_ETHERNET, 5).unwrap();
        let time = 1_790_000_000_123_456_789;
        writer.packet(0, time, 1514, &[1, 2, 3, 4, 5, 6, 7], None).unwrap();
        writer.packet(1, time + 1, 3, &[9, 8, 7], Some("marked CE: \u{e9}")).unwrap();
        writer.packet(1, time + 2, 0, &[], Some("")).unwrap();
        let error = writer.packet(2, time, 1, &[0], None).unwrap_err();
        assert!(matches!(error, PcapngError::Interface { interface: 2, described: 2 }), "{error}");
        let file = writer.finish().unwrap();
        assert_eq!(
            read(&file),
            [
                concat!("section 1.0 4=weir ", env!("CARGO_PKG_VERSION")),
                "interface link 1 snaplen 5 resolution Some(1000000000) 2=standard 9=[9]",
                "interface link 1 snaplen 5 resolution Some(1000000000) 2=responsive 9=[9]",
                "packet if 0 at 1790000000123456789 is [1, 2, 3, 4, 5] of 1514",
                "packet if 1 at 1790000000123456790 is [9, 8, 7] of 3 1=marked CE: \u{e9}",
                "packet if 1 at 1790000000123456791 is [] of 0",
            ]
        );
    }

    #[test]
    fn long_comments_are_cut_between_characters() {
        let mut writer = PcapngWriter::new(Vec::new(), &["queue"], LINK_ETHERNET, 0).unwrap();
        writer.packet(0, 0, 2, &[0; 2], Some(&"\u{e9}".repeat(40_000))).unwrap();
        let packet = read(&writer.finish().unwrap()).pop().unwrap();
        assert_eq!(packet.matches('\u{e9}').count(), 32_767);
    }
}
