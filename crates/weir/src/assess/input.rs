//! Where a capture comes from: a file, or what can be read only once (a pipe, standard input, a FIFO). The latter goes
//! into a temporary file as it is read, since an assessment reads twice.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::Path;

/// An input that can be read again.
#[derive(Debug)]
pub(super) enum Input {
    File(File),
    Once(Spool<File>),
}

/// Opens the file at `path`, or standard input for `-`.
pub(super) fn open(path: &Path) -> io::Result<Input> {
    let mut file = if path == Path::new("-") {
        let input = io::stdin();
        if input.is_terminal() {
            let advice =
                "standard input is a terminal: pipe a capture into it, as in `tcpdump -w - | weir assess -`";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, advice));
        }
        File::from(input.as_fd().try_clone_to_owned()?)
    } else {
        File::open(path)?
    };
    if file.stream_position().is_ok() {
        return Ok(Input::File(file));
    }
    Ok(Input::Once(Spool { source: file, file: tempfile::tempfile().map_err(no_room)?, filled: 0, at: 0 }))
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Once(spool) => spool.read(buffer),
        }
    }
}

impl Seek for Input {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(to),
            Self::Once(spool) => spool.seek(to),
        }
    }
}

/// A source that can be read once, and the file without a name that keeps what was read of it.
#[derive(Debug)]
pub(super) struct Spool<R> {
    source: R,
    file: File,
    filled: u64,
    at: u64,
}

impl<R: Read> Read for Spool<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = if self.at < self.filled {
            self.file.seek(SeekFrom::Start(self.at))?;
            (&self.file).take(self.filled - self.at).read(buffer)?
        } else {
            let read = self.source.read(buffer)?;
            self.file.seek(SeekFrom::Start(self.filled))?;
            self.file.write_all(&buffer[..read]).map_err(no_room)?;
            self.filled += read as u64;
            read
        };
        self.at += read as u64;
        Ok(read)
    }
}

impl<R> Seek for Spool<R> {
    /// Goes to any place that was read.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(_) => None,
        };
        let place = place.filter(|place| *place <= self.filled);
        self.at = place.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

fn no_room(error: io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    let advice = format!(
        "cannot keep the input in {}, since it is read twice ({error}): set TMPDIR to a folder with room for it",
        folder.display()
    );
    io::Error::new(error.kind(), advice)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom};

    use super::Spool;

    #[test]
    fn a_spool_is_read_again_at_any_place() {
        let source: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let file = tempfile::tempfile().unwrap();
        let mut spool = Spool { source: source.as_slice(), file, filled: 0, at: 0 };
        let mut buffer = vec![0; 70_000];
        spool.read_exact(&mut buffer).unwrap();
        assert_eq!(buffer, source[..70_000]);
        assert!(spool.seek(SeekFrom::Start(70_001)).is_err(), "not read yet");
        // Across what is kept and what is not.
        assert_eq!(spool.seek(SeekFrom::Start(65_000)).unwrap(), 65_000);
        spool.read_exact(&mut buffer[..20_000]).unwrap();
        assert_eq!(buffer[..20_000], source[65_000..85_000]);
        assert_eq!(spool.seek(SeekFrom::Current(-85_000)).unwrap(), 0);
        let mut whole = Vec::new();
        spool.read_to_end(&mut whole).unwrap();
        assert_eq!(whole, source);
    }
}
