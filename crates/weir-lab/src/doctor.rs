//! What this host can do: each check tries the thing itself rather than guess from versions, and a check that fails
//! names the command that mends it.

use std::io;
use std::process::Command;

use serde::Serialize;

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
    /// The world that needs it: `emu`.
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

/// Runs every check. Leaves nothing behind on the host.
pub fn examine() -> Vec<Check> {
    vec![
        privileges(),
        namespaces(),
        iproute2(),
        veth(),
        packet_sockets(),
        af_xdp(),
        ebpf(),
        controllers(),
        processors(),
    ]
}

/// Whether the world `emu` can run here.
pub fn can_emulate(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.status != Status::Missing)
}

/// What failed: how badly, what was found, and the command that mends it.
type Failure = (Status, String, Option<String>);

fn emu(name: &'static str, found: Result<String, Failure>) -> Check {
    let (status, detail, fix) = match found {
        Ok(detail) => (Status::Ok, detail, None),
        Err(failure) => failure,
    };
    Check { world: "emu", name, status, detail, fix }
}

fn fix(command: &str) -> Option<String> {
    Some(command.to_owned())
}

/// What mends `error`: rights where those are what is missing, else `command`.
fn or_root(error: &io::Error, command: &str) -> Option<String> {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => as_root(),
        _ => fix(command),
    }
}

fn as_root() -> Option<String> {
    fix("run as root: sudo weir ...")
}

fn privileges() -> Check {
    // SAFETY: geteuid has no preconditions.
    let uid = unsafe { libc::geteuid() };
    emu(
        "root",
        if uid == 0 {
            Ok("running as root".to_owned())
        } else {
            Err((Status::Missing, format!("running as user {uid}; making networks needs root"), as_root()))
        },
    )
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

fn namespaces() -> Check {
    emu(
        "network namespaces",
        in_new_namespace(|| Ok("can be made".to_owned()))
            .map_err(|error| (Status::Missing, error.to_string(), as_root())),
    )
}

fn iproute2() -> Check {
    let install = fix("apt-get install -y iproute2");
    emu(
        "iproute2",
        match Command::new("ip").arg("-V").output() {
            Ok(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
            }
            Ok(output) => {
                Err((Status::Missing, String::from_utf8_lossy(&output.stderr).trim().to_owned(), install))
            }
            Err(error) => Err((Status::Missing, format!("the ip command: {error}"), install)),
        },
    )
}

fn veth() -> Check {
    let made = in_new_namespace(|| {
        let output = Command::new("ip")
            .args(["link", "add", "weir0", "type", "veth", "peer", "name", "weir1"])
            .output()?;
        if output.status.success() {
            Ok("can be made".to_owned())
        } else {
            Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
        }
    });
    emu(
        "veth pairs",
        made.map_err(|error| (Status::Missing, error.to_string(), or_root(&error, "modprobe veth"))),
    )
}

fn socket(family: libc::c_int, protocol: libc::c_int) -> io::Result<()> {
    // SAFETY: opens a descriptor that is closed below.
    let fd = unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fd is open and ours.
    unsafe { libc::close(fd) };
    Ok(())
}

fn packet_sockets() -> Check {
    let opened = socket(libc::AF_PACKET, 0).map(|()| "can be opened".to_owned());
    emu("packet sockets", opened.map_err(|error| (Status::Missing, error.to_string(), as_root())))
}

fn af_xdp() -> Check {
    let opened = socket(libc::AF_XDP, 0).map(|()| "can be opened".to_owned());
    emu(
        "AF_XDP",
        opened.map_err(|error| {
            let detail = format!("{error}; runs use packet sockets instead");
            (Status::Limited, detail, or_root(&error, "use a kernel with CONFIG_XDP_SOCKETS=y"))
        }),
    )
}

fn ebpf() -> Check {
    // The two instructions of `return XDP_PASS`: r0 = 2; exit.
    let program: [u64; 2] = [0x0000_0002_0000_00b7, 0x0000_0000_0000_0095];
    let license = c"GPL";
    #[repr(C)]
    struct Load {
        prog_type: u32,
        insn_cnt: u32,
        insns: u64,
        license: u64,
    }
    const BPF_PROG_LOAD: libc::c_int = 5;
    const BPF_PROG_TYPE_XDP: u32 = 6;
    let load = Load {
        prog_type: BPF_PROG_TYPE_XDP,
        insn_cnt: 2,
        insns: program.as_ptr() as u64,
        license: license.as_ptr() as u64,
    };
    // SAFETY: the attributes point to memory that outlives the call and their size is given.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const load, size_of::<Load>()) };
    let loaded = if fd < 0 {
        Err(io::Error::last_os_error())
    } else {
        // SAFETY: fd is open and ours.
        unsafe { libc::close(fd as libc::c_int) };
        Ok("an XDP program loads".to_owned())
    };
    emu(
        "eBPF",
        loaded.map_err(|error| {
            (Status::Limited, format!("{error}; runs use packet sockets instead"), as_root())
        }),
    )
}

fn controllers() -> Check {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = std::fs::read_to_string(path).unwrap_or_default();
    let missing: Vec<_> = ["reno", "cubic", "bbr"]
        .into_iter()
        .filter(|name| !available.split_whitespace().any(|have| have == *name))
        .collect();
    emu(
        "TCP congestion controls",
        if missing.is_empty() {
            Ok(available.trim().to_owned())
        } else {
            let fix = format!(
                "modprobe -a {}",
                missing.iter().map(|name| format!("tcp_{name}")).collect::<Vec<_>>().join(" ")
            );
            Err((Status::Limited, format!("no {}", missing.join(", ")), Some(fix)))
        },
    )
}

fn processors() -> Check {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    emu(
        "processors",
        if count >= 2 {
            Ok(format!("{count}"))
        } else {
            Err((Status::Limited, "1; the bottleneck will leave packets late at high rates".to_owned(), None))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::{Status, examine};

    #[test]
    fn whatever_fails_says_what_to_do() {
        let checks = examine();
        assert_eq!(checks.len(), 9);
        for check in &checks {
            assert!(!check.detail.is_empty(), "{check:?}");
            assert!(
                check.status == Status::Ok || check.fix.is_some() || check.name == "processors",
                "{check:?}"
            );
        }
    }
}
