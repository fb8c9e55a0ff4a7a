//! A queue whose packets wait for no more than a target: those that have are dropped as they come to its head.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};
use weir_core::{Backlog, DropReason, Duration, Event, EventKind, EventSink, Packet, QueueId, Time};
use weir_qdisc::config::{Keys, Word};
use weir_qdisc::{BuildContext, ConfigError, Qdisc};

/// The queue.
#[derive(Clone, Debug, Default)]
pub struct HeadDrop {
    target: Duration,
    limit: usize,
    packets: VecDeque<Packet>,
    bytes: u64,
}

impl HeadDrop {
    /// A queue of at most `limit` packets, of which none waits for more than `target`.
    pub fn new(target: Duration, limit: u32) -> Self {
        Self { target, limit: limit as usize, ..Self::default() }
    }

    fn say(&self, kind: EventKind, packet: Packet, now: Time, events: &mut dyn EventSink) {
        let sojourn = now.since(packet.arrived);
        let event = Event { time: now, kind, packet, queue: QueueId(0), sojourn, backlog: self.backlog() };
        events.event(&event);
    }
}

impl Qdisc for HeadDrop {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        if self.packets.len() >= self.limit {
            return self.say(EventKind::Drop(DropReason::Overflow), packet, now, events);
        }
        self.bytes += u64::from(packet.wire_bytes);
        self.packets.push_back(packet);
        self.say(EventKind::Enqueue, packet, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        while let Some(packet) = self.packets.pop_front() {
            self.bytes -= u64::from(packet.wire_bytes);
            // A link that sends nothing drains no queue: the last packet goes, however old.
            if self.packets.is_empty() || now.since(packet.arrived) <= self.target {
                self.say(EventKind::Dequeue, packet, now, events);
                return Some(packet);
            }
            self.say(EventKind::Drop(DropReason::Aqm), packet, now, events);
        }
        None
    }

    fn backlog(&self) -> Backlog {
        Backlog { packets: self.packets.len() as u32, bytes: self.bytes }
    }
}

/// Keys of `kind = "headdrop"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeadDropKeys {
    /// The longest that a packet waits.
    pub target: Duration,
    /// In packets.
    pub limit: u32,
}

impl Default for HeadDropKeys {
    fn default() -> Self {
        Self { target: Duration::from_millis(15), limit: 1000 }
    }
}

impl Keys for HeadDropKeys {
    const WORDS: &'static [Word] = &[Word::value("target", "15ms"), Word::value("limit", "1000")];

    fn build(&self, _: &BuildContext) -> Result<Box<dyn Qdisc>, ConfigError> {
        if self.limit == 0 {
            let reason = "must be at least 1 packet".to_owned();
            return Err(ConfigError::Refused { key: "limit", reason });
        }
        Ok(Box::new(HeadDrop::new(self.target, self.limit)))
    }
}

impl fmt::Display for HeadDropKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "headdrop {} limit {}", self.target, self.limit)
    }
}
