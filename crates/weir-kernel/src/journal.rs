//! What `weir up` changed on an interface and what was there before, in a file that outlives it: with it `weir down`
//! puts everything back, also after a kill in the middle.
//!
//! One file per interface, `/run/weir/crq-NAMESPACE-IFINDEX.json`: a tmpfs, so that journals do not outlive the
//! interfaces that they describe. Namespaces and interfaces are identified by what the kernel never uses twice since it
//! booted (the namespace's cookie), because inode numbers and indices are reused.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use super::qdisc::Qdisc;
use super::setup::{Direction, Setup};
use super::step::BPFFS;
use weir_netdev::device;
use weir_netdev::offload::JOURNAL;

/// The format below.
const VERSION: u32 = 1;

/// A journal that cannot be read or written.
#[derive(Debug, Error)]
#[error("the journal {path} cannot be {what}: {source}")]
pub struct JournalError {
    path: PathBuf,
    what: &'static str,
    source: io::Error,
}

/// How far it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// `up` or `reload` is at work, or was killed at it.
    Changing,
    /// All is as `setup` says.
    Up,
    /// `down` is at work, or was killed at it.
    Leaving,
}

/// A network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NamespaceId {
    /// Of its file in nsfs: what `lsns` and eBPF see.
    pub(super) inode: u64,
    /// Unique since boot; zero where the kernel has none (before 5.14).
    pub(super) cookie: u64,
}

impl NamespaceId {
    /// That of the calling thread.
    pub(super) fn current() -> io::Result<Self> {
        let inode = fs::metadata("/proc/thread-self/ns/net")?.ino();
        let mut cookie = 0u64;
        let socket = device::control_socket()?;
        // Without it the inode must do.
        let _ = device::get_option(&socket, libc::SOL_SOCKET, libc::SO_NETNS_COOKIE, &mut cookie);
        Ok(Self { inode, cookie })
    }
}

/// What was there before the first `up`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Before {
    /// The root qdisc of somebody else that was put aside; none if the kernel's own stood there.
    pub(super) root: Option<Qdisc>,
    /// The interface's `txqueuelen`: HTB makes the kernel raise it from zero.
    pub(super) txqueuelen: u32,
    /// Whether a `clsact` that is there is not Weir's.
    pub(super) clsact: bool,
    /// Whether bpffs was mounted, and not for another interface of Weir's.
    pub(super) bpffs: bool,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Journal {
    pub(super) version: u32,
    pub(super) device: String,
    pub(super) index: u32,
    pub(super) namespace: NamespaceId,
    pub(super) phase: Phase,
    /// When that began, in seconds since 1970.
    pub(super) since: u64,
    /// When `up` first came to its end, in seconds since 1970, whatever was changed in place meanwhile.
    #[serde(default)]
    pub(super) up_since: Option<u64>,
    pub(super) before: Before,
    /// The last setup that was complete.
    #[serde(deserialize_with = "if_known")]
    pub(super) setup: Option<Setup>,
    /// What a change was to lead to.
    #[serde(deserialize_with = "if_known")]
    pub(super) target: Option<Setup>,
}

/// A setup of another version of Weir may have words that this one does not know. What was before is what counts for
/// putting it back.
fn if_known<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Setup>, D::Error> {
    let value = Option::<serde_json::Value>::deserialize(from)?;
    Ok(value.and_then(|value| serde_json::from_value(renamed(value)).ok()))
}

/// Journals may say `split borrow` and `share 30/70`, which are `split shared` and `sharing 30:70`: so what another
/// version of Weir set up can be reloaded. Queues may be tables, which are read as such.
fn renamed(mut setup: serde_json::Value) -> serde_json::Value {
    let mut rename = |at: &str| {
        let Some(table) = setup.pointer_mut(at).and_then(serde_json::Value::as_object_mut) else { return };
        if table.get("split").is_some_and(|split| split == "borrow") {
            table.insert("split".to_owned(), "shared".into());
        }
        if let Some(share) = table.remove("share") {
            let sharing = share.as_str().map(|share| share.replace('/', ":"));
            table.insert("sharing".to_owned(), sharing.into());
        }
    };
    rename("");
    rename("/keys");
    setup
}

impl Journal {
    pub(super) fn new(device: &str, index: u32, namespace: NamespaceId, before: Before) -> Self {
        Self {
            version: VERSION,
            device: device.to_owned(),
            index,
            namespace,
            phase: Phase::Changing,
            since: 0,
            up_since: None,
            before,
            setup: None,
            target: None,
        }
    }

    /// Whether what is received is shaped, or was on the way to or from that: then there may be an IFB device of
    /// Weir's. Where another version of Weir wrote it that is not known, and so there may.
    pub(super) fn receives(&self) -> bool {
        let mut known = [&self.setup, &self.target].into_iter().flatten().peekable();
        known.peek().is_none() || known.any(|setup| setup.direction.each().contains(&Direction::Ingress))
    }

    /// Where it is kept.
    pub(super) fn path(&self) -> PathBuf {
        path(self.namespace, self.index)
    }

    /// Writes it, as of a phase that begins now.
    pub(super) fn write_now(&self) -> Result<(), JournalError> {
        let since = now();
        let up_since = match self.phase {
            Phase::Up => self.up_since.or(Some(since)),
            Phase::Changing => self.up_since,
            Phase::Leaving => None,
        };
        Self { since, up_since, ..self.clone() }.write()
    }

