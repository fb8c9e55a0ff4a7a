//! A sweep with its scenario inside: it is read or refused with a line, and every cell can be told.

use std::path::Path;

use weir_scenario::toml_file::FileError;
use weir_study::sweep::{Sweep, SweepError};

use crate::scenario::has_line;

/// As many cells as are checked before the input is refused.
const MOST_CELLS: u64 = 64;
/// Where no scenario is: its folder does not exist.
const PATH: &str = "/nonexistent/fuzz/sweep.toml";

pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if crate::names_a_file(text) {
        return;
    }
    match Sweep::parse(text.to_owned(), Path::new(PATH), MOST_CELLS, false) {
        Ok(sweep) => {
            assert!(sweep.cells() as u64 <= MOST_CELLS && sweep.combinations() <= sweep.cells());
            for cell in 0..sweep.cells() {
                assert!(!sweep.describe(cell).is_empty());
            }
            for key in sweep.keys() {
                assert!(!key.values.is_empty() && !key.column.is_empty());
            }
        }
        Err(SweepError::Value { line, message, .. }) => {
            assert!((1..=1 + text.matches('\n').count()).contains(&line), "line {line}: {message}");
            assert!(!message.is_empty());
        }
        Err(SweepError::Read(FileError::Syntax { message, .. })) => has_line(&message),
        Err(SweepError::Read(FileError::Read { .. }) | SweepError::Nothing(_)) => {}
        Err(error @ (SweepError::Output(_) | SweepError::Study(_))) => {
            panic!("nothing was to be run: {error}")
        }
    }
}
