//! SHA-256 of files as they pass.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use ring::digest::{Context, SHA256};

use crate::messages::Digest;

/// Bytes that are read or written at once.
pub(crate) const CHUNK: usize = 256 << 10;

/// The digest of what has passed.
#[derive(Clone)]
pub(crate) struct Hash(Context);

impl Hash {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn digest(&self) -> Digest {
        let mut digest = [0; 32];
        digest.copy_from_slice(self.0.clone().finish().as_ref());
        digest
    }

    /// The digest of the first bytes of a file, which is left standing behind them. `go_on` says whether to.
    pub(crate) fn of_front(file: &mut File, bytes: u64, go_on: impl Fn() -> bool) -> io::Result<Self> {
        let mut hash = Self::new();
        let mut buffer = vec![0; CHUNK];
        file.seek(SeekFrom::Start(0))?;
        let mut left = bytes;
        while left > 0 {
            if !go_on() {
                return Err(io::Error::other("stopped"));
            }
            let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            match file.read(&mut buffer[..most])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => {
                    hash.update(&buffer[..count]);
                    left -= count as u64;
                }
            }
        }
        Ok(hash)
    }
}

/// A digest in hexadecimal digits.
pub(crate) fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
