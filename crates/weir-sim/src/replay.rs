//! A tunnel's anti-replay window (RFC 4303 section 3.4.3): its entry numbers packets before the queue, and its end
//! refuses those that are so many numbers or more behind the newest. A queue that lets packets overtake each other
//! makes them so.

use std::collections::VecDeque;

/// The packets that the tunnel's end can still distinguish.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    window: u64,
    /// Of the packets that have entered, in order: their ids, which ascend, and the number of their last segment.
    entered: VecDeque<(u64, u64)>,
    last: u64,
    newest: u64,
}

impl Replay {
    /// A window of so many packets.
    pub(crate) fn new(window: u32) -> Self {
        Self { window: u64::from(window), entered: VecDeque::new(), last: 0, newest: 0 }
    }

    /// A packet enters the tunnel.
    pub(crate) fn enter(&mut self, id: u64, segments: u16) {
        self.last += u64::from(segments);
        self.entered.push_back((id, self.last));
    }

    /// A packet comes out; returns whether the tunnel's end takes it.
    pub(crate) fn takes(&mut self, id: u64) -> bool {
        // Those that are gone are too far behind for anybody.
        let Ok(place) = self.entered.binary_search_by_key(&id, |(id, _)| *id) else { return false };
        let number = self.entered[place].1;
        self.newest = self.newest.max(number);
        let is_taken = self.newest - number < self.window;
        while self
            .entered
            .front()
            .is_some_and(|(_, number)| self.newest.saturating_sub(*number) >= self.window)
        {
            self.entered.pop_front();
        }
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::Replay;

    #[test]
    fn what_is_a_window_behind_is_refused_and_forgotten() {
        let mut replay = Replay::new(32);
        for id in 0..100 {
            replay.enter(10 * id, 1);
        }
        assert!(replay.takes(0));
        assert!(replay.takes(400));
        // Numbers 10 to 41 are in the window, of which 41 is the newest.
        assert!(replay.takes(90));
        assert!(!replay.takes(80));
        assert_eq!(replay.entered.front(), Some(&(90, 10)));
        assert!(replay.takes(990) && !replay.takes(90));
        assert_eq!(replay.entered.len(), 32);
    }

    #[test]
    fn a_super_packet_has_a_number_for_each_segment() {
        let mut replay = Replay::new(32);
        for id in 0..4 {
            replay.enter(id, 10);
        }
        assert!(replay.takes(3), "number 40");
        assert!(replay.takes(1), "20 behind");
        assert!(replay.takes(0), "30 behind");
        replay.enter(4, 2);
        assert!(replay.takes(4));
        assert!(!replay.takes(0), "32 behind");
    }
}
