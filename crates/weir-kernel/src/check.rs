//! What can be found out before anything is changed: privileges, and a rehearsal of the very lines in a network
//! namespace that exists only for that. Trying finds what no list of modules shows: a kind that is not built, an
//! option that this kernel or this `tc` does not know, a qdisc that would not come back as it was.

use std::fs;
use std::io;

use weir_core::Rate;

use super::error::KernelError;
use super::mirred;
use super::qdisc::{self, Qdisc, Qdiscs};
use super::setup::{Direction, Setup};
use super::step::{StepError, batch};
use super::tree;
use super::up::UpError;
use weir_netdev::device;
use weir_netdev::iproute::BatchError;

/// Capabilities (linux/capability.h) by number, and what each is for.
const NEEDED: [(u32, &str, &str); 3] = [
    (12, "CAP_NET_ADMIN", "for qdiscs and interfaces"),
    (39, "CAP_BPF", "for the programs that watch flows"),
    (38, "CAP_PERFMON", "for the programs that see what queues drop"),
];
const SYS_ADMIN: u32 = 21;
/// The types of the running kernel, without which no program finds its way in the kernel's structures.
const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The only interface of a new namespace.
const STAGE: &str = "lo";
/// An IFB of the rehearsal.
const TRIAL: &str = "weir-trial";

/// Reads a link's speed (linux/ethtool.h, `struct ethtool_cmd`, superseded but served by every kernel).
const ETHTOOL_GSET: u32 = 1;

/// The speed of an interface, where its driver knows one.
pub(super) fn speed(name: &str) -> Option<Rate> {
    // Eleven words; megabits in the low half of the fourth, what does not fit there in that of the eighth.
    let mut command = [ETHTOOL_GSET, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let socket = device::control_socket().ok()?;
    // SAFETY: eleven words are what the command reads and writes.
    unsafe { device::ethtool(&socket, name, &mut command) }.ok()?;
    let half = |word: u32| u64::from(u16::from_ne_bytes([word.to_ne_bytes()[0], word.to_ne_bytes()[1]]));
    let megabits = half(command[3]) | half(command[7]) << 16;
    // All ones stand for "unknown".
    (megabits != 0 && megabits < u64::from(u32::MAX)).then(|| Rate::from_bits_per_sec(megabits * 1_000_000))
}

/// What the calling thread may do, as bits.
fn capabilities() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default()
}

/// Whether the calling thread may do what has to be done.
pub(super) fn privileges(mounts: bool) -> Result<(), UpError> {
    let has = capabilities();
    let mut missing: Vec<String> = NEEDED
        .iter()
        .filter(|(bit, ..)| has >> bit & 1 == 0)
        .map(|(_, name, reason)| format!("{name} ({reason})"))
        .collect();
    if mounts && has >> SYS_ADMIN & 1 == 0 {
        missing.push("CAP_SYS_ADMIN (to mount /sys/fs/bpf)".to_owned());
    }
    if missing.is_empty() { Ok(()) } else { Err(UpError::Privileges { missing: missing.join(", ") }) }
}

/// Whether the kernel describes itself.
pub(super) fn types() -> Result<(), UpError> {
    if fs::metadata(BTF).is_ok() { Ok(()) } else { Err(UpError::NoTypes) }
}

/// Plays the setup through in a namespace of its own, and the return of `former` with it. Does nothing where new
/// namespaces are not allowed; what is wrong is then found by the steps themselves, which are undone.
pub(super) fn rehearse(setup: &Setup, former: Option<&Qdisc>) -> Result<(), UpError> {
    std::thread::scope(|scope| {
        let stage = || {
            // SAFETY: takes no pointers; changes only this thread, which ends here.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Ok(());
            }
            play(setup, former)
        };
        scope.spawn(stage).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn play(setup: &Setup, former: Option<&Qdisc>) -> Result<(), UpError> {
    if setup.direction.each().contains(&Direction::Ingress) {
        batch("ip", &[format!("link add {TRIAL} type ifb")]).map_err(|error| match error {
            StepError::Iproute(BatchError::Line { message, .. }) => UpError::NoIfb { message },
            other => other.into(),
        })?;
        play_redirect()?;
    }
    for direction in setup.direction.each() {
        for lines in tree::build(STAGE, setup, *direction, false)?.iter().filter_map(|step| step.tc_lines()) {
            for line in lines {
                batch("tc", std::slice::from_ref(line)).map_err(|error| missing(error, setup))?;
            }
        }
        batch("tc", &[format!("qdisc del dev {STAGE} root")])?;
    }
    match former {
        Some(former) => play_return(former, setup),
        None => Ok(()),
    }
}

/// What is received gets to the IFB device by a filter and an action, which the kernel may lack.
fn play_redirect() -> Result<(), UpError> {
    let links = qdisc::links().map_err(|source| UpError::Unread { source })?;
    let index = |name: &str| links.iter().find(|link| link.name == name).map(|link| link.index);
    let (Some(stage), Some(trial)) = (index(STAGE), index(TRIAL)) else { return Ok(()) };
    let clsact = batch("tc", &[format!("qdisc add dev {STAGE} clsact")]);
    let refused = |reason| UpError::from(KernelError::NoRedirect { reason });
    clsact.map_err(|error| refused(io::Error::other(error.to_string())))?;
    mirred::add(stage, trial).map_err(refused)
}

/// What a refused line means.
fn missing(error: StepError, setup: &Setup) -> UpError {
    let StepError::Iproute(BatchError::Line { program, line, message }) = &error else { return error.into() };
    let unknown = ["qdisc kind is unknown", "Unknown qdisc", "No such file or directory"]
        .iter()
        .any(|text| message.contains(text));
    if !unknown {
        return UpError::Refused {
            line: format!("{program} {line}")
                .replace(&format!("dev {STAGE} "), &format!("dev {} ", setup.device)),
            message: message.clone(),
        };
    }
    let by_tc = message.contains("Unknown qdisc");
    for (_, leaf) in setup.queues.named() {
        let kind = leaf.kind();
        // The kind follows the handle.
        if line.contains(&format!(": {kind}")) {
            let other = |leaf: &super::leaf::Leaf| match leaf.kind() == kind {
                true => "bfifo".to_owned(),
                false => leaf.to_string(),
            };
            let instead = format!(
                "standard {} responsive {}",
                other(&setup.queues.standard),
                other(&setup.queues.responsive)
            );
            let module = kind.module().unwrap_or_default();
            return UpError::NoQueue { kind, by: if by_tc { "tc" } else { "kernel" }, module, instead };
        }
    }
    UpError::NoHtb { message: message.clone() }
}

/// A qdisc of somebody else must come back as it was.
fn play_return(former: &Qdisc, setup: &Setup) -> Result<(), UpError> {
    let lost = |message: String| UpError::NoReturn {
        device: setup.device.clone(),
        kind: former.kind.clone(),
        message,
    };
    qdisc::restore_root(1, former).map_err(|error| lost(error.to_string()))?;
    let seen = Qdiscs::read(1).map_err(|source| UpError::Unread { source })?;
    match seen.root() {
        Some(root) if root == former => Ok(()),
        _ => Err(lost("its options come back as others".to_owned())),
    }
}
