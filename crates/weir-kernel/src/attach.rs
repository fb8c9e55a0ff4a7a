//! Puts programs at their hooks, finds them there again from another process, swaps and removes them.
//!
//! Traffic programs are attached by TCX (Linux 6.6) or else as filters of clsact. A TCX link lives by its pin; a filter
//! lives by itself and is found by its handle and priority, which are constants. Tracing programs live by the pins of
//! their links. All pins of one queue lie in one directory of bpffs.
//!
//! `reverse` goes in front of what is there already, since it only looks; `forward` behind, so that no program
//! changes the packet or its class after it; filters may (see `ahead`). `redirect` is no program: it is the last of
//! all filters (see `mirred`), since nobody sees the packet after it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libbpf_rs::btf::Btf;
use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcHook};

use super::error::KernelError;
use super::mirred;
use super::program::{Programs, Role};
use super::reasons;
use super::sys;
use super::talk;

pub use super::sys::Side;

/// Handle of all of Weir's clsact filters.
pub const FILTER_HANDLE: u32 = 0x57e1;

/// How a program gets at packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// A link of its own (`BPF_TCX_INGRESS`, `BPF_TCX_EGRESS`).
    Tcx,
    /// A filter of the clsact qdisc.
    Clsact,
}

impl Hook {
    /// Which one this kernel offers, by its types: to find out by trying takes privileges.
    #[must_use]
    pub fn of_this_kernel() -> Self {
        static KNOWN: OnceLock<Hook> = OnceLock::new();
        *KNOWN.get_or_init(|| {
            let tcx = Btf::from_vmlinux().is_ok_and(|btf| {
                reasons::members(&btf, "bpf_attach_type").iter().any(|(name, _)| name == "BPF_TCX_INGRESS")
            });
            if tcx { Self::Tcx } else { Self::Clsact }
        })
    }
}

/// One traffic program's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Which program.
    pub role: Role,
    /// The interface, in the network namespace of the calling thread.
    pub ifindex: u32,
    /// Its side.
    pub side: Side,
}

impl Role {
    /// The priority of its clsact filter: in the order in which they have to see a packet.
    #[must_use]
    pub fn filter_priority(self) -> u32 {
        match self {
            Self::Reverse => 57,
            Self::Forward => 58,
            Self::Redirect => 65_535,
        }
    }
}

/// Where the TCX link of a traffic program is pinned.
pub(super) fn link_pin(directory: &Path, role: Role) -> PathBuf {
    directory.join(format!("{}-link", role.name()))
}

impl Place {
    fn link(&self, directory: &Path) -> PathBuf {
        link_pin(directory, self.role)
    }

    fn filter(&self, program: BorrowedFd<'_>) -> TcHook {
        let mut hook = TcHook::new(program);
        hook.ifindex(self.ifindex as i32)
            .attach_point(if self.side == Side::Ingress { TC_INGRESS } else { TC_EGRESS })
            .handle(FILTER_HANDLE)
            .priority(self.role.filter_priority())
            .replace(true);
        hook
    }

    fn describe(&self) -> String {
        let (role, side) = (self.role.name(), self.side.name());
        format!("attaching {role} at the {side} of interface {}", self.ifindex)
    }
}

