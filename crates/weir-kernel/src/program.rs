//! Loads the eBPF programs with their settings, and the maps that they share: new ones, or those that an earlier load
//! pinned.
//!
//! Two objects: `bpf/crq.bpf.c` sees packets at the traffic hooks, `bpf/crq_signals.bpf.c` hears of what the queues
//! drop and mark. Settings are constants to the verifier, so other settings are other programs; the flow table outlives
//! them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder, OpenObject};
use weir_law::live::LiveConfig;

use super::config::{self, ProgramConfig};
use super::error::KernelError;
use super::reasons::Reasons;
use super::{sys, talk};

/// ELF files are read in place, so they are aligned as their own structures are.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static TRAFFIC: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/crq.o")));
static SIGNALS: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/crq_signals.o")));

/// Read-only settings of the objects; under this name they are pinned too, for those who open the queue later.
const SETTINGS: &str = ".rodata.config";

/// Maps that both objects and all who look on share, by the names of their pins.
const SHARED: [&str; 5] = ["flows", "waiting", "filter", "counters", "events"];

/// Verifier words that go into an error.
const LAST_WORDS: usize = 12;

/// A traffic program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Before the queue: runs the law, chooses the class.
    Forward,
    /// Where packets of the other direction come by.
    Reverse,
    /// Hands received packets to the device that queues them.
    Redirect,
}

impl Role {
    /// Its name in the object and in bpffs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
            Self::Redirect => "redirect",
        }
    }
}

/// What a loaded program is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCost {
    /// Its name.
    pub name: String,
    /// The kernel's number for it.
    pub id: u32,
    /// Instructions, after the kernel left out what the settings rule out.
    pub instructions: u32,
    /// Instructions that the verifier looked at until it was satisfied; it gives up at a million.
    pub verified: u32,
}

/// Loaded programs and their maps. They go when this goes, unless they are pinned or attached.
#[derive(Debug)]
pub struct Programs {
    config: ProgramConfig,
    table: LiveConfig,
    settings: Vec<u8>,
    traffic: Object,
    signals: Object,
}

impl Programs {
    /// Loads the programs with an empty table.
    ///
    /// # Errors
    /// A setting out of range, no right to use eBPF, no memory for the table, or a kernel that lacks what is needed.
    pub fn load(config: &ProgramConfig) -> Result<Self, KernelError> {
        let seed = match config.seed {
            Some(seed) => seed,
            None => sys::random().map_err(|error| KernelError::from_io("reading random bytes", error))?,
        };
        Self::build(config, config.table(seed)?, None)
    }

    /// Loads the programs with settings `config` on the maps that were pinned in `directory`: flows, verdicts and
    /// counters stay. The table's size and seed are those of the pinned table, whatever `config` says.
    ///
    /// # Errors
    /// [`KernelError::NotPinned`] where nothing is there, [`KernelError::OtherLayout`] where another version of Weir
    /// pinned it, otherwise as [`load`](Self::load).
    pub fn reuse(directory: &Path, config: &ProgramConfig) -> Result<Self, KernelError> {
        let (table, before) = config::from_bytes(&read_settings(directory)?)
            .ok_or_else(|| KernelError::OtherLayout(settings_path(directory)))?;
        Self::build(config, config.kept(&table, &before), Some(directory))
    }

