//! What the programs know at this moment, read from their pinned maps without disturbing them.
//!
//! A bucket's version is odd while a program writes to it. A bucket is taken as read when its version was even and the
//! same before and after; otherwise it is read again, and in the end as it is: no count is off by more than the packet at hand.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde::Serialize;
use weir_core::QueueChoice;
use weir_law::live::COUNTER_WORDS;
use weir_law::{Class, FlowKey, SignalPair, Verdict, Votes};

use super::bytes::Reader;
use super::config::{self, Layout};
use super::error::KernelError;
use super::program::{self, Programs};

/// Readings of a bucket before it is taken as it is.
const ATTEMPTS: usize = 16;

/// `struct weir_bucket` of `bpf/table.h`: sizes and offsets; a test compares them with the object's own type information.
pub(super) mod layout {
    pub(in crate::kernel) const BUCKET: usize = 1472;
    pub(in crate::kernel) const TAG: usize = 8;
    pub(in crate::kernel) const SEEN: usize = 24;
    pub(in crate::kernel) const FLAGS: usize = 56;
    pub(in crate::kernel) const WAY: usize = 64;
    pub(in crate::kernel) const WAYS: usize = 8;
    pub(in crate::kernel) const ENTRY: usize = 176;
    pub(in crate::kernel) const FLOW: usize = 40;
    pub(in crate::kernel) const ASCENDING: u8 = 1;
    pub(in crate::kernel) const CLOSING: u8 = 2;
    /// Offsets in `struct weir_flow`, by field.
    pub(in crate::kernel) const FIELDS: &[(&str, usize)] = &[
        ("bytes", 8),
        ("packets", 16),
        ("cycle", 24),
        ("first_cycle", 28),
        ("window", 40),
        ("loss", 52),
        ("mark", 58),
        ("loss_register", 52),
        ("mark_register", 56),
        ("votes", 64),
        ("last_rtt", 104),
        ("late_signals", 108),
        ("withheld", 110),
        ("verdict", 114),
        ("kind", 116),
    ];
}

/// Which transport a flow has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowKind {
    /// TCP.
    Tcp,
    /// UDP that looks like QUIC.
    Quic,
}

/// What the programs know of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlowSnapshot {
    /// Its identity.
    pub key: FlowKey,
    /// The end whose packets go through the queue.
    pub source: SocketAddr,
    /// The end that they go to.
    pub destination: SocketAddr,
    /// Its transport.
    pub kind: FlowKind,
    /// Verdicts for both kinds of signal.
    pub class: Class,
    /// The queue that it has earned.
    pub choice: QueueChoice,
    /// Cycles of the present connection that have ended.
    pub cycles: u32,
    /// The cycle it is in; goes on through new connections on the same key.
    pub cycle: u32,
    /// Length of the last whole cycle, at most 4.29 s.
    pub rtt: Option<Duration>,
    /// Payload bytes that went through the queue, or into it.
    pub bytes: u64,
    /// Packets of the same.
    pub packets: u64,
    /// Windows of the cycles n (so far), n-1 and n-2, in bytes.
    pub windows: [u32; 3],
    /// Signals booked to the same cycles, in segments.
    pub signals: SignalPair<[u32; 3]>,
    /// Votes cast for and against it.
    pub votes: SignalPair<Votes>,
    /// Signals that came too late to count; at most 65535.
    pub late_signals: u16,
    /// Signals that found a window too small to judge by, or the first cycle; at most 65535.
    pub withheld: u16,
    /// Since the last packet of either direction, to about a millisecond.
    pub idle: Duration,
    /// FIN or RST was seen, and no data since.
    pub closing: bool,
}

/// Packets and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// Packets, a super-packet as one.
    pub packets: u64,
    /// Frame bytes.
    pub bytes: u64,
}

/// Counted since the queue was set up, over all processors (`struct weir_counters` of `bpf/table.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// TCP, both directions.
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
    /// Sent to the standard queue.
    pub to_standard: Count,
    /// Sent to the responsive queue.
    pub to_responsive: Count,
    /// Packets that the queues dropped.
    pub loss_packets: u64,
    /// The same in segments of super-packets.
    pub loss_segments: u64,
    /// Packets that the queues marked.
    pub mark_packets: u64,
    /// The same in segments of super-packets.
    pub mark_segments: u64,
    /// Of these, packets of flows without an entry.
    pub unowned_signals: u64,
    /// Packets that came with CE.
    pub arrived_ce: u64,
    /// Packets that were not judged since another processor kept the flow's bucket.
    pub contended: u64,
    /// Flows that got an entry.
    pub admitted: u64,
    /// Entries that their own flow found idle, and that began anew.
    pub expired: u64,
    /// Entries that made room for other flows, idle or closed.
    pub evicted: u64,
    /// Packets of flows fit for an entry that found none free.
    pub full: u64,
    /// Packets of flows that found no place to wait for one.
    pub waiting_full: u64,
    /// Connections that began on the entry of an earlier one.
    pub reopened: u64,
    /// Changes of queue.
    pub switched: u64,
    /// Signals whose cycle could no longer be judged.
    pub late_signals: u64,
    /// Fragments, whose flow cannot be told in full.
    pub ambiguous: u64,
}

