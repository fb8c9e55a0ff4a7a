//! Keeps super-packets and unfinished checksums out of a bottleneck, and puts the interfaces back as they were.
//!
//! A queue that sees 64 kB super-packets marks 44 segments with one mark, and a frame without checksum is dropped by
//! its receiver once it has crossed an interface that finishes none. Two kinds of interface matter: those of the
//! bottleneck itself must not merge what they receive, and those of the hosts must segment and checksum before they
//! send. Merging at the receiving host (GRO) changes nothing for the queue and stays on. Segmentation in software just
//! above the host's driver (GSO) stays on too: what leaves the interface is single frames.
//!
//! Unlike a script around `ethtool -K`, the change is undone when the guard is dropped, and after a crash by
//! [`recover`]: what was is written to a journal in `/run/weir` before it is changed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::device;
use crate::features::{self, Feature};

/// Where journals are kept; a tmpfs, so that they do not outlive the interfaces that they describe.
pub const JOURNAL: &str = "/run/weir";

/// What an interface is to the bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// One of the two that the bottleneck reads and writes: it must not merge what it receives.
    Bottleneck,
    /// A host's end towards the bottleneck: it must not leave segmenting, checksums or VLAN tags to others.
    Host,
}

impl Role {
    /// The features that must be off. A name that ends in `*` stands for all that begin so.
    fn unwanted(self) -> &'static [&'static str] {
        match self {
            Self::Bottleneck => {
                &["rx-gro", "rx-gro-hw", "rx-gro-list", "rx-udp-gro-forwarding", "rx-lro", "rx-vlan-hw-parse"]
            }
            Self::Host => &[
                "tx-checksum-*",
                "tx-tcp-*",
                "tx-tcp6-*",
                "tx-udp-segmentation",
                "tx-udp_tnl-*",
                "tx-gso-list",
                "tx-gso-partial",
                "tx-gso-robust",
                "tx-esp-segmentation",
                "tx-sctp-segmentation",
                "tx-vlan-hw-insert",
                "tx-vlan-stag-hw-insert",
            ],
        }
    }

    fn rejects(self, name: &str) -> bool {
        self.unwanted().iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *pattern,
        })
    }
}

/// Offloads that could not be read, switched or recorded.
#[derive(Debug, Error)]
pub enum OffloadError {
    /// The interface is not there or does not answer.
    #[error("offloads of '{interface}' cannot be {what}: {source}")]
    Interface {
        /// Which.
        interface: String,
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Some stayed on.
    #[error(
        "'{interface}' keeps {names} on, which would falsify what the queue sees; use another interface or driver"
    )]
    Stuck {
        /// Which.
        interface: String,
        /// The features.
        names: String,
    },
    /// The journal could not be written. Nothing was changed.
    #[error("the journal {path} cannot be written: {source}; without it a crash would leave offloads off")]
    Journal {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What was before a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    pid: u32,
    /// Start time of the process in clock ticks since boot: a later process may get the same pid.
    started: u64,
    namespace: u64,
    interface: String,
    index: u32,
    address: String,
    features: BTreeMap<String, bool>,
}

/// Offloads that are off until this is dropped, which may happen in any thread and network namespace.
#[derive(Debug)]
#[must_use = "offloads are on again as soon as the guard is dropped"]
pub struct OffloadGuard {
    entry: Entry,
    path: PathBuf,
    namespace: fs::File,
}

/// The state of all features of an interface in the namespace of the calling thread, by name.
///
/// # Errors
/// When there is no such interface or its driver does not answer.
pub fn read(interface: &str) -> Result<BTreeMap<String, bool>, OffloadError> {
    let read = device::control_socket().and_then(|socket| features::read(&socket, interface));
    let features = read.map_err(|source| failed(interface, "read", source))?;
    Ok(features.into_iter().map(|(name, feature)| (name, feature.active)).collect())
}

/// Has an interface of the caller's own making merge what it receives (GRO), as drivers of network cards do by
/// default, in the network namespace of the calling thread. Nothing undoes it.
///
/// # Errors
/// When there is no such interface or it does not follow.
pub fn merge(interface: &str) -> Result<(), OffloadError> {
    const MERGES: &str = "rx-gro";
    let failed = |source| failed(interface, "switched on", source);
    let socket = device::control_socket().map_err(failed)?;
    let features = features::read(&socket, interface).map_err(failed)?;
    let feature = features.get(MERGES).ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))?;
    features::write(&socket, interface, &[(*feature, true)]).map_err(failed)?;
    if read(interface)?.get(MERGES) == Some(&true) {
        return Ok(());
    }
    Err(failed(io::ErrorKind::Unsupported.into()))
}

/// Switches off what `role` must not do, in the network namespace of the calling thread.
///
/// # Errors
/// When the interface does not follow, or the journal cannot be written.
pub fn prepare(interface: &str, role: Role) -> Result<OffloadGuard, OffloadError> {
    prepare_in(Path::new(JOURNAL), interface, role)
}

/// Puts back what dead processes have left changed on interfaces of the calling thread's network namespace, and removes
/// their journals. Returns the names of the interfaces. Journals of namespaces that no longer exist are removed too.
///
/// # Errors
/// When the journals cannot be read.
pub fn recover() -> io::Result<Vec<String>> {
    recover_in(Path::new(JOURNAL))
}

fn failed(interface: &str, what: &'static str, source: io::Error) -> OffloadError {
    OffloadError::Interface { interface: interface.to_owned(), what, source }
}

fn namespace() -> io::Result<fs::File> {
    fs::File::open("/proc/thread-self/ns/net")
}

