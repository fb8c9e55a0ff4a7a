//! What a queue's programs are loaded with: the settings in Rust, and their layout in the programs' read-only section.

use weir_law::Params;
use weir_law::live::{LiveConfig, SEED_WORDS};

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
    /// Flows that the table has room for: rounded up to a power of two, 8 to 2^24. 264 bytes of kernel memory each.
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
    /// Whether a queue below may drop what it dequeues, which kernels before 6.14 do without a reason (`reasons`).
    pub drops_on_dequeue: bool,
    /// Whether each ended cycle is written to the ring of events.
    pub events: bool,
    /// For tests: a packet's time stamp is the time, and signals can be booked ([`Programs::test_signal`]).
    ///
    /// [`Programs::test_signal`]: super::Programs::test_signal
    pub test_clock: bool,
    /// Whether a flow gets its entry with its first packet, as in the user-space bottleneck. Not where others choose
    /// the keys: whoever sends packets of many flows then fills the table.
    pub admit_at_once: bool,
    /// The secret of the table's hash function; `None` draws one.
    pub seed: Option<[u64; SEED_WORDS]>,
}

/// Of which layout the settings and the table are. Goes up when either changes.
const LAYOUT_VERSION: u32 = 6;

/// What the ring of events holds: the records of some 1000 ended cycles, which is one in 10 ms for each of ten flows
/// for a second. Without listeners there is only the page that the kernel wants.
const EVENT_BYTES: [u32; 2] = [4096, 1 << 18];

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
            drops_on_dequeue: false,
            events: false,
            test_clock: false,
            admit_at_once: false,
            seed: None,
        }
    }

    pub(super) fn event_bytes(&self) -> u32 {
        EVENT_BYTES[usize::from(self.events)]
    }

    /// A new table.
    pub(super) fn table(&self, seed: [u64; SEED_WORDS]) -> Result<LiveConfig, KernelError> {
        if !(8..=1 << 24).contains(&self.flows) {
            let value = self.flows.into();
            return Err(KernelError::OutOfRange { field: "flows", value, range: "8 to 16777216" });
        }
        Ok(self.over(&LiveConfig { seed, ..LiveConfig::new(&self.params, self.flows) }))
    }

    /// A table that was kept by the law `before` until now.
    pub(super) fn kept(&self, table: &LiveConfig, before: &Params) -> LiveConfig {
        self.over(&if *before == self.params { *table } else { table.under(&self.params) })
    }

    /// The same table with what these settings change of it.
    fn over(&self, table: &LiveConfig) -> LiveConfig {
        let LiveConfig { admit_bytes, .. } = LiveConfig::new(&self.params, self.flows);
        LiveConfig {
            admit_bytes: if self.admit_at_once { 0 } else { admit_bytes },
            admit_reverse: !self.admit_at_once,
            ..*table
        }
    }

    /// As the programs read them (`struct weir_crq_config` of `bpf/crq_maps.h`).
    pub(super) fn to_bytes(&self, table: &LiveConfig, reasons: &Reasons) -> Vec<u8> {
        self.written(table, reasons).bytes
    }

    fn written(&self, table: &LiveConfig, reasons: &Reasons) -> Writer {
        let (core, subsystem, own) = reasons.tables();
        let mut out = Writer::default();
        out.field("table", &table.to_c_bytes());
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
        out.field("fast", &[self.params.has_fast_path().into()]);
        out.field("reserved", &[0; 6]);
        out.field("reasons", &core);
        out.field("reasons_of_subsystem", &own);
        out
    }
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

/// The table and the law from settings as [`ProgramConfig::to_bytes`] wrote them; `None` where another version did.
pub(super) fn from_bytes(bytes: &[u8]) -> Option<(LiveConfig, Params)> {
    let (table, rest) = bytes.split_at_checked(LiveConfig::C_BYTES)?;
    let (law, rest) = rest.split_at_checked(Params::C_BYTES)?;
    if !rest.starts_with(&LAYOUT_VERSION.to_ne_bytes()) {
        return None;
    }
    Some((LiveConfig::from_c_bytes(table)?, Params::from_c_bytes(law)?))
}

#[cfg(test)]
pub(super) mod tests {
    use weir_law::live::open_seed;
    use weir_law::{MainSignal, Preset};

    use super::*;

    /// Where each field is written, and how many bytes there are.
    pub(crate) fn offsets(config: &ProgramConfig) -> (Vec<(&'static str, usize)>, usize) {
        let reasons = Reasons { names: Vec::new(), unspecified: false };
        let written = config.written(&config.table([0; SEED_WORDS]).unwrap(), &reasons);
        (written.offsets, written.bytes.len())
    }

    #[test]
    fn settings_come_back_as_they_were_written() {
        let reasons = Reasons { names: vec![("A".into(), 3)], unspecified: false };
        let mut config = ProgramConfig::new(Params::preset(Preset::Comsys), 1000, 3, 4_026_531_840);
        config.params = config.params.with_main_signal(MainSignal::Ecn);
        let table = config.table(open_seed(7)).unwrap();
        assert_eq!(table.capacity(), 1024);
        let mut bytes = config.to_bytes(&table, &reasons);
        let (again, params) = from_bytes(&bytes).unwrap();
        assert_eq!(params, config.params);
        // As many flows and such times as the table has.
        assert_eq!((again.flows, again.seed), (1024, open_seed(7)));
        assert_eq!(again.to_c_bytes(), table.to_c_bytes());
        assert_eq!(from_bytes(&config.to_bytes(&again, &reasons)), Some((again, params)));
        bytes[LiveConfig::C_BYTES + Params::C_BYTES] ^= 1;
        assert_eq!(from_bytes(&bytes), None);
        assert_eq!(from_bytes(&bytes[..LiveConfig::C_BYTES]), None);
    }

    #[test]
    fn a_table_that_is_used_again_keeps_its_size_and_takes_other_limits() {
        let config = ProgramConfig::new(Params::default(), 1000, 3, 1);
        let table = config.table(open_seed(7)).unwrap();
        assert!(table.admit_reverse && table.admit_bytes > 0);
        let other = ProgramConfig { admit_at_once: true, flows: 8, ..config };
        let over = other.kept(&table, &config.params);
        assert_eq!(over, LiveConfig { admit_bytes: 0, admit_reverse: false, ..table });
    }

    #[test]
    fn each_law_of_a_table_has_a_number() {
        let [one, other] = [1500, 1000].map(|mss| {
            let params = Params { mss, ..Params::default() };
            ProgramConfig::new(params, 1000, 3, 1)
        });
        let table = one.table(open_seed(7)).unwrap();
        assert_eq!(one.kept(&table, &one.params), table);
        let next = other.kept(&table, &one.params);
        assert_eq!(next, LiveConfig { law: 1, admit_bytes: 4000, ..table });
        // One that was there before is another one all the same.
        assert_eq!(one.kept(&next, &other.params), LiveConfig { law: 2, ..table });
        let last = LiveConfig { law: 255, ..table };
        assert_eq!(other.kept(&last, &one.params).law, 0);
        let reasons = Reasons { names: Vec::new(), unspecified: false };
        let (again, params) = from_bytes(&other.to_bytes(&next, &reasons)).unwrap();
        assert_eq!((again.law, params), (1, other.params));
    }

    #[test]
    fn sizes_out_of_range_are_named() {
        for flows in [0, 7, (1 << 24) + 1] {
            let refused = ProgramConfig::new(Params::default(), flows, 1, 1).table([0; SEED_WORDS]);
            assert!(matches!(refused, Err(KernelError::OutOfRange { field: "flows", .. })));
        }
    }
}
