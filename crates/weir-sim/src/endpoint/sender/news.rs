//! What an acknowledgement reports that was not known.

use weir_cc::Count;

use super::Sender;
use crate::endpoint::frame::AckFrame;
use crate::endpoint::sent::Fate;

/// What has arrived.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) delivered: Count,
    /// Of their bytes, those that were held to be in flight.
    pub(super) landed: u64,
    /// The lowest number that was.
    pub(super) oldest: Option<u64>,
    /// The highest number.
    pub(super) newest: Option<u64>,
    /// Something has come behind a newer packet.
    pub(super) reordered: bool,
}

impl Sender {
    /// What `frame` reports of the packets from number `fresh` on.
    #[inline]
    pub(super) fn read_news(&mut self, frame: &AckFrame, fresh: u64) -> News {
        let [(from, to), (_, before), ..] = frame.ranges;
        let (from, to) = (from.max(fresh), to.min(self.sent.end()));
        // Nearly always one run of packets has arrived, all of which were in flight, and nothing is missing.
        if before > fresh || from >= to || from < self.flying_from || self.missing.count() > 0 {
            return self.read_any_news(frame, fresh);
        }
        let mut bytes = 0;
        self.sent.each(from..to, |_, packet| {
            debug_assert_eq!(packet.fate, Fate::Flying);
            bytes += u64::from(packet.bytes);
            packet.fate = Fate::Delivered;
        });
        let delivered = Count { packets: (to - from) as u32, bytes };
        News { delivered, landed: bytes, oldest: Some(from), newest: Some(to - 1), reordered: false }
    }

    /// The same if some may have been lost, or heard of before.
    #[inline(never)]
    fn read_any_news(&mut self, frame: &AckFrame, fresh: u64) -> News {
        let mut news = News::default();
        let (unheard, end) = (self.unheard, self.sent.end());
        // Newest first: after one that is not news come only older and empty ones.
        for (from, to) in frame.ranges.into_iter().take_while(|(_, to)| *to > fresh) {
            self.sent.each(from.max(fresh)..to.min(end), |number, packet| {
                match packet.fate {
                    Fate::Delivered => return,
                    Fate::Flying => {
                        news.landed += u64::from(packet.bytes);
                        news.oldest = Some(news.oldest.map_or(number, |oldest| oldest.min(number)));
                    }
                    // Late, not lost. If it was sent again, that will arrive for nothing.
                    Fate::Lost => {}
                }
                packet.fate = Fate::Delivered;
                news.reordered |= number + 1 < unheard;
                self.missing.found(packet.sequence);
                news.delivered.add(packet.bytes);
                news.newest = news.newest.max(Some(number));
            });
        }
        news
    }
}
