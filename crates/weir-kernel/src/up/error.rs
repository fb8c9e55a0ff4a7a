//! Why an interface cannot be set up. Every message says what would mend it.

use std::io;

use thiserror::Error;

use crate::error::KernelError;
use crate::journal::JournalError;
use crate::leaf::LeafKind;
use crate::setup::SetupError;
use crate::step::StepError;

/// Why nothing, or not all, could be set up. Unless it says otherwise, everything is as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UpError {
    /// What is wanted makes no sense.
    #[error(transparent)]
    Setup(SetupError),
    /// The kernel does not report what is there.
    #[error("cannot read what is on the interfaces: {source}")]
    Unread {
        /// What it said.
        source: io::Error,
    },
    /// There is no such interface.
    #[error("there is no interface '{device}' here; there are {known}")]
    NoDevice {
        /// As written.
        device: String,
        /// All there are.
        known: String,
    },
    /// A classless qdisc of somebody else.
    #[error(
        "{device} has a qdisc of its own, {kind} {handle}; add 'replace' to put it aside until weir down, \
         or remove it with `tc qdisc del dev {device} root`"
    )]
    Foreign {
        /// The interface.
        device: String,
        /// The qdisc's kind.
        kind: String,
        /// Its handle.
        handle: String,
    },
    /// A qdisc with classes, or with state that the kernel does not give back.
    #[error(
        "{device} has a {kind} {handle}, whose classes or state could not be put back as they were; \
         if it is not needed, remove it with `tc qdisc del dev {device} root`"
    )]
    Classful {
        /// The interface.
        device: String,
        /// The qdisc's kind.
        kind: String,
        /// Its handle.
        handle: String,
    },
    /// A qdisc that the kernel does not take back as it gave it.
    #[error(
        "the {kind} of {device} would not come back as it was ({message}); \
         if that does not matter, remove it with `tc qdisc del dev {device} root`"
    )]
    NoReturn {
        /// The interface.
        device: String,
        /// The qdisc's kind.
        kind: String,
        /// What differs.
        message: String,
    },
    /// Our tree without its journal.
    #[error(
        "{device} has Weir's own qdisc, but its journal in /run/weir is gone, so that what was there before is not \
         known; run `weir down dev {device}`, which leaves the kernel's own qdisc, and then weir up again"
    )]
    LostJournal {
        /// The interface.
        device: String,
    },
    /// An IFB device of Weir's, which goes with the interface that it is for.
    #[error(
        "{device} is part of what is up on {of}; use `weir down dev {of}`, or `weir reload dev {of} ...` to change it"
    )]
    PartOf {
        /// The IFB device.
        device: String,
        /// The interface whose received packets go through it.
        of: String,
    },
    /// The name of our IFB device is taken.
    #[error(
        "an interface '{name}' is there already, which Weir would make for what {device} receives; rename it"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// For which interface.
        device: String,
    },
    /// Received packets begin with a header that the programs do not know.
    #[error(
        "what {device} receives cannot be shaped, because its packets begin neither with an Ethernet nor with an IP header; \
         use 'direction egress' here and on the interface where they leave"
    )]
    NoHeader {
        /// The interface.
        device: String,
    },
    /// A qdisc without a side for what is sent, where programs are filters.
    #[error(
        "{device} has the qdisc 'ingress', in whose place Weir needs 'clsact' before Linux 6.6; remove it with \
         `tc qdisc del dev {device} ingress`, then put its filters into one made by `tc qdisc add dev {device} clsact`"
    )]
    OneSided {
        /// The interface.
        device: String,
    },
    /// Filters that hold for other interfaces too.
    #[error(
        "{device} shares the filters of its qdisc '{kind}' with other interfaces (ingress_block {block}), so that Weir cannot \
         have one for {device} alone; give it filters of its own with `tc qdisc del dev {device} {kind}` and \
         `tc qdisc add dev {device} clsact`, or use 'direction egress'"
    )]
    SharedBlock {
        /// The interface.
        device: String,
        /// The qdisc's kind.
        kind: String,
        /// The number of the block.
        block: u32,
    },
    /// Chains of nftables that would see nothing of what is received.
    #[error(
        "what {device} receives cannot be shaped while chains of nftables hang at its ingress ({chains}): packets that were \
         queued pass them by, so that their rules would do nothing; hang them into 'hook prerouting priority raw', which comes \
         behind the queues, or use 'direction egress' here and on the interface where the packets leave"
    )]
    Bypassed {
        /// The interface.
        device: String,
        /// Family, table and name of each.
        chains: String,
    },
    /// Somebody redirects what is received.
    #[error(
        "what {device} receives cannot be shaped, because a filter sends it to {to} before Weir sees it ({kind} prio \
         {priority}), as another shaper does; end that one, or remove its filter with `tc filter del dev {device} ingress prio \
         {priority}`, or use 'direction egress'"
    )]
    Redirected {
        /// The interface.
        device: String,
        /// The kind of the filter.
        kind: String,
        /// Its priority.
        priority: u16,
        /// Where it sends packets.
        to: String,
    },
    /// The process may not do it.
    #[error("this takes privileges: {missing}; run it as root. `--dry-run` needs none")]
    Privileges {
        /// What is missing and what for.
        missing: String,
    },
    /// Mounts of `ip netns exec`, which end with it.
    #[error(
        "`ip netns exec` gives its command mounts of its own, with another /sys/fs/bpf, which ends with it: programs \
         would not stay there, and those that are up cannot be reached; write \
         `nsenter --net=/run/netns/{name} weir {verb} ...` instead"
    )]
    NetnsExec {
        /// The command of Weir.
        verb: &'static str,
        /// The network namespace.
        name: String,
    },
    /// Mounts that no other process has.
    #[error(
        "no other process has the mounts that are seen here, and /sys/fs/bpf is not mounted: programs that are pinned \
         there would go when this command ends; before these mounts are made, mount it with \
         `mount -t bpf bpf /sys/fs/bpf`"
    )]
    PassingMounts,
    /// The kernel has no BTF.
    #[error(
        "this kernel does not describe its types (/sys/kernel/btf/vmlinux is missing), without which no eBPF program of \
         Weir can run; use a kernel with CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes,
    /// The kernel has no HTB.
    #[error(
        "this kernel has no HTB ({message}); load it with `modprobe sch_htb`, or use a kernel with CONFIG_NET_SCH_HTB"
    )]
    NoHtb {
        /// What was said.
        message: String,
    },
    /// The kernel or `tc` has no such queue.
    #[error(
        "this {by} has no {kind}; load it with `modprobe {module}` if it was built, or use other queues such as \
         '{instead}'"
    )]
    NoQueue {
        /// Which.
        kind: LeafKind,
        /// `kernel` or `tc`.
        by: &'static str,
        /// The kernel module.
        module: String,
        /// Queues that work.
        instead: String,
    },
    /// The kernel has no IFB.
    #[error(
        "this kernel has no IFB devices ({message}), which shaping what is received takes; load them with \
         `modprobe ifb numifbs=0`, or use 'direction egress'"
    )]
    NoIfb {
        /// What was said.
        message: String,
    },
    /// `tc` refused a line in the rehearsal.
    #[error("'{line}' would fail: {message}")]
    Refused {
        /// The line.
        line: String,
        /// What was said.
        message: String,
    },
    /// The programs cannot be loaded here.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The journal.
    #[error(transparent)]
    Journal(JournalError),
    /// A step failed, and what was done before it is undone.
    #[error("{0}; all is as it was before")]
    Undone(StepError),
    /// A step failed, and so did undoing what was done before it.
    #[error("{cause}; undoing it failed too: {undoing}; run `weir down dev {device}`")]
    Stuck {
        /// The interface.
        device: String,
        /// What failed first.
        cause: StepError,
        /// What failed then.
        undoing: Box<UpError>,
    },
    /// A step failed where nothing had to be undone.
    #[error(transparent)]
    Step(#[from] StepError),
}

impl UpError {
    /// Whether the caller asked to stop.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Undone(StepError::Interrupted)
                | Self::Step(StepError::Interrupted)
                | Self::Stuck { cause: StepError::Interrupted, .. }
        )
    }
}

impl From<SetupError> for UpError {
    fn from(error: SetupError) -> Self {
        Self::Setup(error)
    }
}

impl From<JournalError> for UpError {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}
