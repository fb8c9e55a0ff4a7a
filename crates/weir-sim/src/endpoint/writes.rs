//! What an application has written, cut into packets: a write begins with a packet of its own, so the last packet of
//! the write before it may be a short one.

use std::collections::VecDeque;

/// Packets of a stream that never ends.
const ENDLESS: u64 = u64::MAX / 2;

/// The stream so far.
#[derive(Debug)]
pub(crate) struct Writes {
    /// Payload bytes of a full packet.
    size: u32,
    /// The packet after the last one.
    end: u64,
    /// Short packets that are not acknowledged: which, and how many bytes they lack.
    shorts: VecDeque<(u64, u32)>,
    /// Bytes that the short packets lacked that are acknowledged.
    lacked: u64,
}

impl Writes {
    pub(crate) fn new(size: u32) -> Self {
        Self { size, end: 0, shorts: VecDeque::new(), lacked: 0 }
    }

    /// The packet after the last one.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The application writes `bytes` more, or for ever.
    pub(crate) fn write(&mut self, bytes: Option<u64>) {
        let Some(bytes) = bytes else {
            self.end = ENDLESS;
            return;
        };
        let size = u64::from(self.size);
        self.end += bytes.div_ceil(size);
        let rest = (bytes % size) as u32;
        if rest > 0 {
            self.shorts.push_back((self.end - 1, self.size - rest));
        }
    }

    /// What comes from packet `next` on is not written after all.
    pub(crate) fn stop(&mut self, next: u64) {
        self.end = self.end.min(next);
        while self.shorts.back().is_some_and(|(packet, _)| *packet >= next) {
            self.shorts.pop_back();
        }
    }

    /// All packets below `una` have arrived.
    #[inline]
    pub(crate) fn acknowledged(&mut self, una: u64) {
        while let Some((packet, lacks)) = self.shorts.front().copied()
            && packet < una
        {
            self.lacked += u64::from(lacks);
            self.shorts.pop_front();
        }
    }

    /// Payload bytes of a packet that is not acknowledged.
    #[inline]
    pub(crate) fn length(&self, packet: u64) -> u32 {
        if self.shorts.is_empty() {
            return self.size;
        }
        let short = self.shorts.iter().find(|(short, _)| *short == packet);
        self.size - short.map_or(0, |(_, lacks)| *lacks)
    }

    /// Bytes of the stream before a packet that is not acknowledged.
    pub(crate) fn offset(&self, packet: u64) -> u64 {
        let before = self.shorts.iter().take_while(|(short, _)| *short < packet);
        let lacked = self.lacked + before.map(|(_, lacks)| u64::from(*lacks)).sum::<u64>();
        (packet * u64::from(self.size)).saturating_sub(lacked)
    }
}

#[cfg(test)]
mod tests {
    use super::Writes;

    #[test]
    fn each_write_begins_a_packet() {
        let mut writes = Writes::new(1000);
        writes.write(Some(2500));
        writes.write(Some(1000));
        writes.write(Some(1));
        assert_eq!(writes.end(), 5);
        assert_eq!([0, 1, 2, 3, 4].map(|packet| writes.length(packet)), [1000, 1000, 500, 1000, 1]);
        assert_eq!([2, 3, 4, 5].map(|packet| writes.offset(packet)), [2000, 2500, 3500, 3501]);
        writes.acknowledged(3);
        assert_eq!((writes.offset(3), writes.offset(5)), (2500, 3501));
        writes.stop(4);
        assert_eq!((writes.end(), writes.offset(4)), (4, 3500));
        writes.write(None);
        assert_eq!((writes.length(4), writes.offset(5)), (1000, 4500));
    }
}
