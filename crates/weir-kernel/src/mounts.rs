//! Whether what is pinned in /sys/fs/bpf outlives the command.
//!
//! Each `mount -t bpf` makes a file system of its own, which ends, with all that is pinned there, with the last mount
//! namespace that has it. `ip netns exec` makes such a namespace for its command: it unshares and mounts a new /sys,
//! which it names like the network namespace and which has no bpffs (iproute2 lib/namespace.c, `netns_switch`).
//! Containers and the sandboxes of services have namespaces of their own too, and theirs last, or have the bpffs of all
//! others.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::step::{BPFFS, bpffs_is_mounted};
use super::up::UpError;

/// Where `ip netns` keeps the names of network namespaces.
const NAMES: &str = "/run/netns";

/// How long a pin lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pins {
    /// As long as the system, the container, or whoever can look into it; or nothing is known about it.
    Last,
    /// As long as some processes that are not the system's first.
    LastWithOthers,
    /// As long as a command of `ip netns exec`, in the network namespace of this name.
    EndWithExec(String),
    /// As long as this process.
    EndWithCommand,
}

/// A line of /proc/PID/mountinfo (proc(5)), as far as it is needed.
struct Mount<'a> {
    device: &'a str,
    point: &'a str,
    propagates: bool,
    kind: &'a str,
    source: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let mut after = after.split(' ');
        Some(Self {
            device: before.get(2)?,
            point: before.get(4)?,
            propagates: before.get(6..)?.iter().any(|tag| tag.starts_with("shared:")),
            kind: after.next()?,
            source: after.next()?,
        })
    }
}

fn parse(mounts: &str) -> impl Iterator<Item = Mount<'_>> {
    mounts.lines().filter_map(Mount::parse)
}

/// The mount that is seen at `point`: the last of those that lie there.
fn at<'a>(mounts: &'a str, point: &str) -> Option<Mount<'a>> {
    parse(mounts).filter(|mount| mount.point == point).last()
}

/// The name that `ip netns exec` gave to /sys. Others mount it as `sysfs`, `none` or the like.
fn sys_of_exec(mounts: &str) -> Option<&str> {
    at(mounts, "/sys").filter(|sys| sys.kind == "sysfs" && sys.source != "sysfs").map(|sys| sys.source)
}

/// Whether a mount on /sys/fs/bpf is made in other namespaces as well.
fn would_propagate(mounts: &str) -> bool {
    let over = ["/sys/fs", "/sys", "/"].iter().find_map(|point| at(mounts, point));
    over.is_some_and(|mount| mount.propagates)
}

/// The network namespace that the mounts of this thread were made for by `ip netns exec`.
fn netns_of_exec(mounts: &str) -> Option<String> {
    let made_for = sys_of_exec(mounts).filter(|name| Path::new(NAMES).join(name).exists())?;
    // Somebody may have gone on to another from there.
    let inode = |path: &Path| fs::metadata(path).map(|file| file.ino()).ok();
    let here = inode(Path::new("/proc/thread-self/ns/net"));
    let names = fs::read_dir(NAMES).into_iter().flatten().flatten();
    let now = names.filter(|entry| inode(&entry.path()) == here).map(|entry| entry.file_name());
    let now: Vec<String> = now.filter_map(|name| name.into_string().ok()).collect();
    Some(if now.is_empty() || now.iter().any(|name| name == made_for) {
        made_for.to_owned()
    } else {
        now[0].clone()
    })
}

/// The processes that can be seen besides this one.
fn others() -> impl Iterator<Item = PathBuf> {
    let own = std::process::id().to_string();
    let is_other = move |name: &OsStr| {
        name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && name != own)
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter(move |entry| is_other(&entry.file_name())).map(|entry| entry.path())
}

