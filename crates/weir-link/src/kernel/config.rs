//! What a queue's programs are loaded with: the settings in Rust, and their layout in the programs' read-only section.

use weir_law::Params;
use weir_law::live::{BUCKET_BYTES, FILTER_BYTES, SEED_WORDS, WAITING_BYTES};

use super::bytes::Reader;
use super::error::KernelError;
use super::reasons::Reasons;
use super::tree::HTB_HANDLE;

/// Which header a packet's data begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LinkLayer {
    /// An Ethernet header.
    #[default]
    Ethernet,
    /// An IP header (tun, WireGuard, PPP).
    Ip,
}

/// What a queue's programs are loaded with.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramConfig {
    /// The law.
    pub params: Params,
    /// Flows that the table has room for: rounded up to a power of two, 8 to 2^24. 192 bytes of kernel memory each.
    pub flows: u32,
    /// The device with the queue.
    pub ifindex: u32,
    /// The inode of its network namespace (`stat -Lc %i /proc/self/ns/net`).
    pub netns: u32,
    /// What its packets begin with.
    pub link_layer: LinkLayer,
    /// Where `redirect` sends packets to; 0 where nothing is redirected.
    pub redirect_to: u32,
    /// Whether a queue below can mark; otherwise nobody looks at what leaves.
    pub can_mark: bool,
    /// Whether each ended cycle is written to the ring of events.
    pub events: bool,
    /// For tests: a packet's time stamp is the time, and signals can be told ([`Programs::test_signal`]).
    ///
    /// [`Programs::test_signal`]: super::Programs::test_signal
    pub test_clock: bool,
    /// Whether a flow gets its entry with its first packet, as in the user-space bottleneck. Not where others choose the
    /// keys: whoever sends packets of many flows then fills the table.
    pub admit_at_once: bool,
    /// The secret of the table's hash function; `None` draws one.
    pub seed: Option<[u64; SEED_WORDS]>,
}

/// Ways of one bucket (`WEIR_WAYS` of `bpf/table.h`), and candidates of one line of the waiting table.
const WAYS: u32 = 8;

/// Of which layout the settings and the table are. Goes up when either changes.
const LAYOUT_VERSION: u32 = 2;

/// What the ring of events holds: the records of some 1000 ended cycles, which is one in 10 ms for each of ten flows for a
/// second. Without listeners there is only the page that the kernel wants.
const EVENT_BYTES: [u32; 2] = [4096, 1 << 18];

/// The shape of a table: `struct weir_table_params` of `bpf/table.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    seed: [u64; SEED_WORDS],
    bucket_mask: u32,
    waiting_mask: u32,
    admit_bytes: u32,
    admit_reverse: u32,
    idle_tcp: u32,
    idle_udp: u32,
    linger: u32,
    candidate_idle: u32,
    candidate_reverse_idle: u32,
}

impl Layout {
    pub(super) fn buckets(&self) -> u32 {
        self.bucket_mask + 1
    }

    pub(super) fn waiting_lines(&self) -> u32 {
        self.waiting_mask + 1
    }

    pub(super) fn capacity(&self) -> u32 {
        self.buckets() * WAYS
    }

    fn write(&self, out: &mut Writer) {
        out.field("table", &[]);
        for word in self.seed {
            out.bytes.extend_from_slice(&word.to_ne_bytes());
        }
        let words = |out: &mut Writer, words: &[u32]| {
            words.iter().for_each(|word| out.bytes.extend_from_slice(&word.to_ne_bytes()));
        };
        words(out, &[self.bucket_mask, self.waiting_mask, self.admit_bytes, self.admit_reverse]);
        words(out, &[self.idle_tcp, self.idle_udp, self.linger, self.candidate_idle]);
        words(out, &[self.candidate_reverse_idle, 0]);
    }

    /// Kernel memory that the table takes.
    pub(super) fn bytes(&self) -> u64 {
        (self.buckets() as usize * BUCKET_BYTES
            + self.waiting_lines() as usize * WAITING_BYTES
            + FILTER_BYTES) as u64
    }
}

impl ProgramConfig {
    /// Settings for the queue of device `ifindex` in the network namespace with inode `netns`.
    #[must_use]
    pub fn new(params: Params, flows: u32, ifindex: u32, netns: u32) -> Self {
        Self {
            params,
            flows,
            ifindex,
            netns,
            link_layer: LinkLayer::default(),
            redirect_to: 0,
            can_mark: false,
            events: false,
            test_clock: false,
            admit_at_once: false,
            seed: None,
        }
    }

    pub(super) fn event_bytes(&self) -> u32 {
        EVENT_BYTES[usize::from(self.events)]
    }

    /// The shape of a new table.
    pub(super) fn layout(&self, seed: [u64; SEED_WORDS]) -> Result<Layout, KernelError> {
        if !(8..=1 << 24).contains(&self.flows) {
            let value = self.flows.into();
            return Err(KernelError::OutOfRange { field: "flows", value, range: "8 to 16777216" });
        }
        let buckets = self.flows.div_ceil(WAYS).next_power_of_two();
        Ok(self.limits(Layout {
            seed,
            bucket_mask: buckets - 1,
            waiting_mask: buckets - 1,
            admit_bytes: 0,
            admit_reverse: 1,
            idle_tcp: units(300_000),
            idle_udp: units(60_000),
            linger: units(10_000),
            candidate_idle: units(5_000),
            candidate_reverse_idle: units(30_000),
        }))
    }

    /// The same table with what these settings change of it.
    pub(super) fn over(&self, layout: &Layout) -> Layout {
        self.limits(*layout)
    }

