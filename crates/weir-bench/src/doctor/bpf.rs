//! The three calls of bpf(2) that show what the kernel accepts: load a program that does nothing, attach it to a
//! device, attach it to a tracepoint. Numbers and layouts are those of `include/uapi/linux/bpf.h`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Commands of bpf(2).
const PROG_LOAD: libc::c_int = 5;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const LINK_CREATE: libc::c_int = 28;

/// `BPF_TCX_INGRESS`
const TCX_INGRESS: u32 = 46;

/// What a program is for.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum Type {
    /// `BPF_PROG_TYPE_SCHED_CLS`
    Classifier = 3,
    /// `BPF_PROG_TYPE_XDP`
    Xdp = 6,
    /// `BPF_PROG_TYPE_RAW_TRACEPOINT`
    RawTracepoint = 17,
}

/// A loaded program; it goes when it is dropped, and so does what it was attached by.
pub(super) struct Program(OwnedFd);

impl Program {
    /// Loads a program that returns 0 (as classifier: let the packet pass).
    pub(super) fn load(kind: Type) -> io::Result<Self> {
        /// The two instructions of `return 0`: r0 = 0; exit.
        const NOTHING: [u64; 2] = [0x0000_0000_0000_00b7, 0x0000_0000_0000_0095];
        #[repr(C)]
        struct Load {
            kind: u32,
            instructions: u32,
            code: u64,
            license: u64,
        }
        let load = Load {
            kind: kind as u32,
            instructions: NOTHING.len() as u32,
            code: NOTHING.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
        };
        call(PROG_LOAD, &load).map(Self)
    }

    /// Attaches it to a device's ingress by a TCX link (Linux 6.6) and takes it off again.
    pub(super) fn try_tcx(&self, ifindex: u32) -> io::Result<()> {
        #[repr(C)]
        struct Link {
            program: u32,
            ifindex: u32,
            attach_type: u32,
            flags: u32,
        }
        let link = Link { program: self.number(), ifindex, attach_type: TCX_INGRESS, flags: 0 };
        call(LINK_CREATE, &link).map(drop)
    }

    /// Attaches it to a tracepoint and takes it off again.
    pub(super) fn try_tracepoint(&self, name: &CStr) -> io::Result<()> {
        #[repr(C)]
        struct Open {
            name: u64,
            program: u32,
            padding: u32,
        }
        let open = Open { name: name.as_ptr() as u64, program: self.number(), padding: 0 };
        call(RAW_TRACEPOINT_OPEN, &open).map(drop)
    }

    fn number(&self) -> u32 {
        self.0.as_raw_fd() as u32
    }
}

/// Calls bpf(2) with attributes that consist of integers without gaps; those that are addresses point to what outlives
/// the call. All commands above answer with a new descriptor.
fn call<Attributes>(command: libc::c_int, attributes: &Attributes) -> io::Result<OwnedFd> {
    // SAFETY: the attributes live through the call, their size is given, and the kernel only reads them.
    let fd =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<Attributes>()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}
