//! A file that is arriving: its front is kept under another name until it is whole.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::digest::{CHUNK, Hash};

/// The longest name: what is added to it for the part must fit into the 255 bytes of a name, too.
const LONGEST_NAME: usize = 240;
const PART: &str = ".weir-part";

/// Whether a sender may call its file so: a name alone, not a path, that shows on a terminal as it is and that is not
/// hidden, as parts are.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    match name {
        "" => Err("the file has no name"),
        _ if name.len() > LONGEST_NAME => Err("the file's name is longer than 240 bytes"),
        _ if name.starts_with('.') => Err("the file's name begins with a dot"),
        _ if name.contains('/') => Err("the file's name has a folder in it"),
        _ if name.chars().any(|letter| letter.is_control() || turns(letter)) => {
            Err("the file's name has control characters in it")
        }
        _ => Ok(()),
    }
}

/// Whether a character turns the direction of writing, by which a name can look like another (Unicode's Bidi_Control).
const fn turns(letter: char) -> bool {
    matches!(letter, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Why a file cannot arrive.
#[derive(Debug)]
pub(crate) enum Unopened {
    /// It is arriving already, from another sender.
    Busy,
    /// In words for the sender.
    No(String),
}

/// The part of a file that has arrived. Nobody else writes to it meanwhile.
pub(crate) struct Partial {
    file: File,
    part: PathBuf,
    whole: PathBuf,
    /// Bytes on disk, and those that go there next.
    written: u64,
    buffer: Vec<u8>,
    hash: Hash,
    /// It has its name, or was removed.
    is_settled: bool,
}

impl Partial {
    /// Opens the part of a file of this name and size, which may have been begun earlier.
    ///
    /// # Errors
    /// If another sender sends it now, it does not fit, it cannot be written, or `go_on` says no while what is there is
    /// read.
    pub(crate) fn open(
        folder: &Path,
        name: &str,
        size: u64,
        go_on: impl Fn() -> bool,
    ) -> Result<Self, Unopened> {
        check_name(name).map_err(|why| Unopened::No(why.to_owned()))?;
        let whole = folder.join(name);
        let part = folder.join(format!(".{name}{PART}"));
        let failed = |error: io::Error| Unopened::No(format!("cannot write '{name}': {error}"));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o644)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&part)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Unopened::Busy),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Whoever held the lock may have given the part its name as a whole file meanwhile.
        let (here, there) = (file.metadata().map_err(failed)?, fs::symlink_metadata(&part));
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (here.dev(), here.ino())) {
            return Err(Unopened::Busy);
        }
        let mut written = here.len();
        if written > size {
            file.set_len(0).map_err(failed)?;
            written = 0;
        }
        if free(&file).is_ok_and(|free| free < size - written) {
            return Err(Unopened::No(format!("there is no room for '{name}'")));
        }
        let hash = Hash::of_front(&mut file, written, go_on).map_err(failed)?;
        Ok(Self { file, part, whole, written, buffer: Vec::with_capacity(CHUNK), hash, is_settled: false })
    }

    /// Bytes that are there.
    pub(crate) fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Their digest.
    pub(crate) const fn hash(&self) -> &Hash {
        &self.hash
    }

    /// Throws them away.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.written = 0;
        self.buffer.clear();
        self.hash = Hash::new();
        Ok(())
    }

    /// Adds to them.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    /// Writes what is not on disk yet.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// The file is whole: gives it its name, unless another file has it. It is on disk before.
    pub(crate) fn finish(mut self) -> io::Result<PathBuf> {
        self.flush()?;
        self.file.sync_all()?;
        rename_new(&self.part, &self.whole)?;
        self.is_settled = true;
        if let Some(folder) = self.whole.parent() {
            File::open(folder)?.sync_all()?;
        }
        Ok(self.whole.clone())
    }

    /// Removes it.
    pub(crate) fn remove(mut self) -> io::Result<()> {
        self.is_settled = true;
        fs::remove_file(&self.part)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // Of somebody who only said what it would send, nothing stays behind.
        if !self.is_settled && self.len() == 0 {
            let _ = fs::remove_file(&self.part);
        }
    }
}

/// Bytes that the disk of a file has left.
fn free(file: &File) -> io::Result<u64> {
    // SAFETY: plain data, for which zeros are valid; the call fills it.
    let mut disk: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a whole structure.
    match unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut disk) } {
        0 => Ok(disk.f_bavail.saturating_mul(disk.f_frsize)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Renames a file to a name that none has.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let [from, to] = [from, to].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (from, to) = (from?, to?);
    // SAFETY: both are strings that end with a zero.
    let result = unsafe {
        libc::renameat2(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), libc::RENAME_NOREPLACE)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Partial, Unopened, check_name};
    use crate::digest::Hash;

    #[test]
    fn only_plain_names_are_taken() {
        assert_eq!(check_name("a file, ünd more.tar.gz"), Ok(()));
        for name in [
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "/etc/passwd",
            "../x",
            "a\0b",
            "a\nb",
            "\u{1b}[2J",
            "a\u{202e}fdp.exe",
            &"x".repeat(241),
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_part_is_found_again_and_becomes_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Partial::open(folder.path(), "file", 10, || true);
        let mut part = open().unwrap();
        part.push(b"hello").unwrap();
        assert!(matches!(open(), Err(Unopened::Busy)));
        part.flush().unwrap();
        drop(part);
        assert!(!folder.path().join("file").exists());

        let mut part = open().unwrap();
        let mut hash = Hash::new();
        hash.update(b"hello");
        assert_eq!((part.len(), part.hash().digest()), (5, hash.digest()));
        part.push(b"world").unwrap();
        part.finish().unwrap();
        assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"helloworld");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_written_over_and_nothing_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "mine").unwrap();
        let part = Partial::open(folder.path(), "file", 0, || true).unwrap();
        assert_eq!(part.finish().unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(at("file")).unwrap(), b"mine");

        std::os::unix::fs::symlink(at("file"), at(".other.weir-part")).unwrap();
        assert!(Partial::open(folder.path(), "other", 0, || true).is_err());

        fs::write(at(".long.weir-part"), "too much").unwrap();
        assert_eq!(Partial::open(folder.path(), "long", 3, || true).unwrap().len(), 0);
        Partial::open(folder.path(), "nothing", 3, || true).unwrap();
        assert!(!at(".nothing.weir-part").exists());
        let large = Partial::open(folder.path(), "large", u64::MAX, || true);
        assert!(matches!(large, Err(Unopened::No(why)) if why.contains("no room")));
    }
}
