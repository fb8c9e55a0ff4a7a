//! CoDel, controlled delay: drops or marks at departure once packets have waited longer than `target` for a whole
//! `interval`, at intervals that shrink with the square root of the number of drops. Source: the kernel's
//! `include/net/codel.h`, `include/net/codel_impl.h` and `net/sched/sch_codel.c`, in the same integers; RFC 8289 is the
//! specification, from which the kernel departs (see `docs/reference/qdisc/codel.md`).
//!
//! | kernel | here |
//! |---|---|
//! | clock of 1024 ns ticks in 32 bits, compared by signed difference | the same, derived from `now` |
//! | `target`, `interval`, `ce_threshold` in us over netlink, then `>> 10` | nanoseconds, `>> 10`: the same for whole us |
//! | enqueue time in the `skb` control block, truncated to ticks | [`Packet::arrived`], set at enqueue, truncated when compared |
//! | `1/sqrt(count)` in 16 bits, one Newton step a count | the same |
//! | no drop while the rest of the backlog is at most the device's MTU with header | the same, `mtu` |
//! | drops may start strictly after `first_above_time`; 0 means "not above" | the same, with the accidental 0 |
//! | 6.12: any number of drops in one dequeue; 7.2: at most 256, steps of at least one tick | [`KernelVariant`] |
//! | packet limit at enqueue, tail drop | the same, or a byte limit |
//! | `INET_ECN_set_ce`: an arriving CE counts as marked | the same: `Mark` with `ecn_in` CE, no drop |
//! | `ce_threshold` after the drop law; a packet that the law has just marked counts again (`ce_mark`) | the same: a second `Mark`, reason `CeThreshold` |
//! | `ce_threshold_selector` only in `fq_codel` | [`CeThreshold::ect1_only`] here as well |
//! | one decision a super-packet | the same; `segments` says how many it hit |
//! | counters in the `xstats` | events |

mod keys;
pub(crate) mod law;

pub use keys::CodelKeys;
pub(crate) use keys::LAW_WORDS;

use weir_core::{Backlog, Duration, EventKind, EventSink, Packet, Time};

use crate::Qdisc;
use law::{ControlLaw, Params, Source};
use weir_queue::{QueueLimit, Ring};

/// The kernel whose details are followed; both share all else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KernelVariant {
    /// Linux 6.12 and the years before: unlimited drops in one dequeue, and an interval so short that
    /// `interval / sqrt(count)` is less than a tick drops all that is due at once.
    Linux6_12,
    /// Linux 7.2: at most 256 drops in one dequeue, and drops at least one tick apart.
    #[default]
    Linux7_2,
}

impl KernelVariant {
    /// Drops that one dequeue may make; `None` when there is no bound.
    pub const fn max_drops_per_dequeue(self) -> Option<u32> {
        match self {
            Self::Linux6_12 => None,
            Self::Linux7_2 => Some(256),
        }
    }

    /// The shortest time between two drops, in ticks of 1024 ns.
    pub const fn min_step_ticks(self) -> u32 {
        match self {
            Self::Linux6_12 => 0,
            Self::Linux7_2 => 1,
        }
    }
}

/// A shallow marking threshold beside the control law (`ce_threshold`), meant for DCTCP-like senders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CeThreshold {
    /// Packets that have waited longer than this are marked if they can be. At least one tick (1024 ns) longer, in
    /// fact: both times are truncated to ticks and the comparison is strict.
    pub above: Duration,
    /// Mark ECT(1) only (the kernel's selector 1 with mask 3); otherwise ECT(0), ECT(1) and CE.
    pub ect1_only: bool,
}

/// Parameters of [`Codel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// Acceptable standing sojourn time (kernel default 5 ms). Truncated to ticks of 1024 ns: 5 ms are 4882 ticks.
    pub target: Duration,
    /// How long the sojourn time must stay above `target` before the first drop (kernel default 100 ms). May be
    /// shorter than `target`, as in the CRQ prototype (10 us and 100 us).
    pub interval: Duration,
    /// Where the queue overflows (kernel default 1000 packets).
    pub limit: QueueLimit,
    /// Mark packets of ECN-capable senders where others are dropped (kernel default off for `codel`).
    pub ecn: bool,
    /// The shallow marking threshold; none by default. Works without `ecn`.
    pub ce_threshold: Option<CeThreshold>,
    /// Nothing is dropped while the rest of the queue holds at most this many wire bytes (`psched_mtu`: the device's
    /// MTU and its link-layer header, 1514 on Ethernet).
    pub mtu: u32,
    /// Which kernel's details to follow.
    pub kernel: KernelVariant,
}

impl Default for CodelConfig {
    /// The kernel's defaults (`codel_params_init`, `DEFAULT_CODEL_LIMIT`) on Ethernet.
    fn default() -> Self {
        Self {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            limit: QueueLimit::Packets(1000),
            ecn: false,
            ce_threshold: None,
            mtu: weir_core::FULL_PACKET,
            kernel: KernelVariant::default(),
        }
    }
}

/// A CoDel queue.
#[derive(Clone, Debug)]
pub struct Codel {
    ring: Ring,
    law: ControlLaw,
    params: Params,
}

impl Codel {
    /// An empty queue. Any parameters work; [`QdiscConfig`](crate::QdiscConfig) refuses those that make no sense.
    pub fn new(config: CodelConfig) -> Self {
        Self { ring: Ring::new(config.limit), law: ControlLaw::default(), params: Params::new(&config) }
    }
}

impl Source for Ring {
    fn head(&self) -> Option<&Packet> {
        Ring::head(self)
    }

    fn pop(&mut self) -> Option<Packet> {
        Ring::pop(self)
    }

    fn backlog_bytes(&self) -> u64 {
        self.backlog().bytes
    }

    fn report(&self, kind: EventKind, packet: &Packet, now: Time, events: &mut dyn EventSink) {
        Ring::report(self, kind, packet, now, events);
    }

    fn depart(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        Ring::depart(self, now, events)
    }
}

impl Qdisc for Codel {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        self.ring.offer(packet, now, events);
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        self.law.dequeue(&self.params, &mut self.ring, now, events)
    }

    fn backlog(&self) -> Backlog {
        self.ring.backlog()
    }
}

#[cfg(test)]
mod tests;
