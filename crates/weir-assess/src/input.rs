//! The input of an assessment: several readers at different places of it, and the count of what they read.

use std::cell::RefCell;
use std::io::{self, Read, Seek, SeekFrom};

use super::report::CaptureCounters;
use crate::capture::{Captured, LinkType, Packet, Unread};
use weir_law::Kind;

/// A reader of an input that has others: it seeks to its own place.
pub(super) struct Place<'a, R> {
    input: &'a RefCell<R>,
    at: u64,
}

impl<'a, R> Place<'a, R> {
    pub(super) const fn new(input: &'a RefCell<R>, at: u64) -> Self {
        Self { input, at }
    }
}

impl<R: Read + Seek> Read for Place<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut input = self.input.borrow_mut();
        input.seek(SeekFrom::Start(self.at))?;
        let read = input.read(buffer)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Counts what a frame turned out to be, and hands out its packet if it has one that was read.
pub(super) fn counted<'a>(captured: &Captured<'a>, counters: &mut CaptureCounters) -> Option<Packet<'a>> {
    counters.packets += 1;
    counters.without_time += u64::from(!captured.timed);
    let packet = match captured.open() {
        Ok(packet) => packet,
        Err(unread) => {
            let counter = match unread {
                Unread::Link => {
                    if let LinkType::Other(link) = captured.link {
                        counters.other_link = Some(link);
                    }
                    &mut counters.other_links
                }
                Unread::NotIp => &mut counters.not_ip,
                Unread::Cut => &mut counters.truncated,
                Unread::WifiEncrypted => &mut counters.wifi_encrypted,
                Unread::WifiOther => &mut counters.wifi_other,
                Unread::Mpls => &mut counters.mpls,
                Unread::Gre => &mut counters.gre,
                Unread::Ppp => &mut counters.ppp,
                Unread::TooDeep => &mut counters.too_deep,
            };
            *counter += 1;
            return None;
        }
    };
    counters.tunnelled += u64::from(packet.tunnelled);
    match packet.headers.kind() {
        Kind::NotIp => counters.not_ip += 1,
        Kind::Truncated => counters.truncated += 1,
        Kind::Malformed => counters.malformed += 1,
        Kind::Fragment => counters.fragments += 1,
        Kind::Other => counters.other_protocols += 1,
        Kind::Tcp | Kind::Udp | Kind::Quic => {}
    }
    Some(packet)
}
