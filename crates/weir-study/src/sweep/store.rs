//! Where the cells' results are: a file each, called by a hash of all that the result depends on.
//!
//! The hash is SHA-256 of Weir's version, the program's own bytes, world, run number and the complete scenario with its
//! seed. So nothing has to be compared, cells of another sweep are found where the two overlap, and folders of cells from
//! several machines can be put together by copying. A checksum in each file tells whether it is as it was written.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ring::digest::{SHA256, digest};
use serde::Deserialize;
use weir_core::Seed;

use super::record::Outcome;
use weir_report::output::{OutputError, Part};
use weir_scenario::Scenario;
use weir_world::World;

/// A cell's name.
pub(super) type Address = [u8; 32];

/// What is kept of a cell.
pub(super) enum Kept {
    Nothing,
    /// A file that is not as it was written: cut off, changed, or another cell's.
    Damaged,
    Whole(Outcome),
}

/// The folder of cells.
pub(super) struct Store {
    dir: PathBuf,
}

/// World and scenario in one line.
pub(super) fn describe(world: &dyn World, scenario: &Scenario) -> String {
    let text = serde_json::to_string(scenario).expect("a scenario is plain data");
    // A trace is named by its path; what is in it counts.
    let traces: Vec<String> = scenario.traces().map(|file| format!("\"{}\"", file.sha256())).collect();
    let traces =
        if traces.is_empty() { String::new() } else { format!(",\"traces\":[{}]", traces.join(",")) };
    format!("\"weir\":\"{}\",\"world\":\"{}\",\"scenario\":{text}{traces}", build(), world.name())
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

/// What a cell's file begins with, before its checksum.
const SEAL: &[u8] = b"{\"sha256\":\"";

/// The checksum of a cell: of its address and of all that follows the checksum in its file.
fn checksum(address: &Address, rest: &[u8]) -> String {
    hex(&hash(&[address, rest].concat()))
}

/// The text of a cell's file: an object, whose first key is the checksum of its address and of the others.
fn sealed(address: &Address, object: &str) -> Vec<u8> {
    let rest = format!("\",{}\n", object.trim_start_matches('{'));
    [SEAL, checksum(address, rest.as_bytes()).as_bytes(), rest.as_bytes()].concat()
}

/// Whether a cell's file is as it was written.
fn is_sealed(address: &Address, text: &[u8]) -> bool {
    let inside = text.strip_prefix(SEAL).and_then(|text| text.split_at_checked(2 * address.len()));
    inside.is_some_and(|(stated, rest)| stated == checksum(address, rest).as_bytes())
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

    /// What came of a cell, if that is known.
    pub(super) fn read(&self, address: &Address) -> Kept {
        #[derive(Deserialize)]
        struct Cell {
            outcome: Outcome,
        }
        match fs::read(self.path(address)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::Nothing,
            Err(_) => Kept::Damaged,
            Ok(text) if !is_sealed(address, &text) => Kept::Damaged,
            Ok(text) => {
                serde_json::from_slice::<Cell>(&text).map_or(Kept::Damaged, |cell| Kept::Whole(cell.outcome))
            }
        }
    }

    /// Keeps what came of a cell, beside what it was.
    pub(super) fn write(
        &self,
        address: &Address,
        (world, scenario, seed): (&dyn World, &Scenario, Seed),
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
            part.write_all(&sealed(address, &text.to_string()))?;
            part.finish_unsynced()
        });
        written.map_err(|source| OutputError { path, source })
    }
}
