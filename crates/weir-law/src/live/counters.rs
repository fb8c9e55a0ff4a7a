//! What a live table has counted.

use serde::Serialize;

use crate::live_ffi;

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Packets, a super-packet as one.
    pub packets: u64,
    /// Frame bytes, as the device counts them.
    pub bytes: u64,
}

/// What the table did (`struct weir_counters`). Packets are counted in both directions unless said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LiveCounters {
    /// TCP.
    pub tcp: Count,
    /// UDP that looks like QUIC.
    pub quic: Count,
    /// Other UDP.
    pub udp: Count,
    /// Other transports.
    pub other: Count,
    /// Not IP.
    pub not_ip: Count,
    /// Fragments other than first ones.
    pub fragment: Count,
    /// A header was cut short or out of reach.
    pub truncated: Count,
    /// Lengths that contradict each other.
    pub malformed: Count,
    /// Forward packets that were sent to the standard queue.
    pub to_standard: Count,
    /// Forward packets that were sent to the responsive queue.
    pub to_responsive: Count,
    /// Fragments, first ones too: only those have ports, and none is judged.
    pub ambiguous: u64,
    /// Packets that the queues dropped.
    pub loss_packets: u64,
    /// Their segments: a super-packet has several.
    pub loss_segments: u64,
    /// Packets that the queues marked with CE.
    pub mark_packets: u64,
    /// Their segments.
    pub mark_segments: u64,
    /// Signals on packets of flows without an entry.
    pub unowned_signals: u64,
    /// Signals that came when their packet's cycle could no longer be judged. Those that waited together count once.
    pub late_signals: u64,
    /// Packets that came with CE.
    pub arrived_ce: u64,
    /// Packets that were not judged because another processor held their bucket for too long.
    pub contended: u64,
    /// Entries made for new flows.
    pub admitted: u64,
    /// Entries that were found idle by a packet of their own flow, and began anew.
    pub expired: u64,
    /// Entries that made room for another flow, being idle or closed.
    pub evicted: u64,
    /// Packets of flows fit for an entry that found none.
    pub full: u64,
    /// Packets of new flows that found no place to wait.
    pub waiting_full: u64,
    /// Connections that began on the entry of an earlier one.
    pub reopened: u64,
    /// Changes of a flow's queue by a judgement; expiry and reopening are counted by themselves.
    pub switched: u64,
    /// Verdicts that ended because their flow's activity ended no cycles.
    pub lapsed: u64,
}

/// 64-bit words of the kernel's counters.
pub const COUNTER_WORDS: usize = live_ffi::COUNTERS;

impl LiveCounters {
    /// From the words of `struct weir_counters`, summed over processors.
    pub fn from_words(words: [u64; COUNTER_WORDS]) -> Self {
        Self::from_raw(&live_ffi::Counters::from_words(words))
    }

    pub(super) fn from_raw(raw: &live_ffi::Counters) -> Self {
        // By enum weir_kind.
        let [not_ip, truncated, fragment, tcp, udp, quic, other, malformed] =
            std::array::from_fn(|kind| Count { packets: raw.packets[kind], bytes: raw.bytes[kind] });
        let [to_standard, to_responsive] = std::array::from_fn(|queue| Count {
            packets: raw.queue_packets[queue],
            bytes: raw.queue_bytes[queue],
        });
        Self {
            tcp,
            quic,
            udp,
            other,
            not_ip,
            fragment,
            truncated,
            malformed,
            to_standard,
            to_responsive,
            ambiguous: raw.ambiguous,
            loss_packets: raw.signal_packets[0],
            loss_segments: raw.signal_segments[0],
            mark_packets: raw.signal_packets[1],
            mark_segments: raw.signal_segments[1],
            unowned_signals: raw.unowned_signals,
            late_signals: raw.late_signals,
            arrived_ce: raw.arrived_ce,
            contended: raw.contended,
            admitted: raw.admitted,
            expired: raw.expired,
            evicted: raw.evicted,
            full: raw.full,
            waiting_full: raw.waiting_full,
            reopened: raw.reopened,
            switched: raw.switched,
            lapsed: raw.lapsed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LiveCounters;

    #[test]
    fn the_page_names_each_counter_once() {
        let page = include_str!("../../../../docs/reference/flow-table.md");
        let (_, table) = page.split_once("\n## Counters\n").unwrap();
        let cells = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
        let words = cells.flat_map(|cell| cell.split([' ', '`', '-']));
        let mut named: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let counters = serde_json::to_value(LiveCounters::default()).unwrap();
        let mut counters: Vec<&String> = counters.as_object().unwrap().keys().collect();
        named.sort_unstable();
        counters.sort_unstable();
        assert_eq!(named, counters);
    }
}
