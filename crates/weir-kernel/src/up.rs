//! `up`: checks everything that can be checked, then goes from what is there to what is wanted; what fails is undone.

use std::io;
use std::ops::ControlFlow;

use thiserror::Error;

use super::attach::Hook;
use super::check;
use super::error::KernelError;
use super::journal::{JournalError, Lock};
use super::leaf::LeafKind;
use super::mounts;
use super::plan::Seen;
use super::qdisc::{self, LinkState};
use super::setup::{Direction, Setup, SetupError};
use super::step::{Runner, Step, StepError};
use super::superpackets;
use super::sweep::{self, first, sweep};

/// Why nothing, or not all, could be set up. Unless it says otherwise, everything is as it was.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UpError {
    /// What is wanted makes no sense.
    #[error(transparent)]
    Setup(SetupError),
    /// The kernel does not tell what is there.
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
         'queues {instead}'"
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

/// What was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Up {
    /// The steps, in order; none if all was as wanted.
    pub steps: Vec<Step>,
    /// What may surprise.
    pub warnings: Vec<String>,
}

/// The steps that [`up`] would do, without privileges and without doing any.
///
/// # Errors
/// What can be seen to be wrong without privileges.
pub fn plan(setup: &Setup) -> Result<Up, UpError> {
    mounts::check("up")?;
    let seen = Seen::of_device(&setup.device)?;
    let setup = &seen.fitted(setup)?;
    let steps = first(leftovers(&seen)?).chain(examine(&seen, setup)?).collect();
    Ok(Up { steps, warnings: warnings(&seen, setup) })
}

/// Puts CRQ on an interface of the calling thread's network namespace, or changes what is there. `on_step` is told
/// each step before it is done; if it answers `Break`, what was done is undone.
///
/// # Errors
/// Says what is wrong and what would mend it. Then all is as it was before, unless the error is [`UpError::Stuck`].
pub fn up(setup: &Setup, on_step: &mut dyn FnMut(&Step) -> ControlFlow<()>) -> Result<Up, UpError> {
    // Asked first, so that a user without privileges hears that, and not of a lock that cannot be taken.
    check::privileges(false)?;
    mounts::check("up")?;
    let _lock = Lock::take()?;
    let seen = Seen::of_device(&setup.device)?;
    let setup = &seen.fitted(setup)?;
    sweep(seen.namespace)?;
    let steps = examine(&seen, setup)?;
    let steps = first(leftovers(&seen)?).chain(steps).collect();
    check::privileges(!seen.bpffs)?;
    check::types()?;
    let sends = setup.direction.each().contains(&Direction::Egress);
    let former = seen.qdiscs.root().filter(|root| sends && !root.is_default() && !seen.root_is_ours());
    check::rehearse(setup, former)?;
    let done = Up { steps, warnings: warnings(&seen, setup) };
    let mut runner = Runner::new(on_step);
    runner.prepare(&done.steps)?;
    match runner.run(&done.steps) {
        Ok(()) => Ok(done),
        Err(cause) => Err(match undo(&seen) {
            Ok(()) => UpError::Undone(cause),
            Err(undoing) => {
                UpError::Stuck { device: setup.device.clone(), cause, undoing: Box::new(undoing) }
            }
        }),
    }
}

/// What is up on an interface, if it is complete.
///
/// # Errors
/// When there is no such interface, or its journal cannot be read.
pub fn standing(device: &str) -> Result<Option<Setup>, UpError> {
    Ok(Seen::of_device(device)?.standing().cloned())
}

/// What is left of interfaces that are gone.
fn leftovers(seen: &Seen) -> Result<Vec<(String, Vec<Step>)>, UpError> {
    let links = qdisc::links().map_err(|source| UpError::Unread { source })?;
    sweep::leftovers(seen.namespace, &links)
}