    fn build(config: &ProgramConfig, table: LiveConfig, from: Option<&Path>) -> Result<Self, KernelError> {
        if !Path::new("/sys/kernel/btf/vmlinux").exists() {
            return Err(KernelError::NoBtf);
        }
        let reasons = Reasons::of_this_kernel()?;
        let reasons = if config.drops_on_dequeue { reasons } else { reasons.without_dequeue() };
        let settings = config.to_bytes(&table, &reasons);
        let mut traffic = open(&TRAFFIC.0, &settings)?;
        for mut map in traffic.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            let entries = match name.as_str() {
                "flows" | "waiting" => table.buckets(),
                "events" => config.event_bytes(),
                _ => 0,
            };
            let doing = || format!("preparing the map {name}");
            if entries > 0 {
                map.set_max_entries(entries).map_err(|error| KernelError::from_libbpf(doing(), &error))?;
            }
            if let Some(directory) = from.filter(|_| SHARED.contains(&name.as_str())) {
                let path = directory.join(&name);
                let shared =
                    MapHandle::from_pinned_path(&path).map_err(|_| KernelError::NotPinned(path.clone()))?;
                if shared.value_size() != map.value_size() || shared.key_size() != map.key_size() {
                    return Err(KernelError::OtherLayout(path));
                }
                map.reuse_fd(shared.as_fd()).map_err(|error| KernelError::from_libbpf(doing(), &error))?;
            }
        }
        let traffic = load(traffic, &table)?;
        let mut signals = open(&SIGNALS.0, &settings)?;
        for mut map in signals.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if SHARED.contains(&name.as_str()) {
                let shared = traffic.maps().find(|map| map.name().to_string_lossy() == name);
                let shared = shared.ok_or_else(|| missing("map", &name))?;
                map.reuse_fd(shared.as_fd())
                    .map_err(|error| KernelError::from_libbpf(format!("sharing the map {name}"), &error))?;
            }
        }
        for mut program in signals.progs_mut() {
            let needed = match program.name().to_str() {
                Some("left") => config.can_mark,
                Some("told") => config.test_clock,
                _ => true,
            };
            program.set_autoload(needed);
        }
        let signals = load(signals, &table)?;
        Ok(Self { config: config.clone(), table, settings, traffic, signals })
    }

    /// The settings that it was loaded with.
    #[must_use]
    pub fn config(&self) -> &ProgramConfig {
        &self.config
    }

    /// Flows that the table has room for.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.table.capacity()
    }

    /// Pins the maps and settings in `directory`, which is made if need be. What is pinned there already stays, only
    /// the settings are replaced.
    ///
    /// # Errors
    /// What the system said; bpffs has to be mounted there.
    pub fn pin(&self, directory: &Path) -> Result<(), KernelError> {
        let failed = |path: &Path, error| KernelError::from_io(format!("pinning {}", path.display()), error);
        std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
        for map in self.traffic.maps() {
            let name = map.name().to_string_lossy().into_owned();
            let is_settings = name == SETTINGS;
            let path = if is_settings { settings_path(directory) } else { directory.join(&name) };
            if !is_settings && (!SHARED.contains(&name.as_str()) || path.exists()) {
                continue;
            }
            // Under another name first and then over the old one: there is no moment without settings.
            let next = directory.join("next");
            let _ = std::fs::remove_file(&next);
            sys::pin(map.as_fd(), &next).map_err(|error| failed(&next, error))?;
            std::fs::rename(&next, &path).map_err(|error| failed(&path, error))?;
        }
        Ok(())
    }

    /// What each loaded program is made of.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn costs(&self) -> Result<Vec<ProgramCost>, KernelError> {
        let programs = self.traffic.progs().chain(self.signals.progs());
        programs
            .filter(|program| program.autoload())
            .map(|program| {
                let name = program.name().to_string_lossy().into_owned();
                let (id, instructions, verified) = sys::program_numbers(program.as_fd())
                    .map_err(|error| KernelError::from_io(format!("asking about {name}"), error))?;
                Ok(ProgramCost { name, id, instructions, verified })
            })
            .collect()
    }

    /// The bytes of the settings.
    pub(super) fn settings(&self) -> &[u8] {
        &self.settings
    }

    /// A map by its name.
    pub(super) fn map(&self, name: &str) -> Result<MapHandle, KernelError> {
        let map = self.traffic.maps().find(|map| map.name().to_string_lossy() == name);
        let map = map.ok_or_else(|| missing("map", name))?;
        MapHandle::try_from(&map)
            .map_err(|error| KernelError::from_libbpf(format!("opening the map {name}"), &error))
    }

    pub(super) fn traffic(&self) -> &Object {
        &self.traffic
    }

    pub(super) fn signal_object(&self) -> &Object {
        &self.signals
    }

    pub(super) fn descriptor(&self, role: Role) -> Result<BorrowedFd<'_>, KernelError> {
        descriptor(&self.traffic, role.name())
    }

    pub(super) fn signal_descriptor(&self, name: &str) -> Result<BorrowedFd<'_>, KernelError> {
        descriptor(&self.signals, name)
    }
}

fn descriptor<'a>(object: &'a Object, name: &str) -> Result<BorrowedFd<'a>, KernelError> {
    let program = object.progs().find(|program| program.name().to_string_lossy() == name);
    let program = program.ok_or_else(|| missing("program", name))?;
    let raw = std::os::fd::AsRawFd::as_raw_fd(&program.as_fd());
    // SAFETY: the descriptor belongs to the object and stays open as long as it, which is borrowed for as long.
    Ok(unsafe { BorrowedFd::borrow_raw(raw) })
}

fn missing(what: &str, name: &str) -> KernelError {
    let source = io::Error::from(io::ErrorKind::NotFound);
    KernelError::Failed { doing: format!("looking for the {what} {name} in Weir's own object"), source }
}

/// Where the settings of a queue are pinned.
pub(super) fn settings_path(directory: &Path) -> PathBuf {
    directory.join("settings")
}

/// The settings that the programs of a queue were last loaded with.
pub(super) fn read_settings(directory: &Path) -> Result<Vec<u8>, KernelError> {
    let path = settings_path(directory);
    let map = MapHandle::from_pinned_path(&path).map_err(|error| match error.kind() {
        libbpf_rs::ErrorKind::NotFound => KernelError::NotPinned(directory.to_owned()),
        _ => KernelError::from_libbpf(format!("opening {}", path.display()), &error),
    })?;
    let bytes = map
        .lookup(&0u32.to_ne_bytes(), libbpf_rs::MapFlags::ANY)
        .map_err(|error| KernelError::from_libbpf(format!("reading {}", path.display()), &error))?;
    bytes.ok_or(KernelError::OtherLayout(path))
}

