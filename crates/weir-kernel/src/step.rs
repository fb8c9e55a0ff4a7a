//! One step of a change: printable as the very line that is run, and run one after the other with a word to the caller
//! before each.

use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::Command;

use thiserror::Error;
use weir_netdev::iproute::{self, BatchError};

use super::attach::Hook;
use super::error::KernelError;
use super::hooks::{self, Hooks, Loaded, Part};
use super::journal::{self, Journal, JournalError};
use super::mirred;
use super::program::Role;
use super::qdisc::{self, Qdisc, Qdiscs};
use super::setup::Setup;

/// Where the kernel keeps pinned eBPF objects.
pub const BPFFS: &str = "/sys/fs/bpf";

/// For tests: the process kills itself (SIGKILL) at this point. Point 2n is before step n, 2n + 1 behind it, counted
/// from zero.
const KILL_AT: &str = "WEIR_KILL_AT";

/// A step and what it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What it is for, in a few words.
    pub purpose: String,
    pub(super) action: Action,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Writes the journal.
    Record(Box<Journal>),
    /// Removes the journal.
    Forget(PathBuf),
    /// Lines of `tc`, in one process.
    Tc(Vec<String>),
    /// Lines of `ip`, in one process.
    Ip(Vec<String>),
    /// A qdisc of somebody else comes back as the root.
    Restore { device: String, index: u32, qdisc: Qdisc },
    /// Loads programs and pins them; with `keep` on the tables that are there.
    Load { hooks: Hooks, setup: Box<Setup>, keep: bool },
    /// Attaches programs, or swaps them for those that are there; `hook` is what the kernel will take.
    Attach { hooks: Hooks, part: Part, hook: Hook, marks: bool },
    /// Takes programs off.
    Detach { hooks: Hooks, part: Part, hook: Hook },
    /// Removes what is pinned.
    Unpin { hooks: Hooks },
    /// Removes `clsact`, unless somebody has a filter there.
    DropClsact { device: String, index: u32 },
    /// Mounts bpffs.
    Mount,
    /// Unmounts bpffs, unless it is in use.
    Unmount,
}

/// A step that failed.
#[derive(Debug, Error)]
pub enum StepError {
    /// `tc` or `ip` cannot be run, or refused a line.
    #[error(transparent)]
    Iproute(#[from] BatchError),
    /// The kernel did not take a qdisc back.
    #[error(
        "{device}: its former qdisc {kind} cannot be put back: {source}; `tc qdisc show dev {device}` shows what is there"
    )]
    Restore {
        /// The interface.
        device: String,
        /// The kind.
        kind: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// bpffs could not be mounted or unmounted.
    #[error("{BPFFS} cannot be {what}: {source}; mount it with `mount -t bpf bpf {BPFFS}`")]
    Mount {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel's eBPF machine.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Step {
    pub(super) fn new(purpose: impl Into<String>, action: Action) -> Self {
        Self { purpose: purpose.into(), action }
    }

    /// Its lines, if they are `tc`'s.
    pub(super) fn tc_lines(&self) -> Option<&[String]> {
        match &self.action {
            Action::Tc(lines) => Some(lines),
            _ => None,
        }
    }

    fn run(&self, loaded: &mut Loaded) -> Result<(), StepError> {
        match &self.action {
            Action::Record(journal) => Ok(journal.write_now()?),
            Action::Forget(path) => Ok(journal::forget(path)?),
            Action::Tc(lines) => batch("tc", lines),
            Action::Ip(lines) => batch("ip", lines),
            Action::Restore { device, index, qdisc } => {
                qdisc::restore_root(*index, qdisc).map_err(|source| StepError::Restore {
                    device: device.clone(),
                    kind: qdisc.kind.clone(),
                    source,
                })
            }
            Action::Load { hooks, setup, keep } => Ok(loaded.load(hooks, setup, *keep)?),
            Action::Attach { hooks, part, .. } => Ok(loaded.attach(hooks, *part)?),
            Action::Detach { hooks, part, .. } => Ok(hooks::detach(hooks, *part)?),
            Action::Unpin { hooks } => Ok(hooks::unpin(hooks)?),
            Action::DropClsact { device, index } => {
                let failed = |source| KernelError::Failed { doing: "reading filters".into(), source };
                let clsact = Qdiscs::read(*index).map_err(failed)?;
                if clsact.ingress().is_none() || qdisc::has_filters(*index).map_err(failed)? {
                    return Ok(());
                }
                batch("tc", &[format!("qdisc del dev {device} clsact")])
            }
            Action::Mount => mount(),
            Action::Unmount => unmount(),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = |f: &mut fmt::Formatter<'_>, program: &str, lines: &[String]| {
            let lines: Vec<String> = lines.iter().map(|line| format!("{program} {line}")).collect();
            f.write_str(&lines.join("\n"))
        };
        match &self.action {
            Action::Record(journal) => write!(f, "# writes {}: {}", journal.path().display(), self.purpose),
            Action::Forget(path) => write!(f, "rm -f {}", path.display()),
            Action::Tc(text) => lines(f, "tc", text),
            Action::Ip(text) => lines(f, "ip", text),
            Action::Restore { device, qdisc, .. } => write!(
                f,
                "# by netlink, with all its options: tc qdisc replace dev {device} root handle {} {}",
                qdisc.handle_text(),
                qdisc.kind
            ),
            Action::Load { hooks, keep, .. } => {
                let tables = if *keep { "onto the tables in" } else { "and pins their tables in" };
                let pins = hooks.pins();
                write!(f, "# eBPF: loads the programs for {} {tables} {}", hooks.direction, pins.display())
            }
            Action::Attach { hooks, part: Part::Traffic(Role::Redirect), .. } => {
                f.write_str(&mirred::add_line(&hooks.device, &hooks.queue_device))
            }
            Action::Detach { hooks, part: Part::Traffic(Role::Redirect), hook: Hook::Clsact } => {
                f.write_str(&mirred::remove_line(&hooks.device))
            }
            Action::Attach { hooks, part, marks, .. } => {
                write!(f, "# eBPF: attaches {}", part.describe(hooks, *marks))
            }
            Action::Detach { hooks, part, .. } => {
                write!(f, "# eBPF: takes off {}", part.describe(hooks, true))
            }
            Action::Unpin { hooks } => write!(f, "rm -r {}", hooks.pins().display()),
            Action::DropClsact { device, .. } => {
                write!(f, "tc qdisc del dev {device} clsact  # unless it has filters of others")
            }
            Action::Mount => write!(f, "mount -t bpf bpf {BPFFS}"),
            Action::Unmount => write!(f, "umount {BPFFS}"),
        }
    }
}

/// Runs steps and counts them.
pub(super) struct Runner<'a> {
    on_step: &'a mut dyn FnMut(&Step) -> ControlFlow<()>,
    point: u64,
    kill_at: Option<u64>,
    loaded: Loaded,
}