/// Field 22 of `/proc/PID/stat`; the name in field 2 may hold spaces and brackets. `None` for a dead process.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn prepare_in(directory: &Path, interface: &str, role: Role) -> Result<OffloadGuard, OffloadError> {
    let failed = |what| move |source| failed(interface, what, source);
    let socket = device::control_socket().map_err(failed("read"))?;
    let all = features::read(&socket, interface).map_err(failed("read"))?;
    let wanted_off: Vec<(&String, Feature)> = all
        .iter()
        .filter(|(name, feature)| {
            role.rejects(name) && feature.changeable && (feature.active || feature.wanted)
        })
        .map(|(name, feature)| (name, *feature))
        .collect();
    let namespace = namespace().map_err(failed("read"))?;
    let pid = std::process::id();
    let index =
        device::index(interface).map_err(|_| failed("read")(io::Error::from_raw_os_error(libc::ENODEV)))?;
    let entry = Entry {
        pid,
        started: started(pid).unwrap_or_default(),
        namespace: namespace.metadata().map_err(failed("read"))?.ino(),
        interface: interface.to_owned(),
        index,
        address: device::address(&socket, interface).map_err(failed("read"))?,
        features: wanted_off.iter().map(|(name, feature)| ((*name).clone(), feature.wanted)).collect(),
    };
    let path = write_journal(directory, &entry)?;
    // From here on the guard undoes, whatever fails.
    let guard = OffloadGuard { entry, path, namespace };
    let changes: Vec<_> = wanted_off.iter().map(|(_, feature)| (*feature, false)).collect();
    features::write(&socket, interface, &changes).map_err(failed("switched off"))?;
    let after = features::read(&socket, interface).map_err(failed("read"))?;
    let stuck: Vec<_> = after
        .iter()
        .filter(|(name, feature)| role.rejects(name) && feature.active && feature.changeable)
        .map(|(name, _)| name.as_str())
        .collect();
    if stuck.is_empty() {
        Ok(guard)
    } else {
        Err(OffloadError::Stuck { interface: interface.to_owned(), names: stuck.join(", ") })
    }
}

/// Writes a journal under a name of its own: guards of one process on one interface are distinguished by a number.
fn write_journal(directory: &Path, entry: &Entry) -> Result<PathBuf, OffloadError> {
    let base = format!("offload-{}-{}-{}", entry.pid, entry.index, entry.namespace);
    let journal = |path: &Path| {
        let path = path.to_owned();
        move |source| OffloadError::Journal { path, source }
    };
    fs::create_dir_all(directory).map_err(journal(directory))?;
    let mut number = 0;
    loop {
        let name = if number == 0 { format!("{base}.json") } else { format!("{base}-{number}.json") };
        let path = directory.join(name);
        match fs::File::create_new(&path) {
            Ok(mut file) => {
                let text =
                    serde_json::to_vec_pretty(entry).map_err(io::Error::from).map_err(journal(&path))?;
                file.write_all(&text).map_err(journal(&path))?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 16 => number += 1,
            Err(error) => return Err(journal(&path)(error)),
        }
    }
}

/// Puts features back, in the namespace of the calling thread. Nothing to do if the interface is gone or another.
fn restore(entry: &Entry) -> io::Result<bool> {
    let socket = device::control_socket()?;
    if device::index(&entry.interface).ok() != Some(entry.index)
        || device::address(&socket, &entry.interface).ok().as_deref() != Some(&entry.address)
    {
        return Ok(false);
    }
    let now = features::read(&socket, &entry.interface)?;
    let changes: Vec<_> = entry
        .features
        .iter()
        .filter_map(|(name, wanted)| now.get(name).map(|feature| (*feature, *wanted)))
        .collect();
    features::write(&socket, &entry.interface, &changes)?;
    Ok(!changes.is_empty())
}

impl Drop for OffloadGuard {
    fn drop(&mut self) {
        let here = namespace().and_then(|file| file.metadata()).map(|metadata| metadata.ino()).ok();
        let restored = if here == Some(self.entry.namespace) {
            restore(&self.entry).is_ok()
        } else {
            // A thread of its own enters the other namespace, so that the caller's stays what it is.
            std::thread::scope(|scope| {
                let inside = scope.spawn(|| {
                    // SAFETY: the descriptor is an open namespace; only this thread changes its namespace.
                    let entered = unsafe { libc::setns(self.namespace.as_raw_fd(), libc::CLONE_NEWNET) };
                    entered == 0 && restore(&self.entry).is_ok()
                });
                inside.join().unwrap_or(false)
            })
        };
        // What could not be undone stays in the journal for `recover`.
        if restored {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Network namespaces that some process is in or that are mounted somewhere.
fn namespaces_in_use() -> Vec<u64> {
    let number = |text: &str| text.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok();
    let of_processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let link = fs::read_link(entry.path().join("ns/net")).ok()?;
        number(link.to_str()?)
    });
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.split_whitespace().filter_map(number);
    of_processes.chain(mounted).collect()
}

fn recover_in(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let here = namespace()?.metadata()?.ino();
    let in_use = namespaces_in_use();
    let mut restored = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_journal = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.starts_with("offload-") && name.ends_with(".json"));
        let Some(entry) = is_journal
            .then(|| fs::read(&path).ok())
            .flatten()
            .and_then(|text| serde_json::from_slice::<Entry>(&text).ok())
        else {
            continue;
        };
        if started(entry.pid) == Some(entry.started) {
            continue;
        }
        if entry.namespace == here {
            if restore(&entry)? {
                restored.push(entry.interface);
            }
        } else if in_use.contains(&entry.namespace) {
            continue;
        }
        fs::remove_file(&path)?;
    }
    Ok(restored)
}