fn open(bytes: &[u8], settings: &[u8]) -> Result<OpenObject, KernelError> {
    let failed = |error| KernelError::from_libbpf("reading Weir's own object", &error);
    let (object, _) = talk::listen(|| ObjectBuilder::default().open_memory(bytes));
    let mut object = object.map_err(failed)?;
    for mut map in object.maps_mut() {
        if map.name() == SETTINGS {
            map.set_initial_value(settings).map_err(failed)?;
        }
    }
    Ok(object)
}

/// Loads an object; a refusal comes back with what has to be changed.
fn load(object: OpenObject, table: &LiveConfig) -> Result<Object, KernelError> {
    let (result, words) = talk::listen(|| object.load());
    result.map_err(|error| refusal(&error, &words, table))
}

fn refusal(error: &libbpf_rs::Error, words: &str, table: &LiveConfig) -> KernelError {
    // `prog 'forward': -- BEGIN PROG LOAD LOG --` stands before what the verifier said (tools/lib/bpf/libbpf.c).
    if let Some((before, log)) = words.split_once("-- BEGIN PROG LOAD LOG --") {
        let program = before.rsplit("prog '").next().and_then(|rest| rest.split('\'').next());
        let log = log.split("-- END PROG LOAD LOG --").next().unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        return KernelError::Verifier {
            program: program.unwrap_or("?").to_owned(),
            log: lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n"),
        };
    }
    let says = |text: &str| words.contains(text);
    match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            KernelError::NotPermitted { doing: "load eBPF programs".into() }
        }
        _ if says("failed to create") && (says("-ENOMEM") || says("-12") || says("-E2BIG") || says("-7")) => {
            KernelError::TableTooLarge { flows: table.capacity(), mebibytes: table.bytes() >> 20 }
        }
        _ if says("kfree_skb") && says("not found") => {
            KernelError::NoTracepoint { name: "skb:kfree_skb", since: "Linux 5.17" }
        }
        _ if says("qdisc_dequeue") && says("not found") => {
            KernelError::NoTracepoint { name: "qdisc:qdisc_dequeue", since: "Linux 5.17" }
        }
        _ => {
            let words = words.lines().rfind(|line| line.contains("libbpf:")).unwrap_or_default();
            let source = io::Error::other(format!("{error:#}; {words}"));
            KernelError::Failed { doing: "loading Weir's programs".into(), source }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use libbpf_rs::btf::{Btf, BtfType, types};
    use weir_law::Params;
    use weir_law::live::{BUCKET_BYTES, COUNTER_WORDS, WAITING_BYTES};

    use super::super::config::tests::offsets;
    use super::*;

    /// Offsets in bytes of all members of a structure, those of its nameless parts too.
    fn members(
        structure: types::Composite<'_>,
        btf: &Btf<'_>,
        base: usize,
        into: &mut BTreeMap<String, usize>,
    ) {
        for member in structure.iter() {
            let types::MemberAttr::Normal { offset } = member.attr else { continue };
            let at = base + offset as usize / 8;
            match member.name.filter(|name| !name.is_empty()) {
                Some(name) => {
                    into.insert(name.to_string_lossy().into_owned(), at);
                }
                None => {
                    let inner: BtfType<'_> = btf.type_by_id(member.ty).unwrap();
                    members(types::Composite::try_from(inner).unwrap(), btf, at, into);
                }
            }
        }
    }

    fn layout_of(name: &str) -> (BTreeMap<String, usize>, usize) {
        use libbpf_rs::btf::HasSize;
        let btf = Btf::from_raw("crq", &TRAFFIC.0).unwrap().expect("type information");
        let structure: types::Struct<'_> = btf.type_by_name(name).expect(name);
        let size = structure.size();
        let mut offsets = BTreeMap::new();
        members(structure.into(), &btf, 0, &mut offsets);
        (offsets, size)
    }

    #[test]
    fn layouts_are_those_of_the_object() {
        let (settings, size) = layout_of("weir_crq_config");
        let (ours, length) = offsets(&ProgramConfig::new(Params::default(), 64, 1, 1));
        for (name, at) in ours {
            assert_eq!(settings.get(name), Some(&at), "{name}");
        }
        assert_eq!(length, size);
        // Which fields these have, weir-law compares with the same headers.
        let sizes = [
            ("weir_law_params", Params::C_BYTES),
            ("weir_table_params", LiveConfig::C_BYTES),
            ("weir_bucket", BUCKET_BYTES),
            ("weir_waiting", WAITING_BYTES),
            ("weir_counters", 8 * COUNTER_WORDS),
        ];
        for (name, bytes) in sizes {
            assert_eq!(layout_of(name).1, bytes, "{name}");
        }
        assert_eq!(settings["law"], LiveConfig::C_BYTES);
        assert_eq!(settings["version"], LiveConfig::C_BYTES + Params::C_BYTES);
    }
}