/// The steps, after all checks that need no privileges.
fn examine(seen: &Seen, setup: &Setup) -> Result<Vec<Step>, UpError> {
    let link = seen.link.as_ref();
    let receives = setup.direction.each().contains(&Direction::Ingress);
    if receives && link.is_some_and(|link| !link.ethernet && !link.ip) {
        return Err(UpError::NoHeader { device: setup.device.clone() });
    }
    // Who came later is told of, but does not keep what is up from being changed.
    let stands = seen.standing().is_some_and(|setup| setup.direction.each().contains(&Direction::Ingress));
    if receives && !stands {
        seen.others().and_then(|others| others.refusal()).map_or(Ok(()), Err)?;
    }
    // It would take programs for either side, and have them all see what is received.
    if Hook::of_this_kernel() == Hook::Clsact
        && seen.qdiscs.ingress().is_some_and(|qdisc| qdisc.kind == "ingress")
    {
        return Err(UpError::OneSided { device: setup.device.clone() });
    }
    seen.steps_to(setup)
}

fn warnings(seen: &Seen, setup: &Setup) -> Vec<String> {
    let mut warnings = Vec::new();
    warnings.extend(mounts::warning());
    let speed = seen.link.as_ref().and_then(|link| check::speed(&link.name));
    if let Some(speed) = speed {
        for direction in setup.direction.each() {
            let rate = setup.rate_of(*direction);
            if rate >= speed {
                warnings.push(format!(
                    "{} is a link of {speed}: at {rate} packets wait in the device, not in Weir's queues; give a rate \
                     a few per cent below",
                    setup.device
                ));
                break;
            }
        }
    }
    if let Some(link) = &seen.link {
        for direction in setup.direction.each() {
            let most = if *direction == Direction::Egress { link.gso_max } else { link.gro_max };
            let largest = superpackets::largest(&link.name, most, *direction);
            warnings.extend(
                largest.into_iter().flat_map(|bytes| superpackets::warnings(setup, *direction, bytes)),
            );
        }
    }
    if setup.direction.each().contains(&Direction::Ingress)
        && let Some(others) = seen.others()
    {
        warnings.extend(others.fault());
        warnings.extend(others.warnings());
    }
    warnings.extend(seen.link.as_ref().and_then(bridged));
    if let Some(standing) = seen.standing().filter(|standing| standing.flows != setup.flows) {
        warnings.push(format!(
            "a table of {} flows takes the place of one of {}: what is known of flows is lost",
            setup.flows, standing.flows
        ));
    }
    warnings
}

/// What a bridge keeps from its qdisc.
fn bridged(link: &LinkState) -> Option<String> {
    if link.kind != "bridge" {
        return None;
    }
    let ports = qdisc::links().unwrap_or_default();
    let ports: Vec<String> =
        ports.into_iter().filter(|port| port.master == link.index).map(|port| port.name).collect();
    let device = &link.name;
    let (between, remedy) = match ports.first() {
        Some(first) => {
            (format!("its ports ({})", ports.join(", ")), format!("such as `weir up dev {first}`"))
        }
        None => ("its ports (there are none yet)".to_owned(), "as one would any interface".to_owned()),
    };
    Some(format!(
        "{device} is a bridge: only what this host itself sends, receives or routes through {device} is shaped, not what is \
         bridged between {between}; for that shape a port, {remedy}"
    ))
}

/// Back to what was there: the setup that stood, or nothing of ours.
fn undo(before: &Seen) -> Result<(), UpError> {
    let mut silent = |_: &Step| ControlFlow::Continue(());
    let links = qdisc::links().map_err(|source| UpError::Unread { source })?;
    let now = Seen::of_index(before.index, &links)?;
    let steps = match (before.standing(), &now.link) {
        (Some(standing), Some(_)) => {
            let mut steps = now.steps_to(standing)?;
            steps.extend(now.hooks_off().filter(|_| before.qdiscs.ingress().is_none()));
            steps
        }
        _ => now.steps_back(),
    };
    Ok(Runner::new(&mut silent).run(&steps)?)
}