    fn limits(&self, layout: Layout) -> Layout {
        if self.admit_at_once {
            return Layout { admit_bytes: 0, admit_reverse: 0, ..layout };
        }
        Layout { admit_bytes: self.params.mss * self.params.min_window_segments, ..layout }
    }

    /// As the programs read them (`struct weir_crq_config` of `bpf/crq_maps.h`).
    pub(super) fn to_bytes(&self, layout: &Layout, reasons: &Reasons) -> Vec<u8> {
        self.written(layout, reasons).bytes
    }

    fn written(&self, layout: &Layout, reasons: &Reasons) -> Writer {
        let (core, subsystem, own) = reasons.tables();
        let mut out = Writer::default();
        layout.write(&mut out);
        out.field("law", &self.params.to_c_bytes());
        out.field("version", &LAYOUT_VERSION.to_ne_bytes());
        out.field("ifindex", &self.ifindex.to_ne_bytes());
        out.field("netns", &self.netns.to_ne_bytes());
        out.field("redirect_to", &self.redirect_to.to_ne_bytes());
        out.field("reason_subsystem", &subsystem.to_ne_bytes());
        out.field("major", &((HTB_HANDLE >> 16) as u16).to_ne_bytes());
        out.field("start", &[u8::from(self.link_layer == LinkLayer::Ip)]);
        out.field("test_clock", &[self.test_clock.into()]);
        out.field("emit_events", &[self.events.into()]);
        out.field("reserved", &[0; 3]);
        out.field("reasons", &core);
        out.field("reasons_of_subsystem", &own);
        out
    }
}

/// Milliseconds in the table's units of 2^20 ns.
fn units(milliseconds: u64) -> u32 {
    ((milliseconds * 1_000_000) >> 20) as u32
}

/// Writes a C structure field by field and remembers where each one begins, for the test that compares with the object.
#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
    offsets: Vec<(&'static str, usize)>,
}

impl Writer {
    fn field(&mut self, name: &'static str, bytes: &[u8]) {
        self.offsets.push((name, self.bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }
}

/// The shape of a table from settings as [`ProgramConfig::to_bytes`] wrote them; `None` where another version did.
pub(super) fn layout_from_bytes(bytes: &[u8]) -> Option<Layout> {
    let settings = Reader(bytes);
    if settings.u32(TABLE_BYTES + LAW_BYTES) != LAYOUT_VERSION {
        return None;
    }
    Some(Layout {
        seed: std::array::from_fn(|word| settings.u64(8 * word)),
        bucket_mask: settings.u32(SEED_BYTES),
        waiting_mask: settings.u32(SEED_BYTES + 4),
        admit_bytes: settings.u32(SEED_BYTES + 8),
        admit_reverse: settings.u32(SEED_BYTES + 12),
        idle_tcp: settings.u32(SEED_BYTES + 16),
        idle_udp: settings.u32(SEED_BYTES + 20),
        linger: settings.u32(SEED_BYTES + 24),
        candidate_idle: settings.u32(SEED_BYTES + 28),
        candidate_reverse_idle: settings.u32(SEED_BYTES + 32),
    })
}

/// From the same: whether marks are the main signal, and whether signals are counted in bytes of registers.
pub(super) fn law_from_bytes(bytes: &[u8]) -> Option<(bool, bool)> {
    let law = Reader(bytes.get(TABLE_BYTES..TABLE_BYTES + LAW_BYTES)?);
    Some((law.u8(MAIN_SIGNAL) == 1, law.u8(BYTE_COUNTERS) != 0))
}

/// The secret, which comes first.
const SEED_BYTES: usize = 8 * SEED_WORDS;
/// `sizeof(struct weir_table_params)`.
const TABLE_BYTES: usize = SEED_BYTES + 40;
/// `sizeof(struct weir_law_params)`, and two offsets in it.
const LAW_BYTES: usize = 44;
const MAIN_SIGNAL: usize = 16;
const BYTE_COUNTERS: usize = 35;

#[cfg(test)]
pub(super) mod tests {
    use weir_law::{MainSignal, Preset};

    use super::*;

    /// Where each field is written, and how many bytes there are.
    pub(in crate::kernel) fn offsets(config: &ProgramConfig) -> (Vec<(&'static str, usize)>, usize) {
        let reasons = Reasons { names: Vec::new(), unspecified: false };
        let written = config.written(&config.layout([0; SEED_WORDS]).unwrap(), &reasons);
        (written.offsets, written.bytes.len())
    }

    #[test]
    fn settings_come_back_as_they_were_written() {
        let reasons = Reasons { names: vec![("A".into(), 3)], unspecified: false };
        let mut config = ProgramConfig::new(Params::preset(Preset::Comsys), 1000, 3, 4_026_531_840);
        config.params = config.params.with_main_signal(MainSignal::Ecn);
        let layout = config.layout(weir_law::live::open_seed(7)).unwrap();
        assert_eq!(layout.capacity(), 1024);
        let bytes = config.to_bytes(&layout, &reasons);
        assert_eq!(layout_from_bytes(&bytes), Some(layout));
        assert_eq!(law_from_bytes(&bytes), Some((true, true)));
        let paper = ProgramConfig { params: Params::default(), ..config.clone() };
        assert_eq!(law_from_bytes(&paper.to_bytes(&layout, &reasons)), Some((false, false)));
        let mut other = bytes;
        other[TABLE_BYTES + LAW_BYTES] ^= 1;
        assert_eq!(layout_from_bytes(&other), None);
    }

    #[test]
    fn sizes_out_of_range_are_named() {
        for flows in [0, 7, (1 << 24) + 1] {
            let refused = ProgramConfig::new(Params::default(), flows, 1, 1).layout([0; SEED_WORDS]);
            assert!(matches!(refused, Err(KernelError::OutOfRange { field: "flows", .. })));
        }
    }
}