/// The mount namespace of a process or thread; `None` if it has ended.
fn namespace(of: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read_link(of.join("ns/mnt")) {
        Ok(namespace) => Ok(Some(namespace)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a process of another mount namespace has the file system `device` (`MAJOR:MINOR`).
fn is_elsewhere(device: &str, here: &Path) -> bool {
    let mut seen = BTreeSet::from([here.to_owned()]);
    others().any(|other| {
        let Ok(Some(namespace)) = namespace(&other) else { return false };
        seen.insert(namespace)
            && fs::read_to_string(other.join("mountinfo"))
                .is_ok_and(|mounts| parse(&mounts).any(|mount| mount.device == device))
    })
}

/// Whether no thread of another process is in the mount namespace `here`. An error if one cannot be looked at.
fn is_alone(here: &Path) -> io::Result<bool> {
    for other in others() {
        let threads = fs::read_dir(other.join("task")).into_iter().flatten().flatten();
        for thread in threads.map(|thread| thread.path()).chain([other]) {
            if namespace(&thread)?.as_deref() == Some(here) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn pins() -> Pins {
    let Ok(Some(here)) = namespace(Path::new("/proc/thread-self")) else { return Pins::Last };
    let first = match std::process::id() {
        1 => None,
        _ => namespace(Path::new("/proc/1")).ok().flatten(),
    };
    if first.as_ref() == Some(&here) {
        return Pins::Last;
    }
    let Ok(mounts) = fs::read_to_string("/proc/thread-self/mountinfo") else { return Pins::Last };
    let bpffs = bpffs_is_mounted().then(|| fs::metadata(BPFFS).ok()).flatten();
    if let Some(bpffs) = &bpffs {
        let device = format!("{}:{}", libc::major(bpffs.dev()), libc::minor(bpffs.dev()));
        if is_elsewhere(&device, &here) {
            return Pins::Last;
        }
    }
    if let Some(name) = netns_of_exec(&mounts) {
        return Pins::EndWithExec(name);
    }
    // One that is there already has been mounted by somebody who may keep it where this process cannot look.
    if bpffs.is_none() && !would_propagate(&mounts) && is_alone(&here).is_ok_and(|alone| alone) {
        return Pins::EndWithCommand;
    }
    match first {
        Some(_) => Pins::LastWithOthers,
        None => Pins::Last,
    }
}

/// Refuses mounts that end with the command. `verb` is the command of Weir.
pub(super) fn check(verb: &'static str) -> Result<(), UpError> {
    match pins() {
        Pins::Last | Pins::LastWithOthers => Ok(()),
        Pins::EndWithExec(name) => Err(UpError::NetnsExec { verb, name }),
        Pins::EndWithCommand => Err(UpError::PassingMounts),
    }
}

/// What is to be said of mounts that do not end with the command, but may end before the system.
pub(super) fn warning() -> Option<String> {
    (pins() == Pins::LastWithOthers).then(|| {
        "the mounts seen here are not those of the system's first process: the programs, which are pinned in \
         /sys/fs/bpf, go when the last process ends that has these mounts"
            .to_owned()
    })
}

/// The network namespace for which these mounts were made, if they are those of `ip netns exec`, where no pins are
/// seen.
pub(super) fn hide_pins() -> Option<String> {
    match pins() {
        Pins::EndWithExec(name) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{at, sys_of_exec, would_propagate};

    const SYSTEM: &str = "\
22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw
23 27 0:22 / /sys rw,nosuid shared:6 - sysfs sysfs rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 23 0:28 / /sys/fs/bpf rw,nosuid shared:9 - bpf bpf rw,mode=700
";
    const EXEC: &str = "\
65 45 254:0 /run/netns /run/netns rw,relatime master:1 - ext4 /dev/vda rw
66 65 0:4 net:[4026532177] /run/netns/blue rw master:2 - nsfs nsfs rw
45 1 254:0 / / rw,relatime master:1 - ext4 /dev/vda rw
48 45 0:39 / /sys rw,relatime - sysfs blue rw
";

    #[test]
    fn the_mounts_of_ip_netns_exec_are_told_by_their_sys() {
        assert_eq!(sys_of_exec(EXEC), Some("blue"));
        assert_eq!(sys_of_exec(SYSTEM), None);
        // The last one lies over the others.
        assert_eq!(sys_of_exec(&(SYSTEM.to_owned() + EXEC)), Some("blue"));
        assert_eq!(sys_of_exec(""), None);
        assert_eq!(sys_of_exec("48 45 0:39 / /sys rw - tmpfs blue rw\ncut off"), None);
    }

    #[test]
    fn only_a_shared_mount_propagates() {
        assert!(would_propagate(SYSTEM));
        assert!(!would_propagate(EXEC));
        assert!(!would_propagate(""));
        assert_eq!(at(SYSTEM, "/sys/fs/bpf").map(|mount| (mount.device, mount.kind)), Some(("0:28", "bpf")));
    }
}
