//! Where results are: a file each, called by its [address](super::address).
//!
//! Results of another job are found where the two overlap, and folders of several machines can be put together by
//! copying. A checksum in each file shows whether it is as it was written.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_report::output::{OutputError, Part};

use super::Job;
use super::address::{Address, Origin, checksum, hex, unhex};

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

/// What was found in the folder of another command.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Results that are wanted, and how many of them are here because of that.
    pub(crate) wanted: usize,
    pub(crate) taken: usize,
    /// Wanted files that are not as they were written.
    pub(crate) damaged: usize,
    /// Files of other results, and the first of them.
    pub(crate) others: usize,
    pub(crate) other: Option<PathBuf>,
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

/// What is kept of a run: what it was and what came of it, under its checksum.
pub(crate) fn text<T: Serialize>(
    address: &Address,
    origin: &Origin,
    job: &Job,
    outcome: &Outcome<T>,
) -> Vec<u8> {
    let text = serde_json::json!({
        "weir": origin.build,
        "world": origin.world.name(),
        "kernel": origin.kernel,
        "seed": job.scenario.seed,
        "run": job.run,
        "scenario": job.scenario,
        "outcome": outcome,
    });
    sealed(address, &text.to_string())
}

/// What such a text says of the run of that address.
fn read<T: DeserializeOwned>(address: &Address, text: &[u8]) -> Kept<T> {
    #[derive(Deserialize)]
    struct Cell<T> {
        outcome: Outcome<T>,
    }
    if !is_sealed(address, text) {
        return Kept::Damaged;
    }
    serde_json::from_slice::<Cell<T>>(text).map_or(Kept::Damaged, |cell| Kept::Whole(cell.outcome))
}

impl Store {
    /// The results in `out`.
    pub fn new(out: &Path) -> Self {
        Self::with(out, &[])
    }

    /// The results in `out`, and to be read those in other folders.
    pub(crate) fn with(out: &Path, others: &[PathBuf]) -> Self {
        Self { dir: out.join(CELLS), also: others.iter().map(|other| other.join(CELLS)).collect() }
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

    /// Makes the folder, if it is not there yet.
    pub(crate) fn create(&self) -> Result<(), OutputError> {
        fs::create_dir_all(&self.dir).map_err(|source| OutputError { path: self.dir.clone(), source })
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
        let others = self.also.iter().map(|dir| Self::path_in(dir, address));
        let own = self.path(address);
        let path = if own.exists() { own } else { { others }.find(|path| path.exists()).unwrap_or(own) };
        match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::Nothing,
            Err(_) => Kept::Damaged,
            Ok(text) => read(address, &text),
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
        self.put(address, &text(address, origin, job, outcome))
    }

    /// Keeps what another process has written of a run, unless it is not as it was written: then it returns false.
    pub(crate) fn take<T: DeserializeOwned>(
        &self,
        address: &Address,
        text: &[u8],
    ) -> Result<bool, OutputError> {
        match read::<T>(address, text) {
            Kept::Whole(_) => self.put(address, text).map(|()| true),
            Kept::Damaged | Kept::Nothing => Ok(false),
        }
    }

    /// Keeps what is in the folder `from` of the runs in `wanted` that are not measured here yet.
    pub(crate) fn take_all<T: DeserializeOwned>(
        &self,
        from: &Path,
        wanted: &HashSet<Address>,
    ) -> Result<Found, OutputError> {
        let theirs = Self::new(from);
        let mut found = Found::default();
        for file in theirs.files() {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let Some(address) = unhex(&name).filter(|address| wanted.contains(address)) else {
                found.others += 1;
                found.other.get_or_insert(file);
                continue;
            };
            found.wanted += 1;
            let text = fs::read(&file).unwrap_or_default();
            let (here, there) = (self.read::<T>(&address), read::<T>(&address, &text));
            match (here, there) {
                (Kept::Whole(Outcome::Measured(_)), _)
                | (Kept::Whole(_), Kept::Whole(Outcome::Failed(_))) => {}
                (_, Kept::Whole(_)) => {
                    self.put(&address, &text)?;
                    found.taken += 1;
                }
                (_, Kept::Damaged | Kept::Nothing) => found.damaged += 1,
            }
        }
        Ok(found)
    }

    /// All files of results, by name.
    fn files(&self) -> Vec<PathBuf> {
        let inside = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|file| file.path());
        let files = inside(&self.dir).flat_map(|folder| inside(&folder).collect::<Vec<_>>());
        let mut files: Vec<PathBuf> =
            files.filter(|file| file.extension().is_some_and(|kind| kind == "json")).collect();
        files.sort();
        files
    }

    fn put(&self, address: &Address, text: &[u8]) -> Result<(), OutputError> {
        let path = self.path(address);
        let written = fs::create_dir_all(path.parent().unwrap_or(&self.dir)).and_then(|()| {
            let mut part = Part::create(&path)?;
            part.write_all(text)?;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Kept, Outcome, read, sealed};

    proptest! {
        /// What is made of stored results is what was made of them at once.
        #[test]
        fn a_stored_number_is_read_to_the_last_bit(number in proptest::num::f64::NORMAL) {
            let object = serde_json::json!({ "outcome": Outcome::Measured(Box::new(number)) }).to_string();
            let address = [7; 32];
            let Kept::Whole(Outcome::Measured(kept)) = read::<f64>(&address, &sealed(&address, &object)) else {
                panic!("{object} is not read");
            };
            prop_assert_eq!(kept.to_bits(), number.to_bits());
        }
    }
}
