//! Micro-VMs: a distribution's kernel, started in QEMU for as long as one job takes, for hosts whose own kernel lacks a
//! queue discipline.
//!
//! | part | what it does |
//! |---|---|
//! | [`apt`], [`index`], [`fetch`] | finds a Debian mirror, verifies what it offers, downloads kernel packages |
//! | [`modules`] | picks the modules that are needed, in the order they must be loaded in |
//! | [`cache`] | keeps kernels on disk |
//! | [`cpio`], [`initramfs`] | packs the guest's whole file system: the host's own programs and their libraries |
//! | [`guest`] | boots it, passes its output on, brings its results back |
//!
//! Nothing is installed on the host and no disk image is kept. The guest's programs are the host's, so the two agree on
//! versions, and only the kernel differs.

pub mod apt;
pub mod cache;
pub mod cpio;
pub mod fetch;
pub mod guest;
pub mod index;
pub mod initramfs;
pub mod kvm;
pub mod modules;
mod tools;

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use cache::{Cache, Kernel};
pub use guest::{Finished, Guest, Stream};

/// The kernels that Weir is tested with: the series, and the Debian suite that it comes from.
pub const SERIES: [(&str, &str); 3] = [("6.1", "bookworm"), ("6.12", "trixie"), ("7.2", "forky")];

/// What can go wrong between a kernel's name and a guest's results.
#[derive(Debug, Error)]
pub enum VmError {
    /// A program of the host is missing.
    #[error("'{program}' is not installed; install the Debian package '{package}'")]
    Tool {
        /// The program.
        program: String,
        /// The Debian package that has it.
        package: String,
    },
    /// A program of the host failed.
    #[error("{program}: {detail}")]
    ToolFailed {
        /// The program.
        program: String,
        /// What it said.
        detail: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The mirror offers something else than the archive's signature or index says.
    #[error("{0}")]
    Untrusted(String),
    /// The mirror's index cannot be read as one.
    #[error("{0}")]
    Index(String),
    /// No mirror has such a kernel.
    #[error("there is no cloud kernel {series} at {mirror}{}", offers(.offered))]
    NoSuchKernel {
        /// The series that was asked for.
        series: String,
        /// The mirror.
        mirror: String,
        /// What it has.
        offered: Vec<String>,
    },
    /// A kernel was asked for that was never fetched.
    #[error("no kernel {series} in {}; run 'weir vm fetch {series}'", .cache.display())]
    NotFetched {
        /// The series.
        series: String,
        /// Where it would be.
        cache: PathBuf,
    },
    /// A kernel's folder holds something else.
    #[error("{path}: {detail}; run 'weir vm remove {series}' and 'weir vm fetch {series}'")]
    Broken {
        /// The file that is wrong.
        path: PathBuf,
        /// How.
        detail: String,
        /// The series.
        series: String,
    },
    /// A module's file cannot be read as one.
    #[error("the kernel's module {name}: {detail}")]
    Module {
        /// The module.
        name: String,
        /// What is wrong.
        detail: String,
    },
    /// What the guest was asked to hold or do cannot be.
    #[error("{0}")]
    Request(String),
    /// QEMU ended without the guest having come to its end.
    #[error("the guest with kernel {release} {what}{}", console(.lines))]
    Died {
        /// The kernel's release.
        release: String,
        /// What happened, to follow "the guest".
        what: String,
        /// The console's last lines.
        lines: Vec<String>,
    },
    /// The guest came to its end, but not with a result.
    #[error("in the guest with kernel {release}: {detail}")]
    Inside {
        /// The kernel's release.
        release: String,
        /// What is wrong.
        detail: String,
    },
    /// What ended the guest that several runs shared.
    #[error(transparent)]
    Lost(std::sync::Arc<VmError>),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl VmError {
    /// The error of a file, from what the system said.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

fn offers(offered: &[String]) -> String {
    if offered.is_empty() { String::new() } else { format!("; it has {}", offered.join(", ")) }
}

fn console(lines: &[String]) -> String {
    if lines.is_empty() {
        return "; its console is empty".to_owned();
    }
    let mut text = "; the last lines of its console:".to_owned();
    for line in lines {
        text.push_str("\n  ");
        text.push_str(line);
    }
    text
}
