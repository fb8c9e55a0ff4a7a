//! Packets that were sent and may still be acknowledged.

use std::ops::Range;

use weir_cc::Stamp;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Flying,
    Delivered,
    /// Declared lost; it may still turn out to have been late.
    Lost,
}

/// One packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentPacket {
    pub(crate) sequence: u64,
    pub(crate) bytes: u32,
    pub(crate) fate: Fate,
    pub(crate) stamp: Stamp,
}

/// Room for packets that a line begins with.
const ROOM: usize = 4;
/// Packets; a line with more room gives it back when it is empty.
const MUCH: usize = 4096;

/// A line of them, by packet number.
#[derive(Debug, Default)]
pub(crate) struct SentPackets {
    /// As many as a power of two, or none; a packet is at the lower bits of its number.
    slots: Vec<SentPacket>,
    first: u64,
    end: u64,
}

impl From<u64> for SentPackets {
    /// None so far, and the next has this number.
    fn from(first: u64) -> Self {
        Self { slots: Vec::new(), first, end: first }
    }
}

impl SentPackets {
    /// The lowest number that is still known.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The number that the next packet gets.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    fn slot(&self, number: u64) -> usize {
        number as usize & self.slots.len().wrapping_sub(1)
    }

    /// Adds a packet, to be filled in.
    #[inline]
    pub(crate) fn push(&mut self) -> (u64, &mut SentPacket) {
        if (self.end - self.first) as usize == self.slots.len() {
            self.grow();
        }
        let number = self.end;
        let slot = self.slot(number);
        self.end += 1;
        (number, &mut self.slots[slot])
    }

    /// Doubles the room.
    #[cold]
    fn grow(&mut self) {
        self.resize((2 * self.slots.len()).max(ROOM));
    }

    fn resize(&mut self, room: usize) {
        let known: Vec<SentPacket> =
            (self.first..self.end).map(|number| self.slots[self.slot(number)]).collect();
        let unused = SentPacket { sequence: 0, bytes: 0, fate: Fate::Delivered, stamp: Stamp::default() };
        self.slots = vec![unused; room];
        for (number, packet) in (self.first..).zip(known) {
            let slot = self.slot(number);
            self.slots[slot] = packet;
        }
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut SentPacket> {
        let slot = self.slot(number);
        if (self.first..self.end).contains(&number) { self.slots.get_mut(slot) } else { None }
    }

    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<&SentPacket> {
        if (self.first..self.end).contains(&number) { self.slots.get(self.slot(number)) } else { None }
    }

    /// Calls `visit` for the packets with these numbers, all of which are known.
    #[inline]
    pub(crate) fn each(&mut self, numbers: Range<u64>, mut visit: impl FnMut(u64, &mut SentPacket)) {
        debug_assert!(self.first <= numbers.start && numbers.end <= self.end);
        let slots = self.slots.as_mut_slice();
        let mask = slots.len().wrapping_sub(1);
        for number in numbers {
            visit(number, &mut slots[number as usize & mask]);
        }
    }

    /// Whether nothing is known of what became of a packet.
    #[inline]
    pub(crate) fn is_flying(&self, number: u64) -> bool {
        self.get(number).is_some_and(|packet| packet.fate == Fate::Flying)
    }

    /// Forgets the packets at the front that need no more attention. One declared lost is kept for as long as
    /// `keep_lost` says of it, to be recognised if it was only late.
    #[inline]
    pub(crate) fn trim(&mut self, keep_lost: impl Fn(&SentPacket) -> bool) {
        while let Some(packet) = self.get(self.first) {
            let done = match packet.fate {
                Fate::Flying => false,
                Fate::Delivered => true,
                Fate::Lost => !keep_lost(packet),
            };
            if !done {
                return;
            }
            self.first += 1;
        }
        if self.slots.len() > MUCH {
            // An idle flow holds no more memory than one that never was busy.
            self.fit();
        }
    }

    /// Gives back what room it can.
    pub(crate) fn fit(&mut self) {
        match (self.end - self.first) as usize {
            0 => self.slots = Vec::new(),
            known => self.resize(known.next_power_of_two()),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_cc::Delivery;
    use weir_core::Time;

    use super::{Fate, SentPacket, SentPackets};

    fn packet(sequence: u64) -> SentPacket {
        let stamp = Delivery::default().send(Time::from_nanos(sequence), 1, true);
        SentPacket { sequence, bytes: 1, fate: Fate::Flying, stamp }
    }

    fn push(line: &mut SentPackets, packet: SentPacket) -> u64 {
        let (number, slot) = line.push();
        *slot = packet;
        number
    }

    #[test]
    fn numbers_stay_while_the_line_grows_and_moves_on() {
        let mut line = SentPackets::default();
        assert!(line.get(0).is_none() && line.get_mut(0).is_none());
        // The front moves on by two of three, so that the line wraps around at many lengths.
        for number in 0..10_000 {
            assert_eq!(push(&mut line, packet(number + 7)), number);
            for front in (line.first()..line.end()).take(usize::from(number % 3 > 0)) {
                line.get_mut(front).unwrap().fate = Fate::Delivered;
            }
            line.trim(|_| true);
            assert_eq!((line.first(), line.end()), ((number + 1) * 2 / 3, number + 1));
            for known in [line.first(), number] {
                assert_eq!(line.get(known).map(|packet| packet.sequence), Some(known + 7));
            }
            assert!(line.get(number + 1).is_none());
            assert!(line.first() == 0 || line.get(line.first() - 1).is_none());
        }
        for number in line.first()..line.end() {
            line.get_mut(number).unwrap().fate = Fate::Lost;
        }
        line.trim(|packet| packet.stamp.sent > Time::from_nanos(9_000));
        assert_eq!(line.get(line.first()).map(|packet| packet.sequence), Some(9_001));
        line.fit();
        assert_eq!(line.slots.len(), 1024);
        assert_eq!(line.get(9_999).map(|packet| packet.sequence), Some(10_006));
        line.trim(|_| false);
        line.fit();
        assert_eq!((line.first(), line.end()), (10_000, 10_000));
        assert_eq!(line.slots.capacity(), 0);
        assert_eq!(push(&mut line, packet(0)), 10_000);
    }
}
