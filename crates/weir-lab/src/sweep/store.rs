//! Where the cells' results are: a file each, called by a hash of all that the result depends on.
//!
//! The hash is SHA-256 of Weir's version, the program's own bytes, world, run number and the complete scenario with its
//! seed. So nothing has to be compared, cells of another sweep are found where the two overlap, and folders of cells from
//! several machines can be put together by copying.

use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ring::digest::{SHA256, digest};
use serde::Deserialize;
use weir_core::Seed;

use super::record::Outcome;
use crate::output::{OutputError, Part};
use crate::run::World;
use crate::scenario::Scenario;

/// A cell's name.
pub(super) type Address = [u8; 32];

/// The folder of cells.
pub(super) struct Store {
    dir: PathBuf,
}

/// World and scenario in one line.
pub(super) fn describe(world: World, scenario: &Scenario) -> String {
    let scenario = serde_json::to_string(scenario).expect("a scenario is plain data");
    format!("\"weir\":\"{}\",\"world\":\"{}\",\"scenario\":{scenario}", build(), world.name())
}

/// The address of a run of what is described.
pub(super) fn address(described: &str, run: u64) -> Address {
    hash(format!("{{\"run\":{run},{described}}}").as_bytes())
}

fn hash(bytes: &[u8]) -> Address {
    digest(&SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Weir's version and what it was built to: between releases, the version alone does not tell what a cell was made by.
fn build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| {
        let program = std::env::current_exe().and_then(fs::read).map(|bytes| hex(&hash(&bytes)[..8]));
        format!("{} {}", env!("CARGO_PKG_VERSION"), program.unwrap_or_default())
    })
}

impl Store {
    /// The cells of a sweep in `out`.
    pub(super) fn new(out: &Path) -> Self {
        Self { dir: out.join("cells") }
    }

    /// A folder for each first byte: a million files in one are slow to list.
    fn path(&self, address: &Address) -> PathBuf {
        self.dir.join(hex(&address[..1])).join(format!("{}.json", hex(address)))
    }

    /// What came of a cell, if that is known. A file that is not whole counts as none.
    pub(super) fn read(&self, address: &Address) -> Option<Outcome> {
        #[derive(Deserialize)]
        struct Kept {
            outcome: Outcome,
        }
        let text = fs::read(self.path(address)).ok()?;
        serde_json::from_slice::<Kept>(&text).ok().map(|kept| kept.outcome)
    }

    /// Keeps what came of a cell, beside what it was.
    pub(super) fn write(
        &self,
        address: &Address,
        (world, scenario, seed): (World, &Scenario, Seed),
        outcome: &Outcome,
    ) -> Result<(), OutputError> {
        let path = self.path(address);
        let text = serde_json::json!({
            "weir": build(),
            "world": world.name(),
            "seed": seed.seed,
            "run": seed.run,
            "scenario": scenario,
            "outcome": outcome,
        });
        let written = fs::create_dir_all(path.parent().unwrap_or(&self.dir)).and_then(|()| {
            let mut part = Part::create(&path)?;
            writeln!(part, "{text}")?;
            part.finish_unsynced()
        });
        written.map_err(|source| OutputError { path, source })
    }
}
