//! An archive in cpio's "newc" format, the one that the kernel unpacks as its first file system
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;
/// The name of the last entry.
const TRAILER: &str = "TRAILER!!!";

/// Writes an archive. Paths are absolute in the guest; directories above an entry are made as they are needed.
#[derive(Debug)]
pub struct Archive<W> {
    out: W,
    inode: u32,
    names: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    /// An empty archive that is written to `out`.
    pub fn new(out: W) -> Self {
        Self { out, inode: 0, names: BTreeSet::new() }
    }

    /// Whether `path` is in it.
    pub fn has(&self, path: &str) -> bool {
        self.names.contains(name(path))
    }

    /// Adds a directory and those above it, unless they are there.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn directory(&mut self, path: &str) -> io::Result<()> {
        let name = name(path).to_owned();
        for end in name.match_indices('/').map(|(at, _)| at).chain([name.len()]) {
            let part = &name[..end];
            if !part.is_empty() && !self.names.contains(part) {
                self.entry(part, DIRECTORY | 0o755, 0)?;
            }
        }
        Ok(())
    }

    /// Adds a symbolic link.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn symlink(&mut self, path: &str, target: &str) -> io::Result<()> {
        self.parent(path)?;
        self.entry(name(path), SYMLINK | 0o777, target.len() as u64)?;
        self.out.write_all(target.as_bytes())?;
        self.pad(target.len() as u64)
    }

    /// Adds a file with the given permissions and `size` bytes of `content`.
    ///
    /// # Errors
    /// If `content` is shorter than `size`, larger than the format's 4 GiB, or the output cannot be written.
    pub fn file(&mut self, path: &str, mode: u32, size: u64, content: impl Read) -> io::Result<()> {
        self.parent(path)?;
        self.entry(name(path), REGULAR | (mode & 0o7777), size)?;
        let copied = io::copy(&mut content.take(size), &mut self.out)?;
        if copied != size {
            return Err(io::Error::other(format!("{path} became shorter while it was packed")));
        }
        self.pad(size)
    }

    /// Ends the archive and hands the output back.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.entry(TRAILER, 0, 0)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn parent(&mut self, path: &str) -> io::Result<()> {
        match path.rsplit_once('/') {
            Some((parent, _)) => self.directory(parent),
            None => Ok(()),
        }
    }

    /// The header: a magic number, 13 fields of eight hexadecimal digits, the name with its NUL, up to a multiple of 4.
    fn entry(&mut self, name: &str, mode: u32, size: u64) -> io::Result<()> {
        let size =
            u32::try_from(size).map_err(|_| io::Error::other(format!("{name} is larger than 4 GiB")))?;
        self.inode += 1;
        let links = if mode & DIRECTORY == DIRECTORY { 2 } else { 1 };
        let (owner, time, device, checksum) = (0, 0, 0, 0);
        let fields = [
            self.inode,
            mode,
            owner,
            owner,
            links,
            time,
            size,
            device,
            device,
            device,
            device,
            name.len() as u32 + 1,
            checksum,
        ];
        self.out.write_all(b"070701")?;
        for field in fields {
            write!(self.out, "{field:08x}")?;
        }
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(&[0])?;
        self.pad(110 + name.len() as u64 + 1)?;
        self.names.insert(name.to_owned());
        Ok(())
    }

    fn pad(&mut self, written: u64) -> io::Result<()> {
        self.out.write_all(&[0; 3][..(written.wrapping_neg() % 4) as usize])
    }
}

/// The archive's names have no slash in front.
fn name(path: &str) -> &str {
    path.trim_matches('/')
}

#[cfg(test)]
mod tests {
    use super::Archive;

    fn sample() -> Vec<u8> {
        let mut archive = Archive::new(Vec::new());
        archive.file("/etc/weir/hosts", 0o644, 5, &b"hello world"[..]).unwrap();
        archive.symlink("/bin", "usr/bin").unwrap();
        archive.directory("/etc/weir").unwrap();
        assert!(archive.has("/etc/weir") && archive.has("bin") && !archive.has("/usr"));
        archive.finish().unwrap()
    }

    #[test]
    fn headers_and_contents_are_aligned_and_in_order() {
        let bytes = sample();
        assert_eq!(bytes.len() % 4, 0);
        let (mut at, mut names) = (0, Vec::new());
        loop {
            let field = |index: usize| {
                let from = at + 6 + index * 8;
                u32::from_str_radix(std::str::from_utf8(&bytes[from..from + 8]).unwrap(), 16).unwrap()
                    as usize
            };
            assert_eq!(&bytes[at..at + 6], b"070701");
            let (mode, size, length) = (field(1), field(6), field(11));
            let name = std::str::from_utf8(&bytes[at + 110..at + 110 + length - 1]).unwrap();
            let content = (at + 110 + length).next_multiple_of(4);
            names.push((name.to_owned(), mode, bytes[content..content + size].to_vec()));
            if name == "TRAILER!!!" {
                break;
            }
            at = (content + size).next_multiple_of(4);
        }
        let expected = [
            ("etc", 0o040_755, &b""[..]),
            ("etc/weir", 0o040_755, b""),
            ("etc/weir/hosts", 0o100_644, b"hello"),
            ("bin", 0o120_777, b"usr/bin"),
            ("TRAILER!!!", 0, b""),
        ];
        let expected: Vec<_> =
            expected.map(|(name, mode, bytes)| (name.to_owned(), mode, bytes.to_vec())).into();
        assert_eq!(names, expected);
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        let mut archive = Archive::new(Vec::new());
        let error = archive.file("/a", 0o644, 9, &b"short"[..]).unwrap_err();
        assert!(error.to_string().contains("/a became shorter"), "{error}");
    }
}
