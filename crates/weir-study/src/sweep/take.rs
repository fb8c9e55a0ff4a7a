//! Takes results from the folders of other commands, which have made parts of the same sweep.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::record::Measured;
use super::{Sweep, SweepError};
use crate::engine::{CELLS, Store, StudyError, build};

/// What has come of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The folder.
    pub from: PathBuf,
    /// Results that were not there yet.
    pub taken: usize,
    /// Files that are not as they were written; they were left alone.
    pub damaged: usize,
    /// Files of other sweeps or programs; they were left alone, too.
    pub others: usize,
}

impl Sweep {
    /// Copies what is in the folders `from` of its cells to the folder `out`. Each file is checked: it is what it was
    /// when it was written, by this program in this world, of a cell of this sweep.
    ///
    /// # Errors
    /// If a folder has no results, or only those of another sweep or program; or if they cannot be written.
    pub fn take(&self, from: &[PathBuf], out: &Path) -> Result<Vec<Taken>, SweepError> {
        let wanted: HashSet<_> = (0..self.cells()).map(|cell| *self.address(cell)).collect();
        from.iter().map(|from| self.take_one(from, out, &wanted)).collect()
    }

    fn take_one(
        &self,
        from: &Path,
        out: &Path,
        wanted: &HashSet<crate::engine::Address>,
    ) -> Result<Taken, SweepError> {
        let refuse = |why| StudyError::Take { path: from.to_owned(), why };
        if !from.join(CELLS).is_dir() {
            let why = format!("it has no folder {CELLS}; give what --out of a sweep or of a shard named");
            return Err(refuse(why).into());
        }
        let found = Store::new(out).take_all::<Measured>(from, wanted)?;
        match found.other {
            Some(other) if found.wanted == 0 => Err(refuse(self.why_other(&other, found.others)).into()),
            _ => Ok(Taken {
                from: from.to_owned(),
                taken: found.taken,
                damaged: found.damaged,
                others: found.others,
            }),
        }
    }

    /// Why a file, the first of `count`, is of no cell of this sweep.
    fn why_other(&self, file: &Path, count: usize) -> String {
        let text = fs::read(file).unwrap_or_default();
        let cell: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let ours = build().unwrap_or_default();
        match (cell["weir"].as_str(), cell["kernel"].as_str(), self.origin().kernel.as_deref()) {
            (Some(theirs), ..) if theirs != ours => format!(
                "its results were made by another program, weir {theirs}, and this is weir {ours}; take them with the \
                 one that made them"
            ),
            (_, Some(theirs), Some(ours)) if theirs != ours => format!(
                "its results were measured on another kernel, {theirs}, and this is {ours}; all shards need the same"
            ),
            _ => format!(
                "none of its {count} results is of a cell of this sweep; give the file that they were made from, \
                 unchanged"
            ),
        }
    }
}
