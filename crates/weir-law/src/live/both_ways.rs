//! The kernel's programs take a shorter way for the usual packet (`bpf/fast_path.h`). Here a packet goes both ways, so
//! that tests can see that they lead to one place.

use weir_core::Time;

use super::{LiveOutcome, LiveTable};
use crate::ffi;
use crate::law::Direction;
use crate::live_ffi::{self, Settings, ShortCut, Visit};
use crate::parsed::ParsedPacket;

impl LiveTable {
    /// As [`arrival`](Self::arrival), and whether the fast path took the packet.
    ///
    /// # Errors
    /// What the fast path did otherwise: on a packet that it takes, anything but what the whole way does; on one that
    /// it declines, anything at all.
    pub fn arrival_both_ways(
        &mut self,
        packet: &ParsedPacket,
        wire_bytes: u32,
        direction: Direction,
        now: Time,
    ) -> Result<(LiveOutcome, bool), &'static str> {
        let reverse = direction == Direction::Reverse;
        let wanted = live_ffi::wants(&self.law, packet.raw(), reverse)
            && live_ffi::filter_passes(&self.filter, packet.raw());
        if !wanted {
            return Ok((self.arrival(packet, wire_bytes, direction, now), false));
        }
        let (key, ascending) = ffi::key(packet.raw(), self.params.key_has_protocol);
        let hash = live_ffi::hash(&self.table, &key);
        let at = live_ffi::bucket_of(&self.table, hash);
        let settings = Settings { law: &self.law, table: &self.table };
        let visit = Visit { packet: packet.raw(), key: &key, hash, ascending, now: now.as_nanos() };
        let mut bucket = self.buckets[at];
        let quick = live_ffi::short_cut(&settings, &mut bucket, &visit, reverse);
        let (way, cycle, choice) = match quick {
            ShortCut::OtherKey => return Err("the fast path has another key"),
            ShortCut::Declined if bucket != self.buckets[at] => {
                return Err("the fast path declines, and has changed something");
            }
            ShortCut::Declined => return Ok((self.arrival(packet, wire_bytes, direction, now), false)),
            ShortCut::Taken { way, cycle, choice } => (way, cycle, choice),
        };
        let mut counters = self.counters;
        live_ffi::count(&mut counters, packet.raw(), wire_bytes);
        if !reverse {
            live_ffi::count_choice(&mut counters, choice, wire_bytes);
        }
        let found = self.arrival(packet, wire_bytes, direction, now);
        if live_ffi::way_of(&self.buckets[at], &key, hash) != Some(way) {
            return Err("the fast path finds another entry");
        }
        if bucket != self.buckets[at] {
            return Err("the fast path leaves another bucket");
        }
        if !reverse && (found.ended.is_some() || found.cycle.0 != cycle || found.choice as u32 != choice) {
            return Err("the fast path has another outcome");
        }
        if counters != self.counters {
            return Err("the fast path counts otherwise");
        }
        Ok((found, true))
    }
}
