//! Small eBPF programs of somebody else at an interface, by the kernel's own call (bpf(2), `union bpf_attr` in
//! linux/bpf.h): no library of eBPF is built for tests of crates that have none.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `enum bpf_cmd`.
const PROG_LOAD: libc::c_long = 5;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
const PROG_QUERY: libc::c_long = 16;
const LINK_CREATE: libc::c_long = 28;
const LINK_DETACH: libc::c_long = 34;
/// `enum bpf_prog_type`.
const SCHED_CLS: u64 = 3;
const XDP: u64 = 6;
/// `BPF_F_BEFORE` and `BPF_F_AFTER`.
const BEFORE: u64 = 1 << 3;
const AFTER: u64 = 1 << 4;

/// `TCX_NEXT`, `TCX_PASS` and `TCX_DROP`: what a program at TCX answers. The second is the last word on the packet.
pub const TCX_NEXT: i32 = -1;
pub const TCX_PASS: i32 = 0;
pub const TCX_DROP: i32 = 2;
/// `XDP_DROP` and `XDP_PASS`: what one of XDP answers.
pub const XDP_DROP: i32 = 1;
pub const XDP_PASS: i32 = 2;

/// Where a program sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// TCX (Linux 6.6), in front of those that are there or behind them.
    Tcx {
        /// What is sent, not what is received.
        egress: bool,
        /// In front.
        first: bool,
    },
    /// XDP in generic mode, or in the driver's.
    Xdp {
        /// In generic mode.
        generic: bool,
    },
}

impl At {
    /// `enum bpf_attach_type`.
    const fn attach_type(self) -> u64 {
        match self {
            Self::Tcx { egress: false, .. } => 46,
            Self::Tcx { egress: true, .. } => 47,
            Self::Xdp { .. } => 37,
        }
    }

    /// Where to put it: `BPF_F_`, or `XDP_FLAGS_SKB_MODE` and `XDP_FLAGS_DRV_MODE`.
    const fn flags(self) -> u64 {
        match self {
            Self::Tcx { first: true, .. } => BEFORE,
            Self::Tcx { first: false, .. } => AFTER,
            Self::Xdp { generic: true } => 1 << 1,
            Self::Xdp { generic: false } => 1 << 2,
        }
    }
}

/// Two numbers of 32 bits as they lie beside each other.
fn pair(first: u64, second: u64) -> u64 {
    let half = |number: u64| (number as u32).to_ne_bytes();
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&half(first));
    bytes[4..].copy_from_slice(&half(second));
    u64::from_ne_bytes(bytes)
}

/// The first of them.
fn first_half(word: u64) -> u32 {
    let bytes = word.to_ne_bytes();
    u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn call(command: libc::c_long, attributes: &mut [u64; 16]) -> io::Result<i32> {
    // SAFETY: the attributes are readable and writable for their size; where they have pointers, the callers own what
    // these point to until this returns.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), size_of_val(attributes)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

fn owned(descriptor: i32) -> OwnedFd {
    // SAFETY: the kernel made it just now, for this caller.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

fn load(kind: u64, answer: i32) -> io::Result<OwnedFd> {
    // r0 = answer; exit: code in the lowest byte, the constant in the upper half, on either order of bytes.
    let instruction = |code: u8, constant: i32| {
        let mut bytes = [code, 0, 0, 0, 0, 0, 0, 0];
        bytes[4..].copy_from_slice(&constant.to_ne_bytes());
        u64::from_ne_bytes(bytes)
    };
    let code = [instruction(0xb7, answer), instruction(0x95, 0)];
    let mut attributes = [0; 16];
    attributes[0] = pair(kind, code.len() as u64);
    attributes[1] = code.as_ptr() as u64;
    attributes[2] = c"GPL".as_ptr() as u64;
    attributes[6] = u64::from_ne_bytes(*b"theirs\0\0");
    call(PROG_LOAD, &mut attributes).map(owned)
}

/// A filter's program that answers the same to each packet.
///
/// # Errors
/// What the kernel said.
pub fn filter(answer: i32) -> io::Result<OwnedFd> {
    load(SCHED_CLS, answer)
}

/// How many programs sit there; none where the kernel does not know the place. `index` is the interface's in the
/// network namespace of the calling thread.
pub fn programs(index: u32, at: At) -> u32 {
    // Interface, place, flags, flags, array of numbers, its length.
    let mut attributes = [0; 16];
    attributes[0] = pair(index.into(), at.attach_type());
    if call(PROG_QUERY, &mut attributes).is_err() {
        return 0;
    }
    first_half(attributes[3])
}

/// A program of somebody else at an interface. Dropped, it is off.
#[derive(Debug)]
pub struct Theirs {
    link: OwnedFd,
    /// Where it was put.
    pub at: At,
    /// What it answers to each packet.
    pub answer: i32,
}

impl Theirs {
    /// Puts one there. `index` is the interface's in the network namespace of the calling thread.
    ///
    /// # Errors
    /// What the kernel said: `EINVAL` where it has no TCX, `EBUSY` where XDP is taken.
    pub fn put(index: u32, at: At, answer: i32) -> io::Result<Self> {
        let kind = if matches!(at, At::Tcx { .. }) { SCHED_CLS } else { XDP };
        let program = load(kind, answer)?;
        let mut attributes = [0; 16];
        attributes[0] = pair(program.as_raw_fd() as u64, index.into());
        attributes[1] = pair(at.attach_type(), at.flags());
        call(LINK_CREATE, &mut attributes).map(|link| Self { link: owned(link), at, answer })
    }

    /// Whether it is still there: nobody has taken it off, and its interface is.
    ///
    /// # Panics
    /// If the kernel does not answer.
    pub fn is_there(&self) -> bool {
        // `struct bpf_link_info`: type, number, number of the program, then what is of this type, which begins with the
        // interface's index; that of an interface that is gone is 0.
        let mut info = [0u64; 16];
        let mut attributes = [0; 16];
        attributes[0] = pair(self.link.as_raw_fd() as u64, size_of_val(&info) as u64);
        attributes[1] = info.as_mut_ptr() as u64;
        call(OBJ_GET_INFO_BY_FD, &mut attributes).unwrap();
        first_half(info[2]) != 0
    }
}

impl Drop for Theirs {
    /// At once: the kernel takes it off some time after the last descriptor is closed.
    fn drop(&mut self) {
        let mut attributes = [0; 16];
        attributes[0] = pair(self.link.as_raw_fd() as u64, 0);
        // It may be off already.
        let _ = call(LINK_DETACH, &mut attributes);
    }
}
