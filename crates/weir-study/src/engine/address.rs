//! What a result is called: a hash of all that it depends on.
//!
//! The hash is SHA-256 of Weir's version and the bytes of the file that this code runs from, the world, the kernel where packets are real,
//! the complete scenario with its seed, the contents of its traces, the run number, and what is kept of the run: a
//! sweep keeps other things than a figure. So nothing has to be compared: what is found under a run's address is its result, and what another build or another kernel has measured
//! is not found.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ring::digest::{SHA256, digest};
use weir_scenario::Scenario;
use weir_vm::{Cache, Kernel};
use weir_world::{Clock, World};

use super::StudyError;

/// A result's name.
pub type Address = [u8; 32];

/// The program that runs, also after its file was replaced.
const PROGRAM: &str = "/proc/self/exe";
/// Which file each part of this process is from.
const MAPS: &str = "/proc/self/maps";
/// What `uname -r` says.
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// Who measures, and where: what all results of one command have in common.
#[derive(Clone, Debug)]
pub struct Origin {
    pub(crate) world: &'static dyn World,
    /// Weir's version and its checksum: between releases, the version alone does not say what made a result.
    pub(super) build: &'static str,
    /// Code that is no part of Weir and that results depend on, by a name that changes with it; mostly none.
    pub(crate) also: String,
    /// The release of the kernel that moves the packets; none in virtual time.
    pub(crate) kernel: Option<String>,
    /// The kernel that guests are given.
    pub(super) guest: Option<Kernel>,
}

impl Origin {
    /// This program in `world`. `kernel` is the one of a guest, by its series; the newest of the cache if none is
    /// named.
    ///
    /// # Errors
    /// If there is no such guest, or the program or the kernel cannot be identified.
    pub fn new(world: &'static dyn World, kernel: Option<&str>) -> Result<Self, StudyError> {
        let guest = match world.clock() {
            Clock::Guest => Some(Cache::of_user().and_then(|cache| cache.wanted(kernel))?),
            Clock::Real | Clock::Virtual => None,
        };
        let kernel = match world.clock() {
            Clock::Virtual => None,
            Clock::Guest => guest.as_ref().map(|kernel| kernel.about.release.clone()),
            Clock::Real => Some(fs::read_to_string(RELEASE).map_err(failed(RELEASE))?.trim().to_owned()),
        };
        Ok(Self { world, build: build()?, also: String::new(), kernel, guest })
    }

    /// Origin and scenario in one line, for [`address`].
    pub fn describe(&self, scenario: &Scenario) -> String {
        let text = serde_json::to_string(scenario).expect("a scenario is plain data");
        let kernel =
            self.kernel.as_ref().map_or_else(String::new, |release| format!(",\"kernel\":{release:?}"));
        // A trace is named by its path; what is in it counts.
        let traces: Vec<String> = scenario.traces().map(|file| format!("\"{}\"", file.sha256())).collect();
        let traces =
            if traces.is_empty() { String::new() } else { format!(",\"traces\":[{}]", traces.join(",")) };
        let also = if self.also.is_empty() { String::new() } else { format!(",\"also\":{:?}", self.also) };
        let (build, world) = (self.build, self.world.name());
        format!("\"weir\":\"{build}\"{also},\"world\":\"{world}\"{kernel},\"scenario\":{text}{traces}")
    }
}

/// The address of what is kept of a run, a `T`, of what [`Origin::describe`] describes.
pub fn address<T>(described: &str, run: u64) -> Address {
    // Within a build, a type's name is always the same.
    hash(format!("{{\"kept\":\"{}\",\"run\":{run},{described}}}", std::any::type_name::<T>()).as_bytes())
}

/// SHA-256 in hexadecimal digits.
pub(crate) fn checksum(bytes: &[u8]) -> String {
    hex(&hash(bytes))
}