    /// Writes it whole or not at all.
    fn write(&self) -> Result<(), JournalError> {
        let path = self.path();
        let failed = |source| JournalError { path: path.clone(), what: "written", source };
        fs::create_dir_all(JOURNAL).map_err(failed)?;
        let draft = path.with_extension("new");
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::from).map_err(failed)?;
        let mut file = File::create(&draft).map_err(failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&draft, &path).map_err(failed)
    }

    /// Reads the one of an interface. `None` if there is none, or it is of another namespace that had the same inode.
    pub(super) fn read(namespace: NamespaceId, index: u32) -> Result<Option<Self>, JournalError> {
        let journal = Self::read_file(&path(namespace, index))?;
        Ok(journal.filter(|journal| journal.namespace == namespace))
    }

    fn read_file(path: &Path) -> Result<Option<Self>, JournalError> {
        let failed = |source| JournalError { path: path.to_owned(), what: "read", source };
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        Self::from_json(&text).map(Some).map_err(failed)
    }

    /// What a file says.
    fn from_json(text: &[u8]) -> io::Result<Self> {
        let journal: Self = serde_json::from_slice(text)?;
        if journal.version == VERSION {
            Ok(journal)
        } else {
            let problem = format!("it is of version {}, this weir knows {VERSION}", journal.version);
            Err(io::Error::other(problem))
        }
    }

    /// All there are, of whatever namespace, that this version of Weir can read.
    pub(super) fn all() -> Result<Vec<Self>, JournalError> {
        let mut journals = Vec::new();
        let entries = match fs::read_dir(JOURNAL) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(journals),
            Err(source) => return Err(JournalError { path: JOURNAL.into(), what: "read", source }),
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with("crq-") && name.ends_with(".json") {
                // One that cannot be read is reported when its own interface is asked for.
                journals.extend(Self::read_file(&path).unwrap_or_default());
            }
        }
        journals.sort_by_key(|journal| (journal.namespace.inode, journal.index));
        Ok(journals)
    }
}

/// What a journal of these bytes says, written anew: for tests with bytes that no Weir has written.
///
/// # Errors
/// Where it is none, or of another version of Weir.
pub fn rewritten_journal(text: &[u8]) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec_pretty(&Journal::from_json(text)?)?)
}

#[allow(clippy::disallowed_methods, reason = "the clock says when something was set up")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub(super) fn path(namespace: NamespaceId, index: u32) -> PathBuf {
    Path::new(JOURNAL).join(format!("crq-{}-{index}.json", namespace.inode))
}

/// Where the eBPF objects of one direction are pinned.
pub(super) fn pins(namespace: u64, index: u32, direction: Direction) -> PathBuf {
    Path::new(BPFFS).join("weir").join(format!("{namespace}-{index}-{direction}"))
}

/// Removes a journal.
pub(super) fn forget(path: &Path) -> Result<(), JournalError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(JournalError { path: path.to_owned(), what: "removed", source })
        }
        _ => Ok(()),
    }
}

/// Who holds the lock knows that nobody is writing: drafts are of commands that were killed at it.
fn remove_drafts() {
    for path in fs::read_dir(JOURNAL).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("crq-") && name.ends_with(".new") {
            let _ = fs::remove_file(&path);
        }
    }
}

/// One command changes the interfaces at a time. Dropped, or dead, it lets the next one.
pub(super) struct Lock(#[expect(dead_code, reason = "holds the lock")] File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Stays where there are journals. Who waits for this lock makes it again.
        let _ = fs::remove_dir(JOURNAL);
    }
}

impl Lock {
    /// Waits for its turn.
    pub(super) fn take() -> Result<Self, JournalError> {
        let failed = |source| JournalError { path: JOURNAL.into(), what: "locked", source };
        loop {
            fs::create_dir_all(JOURNAL).map_err(failed)?;
            let folder = match File::open(JOURNAL) {
                Ok(folder) => folder,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            // SAFETY: the descriptor is open.
            if unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX) } != 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(failed(error));
            }
            // The one before may have removed the folder with its last journal.
            let ours = folder.metadata().map_err(failed)?;
            if fs::metadata(JOURNAL).is_ok_and(|now| (now.dev(), now.ino()) == (ours.dev(), ours.ino())) {
                remove_drafts();
                return Ok(Self(folder));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Before, Journal, NamespaceId};
    use crate::setup::Setup;

    #[test]
    fn a_setup_of_another_version_does_not_hide_what_was_before() {
        let namespace = NamespaceId { inode: 1, cookie: 2 };
        let before = Before { txqueuelen: 7, clsact: true, ..Before::default() };
        let mut journal = Journal::new("eth0", 3, namespace, before.clone());
        journal.setup = Some(Setup::new("eth0", "1mbit".parse().unwrap()).unwrap());
        let mut written = serde_json::to_value(&journal).unwrap();
        let read: Journal = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(read, journal);
        written["setup"]["law"]["parameter_of_next_year"] = 1.into();
        let read: Journal = serde_json::from_value(written).unwrap();
        assert_eq!((read.setup, read.before), (None, before));
    }
}
