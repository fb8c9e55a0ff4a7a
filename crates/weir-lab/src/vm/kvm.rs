//! Whether KVM runs anything here. Inside many virtual machines `/dev/kvm` opens, and guests can be made, and the first
//! instruction of each fails.
//!
//! The probe is that instruction: one processor in its state after reset, one page with HLT where it begins
//! (Documentation/virt/kvm/api.rst; the reset vector is FFFFFFF0h).

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::mpsc;
use std::time::Duration;

/// How long one instruction may take.
const PATIENCE: Duration = Duration::from_secs(2);

const PAGE: usize = 4096;
/// HLT, where the processor begins in the last page below 4 GiB.
const HLT: u8 = 0xf4;
const RESET_VECTOR: usize = 0xff0;
const LAST_PAGE: u64 = 0xffff_f000;
/// Three pages of the guest's addresses that older Intel processors want for themselves.
const TSS: libc::c_ulong = 0xfffb_d000;

// include/uapi/linux/kvm.h; `_IO` requests are their type and number.
const KVM_CREATE_VM: libc::c_ulong = 0xae01;
const KVM_GET_VCPU_MMAP_SIZE: libc::c_ulong = 0xae04;
const KVM_CREATE_VCPU: libc::c_ulong = 0xae41;
const KVM_SET_TSS_ADDR: libc::c_ulong = 0xae47;
const KVM_RUN: libc::c_ulong = 0xae80;
/// `_IOW(KVMIO, 0x46, struct kvm_userspace_memory_region)`, 32 bytes.
const KVM_SET_USER_MEMORY_REGION: libc::c_ulong = 0x4020_ae46;
const KVM_EXIT_HLT: u32 = 5;
/// `exit_reason` in `struct kvm_run`.
const EXIT_REASON: usize = 8;

/// `struct kvm_userspace_memory_region`.
#[repr(C)]
struct Region {
    slot: u32,
    flags: u32,
    guest: u64,
    bytes: u64,
    host: u64,
}

/// Runs one instruction under KVM.
///
/// # Errors
/// Why it did not run: `/dev/kvm` is not there or may not be opened, or KVM failed.
pub(crate) fn probe() -> io::Result<()> {
    let kvm = File::options().read(true).write(true).open("/dev/kvm")?;
    let (tell, told) = mpsc::channel();
    // In a thread that is left behind should the instruction never end: nothing but the process's end stops it then.
    std::thread::Builder::new().name("kvm probe".to_owned()).spawn(move || tell.send(run(&kvm)))?;
    told.recv_timeout(PATIENCE)
        .unwrap_or_else(|_| Err(io::Error::other("KVM does not get past one instruction")))
}

fn run(kvm: &File) -> io::Result<()> {
    let step = |what: &str, done: io::Result<libc::c_int>| {
        done.map_err(|error| io::Error::other(format!("KVM cannot {what}: {error}")))
    };
    let machine = step("make a machine", ask(kvm, KVM_CREATE_VM, 0))?;
    // SAFETY: the descriptor was made just now and has no other owner.
    let machine = unsafe { OwnedFd::from_raw_fd(machine) };
    step("place its own pages", ask(&machine, KVM_SET_TSS_ADDR, TSS))?;
    let page = Mapping::new(None, PAGE)?;
    page.write(RESET_VECTOR, HLT);
    let region = Region { slot: 0, flags: 0, guest: LAST_PAGE, bytes: PAGE as u64, host: page.start as u64 };
    let region: *const Region = &raw const region;
    step("give it memory", ask(&machine, KVM_SET_USER_MEMORY_REGION, region as libc::c_ulong))?;
    let processor = step("make a processor", ask(&machine, KVM_CREATE_VCPU, 0))?;
    // SAFETY: as above.
    let processor = unsafe { OwnedFd::from_raw_fd(processor) };
    let size = step("tell how it tells", ask(kvm, KVM_GET_VCPU_MMAP_SIZE, 0))?;
    let state = Mapping::new(Some(&processor), size as usize)?;
    step("run an instruction", ask(&processor, KVM_RUN, 0))?;
    match state.word(EXIT_REASON) {
        KVM_EXIT_HLT => Ok(()),
        reason => {
            Err(io::Error::other(format!("KVM cannot run an instruction: it gives up with reason {reason}")))
        }
    }
}

fn ask(file: &impl AsRawFd, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<libc::c_int> {
    // SAFETY: the requests above take a number, or a pointer to a region that outlives the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), request, argument) } {
        done if done >= 0 => Ok(done),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Memory shared with the kernel.
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    fn new(file: Option<&OwnedFd>, bytes: usize) -> io::Result<Self> {
        let (flags, file) = match file {
            Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
            None => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
        };
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping wherever the kernel likes touches no memory that is in use.
        match unsafe { libc::mmap(std::ptr::null_mut(), bytes, rights, flags, file, 0) } {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            start => Ok(Self { start: start.cast(), bytes }),
        }
    }

    fn write(&self, at: usize, byte: u8) {
        assert!(at < self.bytes);
        // SAFETY: within the mapping.
        unsafe { self.start.add(at).write_volatile(byte) };
    }

    fn word(&self, at: usize) -> u32 {
        assert!(at + 4 <= self.bytes && at.is_multiple_of(4));
        // SAFETY: within the mapping, and aligned since mappings are.
        unsafe { self.start.add(at).cast::<u32>().read_volatile() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the machine that used it has ended or keeps it by itself.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileTypeExt;

    use super::{Mapping, PAGE, RESET_VECTOR, probe};

    #[test]
    fn the_probe_ends_with_a_reason() {
        match probe() {
            Ok(()) => assert!(std::fs::metadata("/dev/kvm").unwrap().file_type().is_char_device()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn what_is_written_is_there() {
        let page = Mapping::new(None, PAGE).unwrap();
        page.write(RESET_VECTOR + 1, 1);
        assert_eq!(page.word(RESET_VECTOR).to_ne_bytes(), [0, 1, 0, 0]);
    }
}
