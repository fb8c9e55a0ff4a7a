//! Where results are: a file each, called by its [address](super::address).
//!
//! Results of another job are found where the two overlap, and folders of several machines can be put together by
//! copying. A checksum in each file shows whether it is as it was written.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_report::output::{OutputError, Part};

use super::Job;
use super::address::{Address, Origin, checksum, hex};

/// The folder of stored results, in that of tables and page.
pub const CELLS: &str = "cells";

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome<T> {
    /// What is kept of it.
    Measured(Box<T>),
    /// Why there is nothing.
    Failed(String),
}

/// What is stored of a run.
pub enum Kept<T> {
    /// That is not known.
    Nothing,
    /// A file that is not as it was written: cut off, changed, or another run's.
    Damaged,
    /// As it was written.
    Whole(Outcome<T>),
}

/// The folder of results.
pub struct Store {
    dir: PathBuf,
    /// Others that are read as well.
    also: Vec<PathBuf>,
}

/// What a file begins with, before its checksum.
const SEAL: &[u8] = b"{\"sha256\":\"";

/// The checksum of a file: of its address and of all that follows the checksum.
fn seal(address: &Address, rest: &[u8]) -> String {
    checksum(&[address, rest].concat())
}

/// The text of a file: an object, whose first key is the checksum of its address and of the others.
fn sealed(address: &Address, object: &str) -> Vec<u8> {
    let rest = format!("\",{}\n", object.trim_start_matches('{'));
    [SEAL, seal(address, rest.as_bytes()).as_bytes(), rest.as_bytes()].concat()
}

/// Whether a file is as it was written.
fn is_sealed(address: &Address, text: &[u8]) -> bool {
    let inside = text.strip_prefix(SEAL).and_then(|text| text.split_at_checked(2 * address.len()));
    inside.is_some_and(|(stated, rest)| stated == seal(address, rest).as_bytes())
}

impl Store {
    /// The results in `out`.
    pub fn new(out: &Path) -> Self {
        Self { dir: out.join(CELLS), also: Vec::new() }
    }

    /// The results in `out`, and to be read those in the folders beside it.
    pub(crate) fn beside(out: &Path) -> Self {
        let own = out.join(CELLS);
        let above = out.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folders = fs::read_dir(above).into_iter().flatten().flatten();
        let mut also: Vec<_> = folders.map(|folder| folder.path().join(CELLS)).collect();
        also.retain(|dir| dir.is_dir() && *dir != own);
        also.sort();
        Self { dir: own, also }
    }

    /// A folder for each first byte: a million files in one are slow to list.
    fn path(&self, address: &Address) -> PathBuf {
        Self::path_in(&self.dir, address)
    }

    fn path_in(dir: &Path, address: &Address) -> PathBuf {
        dir.join(hex(&address[..1])).join(format!("{}.json", hex(address)))
    }

    /// What came of a run, if that is known.
    pub fn read<T: DeserializeOwned>(&self, address: &Address) -> Kept<T> {
        #[derive(Deserialize)]
        struct Cell<T> {
            outcome: Outcome<T>,
        }
        let others = self.also.iter().map(|dir| Self::path_in(dir, address));
        let own = self.path(address);
        let path = if own.exists() { own } else { { others }.find(|path| path.exists()).unwrap_or(own) };
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::Nothing,
            Err(_) => Kept::Damaged,
            Ok(text) if !is_sealed(address, &text) => Kept::Damaged,
            Ok(text) => serde_json::from_slice::<Cell<T>>(&text)
                .map_or(Kept::Damaged, |cell| Kept::Whole(cell.outcome)),
        }
    }

    /// Keeps what came of a run, beside what it was.
    pub(crate) fn write<T: Serialize>(
        &self,
        address: &Address,
        origin: &Origin,
        job: &Job,
        outcome: &Outcome<T>,
    ) -> Result<(), OutputError> {
        let path = self.path(address);
        let text = serde_json::json!({
            "weir": origin.build,
            "world": origin.world.name(),
            "kernel": origin.kernel,
            "seed": job.scenario.seed,
            "run": job.run,
            "scenario": job.scenario,
            "outcome": outcome,
        });
        let written = fs::create_dir_all(path.parent().unwrap_or(&self.dir)).and_then(|()| {
            let mut part = Part::create(&path)?;
            part.write_all(&sealed(address, &text.to_string()))?;
            part.finish_unsynced()
        });
        written.map_err(|source| OutputError { path, source })
    }

    /// Removes what is stored of these runs. Others stay, and the folder with them.
    pub(crate) fn forget<'a>(
        &self,
        addresses: impl IntoIterator<Item = &'a Address>,
    ) -> Result<(), OutputError> {
        for address in addresses {
            let path = self.path(address);
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(OutputError { path, source });
                }
                _ => {}
            }
            // Only an empty one goes.
            let _ = path.parent().map(fs::remove_dir);
        }
        let _ = fs::remove_dir(&self.dir);
        Ok(())
    }
}
