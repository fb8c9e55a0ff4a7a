//! Packets that were sent and may still be acknowledged.

use std::collections::VecDeque;

use weir_core::Time;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Flying,
    Delivered,
    /// Declared lost; it may still turn out to have been late.
    Lost,
}

/// One packet, with what delivery rate estimation needs to know of the moment it was sent
/// (draft-cheng-iccrg-delivery-rate-estimation section 3.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentPacket {
    pub(crate) sequence: u64,
    pub(crate) time: Time,
    pub(crate) bytes: u32,
    pub(crate) fate: Fate,
    pub(crate) app_limited: bool,
    /// Packets, and payload bytes, delivered so far.
    pub(crate) delivered: u64,
    pub(crate) delivered_bytes: u64,
    pub(crate) delivered_ce: u64,
    pub(crate) delivered_time: Time,
    pub(crate) first_sent: Time,
    pub(crate) lost: u64,
    pub(crate) in_flight: u64,
}

/// A line of them, by packet number.
#[derive(Debug, Default)]
pub(crate) struct SentPackets {
    line: VecDeque<SentPacket>,
    first: u64,
}

impl From<u64> for SentPackets {
    /// None so far, and the next has this number.
    fn from(first: u64) -> Self {
        Self { line: VecDeque::new(), first }
    }
}

impl SentPackets {
    /// The lowest number that is still known.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The number that the next packet gets.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.line.len() as u64
    }

    pub(crate) fn push(&mut self, packet: SentPacket) -> u64 {
        self.line.push_back(packet);
        self.end() - 1
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut SentPacket> {
        self.line.get_mut(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    pub(crate) fn get(&self, number: u64) -> Option<&SentPacket> {
        self.line.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// Forgets the packets at the front that need no more attention. One declared lost is kept for as long as `keep_lost`
    /// says of it, to be recognised if it was only late.
    pub(crate) fn trim(&mut self, keep_lost: impl Fn(&SentPacket) -> bool) {
        while let Some(packet) = self.line.front() {
            let done = match packet.fate {
                Fate::Flying => false,
                Fate::Delivered => true,
                Fate::Lost => !keep_lost(packet),
            };
            if !done {
                break;
            }
            self.line.pop_front();
            self.first += 1;
        }
        if self.line.is_empty() && self.line.capacity() > 4096 {
            // An idle flow holds no more memory than one that never was busy.
            self.line.shrink_to(16);
        }
    }
}
