//! A bpffs of the test's own, so that pins need none of the system's and leave nothing in it.

use std::path::PathBuf;
use std::process::Command;

use weir_kernel::attach;

/// A directory for pins, in a file system that goes with it.
pub(crate) struct Pins(pub(crate) PathBuf, PathBuf);

impl Pins {
    /// `name` distinguishes the pins of one test process.
    pub(crate) fn new(name: &str) -> Self {
        let mount = std::env::temp_dir().join(format!("weir-test-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&mount).unwrap();
        let status = Command::new("mount").args(["-t", "bpf", "bpf"]).arg(&mount).status().unwrap();
        assert!(status.success(), "no bpffs at {}", mount.display());
        Self(mount.join("pins"), mount)
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        let _ = attach::unpin(&self.0);
        let _ = Command::new("umount").arg(&self.1).status();
        let _ = std::fs::remove_dir(&self.1);
    }
}