pub(super) fn hash(bytes: &[u8]) -> Address {
    digest(&SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The address that [`hex`] has written.
pub(super) fn unhex(text: &str) -> Option<Address> {
    let mut address = Address::default();
    let digits = text.as_bytes().chunks_exact(2);
    if text.len() != 2 * address.len() || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in address.iter_mut().zip(digits) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(address)
}

/// What results of this program are kept under: its version and checksum.
///
/// # Errors
/// If its file cannot be read.
pub(crate) fn build() -> Result<&'static str, StudyError> {
    static BUILD: OnceLock<String> = OnceLock::new();
    if let Some(build) = BUILD.get() {
        return Ok(build);
    }
    let file = file_of_code()?;
    let program = fs::read(&file).map_err(|source| StudyError::Origin { path: file.clone(), source })?;
    // Made outside: a process that is forked meanwhile would wait for a thread that it does not have.
    let build = format!("{} {}", env!("CARGO_PKG_VERSION"), hex(&hash(&program)[..8]));
    Ok(BUILD.get_or_init(|| build))
}

/// The file that this code runs from: the program, or a library in another's process, such as an interpreter's.
fn file_of_code() -> Result<PathBuf, StudyError> {
    let maps = fs::read_to_string(MAPS).map_err(failed(MAPS))?;
    let program = fs::read_link(PROGRAM).map_err(failed(PROGRAM))?;
    let mapped = mapped_at(&maps, file_of_code as *const () as usize).map(PathBuf::from);
    Ok(mapped.filter(|file| *file != program).unwrap_or_else(|| PathBuf::from(PROGRAM)))
}

/// The file at an address, by what /proc/PID/maps says: `FROM-TO PERMISSIONS OFFSET DEVICE INODE   FILE`.
fn mapped_at(maps: &str, address: usize) -> Option<&str> {
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        (number(from)?..number(to)?).contains(&address).then_some(())?;
        rest.splitn(5, ' ').nth(4).map(str::trim).filter(|file| file.starts_with('/'))
    })
}

fn failed(path: &str) -> impl FnOnce(std::io::Error) -> StudyError {
    let path = Path::new(path).to_owned();
    move |source| StudyError::Origin { path, source }
}

#[cfg(test)]
mod tests {
    use weir_scenario::Scenario;

    use super::{Origin, address, mapped_at};

    #[test]
    fn code_is_found_in_its_file() {
        let maps = "00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/python3.11\n\
                    7f00-8000 rw-p 00000000 00:00 0 \n\
                    35b1800000-35b1820000 r-xp 00000000 08:02 135522  /a folder/_weirnet.so\n";
        assert_eq!(mapped_at(maps, 0x40_1000), Some("/usr/bin/python3.11"));
        assert_eq!(mapped_at(maps, 0x35_b181_0000), Some("/a folder/_weirnet.so"));
        assert_eq!((mapped_at(maps, 0x45_2000), mapped_at(maps, 0x7f80)), (None, None));
    }

    #[test]
    fn another_build_kernel_world_run_seed_or_kind_has_another_address() {
        let text = "bottleneck = { rate = '1mbit', rtt = '10ms', qdisc = 'pfifo' }\n\
                    flow = [{ stack = 'udp', rate = '1mbit', duration = '1s' }]\n";
        let scenario = Scenario::parse(text, "test").unwrap();
        let here = Origin::new(weir_world::EMU, None).unwrap();
        assert!(here.kernel.as_ref().is_some_and(|release| !release.is_empty()), "{here:?}");
        assert_eq!(Origin::new(weir_world::SIM, None).unwrap().kernel, None, "virtual time has no kernel");
        let of = |origin: &Origin, scenario: &Scenario, run| address::<f64>(&origin.describe(scenario), run);
        let own = of(&here, &scenario, 0);
        assert_eq!(of(&here.clone(), &scenario.clone(), 0), own);
        let others = [
            of(&Origin { build: "0", ..here.clone() }, &scenario, 0),
            of(&Origin { also: "a controller".to_owned(), ..here.clone() }, &scenario, 0),
            of(&Origin { kernel: Some("6.1".to_owned()), ..here.clone() }, &scenario, 0),
            of(&Origin { world: weir_world::KERNEL, ..here.clone() }, &scenario, 0),
            of(&here, &Scenario { seed: 2, ..scenario.clone() }, 0),
            of(&here, &scenario, 1),
            address::<u64>(&here.describe(&scenario), 0),
        ];
        assert!(!others.contains(&own));
    }
}
