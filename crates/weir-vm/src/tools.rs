//! Programs of the host: found or missed by name, stopped when the caller asks, their complaint kept.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::VmError;

/// How often a running program is looked at, in the end.
const TICK: Duration = Duration::from_millis(50);

/// A program and the Debian package that has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool(pub(super) &'static str, pub(super) &'static str);

pub(super) const CURL: Tool = Tool("curl", "curl");
pub(super) const DPKG_DEB: Tool = Tool("dpkg-deb", "dpkg");
pub(super) const GPGV: Tool = Tool("gpgv", "gpgv");
pub(super) const LDD: Tool = Tool("ldd", "libc-bin");
pub(super) const SHA256SUM: Tool = Tool("sha256sum", "coreutils");
pub(super) const TAR: Tool = Tool("tar", "tar");
pub(super) const XZ: Tool = Tool("xz", "xz-utils");
pub(super) const QEMU: Tool = Tool("qemu-system-x86_64", "qemu-system-x86");

impl Tool {
    /// Whether the host has it.
    pub(super) fn is_there(self) -> bool {
        find(self.0).is_some()
    }

    /// A command line that begins with it.
    pub(super) fn command(self) -> Result<Command, VmError> {
        let missing = || VmError::Tool { program: self.0.to_owned(), package: self.1.to_owned() };
        Ok(Command::new(find(self.0).ok_or_else(missing)?))
    }

    /// Why it failed.
    pub(super) fn failed(self, detail: impl Into<String>) -> VmError {
        VmError::ToolFailed { program: self.0.to_owned(), detail: detail.into() }
    }

    /// Runs `command`, which is this tool's, to its end and hands over what it printed. It gets no input, and is killed
    /// when `stop` is set; `tick` is called meanwhile.
    pub(super) fn run(
        self,
        command: &mut Command,
        stop: &AtomicBool,
        tick: &mut dyn FnMut(),
    ) -> Result<Vec<u8>, VmError> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| self.failed(error.to_string()))?;
        let printed = collect(child.stdout.take());
        let complained = collect(child.stderr.take());
        let mut pause = Duration::from_millis(1);
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| self.failed(error.to_string()))? {
                break status;
            }
            if stop.load(Ordering::Relaxed) {
                end(&mut child);
                return Err(VmError::Interrupted);
            }
            tick();
            wait(pause);
            pause = TICK.min(pause * 2);
        };
        let (printed, complained) = (join(printed), join(complained));
        if status.success() {
            Ok(printed)
        } else {
            let said = String::from_utf8_lossy(&complained).trim().to_owned();
            Err(self.failed(if said.is_empty() { status.to_string() } else { said }))
        }
    }
}

/// The path of a program, looked up as a shell does; also where root's `PATH` of a plain user's shell does not reach.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beyond = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(beyond).map(|dir| dir.join(program)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Kills a program and waits until it is gone.
pub(super) fn end(child: &mut Child) {
    // Both fail only where it has ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Waits while a program of the host runs.
#[allow(clippy::disallowed_methods, reason = "a program of the host runs on the real clock")]
pub(super) fn wait(time: Duration) {
    std::thread::sleep(time);
}

type Collector = std::thread::JoinHandle<Vec<u8>>;

fn collect(from: Option<impl Read + Send + 'static>) -> Option<Collector> {
    from.map(|mut from| {
        std::thread::spawn(move || {
            let mut all = Vec::new();
            // What came before an error is all there is to report.
            let _ = from.read_to_end(&mut all);
            all
        })
    })
}

fn join(collector: Option<Collector>) -> Vec<u8> {
    collector.and_then(|thread| thread.join().ok()).unwrap_or_default()
}
