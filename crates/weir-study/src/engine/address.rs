//! What a result is called: a hash of all that it depends on.
//!
//! The hash is SHA-256 of Weir's version and the program's own bytes, the world, the kernel where packets are real,
//! the complete scenario with its seed, the contents of its traces, and the run number. So nothing has to be
//! compared: what is found under a run's address is its result, and what another build or another kernel has measured
//! is not found.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use ring::digest::{SHA256, digest};
use weir_scenario::Scenario;
use weir_vm::{Cache, Kernel};
use weir_world::{Clock, World};

use super::StudyError;

/// A result's name.
pub(crate) type Address = [u8; 32];

/// The program that runs, also after its file was replaced.
const PROGRAM: &str = "/proc/self/exe";
/// What `uname -r` says.
const RELEASE: &str = "/proc/sys/kernel/osrelease";

/// Who measures, and where: what all results of one command have in common.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) world: &'static dyn World,
    /// Weir's version and its checksum: between releases, the version alone does not say what made a result.
    pub(super) build: &'static str,
    /// The release of the kernel that moves the packets; none in virtual time.
    pub(super) kernel: Option<String>,
    /// The kernel that guests are given.
    pub(super) guest: Option<Kernel>,
}

impl Origin {
    /// This program in `world`. `kernel` is the one of a guest, by its series; the newest of the cache if none is
    /// named.
    ///
    /// # Errors
    /// If there is no such guest, or the program or the kernel cannot be identified.
    pub(crate) fn new(world: &'static dyn World, kernel: Option<&str>) -> Result<Self, StudyError> {
        let guest = match world.clock() {
            Clock::Guest => Some(Cache::of_user().and_then(|cache| cache.wanted(kernel))?),
            Clock::Real | Clock::Virtual => None,
        };
        let kernel = match world.clock() {
            Clock::Virtual => None,
            Clock::Guest => guest.as_ref().map(|kernel| kernel.about.release.clone()),
            Clock::Real => Some(fs::read_to_string(RELEASE).map_err(failed(RELEASE))?.trim().to_owned()),
        };
        Ok(Self { world, build: build()?, kernel, guest })
    }

    /// Origin and scenario in one line, for [`address`].
    pub(crate) fn describe(&self, scenario: &Scenario) -> String {
        let text = serde_json::to_string(scenario).expect("a scenario is plain data");
        let kernel =
            self.kernel.as_ref().map_or_else(String::new, |release| format!(",\"kernel\":{release:?}"));
        // A trace is named by its path; what is in it counts.
        let traces: Vec<String> = scenario.traces().map(|file| format!("\"{}\"", file.sha256())).collect();
        let traces =
            if traces.is_empty() { String::new() } else { format!(",\"traces\":[{}]", traces.join(",")) };
        let (build, world) = (self.build, self.world.name());
        format!("\"weir\":\"{build}\",\"world\":\"{world}\"{kernel},\"scenario\":{text}{traces}")
    }
}

/// The address of a run of what [`Origin::describe`] describes.
pub(crate) fn address(described: &str, run: u64) -> Address {
    hash(format!("{{\"run\":{run},{described}}}").as_bytes())
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

fn build() -> Result<&'static str, StudyError> {
    static BUILD: OnceLock<String> = OnceLock::new();
    if let Some(build) = BUILD.get() {
        return Ok(build);
    }
    let program = fs::read(PROGRAM).map_err(failed(PROGRAM))?;
    Ok(BUILD.get_or_init(|| format!("{} {}", env!("CARGO_PKG_VERSION"), hex(&hash(&program)[..8]))))
}

fn failed(path: &str) -> impl FnOnce(std::io::Error) -> StudyError {
    let path = Path::new(path).to_owned();
    move |source| StudyError::Origin { path, source }
}

#[cfg(test)]
mod tests {
    use weir_scenario::Scenario;

    use super::{Origin, address};

    #[test]
    fn another_build_kernel_world_run_or_seed_has_another_address() {
        let text = "bottleneck = { rate = '1mbit', rtt = '10ms', qdisc = 'pfifo' }\n\
                    flow = [{ stack = 'udp', rate = '1mbit', duration = '1s' }]\n";
        let scenario = Scenario::parse(text, "test").unwrap();
        let here = Origin::new(weir_world::EMU, None).unwrap();
        assert!(here.kernel.as_ref().is_some_and(|release| !release.is_empty()), "{here:?}");
        assert_eq!(Origin::new(weir_world::SIM, None).unwrap().kernel, None, "virtual time has no kernel");
        let of = |origin: &Origin, scenario: &Scenario, run| address(&origin.describe(scenario), run);
        let own = of(&here, &scenario, 0);
        assert_eq!(of(&here.clone(), &scenario.clone(), 0), own);
        let others = [
            of(&Origin { build: "0", ..here.clone() }, &scenario, 0),
            of(&Origin { kernel: Some("6.1".to_owned()), ..here.clone() }, &scenario, 0),
            of(&Origin { world: weir_world::KERNEL, ..here.clone() }, &scenario, 0),
            of(&here, &Scenario { seed: 2, ..scenario.clone() }, 0),
            of(&here, &scenario, 1),
        ];
        assert!(!others.contains(&own));
    }
}