/// The maps of one queue, open for reading.
#[derive(Debug)]
pub struct Snapshot {
    directory: PathBuf,
    flows: MapHandle,
    counters: MapHandle,
    layout: Layout,
    uses_marks: bool,
    byte_counters: bool,
}

impl Snapshot {
    /// Opens the maps that are pinned in `directory`.
    ///
    /// # Errors
    /// [`KernelError::NotPinned`] where nothing is there, [`KernelError::OtherLayout`] where another version of Weir pinned
    /// it.
    pub fn open(directory: &Path) -> Result<Self, KernelError> {
        let settings = program::read_settings(directory)?;
        let pinned = |name: &str| {
            let path = directory.join(name);
            MapHandle::from_pinned_path(&path).map_err(|_| KernelError::NotPinned(path))
        };
        Self::over(directory.to_owned(), &settings, pinned("flows")?, pinned("counters")?)
    }

    /// The same over programs that are not pinned.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn of(programs: &Programs) -> Result<Self, KernelError> {
        Self::over(PathBuf::new(), programs.settings(), programs.map("flows")?, programs.map("counters")?)
    }

    fn over(
        directory: PathBuf,
        settings: &[u8],
        flows: MapHandle,
        counters: MapHandle,
    ) -> Result<Self, KernelError> {
        let other = || KernelError::OtherLayout(directory.clone());
        let layout = config::layout_from_bytes(settings).ok_or_else(other)?;
        let (uses_marks, byte_counters) = config::law_from_bytes(settings).ok_or_else(other)?;
        if flows.value_size() as usize != layout::BUCKET {
            return Err(other());
        }
        Ok(Self { directory, flows, counters, layout, uses_marks, byte_counters })
    }

    /// Flows that the table has room for.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.layout.capacity()
    }

    /// All flows that have an entry, in no order.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn flows(&self) -> Result<Vec<FlowSnapshot>, KernelError> {
        let now = ticks_now();
        let mut flows = Vec::new();
        for index in 0..self.layout.buckets() {
            self.read_bucket(&self.bucket(index)?, now, &mut flows);
        }
        Ok(flows)
    }

    /// The bytes of a bucket (`struct weir_bucket`), whole.
    ///
    /// # Errors
    /// What the kernel said; there are an eighth as many buckets as flows.
    pub fn bucket(&self, index: u32) -> Result<Vec<u8>, KernelError> {
        let read = || -> Result<Vec<u8>, KernelError> {
            let bytes = self.flows.lookup(&index.to_ne_bytes(), MapFlags::ANY);
            let bytes = bytes.map_err(|error| KernelError::from_libbpf("reading the table", &error))?;
            bytes.ok_or_else(|| KernelError::NotPinned(self.directory.join("flows")))
        };
        // The kernel copies from front to back, and the version stands in front.
        let version = |bytes: &[u8]| Reader(bytes).u32(0);
        let mut bucket = read()?;
        for _ in 0..ATTEMPTS {
            if Reader(&bucket).is_zero(layout::TAG, layout::SEEN - layout::TAG) {
                break;
            }
            let next = read()?;
            if version(&bucket) % 2 == 0 && version(&bucket) == version(&next) {
                break;
            }
            bucket = next;
        }
        Ok(bucket)
    }

    fn read_bucket(&self, bucket: &[u8], now: u32, flows: &mut Vec<FlowSnapshot>) {
        let bucket = Reader(bucket);
        for way in 0..layout::WAYS {
            if bucket.u16(layout::TAG + 2 * way) == 0 {
                continue;
            }
            let idle = now.wrapping_sub(bucket.u32(layout::SEEN + 4 * way));
            // A packet that came since the clock was read lies in the future.
            let idle = if idle > u32::MAX / 2 { 0 } else { idle };
            let flags = bucket.u8(layout::FLAGS + way);
            let entry = bucket.part(layout::WAY + layout::ENTRY * way, layout::ENTRY);
            flows.push(self.read_entry(entry, Duration::from_nanos(u64::from(idle) << 20), flags));
        }
    }

    fn read_entry(&self, entry: Reader<'_>, idle: Duration, flags: u8) -> FlowSnapshot {
        let mut key = read_key(entry);
        let flow = entry.part(layout::FLOW, 120);
        let at = |name: &str| {
            let known = layout::FIELDS.iter().find(|(known, _)| *known == name);
            known.map_or(0, |(_, offset)| *offset)
        };
        let words = |name| std::array::from_fn(|age| flow.u32(at(name) + 4 * age));
        let signals = |counts: &str, register: &str| {
            std::array::from_fn(|age| match self.byte_counters {
                true => flow.u32(at(register)) >> (8 * age) & 0xff,
                false => flow.u16(at(counts) + 2 * age).into(),
            })
        };
        let votes = |kind: usize| Votes {
            responsive: flow.u32(at("votes") + 8 * kind),
            unresponsive: flow.u32(at("votes") + 8 * kind + 4),
        };
        let (loss, mark) = (flow.u8(at("verdict")), flow.u8(at("verdict") + 1));
        let class = Class::from_index(3 * mark.min(2) + loss.min(2)).unwrap_or_default();
        let responsive = if self.uses_marks { class.ecn } else { class.loss } == Verdict::Responsive;
        let kind = match (flow.u8(at("kind")), key.protocol) {
            (QUIC, _) | (0, UDP_PROTOCOL) => FlowKind::Quic,
            _ => FlowKind::Tcp,
        };
        // Where the law does not tell protocols apart the key has none.
        if key.protocol == 0 {
            key.protocol = if kind == FlowKind::Quic { UDP_PROTOCOL } else { TCP_PROTOCOL };
        }
        let ascending = flags & layout::ASCENDING != 0;
        let cycle = flow.u32(at("cycle"));
        FlowSnapshot {
            source: if ascending { key.low } else { key.high },
            destination: if ascending { key.high } else { key.low },
            kind,
            key,
            class,
            choice: if responsive { QueueChoice::Responsive } else { QueueChoice::Standard },
            cycles: cycle.wrapping_sub(flow.u32(at("first_cycle"))),
            cycle,
            rtt: match flow.u32(at("last_rtt")) {
                0 => None,
                nanos => Some(Duration::from_nanos(nanos.into())),
            },
            bytes: flow.u64(at("bytes")),
            packets: flow.u64(at("packets")),
            windows: words("window"),
            signals: SignalPair {
                loss: signals("loss", "loss_register"),
                mark: signals("mark", "mark_register"),
            },
            votes: SignalPair { loss: votes(0), mark: votes(1) },
            late_signals: flow.u16(at("late_signals")),
            withheld: flow.u16(at("withheld")),
            idle,
            closing: flags & layout::CLOSING != 0,
        }
    }

    /// The words of `struct weir_counters`, over all processors.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn counter_words(&self) -> Result<[u64; COUNTER_WORDS], KernelError> {
        let each = self.counters.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let each = each
            .map_err(|error| KernelError::from_libbpf("reading the counters", &error))?
            .ok_or_else(|| KernelError::NotPinned(self.directory.join("counters")))?;
        Ok(std::array::from_fn(|at| each.iter().map(|bytes| Reader(bytes).u64(8 * at)).sum()))
    }

    /// The counters, over all processors.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn counters(&self) -> Result<Counters, KernelError> {
        let words = self.counter_words()?;
        let word = |at: usize| words[at];
        let count = |packets: usize, bytes: usize| Count { packets: word(packets), bytes: word(bytes) };
        // `enum weir_kind` of bpf/packet.h; then the fields in their order.
        let kind = |kind: usize| count(kind, 8 + kind);
        Ok(Counters {
            not_ip: kind(0),
            truncated: kind(1),
            fragment: kind(2),
            tcp: kind(3),
            udp: kind(4),
            quic: kind(5),
            other: kind(6),
            malformed: kind(7),
            to_standard: count(16, 18),
            to_responsive: count(17, 19),
            loss_packets: word(20),
            mark_packets: word(21),
            loss_segments: word(22),
            mark_segments: word(23),
            unowned_signals: word(24),
            arrived_ce: word(25),
            contended: word(26),
            admitted: word(27),
            expired: word(28),
            evicted: word(29),
            full: word(30),
            waiting_full: word(31),
            reopened: word(32),
            switched: word(33),
            late_signals: word(34),
            ambiguous: word(35),
        })
    }
}

/// `WEIR_QUIC` of `enum weir_kind`.
const QUIC: u8 = 5;
/// IP protocol numbers.
const TCP_PROTOCOL: u8 = 6;
const UDP_PROTOCOL: u8 = 17;

/// `struct weir_key` (`bpf/law_state.h`).
pub(super) fn read_key(bytes: Reader<'_>) -> FlowKey {
    let end = |address: usize, port: usize| {
        let octets: [u8; 16] = std::array::from_fn(|at| bytes.u8(address + at));
        let whole = Ipv6Addr::from(octets);
        SocketAddr::new(whole.to_ipv4_mapped().map_or(IpAddr::V6(whole), IpAddr::V4), bytes.u16(port))
    };
    FlowKey { protocol: bytes.u8(36), low: end(0, 32), high: end(16, 34) }
}

/// The programs' clock (CLOCK_MONOTONIC) in the table's units of 2^20 ns.
fn ticks_now() -> u32 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    ((now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64) >> 20) as u32
}
