//! Files that say in TOML what to do: scenarios, suites, sweeps.

use std::path::Path;

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::scenario::with_nearest_key;

/// A file that cannot be read or understood.
#[derive(Debug, Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML, or has other keys than it may have. The message shows line and column.
    #[error("{path}: {message}")]
    Syntax {
        /// The file.
        path: String,
        /// What the parser says, with the nearest known key.
        message: String,
    },
}

pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path)
        .map_err(|source| FileError::Read { path: path.display().to_string(), source })
}

/// What `text` says; errors call it `path`.
pub(crate) fn parse<T: DeserializeOwned>(text: &str, path: &str) -> Result<T, FileError> {
    toml::from_str(text).map_err(|error| FileError::Syntax {
        path: path.to_owned(),
        message: with_nearest_key(&error.to_string()),
    })
}
