//! The calls of libbpf that libbpf-rs has no safe face for: TCX and tracing links by descriptor, pins, a program's
//! numbers.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use libbpf_rs::libbpf_sys;

use super::error::KernelError;

/// The side of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// What it receives.
    Ingress,
    /// What is sent through it, before its queue.
    Egress,
}

impl Side {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }

    fn tcx(self) -> libbpf_sys::bpf_attach_type {
        match self {
            Self::Ingress => libbpf_sys::BPF_TCX_INGRESS,
            Self::Egress => libbpf_sys::BPF_TCX_EGRESS,
        }
    }
}

/// Results of libbpf are negated error numbers.
fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) }
}

fn owned(result: i32) -> io::Result<OwnedFd> {
    // SAFETY: the callers hand in descriptors that were made just now and have no other owner.
    check(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn path_text(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Attaches a program by TCX; `first` puts it in front of those that are there, otherwise it comes last.
pub(super) fn tcx(program: BorrowedFd<'_>, ifindex: u32, side: Side, first: bool) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
        flags: if first { libbpf_sys::BPF_F_BEFORE } else { libbpf_sys::BPF_F_AFTER },
        ..Default::default()
    };
    // SAFETY: the descriptor is open, the options are of the stated size and live through the call.
    owned(unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), ifindex as i32, side.tcx(), &options) })
}

/// The programs at a side of an interface by TCX, in their order: numbers of program and link, zero where there is no
/// link.
pub(super) fn tcx_programs(ifindex: u32, side: Side) -> io::Result<Vec<(u32, u32)>> {
    // `BPF_MPROG_MAX` (include/linux/bpf_mprog.h).
    let (mut programs, mut links) = ([0u32; 64], [0u32; 64]);
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as _,
        prog_ids: programs.as_mut_ptr(),
        link_ids: links.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = programs.len() as u32;
    // SAFETY: the options are of the stated size; both arrays have room for `count` numbers and live through the call.
    check(unsafe { libbpf_sys::bpf_prog_query_opts(ifindex as i32, side.tcx(), &raw mut options) })?;
    // SAFETY: both members of the union are the same number.
    let count = unsafe { options.__bindgen_anon_1.count } as usize;
    Ok(programs.into_iter().zip(links).take(count).collect())
}

/// Attaches a program of type `tp_btf` to the tracepoint that it was made for.
pub(super) fn tracepoint(program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is open; without a name the program's own tracepoint is taken.
    owned(unsafe { libbpf_sys::bpf_raw_tracepoint_open(std::ptr::null(), program.as_raw_fd()) })
}

/// Swaps the program of a link in one step.
pub(super) fn update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open; no options are given.
    check(unsafe { libbpf_sys::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), std::ptr::null()) })
        .map(|_| ())
}

/// Takes a link off what it is attached to, at once: when its last holder goes, the kernel does so a while later.
/// Tracing links cannot.
pub(super) fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    check(unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) }).map(drop)
}

/// Gives an object a name in bpffs.
pub(super) fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let text = path_text(path)?;
    // SAFETY: the descriptor is open and the path terminated.
    check(unsafe { libbpf_sys::bpf_obj_pin(object.as_raw_fd(), text.as_ptr()) }).map(|_| ())
}

/// Opens an object by its name in bpffs.
pub(super) fn open(path: &Path) -> io::Result<OwnedFd> {
    let text = path_text(path)?;
    // SAFETY: the path is terminated.
    owned(unsafe { libbpf_sys::bpf_obj_get(text.as_ptr()) })
}

/// A program's id, its length in instructions and how many the verifier looked at until it was satisfied.
pub(super) fn program_numbers(program: BorrowedFd<'_>) -> io::Result<(u32, u32, u32)> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: the descriptor is open; `info` is writable for `size` bytes and asks for no arrays.
    check(unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut size) })?;
    Ok((info.id, info.xlated_prog_len / 8, info.verified_insns))
}

/// Random bytes from the kernel.
pub(super) fn random<const WORDS: usize>() -> io::Result<[u64; WORDS]> {
    let mut seed = [0u64; WORDS];
    // SAFETY: `seed` is writable for its size; up to 256 bytes come whole.
    let read = unsafe { libc::getrandom(seed.as_mut_ptr().cast(), size_of_val(&seed), 0) };
    if read == size_of_val(&seed) as isize { Ok(seed) } else { Err(io::Error::last_os_error()) }
}

/// The index of an interface and the inode of its network namespace, which is that of the calling thread.
///
/// # Errors
/// [`KernelError::Failed`] where no interface has this name.
pub fn identify(device: &str) -> Result<(u32, u32), KernelError> {
    let failed = |source| KernelError::from_io(format!("looking for {device}"), source);
    let name = CString::new(device).map_err(|_| failed(io::ErrorKind::InvalidInput.into()))?;
    // SAFETY: the name is terminated.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(failed(io::Error::last_os_error())),
        index => {
            let inode = std::fs::metadata("/proc/thread-self/ns/net").map_err(failed)?.ino();
            Ok((index, inode as u32))
        }
    }
}
