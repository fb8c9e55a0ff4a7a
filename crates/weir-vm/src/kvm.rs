//! Whether QEMU can use KVM here. Inside many virtual machines `/dev/kvm` opens, and even runs single instructions, and
//! still refuses what QEMU needs for a guest's processor.
//!
//! The probe is QEMU itself, with the processor that guests get, told to end before it runs anything: it has set the
//! processor up by then.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use super::tools::{self, QEMU};

/// How long QEMU may take to come and go: far more than it does on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts QEMU with KVM and ends it.
///
/// # Errors
/// Why it did not start: `/dev/kvm` is not there or may not be opened, or what QEMU complained about.
pub fn probe() -> io::Result<()> {
    File::options().read(true).write(true).open("/dev/kvm")?;
    // Where QEMU crashes, its core file goes with the folder.
    let dir = tempfile::tempdir()?;
    let mut qemu = QEMU.command().map_err(io::Error::other)?;
    qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35", "-cpu", "max"])
        .args(["-accel", "kvm", "-m", "16", "-S", "-monitor", "stdio"])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = qemu.spawn()?;
    // A QEMU that has failed already does not read it.
    let _ = child.stdin.take().map(|mut monitor| monitor.write_all(b"quit\n"));
    let (tell, told) = mpsc::channel();
    let complaints = child.stderr.take();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = complaints.map(|mut complaints| complaints.read_to_end(&mut said));
        tell.send(said)
    });
    let Ok(said) = told.recv_timeout(PATIENCE) else {
        tools::end(&mut child);
        return Err(io::Error::other("QEMU does not come up with KVM"));
    };
    let status = child.wait()?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(reason(&String::from_utf8_lossy(&said), &status)))
    }
}

/// The first line that says more than a warning does.
fn reason(said: &str, status: &dyn std::fmt::Display) -> String {
    let line = said.lines().find(|line| !line.trim().is_empty() && !line.contains("warning:"));
    let line = line.map_or_else(|| status.to_string(), |line| line.trim().to_owned());
    format!("QEMU cannot use KVM: {}", line.trim_start_matches("qemu-system-x86_64: "))
}

#[cfg(test)]
mod tests {
    use super::{probe, reason};

    #[test]
    fn the_probe_ends_with_a_reason() {
        match probe() {
            Ok(()) => assert!(std::path::Path::new("/dev/kvm").exists()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn warnings_are_no_reason() {
        let said = "qemu-system-x86_64: warning: no pni\nqemu-system-x86_64: error: failed to set MSR 0x10a to 0x69\nmore\n";
        assert_eq!(reason(said, &"signal 6"), "QEMU cannot use KVM: error: failed to set MSR 0x10a to 0x69");
        assert_eq!(reason("", &"signal 6"), "QEMU cannot use KVM: signal 6");
    }
}
