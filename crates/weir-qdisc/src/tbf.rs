//! A token bucket before a byte FIFO, as the kernel's `tbf` (`net/sched/sch_tbf.c`, `include/net/sch_generic.h`,
//! `net/sched/sch_generic.c`): what a bucket of few bytes does to a link is in its arithmetic and its wake-ups.
//!
//! | kernel | here |
//! |---|---|
//! | tokens in nanoseconds, full at the start; they fill with time up to `burst` | the same |
//! | a byte's time is a multiplier and a shift of 32 bits (`psched_ratecfg_precompute`) | the same, [`ByteTime`] |
//! | a packet longer than `burst` is dropped; a super-packet is cut into its segments | the same, but a super-packet goes out whole: it waits for the tokens of one segment and pays for all |
//! | without tokens for the packet at the head, `qdisc_watchdog_schedule_ns` asks for a wake-up when they are there | the same; the wake-up comes `late` after that, which in the kernel is the machine's business |
//! | a device with room asks for the next packet at once, and for one that arrives | the same: the wait is computed when a packet has left, and a packet that arrives ends it if the tokens are there |
//! | tokens beyond `burst` are lost, so that a bucket of one packet loses all of a late wake-up | the same |
//! | the inner queue is a `bfifo` of `limit` bytes | the same |
//! | `peakrate` and its `mtu`, `overhead`, `linklayer`, another inner queue | not offered |

mod keys;

pub use keys::TbfKeys;

use weir_core::{Backlog, DropReason, Duration, EventSink, Packet, Rate, Time};
use weir_queue::{QueueLimit, Ring};

use crate::Qdisc;

/// How long bytes take, as the kernel's packet schedulers count: a multiplier below 2^32 and a shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ByteTime {
    multiplier: u32,
    shift: u32,
}

impl ByteTime {
    /// Of whole bytes a second, at least one. The multiplier has as many digits as 32 bits and the scaled second, which
    /// stays within 64 bits, allow.
    fn new(rate: Rate) -> Self {
        let bytes = (rate.bits_per_sec() / 8).max(1);
        let (mut second, mut shift) = (1_000_000_000u64, 0);
        while second / bytes < 1 << 31 && second < 1 << 63 {
            second <<= 1;
            shift += 1;
        }
        Self { multiplier: (second / bytes) as u32, shift }
    }

    /// Of `bytes`, in nanoseconds, rounded down.
    fn of(self, bytes: u32) -> i64 {
        ((u64::from(bytes) * u64::from(self.multiplier)) >> self.shift) as i64
    }
}

/// Parameters of `tbf`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TbfConfig {
    /// What it lets pass in the long run, 8 bit/s at least.
    pub rate: Rate,
    /// The bucket in wire bytes: the longest packet that it lets pass.
    pub burst: u32,
    /// What the queue may hold, in wire bytes.
    pub limit: u64,
    /// How much later than asked for each wake-up comes.
    pub late: Duration,
}

/// A token bucket before a byte FIFO.
#[derive(Clone, Debug)]
pub struct Tbf {
    ring: Ring,
    config: TbfConfig,
    time: ByteTime,
    /// The bucket, in nanoseconds.
    bucket: i64,
    tokens: i64,
    /// When `tokens` was right.
    checked: Time,
    /// When the watchdog goes off.
    wake: Option<Time>,
    wakes: u64,
}

impl Tbf {
    /// An empty queue with a full bucket.
    pub fn new(config: TbfConfig) -> Self {
        let time = ByteTime::new(config.rate);
        let bucket = time.of(config.burst);
        Self {
            ring: Ring::new(QueueLimit::Bytes(config.limit)),
            config,
            time,
            bucket,
            tokens: bucket,
            checked: Time::ZERO,
            wake: None,
            wakes: 0,
        }
    }

    /// How often it had to wait for tokens: the kernel's `overlimits`, less the askings while it waited.
    pub const fn waits(&self) -> u64 {
        self.wakes
    }

    fn tokens_at(&self, now: Time) -> i64 {
        let passed = i64::try_from(now.since(self.checked).as_nanos()).unwrap_or(i64::MAX);
        passed.min(self.bucket).saturating_add(self.tokens).min(self.bucket)
    }

    /// The time of the tokens that the packet at the head needs: of the first segment.
    fn needed(&self) -> Option<i64> {
        let head = self.ring.head()?;
        Some(self.time.of(head.wire_bytes.div_ceil(u32::from(head.segments.max(1)))))
    }

    /// What a device with room does: asks, and sets the watchdog if there are no tokens.
    fn ask(&mut self, now: Time) {
        self.wake = None;
        if let Some(needed) = self.needed() {
            let lack = needed - self.tokens_at(now);
            if lack > 0 {
                self.wakes += 1;
                self.wake = Some(now + Duration::from_nanos(lack as u64) + self.config.late);
            }
        }
    }
}

impl Qdisc for Tbf {
    fn enqueue(&mut self, packet: Packet, now: Time, events: &mut dyn EventSink) {
        let segment = packet.wire_bytes.div_ceil(u32::from(packet.segments.max(1)));
        if segment > self.config.burst {
            return self.ring.refuse(packet, DropReason::Overflow, now, events);
        }
        let waited = self.wake;
        self.ring.offer(packet, now, events);
        self.ask(now);
        // Asking in vain sets the watchdog to the moment that it was set to.
        if let (Some(wake), Some(waited)) = (self.wake, waited) {
            self.wakes -= 1;
            self.wake = Some(wake.min(waited));
        }
    }

    fn dequeue(&mut self, now: Time, events: &mut dyn EventSink) -> Option<Packet> {
        if self.wake.is_some_and(|wake| now < wake) {
            return None;
        }
        let tokens = self.tokens_at(now);
        let packet = self.ring.depart(now, events)?;
        self.tokens = tokens - self.time.of(packet.wire_bytes);
        self.checked = now;
        self.ask(now);
        Some(packet)
    }

    fn next_ready(&self, now: Time) -> Option<Time> {
        (self.ring.backlog().packets > 0).then(|| self.wake.map_or(now, |wake| wake.max(now)))
    }

    fn backlog(&self) -> Backlog {
        self.ring.backlog()
    }
}

#[cfg(test)]
mod tests;