impl<'a> Runner<'a> {
    pub(super) fn new(on_step: &'a mut dyn FnMut(&Step) -> ControlFlow<()>) -> Self {
        let kill_at = std::env::var(KILL_AT).ok().and_then(|at| at.parse().ok());
        Self { on_step, point: 0, kill_at, loaded: Loaded::default() }
    }

    /// Loads all programs that the steps will need, before any of them. A process that is to be killed needs them until
    /// then.
    pub(super) fn prepare(&mut self, steps: &[Step]) -> Result<(), KernelError> {
        let reached = self.kill_at.map_or(steps.len(), |at| (at as usize).div_ceil(2).min(steps.len()));
        for step in &steps[..reached] {
            if let Action::Load { hooks, setup, keep } = &step.action {
                self.loaded.prepare(hooks, setup, *keep)?;
            }
        }
        Ok(())
    }

    /// Runs all, until one fails or the caller wants no more.
    pub(super) fn run(&mut self, steps: &[Step]) -> Result<(), StepError> {
        for step in steps {
            self.pass_point();
            if (self.on_step)(step).is_break() {
                return Err(StepError::Interrupted);
            }
            step.run(&mut self.loaded)?;
            self.pass_point();
        }
        Ok(())
    }

    fn pass_point(&mut self) {
        if self.kill_at == Some(self.point) {
            // SAFETY: takes no pointers; the process is gone afterwards.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        self.point += 1;
    }
}

/// Runs lines of `tc` or `ip` in the namespace of the calling thread, in one process; stops at the first that fails.
pub(super) fn batch(program: &str, lines: &[String]) -> Result<(), StepError> {
    Ok(iproute::batch(Command::new(program), lines)?)
}

/// Whether bpffs is mounted where it belongs.
pub(super) fn bpffs_is_mounted() -> bool {
    // SAFETY: statfs is plain data for which zeros are valid.
    let mut state: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is terminated and `state` is writable.
    let asked = unsafe { libc::statfs(c"/sys/fs/bpf".as_ptr(), &raw mut state) };
    // `BPF_FS_MAGIC` (linux/magic.h).
    asked == 0 && state.f_type as u64 & 0xffff_ffff == 0xcafe_4a11
}

fn mount() -> Result<(), StepError> {
    if bpffs_is_mounted() {
        return Ok(());
    }
    // SAFETY: all strings are terminated; the kernel copies them during the call.
    let result = unsafe {
        libc::mount(
            c"bpf".as_ptr(),
            c"/sys/fs/bpf".as_ptr(),
            c"bpf".as_ptr(),
            0,
            c"mode=0700".as_ptr().cast(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(StepError::Mount { what: "mounted", source: io::Error::last_os_error() }),
    }
}

/// What the kernel itself puts into every bpffs (`populate_bpffs`, kernel/bpf/inode.c).
const OF_THE_KERNEL: [&str; 2] = ["maps.debug", "progs.debug"];

fn unmount() -> Result<(), StepError> {
    let others = |name: &std::ffi::OsStr| !OF_THE_KERNEL.iter().any(|own| name == *own);
    let in_use = std::fs::read_dir(BPFFS)
        .is_ok_and(|entries| entries.flatten().any(|entry| others(&entry.file_name())));
    if in_use || !bpffs_is_mounted() {
        return Ok(());
    }
    // SAFETY: the path is terminated.
    match unsafe { libc::umount(c"/sys/fs/bpf".as_ptr()) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // Somebody has opened it.
            error if error.raw_os_error() == Some(libc::EBUSY) => Ok(()),
            source => Err(StepError::Mount { what: "unmounted", source }),
        },
    }
}
