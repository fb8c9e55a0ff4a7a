//! What an acknowledgement tells that was not known.

use weir_cc::Count;

use super::missing::Missing;
use crate::endpoint::frame::AckFrame;
use crate::endpoint::sent::{Fate, SentPackets};

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

impl News {
    /// What `frame` tells of `sent` from number `fresh` on, where `known` is the newest packet that was heard of.
    #[inline]
    pub(super) fn read(
        frame: &AckFrame,
        fresh: u64,
        known: Option<u64>,
        sent: &mut SentPackets,
        missing: &mut Missing,
    ) -> Self {
        let [(from, to), (_, before), ..] = frame.ranges;
        let (from, to) = (from.max(fresh), to.min(sent.end()));
        // Nearly always one run of packets has arrived that were not heard of, and nothing is missing.
        if before > fresh || from >= to || missing.count() > 0 || known.is_some_and(|known| known >= from) {
            return Self::read_any(frame, fresh, known, sent, missing);
        }
        let (mut bytes, mut landed, mut oldest) = (0, 0, u64::MAX);
        sent.each(from..to, |number, packet| {
            let size = u64::from(packet.bytes);
            bytes += size;
            if packet.fate == Fate::Flying {
                landed += size;
                oldest = oldest.min(number);
            }
            packet.fate = Fate::Delivered;
        });
        let delivered = Count { packets: (to - from) as u32, bytes };
        let oldest = (oldest < u64::MAX).then_some(oldest);
        Self { delivered, landed, oldest, newest: Some(to - 1), reordered: false }
    }

    /// The same if some may have been lost, or heard of before.
    #[inline(never)]
    fn read_any(
        frame: &AckFrame,
        fresh: u64,
        known: Option<u64>,
        sent: &mut SentPackets,
        missing: &mut Missing,
    ) -> Self {
        let mut news = Self::default();
        // Newest first: after one that is not news come only older and empty ones.
        for (from, to) in frame.ranges.into_iter().take_while(|(_, to)| *to > fresh) {
            sent.each(from.max(fresh)..to.min(sent.end()), |number, packet| {
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
                news.reordered |= known.is_some_and(|known| number < known);
                missing.found(packet.sequence);
                news.delivered.add(packet.bytes);
                news.newest = news.newest.max(Some(number));
            });
        }
        news
    }
}
