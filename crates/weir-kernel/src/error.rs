//! What can go wrong between Weir and the kernel's eBPF machine, each with what to change.

use std::io;
use std::path::PathBuf;

/// Programs or maps that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The running kernel has no information about its own types.
    #[error("this kernel has no BTF (/sys/kernel/btf/vmlinux): it needs CONFIG_DEBUG_INFO_BTF=y")]
    NoBtf,
    /// The process may not use eBPF.
    #[error("no right to {doing}: run as root, or give the command CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN")]
    NotPermitted {
        /// What was refused.
        doing: String,
    },
    /// The verifier did not accept a program: a fault of Weir or of this kernel, worth a report.
    #[error("this kernel's verifier refuses the program `{program}`; its last words:\n{log}")]
    Verifier {
        /// The program.
        program: String,
        /// The last lines of the verifier's log.
        log: String,
    },
    /// A map did not fit into memory.
    #[error(
        "no memory for a table of {flows} flows ({mebibytes} MiB): ask for fewer flows, or raise the limit on locked \
         memory (ulimit -l) or of the control group"
    )]
    TableTooLarge {
        /// Flows that the table was to hold.
        flows: u32,
        /// Its size in units of 2^20 bytes.
        mebibytes: u64,
    },
    /// A tracepoint that the signals need is not in this kernel.
    #[error("this kernel has no tracepoint {name}: it needs CONFIG_TRACEPOINTS=y and {since}")]
    NoTracepoint {
        /// The tracepoint, as `subsystem:event`.
        name: &'static str,
        /// The first version that has it in the form that the programs read.
        since: &'static str,
    },
    /// Neither TCX nor clsact can be had.
    #[error("{device} (interface {ifindex}) takes neither TCX (Linux 6.6) nor clsact with cls_bpf: {reason}")]
    NoHook {
        /// What was to be attached.
        device: String,
        /// The interface's index.
        ifindex: u32,
        /// What the kernel said.
        reason: io::Error,
    },
    /// Received packets cannot be handed to an IFB device.
    #[error(
        "this kernel cannot send what is received through an IFB device ({reason}): that takes the filter u32 with the action \
         mirred; load them with `modprobe cls_u32` and `modprobe act_mirred`, or use 'direction egress'"
    )]
    NoRedirect {
        /// What the kernel said.
        reason: io::Error,
    },
    /// A setting that makes no program.
    #[error("{field} = {value} is out of range: use {range}")]
    OutOfRange {
        /// The setting.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it may be.
        range: &'static str,
    },
    /// A pin is not there.
    #[error("{} is not there: no queue is set up under this name", .0.display())]
    NotPinned(PathBuf),
    /// A pinned map is of another build.
    #[error("{} is of another version of Weir: take the queue down and bring it up again", .0.display())]
    OtherLayout(PathBuf),
    /// Anything else, with what was being done.
    #[error("{doing}: {source}")]
    Failed {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
}

impl KernelError {
    /// An error of the system; its number decides the variant where it says what to change.
    pub(super) fn from_io(doing: impl Into<String>, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { doing: doing.into() },
            _ => Self::Failed { doing: doing.into(), source },
        }
    }

    /// The same for what libbpf-rs hands out.
    pub(super) fn from_libbpf(doing: impl Into<String>, error: &libbpf_rs::Error) -> Self {
        let source = match error.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => io::Error::from_raw_os_error(libc::EPERM),
            kind => io::Error::other(format!("{error:#} ({kind:?})")),
        };
        Self::from_io(doing, source)
    }
}
