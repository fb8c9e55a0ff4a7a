//! Standard output: whether anybody gets what is written there.

use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the process was started with nothing to write to.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before the standard library does, which puts /dev/null in the place of a standard output that is closed and
/// takes writing to one that is only for reading as done.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: asks for flags; takes no pointers, and fails where the descriptor is closed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFL) };
    CLOSED.store(flags == -1 || flags & libc::O_ACCMODE == libc::O_RDONLY, Ordering::Relaxed);
}

/// Writes, through to whoever reads.
///
/// # Errors
/// As writing does, and where standard output is closed.
pub(super) fn write(bytes: &[u8]) -> io::Result<()> {
    stream(|out| out.write_all(bytes))
}

/// The same bit by bit.
///
/// # Errors
/// As [`write()`].
pub(super) fn stream(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    is_open()?;
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out)?;
    out.flush()
}

/// Whether something can be written at all.
///
/// # Errors
/// Where it cannot.
pub(super) fn is_open() -> io::Result<()> {
    match CLOSED.load(Ordering::Relaxed) {
        true => Err(io::Error::other("it is closed")),
        false => Ok(()),
    }
}
