//! What a sub-flow has under way, by the numbers of its packets.

use std::collections::VecDeque;

use crate::Packet;

/// The packets of a sub-flow whose arrival may still be told.
#[derive(Default)]
pub(crate) struct Flying {
    /// The number of the first.
    first: u64,
    /// None: it has arrived.
    packets: VecDeque<Option<Packet>>,
}

impl Flying {
    /// Packets that are remembered at most; an arrival of an older one is not heard.
    const MOST: usize = 1 << 16;

    /// A packet was sent.
    pub(crate) fn push(&mut self, packet: Packet) {
        if self.packets.len() == Self::MOST {
            self.packets.pop_front();
            self.first += 1;
        }
        self.packets.push_back(Some(packet));
    }

    /// The number of the next packet.
    pub(crate) fn next(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// The packet of this number; none if it was taken, or is not remembered.
    pub(crate) fn take(&mut self, number: u64) -> Option<Packet> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let packet = self.packets.get_mut(index)?.take();
        while let Some(None) = self.packets.front() {
            self.packets.pop_front();
            self.first += 1;
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use weir_core::Time;

    use super::Flying;
    use crate::{Packet, SubFlow};

    #[test]
    fn each_packet_is_taken_once_and_the_oldest_are_forgotten() {
        let mut flying = Flying::default();
        let push = |flying: &mut Flying| {
            let number = flying.next();
            flying.push(Packet {
                sub_flow: SubFlow::Heavy,
                number,
                order: number,
                sent: Time::ZERO,
                bytes: 1500,
            });
        };
        (0..3).for_each(|_| push(&mut flying));
        let numbers = [1, 1, 0, 3].map(|number| flying.take(number).map(|packet| packet.number));
        assert_eq!((numbers, flying.next()), ([Some(1), None, Some(0), None], 3));
        // Of packets 2 and on, the first is one too many.
        (0..Flying::MOST).for_each(|_| push(&mut flying));
        assert!(flying.take(2).is_none() && flying.take(3).is_some());
    }
}
