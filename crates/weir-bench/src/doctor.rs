//! What this host can do: each check tries the thing itself rather than guess from versions, and a check that fails
//! names the command that mends it.

mod bpf;
mod emu;
mod kernel;
mod vm;

use std::io;
use std::process::Command;

use serde::Serialize;

/// The worlds that are examined, with what each is.
pub const WORLDS: [(&str, &str); 3] = [
    ("emu", "real packets, queue in user space"),
    ("kernel", "the kernel's queues on a live interface: weir up"),
    ("vm", "the same under another kernel, in a micro-VM"),
];

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It works.
    Ok,
    /// The world runs without it, but less well or with fewer choices.
    Limited,
    /// The world cannot run.
    Missing,
}

/// One thing that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The world that needs it: `emu`, `kernel` or `vm`.
    pub world: &'static str,
    /// What was tried.
    pub name: &'static str,
    /// How it ended.
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// The command that mends it, where one does.
    pub fix: Option<String>,
}

/// Runs every check, in the order of [`WORLDS`]. Leaves nothing behind on the host.
pub fn examine() -> Vec<Check> {
    [emu::checks(), kernel::checks(), vm::checks()].concat()
}

/// Whether a world, by its name in [`WORLDS`], can run here.
pub fn can_run(checks: &[Check], world: &str) -> bool {
    checks.iter().filter(|check| check.world == world).all(|check| check.status != Status::Missing)
}

/// What failed: how badly, what was found, and the command that mends it.
type Failure = (Status, String, Option<String>);

fn check(world: &'static str, name: &'static str, found: Result<String, Failure>) -> Check {
    let (status, detail, fix) = match found {
        Ok(detail) => (Status::Ok, detail, None),
        // Nothing is said of what was to be tried.
        Err((status, detail, _)) if is_short_of_files(&detail) => {
            (status, detail, self::fix("ulimit -n 65536"))
        }
        Err(failure) => failure,
    };
    Check { world, name, status, detail, fix }
}

fn fix(command: &str) -> Option<String> {
    Some(command.to_owned())
}

/// What mends `error`: rights where those are what is missing, else `command`.
fn or_root(error: &io::Error, command: &str) -> Option<String> {
    if is_refusal(error) { as_root() } else { fix(command) }
}

/// Whether rights are what is missing: by its number, or in the words of `ip` and `tc`.
fn is_refusal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES))
        || error.to_string().contains("Operation not permitted")
}

/// Whether descriptors are what is missing (EMFILE, ENFILE), in the words of the standard library.
fn is_short_of_files(detail: &str) -> bool {
    [libc::EMFILE, libc::ENFILE].iter().any(|number| detail.contains(&format!("(os error {number})")))
}

fn as_root() -> Option<String> {
    fix("run as root: sudo weir ...")
}

/// Runs `work` in a thread with a network namespace of its own, which goes when the thread does.
fn in_new_namespace<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                // SAFETY: changes only the calling thread's network namespace, and the thread ends here.
                if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                    return Err(io::Error::last_os_error());
                }
                work()
            })
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the check panicked")))
    })
}

/// Runs a command in the calling thread's network namespace and hands back what it printed, or else the first line of
/// what it complained about.
fn run(program: &str, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("the {program} command: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(match said.lines().find(|line| !line.trim().is_empty()) {
        Some(line) => line.trim().trim_start_matches("Error: ").to_owned(),
        None => format!("{program} ended with {}", output.status),
    }))
}

#[cfg(test)]
mod tests {
    use super::{Status, WORLDS, can_run, check, examine};

    #[test]
    fn whatever_fails_says_what_to_do() {
        let checks = examine();
        for (world, _) in WORLDS {
            assert!(checks.iter().filter(|check| check.world == world).count() >= 5, "{world}: {checks:?}");
        }
        for check in &checks {
            assert!(WORLDS.iter().any(|(world, _)| *world == check.world), "{check:?}");
            assert!(!check.detail.is_empty(), "{check:?}");
            assert!(
                check.status == Status::Ok || check.fix.is_some() || check.name == "processors",
                "{check:?}"
            );
        }
    }

    #[test]
    fn a_world_runs_unless_something_it_needs_is_missing() {
        let works = check("emu", "a", Ok("found".to_owned()));
        let less = check("emu", "b", Err((Status::Limited, "slow".to_owned(), None)));
        let missing = check("kernel", "c", Err((Status::Missing, "none".to_owned(), None)));
        let checks = [works, less, missing];
        assert!(can_run(&checks, "emu"));
        assert!(!can_run(&checks, "kernel"));
    }
}