/// Attaches a program, or swaps it in one step for the one that is there. Without `wanted` by TCX if the kernel has it;
/// `redirect` always as a filter. Returns how it is attached.
///
/// # Errors
/// [`KernelError::NoHook`] where the interface takes neither; otherwise what the kernel said.
pub fn attach(
    programs: &Programs,
    directory: &Path,
    place: &Place,
    wanted: Option<Hook>,
) -> Result<Hook, KernelError> {
    let program = programs.descriptor(place.role)?;
    let failed = |source| KernelError::from_io(place.describe(), source);
    let path = place.link(directory);
    if wanted != Some(Hook::Clsact) && place.role != Role::Redirect {
        if let Ok(link) = sys::open(&path) {
            match sys::update(link.as_fd(), program) {
                Ok(()) => return Ok(Hook::Tcx),
                // The interface went and took the attachment along; the pin is all that is left.
                Err(error) if error.raw_os_error() == Some(libc::ENOLINK) => {
                    std::fs::remove_file(&path).map_err(failed)?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let present = find(directory, place) == Some(Hook::Clsact);
        if !present || wanted == Some(Hook::Tcx) {
            match sys::tcx(program, place.ifindex, place.side, place.role == Role::Reverse) {
                Ok(link) => {
                    sys::pin(link.as_fd(), &path).map_err(failed)?;
                    if present {
                        detach_filter(place)?;
                    }
                    return Ok(Hook::Tcx);
                }
                // Kernels before 6.6 do not know the attach type.
                Err(error) if wanted.is_none() && error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) if wanted.is_none() && error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    attach_filter(place, program, programs.config().redirect_to)?;
    // The one that came before it must not count the packet too.
    if path.exists() {
        std::fs::remove_file(&path).map_err(failed)?;
    }
    Ok(Hook::Clsact)
}

/// As a filter of clsact, which is made if it is not there.
fn attach_filter(place: &Place, program: BorrowedFd<'_>, redirect_to: u32) -> Result<(), KernelError> {
    let mut hook = place.filter(program);
    let redirects = place.role == Role::Redirect;
    let (attached, _) =
        talk::listen(|| hook.create().and_then(|mut hook| if redirects { Ok(hook) } else { hook.attach() }));
    attached.map_err(|error| match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => KernelError::NotPermitted { doing: place.describe() },
        _ => KernelError::NoHook {
            device: place.describe(),
            ifindex: place.ifindex,
            reason: io::Error::other(error.to_string()),
        },
    })?;
    if !redirects || mirred::target(place.ifindex) == Some(redirect_to) {
        return Ok(());
    }
    // It cannot be pointed elsewhere. In between, packets go straight.
    if find_filter(place) {
        detach_filter(place)?;
    }
    mirred::add(place.ifindex, redirect_to).map_err(|reason| KernelError::NoRedirect { reason })
}

/// How the program of a place is attached, if it is.
#[must_use]
pub fn find(directory: &Path, place: &Place) -> Option<Hook> {
    if place.link(directory).exists() {
        return Some(Hook::Tcx);
    }
    find_filter(place).then_some(Hook::Clsact)
}

fn find_filter(place: &Place) -> bool {
    match place.role {
        Role::Redirect => mirred::target(place.ifindex).is_some(),
        _ => talk::listen(|| place.filter(no_descriptor()).query()).0.is_ok(),
    }
}

/// Takes a program off; nothing happens where it is not attached. A clsact qdisc stays: others may have filters there.
///
/// # Errors
/// What the kernel said.
pub fn detach(directory: &Path, place: &Place) -> Result<(), KernelError> {
    detach_link(directory, place.role)?;
    if find(directory, place).is_some() { detach_filter(place) } else { Ok(()) }
}

/// The same of a program at TCX, whose link knows its place, be that gone or not. Its pin goes first: one that cannot
/// be removed leaves all as it is, and a pinned link that is off says that its interface has gone (see `sweep`).
pub(super) fn detach_link(directory: &Path, role: Role) -> Result<(), KernelError> {
    let path = link_pin(directory, role);
    let failed = |error| KernelError::from_io(format!("taking off {}", role.name()), error);
    let link = sys::open(&path);
    remove(&path)?;
    match link.map(|link| sys::detach(link.as_fd())) {
        // It is off already: by another, or because the interface went.
        Ok(Err(error)) if error.raw_os_error() != Some(libc::ENOLINK) => Err(failed(error)),
        _ => Ok(()),
    }
}

fn detach_filter(place: &Place) -> Result<(), KernelError> {
    if place.role == Role::Redirect {
        let failed = |error| KernelError::from_io(format!("taking off {}", place.role.name()), error);
        return mirred::remove(place.ifindex).map_err(failed);
    }
    talk::listen(|| place.filter(no_descriptor()).detach())
        .0
        .map_err(|error| KernelError::from_libbpf(format!("taking off {}", place.role.name()), &error))
}

/// Attaches the programs that hear of losses and, where the queue can mark, of marks, in place of those that are there:
/// the law says by what key a flow is found and what a signal weighs. A link of theirs cannot be pointed to another
/// program. The new one is there before the old one goes, so that no signal is missed; what happens in between is
/// booked by both.
///
/// # Errors
/// What the kernel said.
pub fn signals(programs: &Programs, directory: &Path) -> Result<(), KernelError> {
    let marks = programs.config().can_mark;
    for (name, wanted) in [("lost", true), ("left", marks)] {
        let path = directory.join(format!("{name}-link"));
        if !wanted {
            remove(&path)?;
            continue;
        }
        let failed = |error| KernelError::from_io(format!("attaching {name} to its tracepoint"), error);
        let next = directory.join("next");
        remove(&next)?;
        let link = sys::tracepoint(programs.signal_descriptor(name)?).map_err(failed)?;
        sys::pin(link.as_fd(), &next).and_then(|()| std::fs::rename(&next, &path)).map_err(failed)?;
    }
    Ok(())
}

/// Takes the tracing programs off.
///
/// # Errors
/// What the kernel said.
pub fn detach_signals(directory: &Path) -> Result<(), KernelError> {
    ["lost", "left"].iter().try_for_each(|name| remove(&directory.join(format!("{name}-link"))))
}

/// Removes every pin of a queue, and so its tracing programs, its TCX links and its maps, and the directory itself.
/// Nothing happens where it is not there. Filters of clsact are to be taken off before ([`detach`]).
///
/// # Errors
/// What the system said.
pub fn unpin(directory: &Path) -> Result<(), KernelError> {
    let failed = |error| KernelError::from_io(format!("removing {}", directory.display()), error);
    // Signals first, so that what is purged with the queue counts for nobody.
    detach_signals(directory)?;
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        remove(&entry.map_err(failed)?.path())?;
    }
    std::fs::remove_dir(directory).map_err(failed)
}

fn remove(path: &Path) -> Result<(), KernelError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(KernelError::from_io(format!("removing {}", path.display()), error))
        }
        _ => Ok(()),
    }
}

/// A filter is found by handle and priority; its program is not asked for.
fn no_descriptor() -> BorrowedFd<'static> {
    // SAFETY: standard input's number is never read through here: libbpf ignores the descriptor where none is attached.
    unsafe { BorrowedFd::borrow_raw(0) }
}
