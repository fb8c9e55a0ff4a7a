//! What the world `kernel`, and `weir up` on a live interface, need: queue disciplines, hooks for eBPF on the packet's
//! way and on what becomes of it in the queue, and a place to keep the programs.

use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;

use weir_kernel::LeafKind;
use weir_netdev::iproute;

use super::{
    Check, Failure, Status, as_root, bpf, fix, in_new_namespace, is_refusal, is_short_of_files, or_root, run,
};

const BTF: &str = "/sys/kernel/btf/vmlinux";
const BPFFS: &str = "/sys/fs/bpf";

pub(super) fn checks() -> Vec<Check> {
    let mut checks = vec![capabilities(), tc()];
    checks.extend([
        discipline(&HTB),
        discipline(&of_leaf(LeafKind::Bfifo)),
        discipline(&of_leaf(LeafKind::Codel)),
    ]);
    checks.extend([discipline(&of_leaf(LeafKind::FqCodel)), discipline(&NETEM)]);
    checks.extend([others(), buckets(), ifb(), classifier(), hook()]);
    checks.extend(type_information());
    checks.extend([tracepoint("kfree_skb", c"kfree_skb", "losses"), dequeue(), bpffs()]);
    checks
}

fn check(name: &'static str, found: Result<String, Failure>) -> Check {
    super::check("kernel", name, found)
}

/// The capabilities that attaching and reading needs, by their bits (`include/uapi/linux/capability.h`).
const CAPABILITIES: [(&str, u32); 3] = [("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];
/// Implies CAP_PERFMON and CAP_BPF.
const SYS_ADMIN: u32 = 21;

fn capabilities() -> Check {
    let status = match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => status,
        Err(error) => {
            let detail = format!("/proc/self/status: {error}");
            return check("capabilities", Err((Status::Missing, detail, as_root())));
        }
    };
    let missing = missing_capabilities(&status);
    check(
        "capabilities",
        if missing.is_empty() {
            Ok(CAPABILITIES.map(|(name, _)| name).join(" "))
        } else {
            Err((Status::Missing, format!("no {}", missing.join(", ")), as_root()))
        },
    )
}

/// What is not in the effective set of /proc/PID/status.
fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    let has = |bit: u32| set >> bit & 1 == 1;
    CAPABILITIES
        .into_iter()
        .filter(|(name, bit)| !has(*bit) && (*name == "CAP_NET_ADMIN" || !has(SYS_ADMIN)))
        .map(|(name, _)| name)
        .collect()
}

fn tc() -> Check {
    let install = fix("apt-get install -y iproute2");
    check("tc", run("tc", &["-V"]).map_err(|error| (Status::Missing, error.to_string(), install)))
}

struct Discipline {
    kind: &'static str,
    /// What `tc` takes for it, its kind first.
    words: Cow<'static, str>,
    /// Without it no bottleneck can be made.
    needed: bool,
    purpose: &'static str,
    module: Cow<'static, str>,
    option: &'static str,
}

const HTB: Discipline = Discipline {
    kind: "htb",
    words: Cow::Borrowed("htb"),
    needed: true,
    purpose: "shapes, and shares the rate between the queues",
    module: Cow::Borrowed("sch_htb"),
    option: "CONFIG_NET_SCH_HTB",
};

const NETEM: Discipline = Discipline {
    kind: "netem",
    words: Cow::Borrowed("netem delay 1ms"),
    needed: false,
    purpose: "delay in experiments",
    module: Cow::Borrowed("sch_netem"),
    option: "CONFIG_NET_SCH_NETEM",
};

/// A queue that `weir up` takes, as it would make it.
fn of_leaf(kind: LeafKind) -> Discipline {
    Discipline {
        kind: kind.name(),
        words: kind.trial().into(),
        needed: kind == LeafKind::Bfifo,
        purpose: match kind {
            LeafKind::Bfifo | LeafKind::Pfifo => "queue without AQM",
            LeafKind::FqCodel | LeafKind::FqPie | LeafKind::Cake => "AQM with a queue per flow",
            LeafKind::Tbf => "token bucket before a queue",
            LeafKind::Fq => "queue per flow",
            LeafKind::Codel | LeafKind::Pie | LeafKind::Red => "AQM",
        },
        module: kind.module().map_or(Cow::Borrowed("sch_fifo"), Cow::Owned),
        option: kind.build_option(),
    }
}

fn discipline(discipline: &Discipline) -> Check {
    let made = in_new_namespace(|| {
        run("tc", &add(&discipline.words))?;
        Ok(format!("can be made: {}", discipline.purpose))
    });
    check(
        discipline.kind,
        made.map_err(|error| {
            let status = if discipline.needed { Status::Missing } else { Status::Limited };
            let detail = format!("{}: {error}", discipline.purpose);
            (status, detail, or_root(&error, &module_fix(&[&discipline.module], &[discipline.option])))
        }),
    )
}

/// The arguments of a `tc` that makes a discipline of these words where there is nothing.
fn add(words: &str) -> Vec<&str> {
    ["qdisc", "add", "dev", "lo", "root", "handle", "57e1:"].into_iter().chain(words.split(' ')).collect()
}

/// The kinds that `weir up` takes besides those that every kernel has or that are worth a line of their own.
const OTHERS: [LeafKind; 6] =
    [LeafKind::Pie, LeafKind::FqPie, LeafKind::Red, LeafKind::Fq, LeafKind::Cake, LeafKind::Tbf];

fn others() -> Check {
    let words = OTHERS.map(LeafKind::trial);
    let found = made(&words.each_ref().map(String::as_str));
    let install = "apt-get install -y iproute2";
    let found = found.map_err(|error| (Status::Limited, error.to_string(), or_root(&error, install)));
    check("other queues", found.and_then(|made| told_apart(&made)))
}

/// Which of these kinds can be made, each where there is nothing else: the kernel takes a second kind under a handle
/// for a change of the first, and refuses it.
fn made(kinds: &[&str]) -> io::Result<Vec<bool>> {
    kinds.iter().map(|words| in_new_namespace(|| tried(words))).collect()
}

/// Whether a discipline of these words can be made in the calling thread's network namespace.
///
/// # Errors
/// What says nothing of the kind: rights, descriptors or tc are missing.
fn tried(words: &str) -> io::Result<bool> {
    let is_untold = |error: &io::Error| {
        error.kind() == io::ErrorKind::NotFound || is_refusal(error) || is_short_of_files(&error.to_string())
    };
    match run("tc", &add(words)) {
        Err(error) if is_untold(&error) => Err(error),
        made => Ok(made.is_ok()),
    }
}

/// Which of [`OTHERS`] could be made, and what would bring the rest.
fn told_apart(made: &[bool]) -> Result<String, Failure> {
    let of = |wanted| OTHERS.iter().zip(made).filter(move |(_, made)| **made == wanted);
    let names = |wanted| of(wanted).map(|(kind, _)| kind.name()).collect::<Vec<_>>().join(", ");
    let found = of(true).count();
    if found == OTHERS.len() {
        return Ok(names(true));
    }
    let modules: Vec<String> = of(false).filter_map(|(kind, _)| kind.module()).collect();
    let modules: Vec<&str> = modules.iter().map(String::as_str).collect();
    let options: Vec<&str> = of(false).map(|(kind, _)| kind.build_option()).collect();
    let detail = match found {
        0 => format!("no {}", names(false)),
        _ => format!("{}; no {}", names(true), names(false)),
    };
    Err((Status::Limited, detail, Some(module_fix(&modules, &options))))
}

/// Frames of Ethernet, as interfaces have them by default.
const FRAME: u64 = 1514;

/// Token buckets on this host's interfaces that lose all of a late wake-up.
fn buckets() -> Check {
    let found = run("tc", &["-j", "qdisc", "show"])
        .and_then(|told| Ok(iproute::Discipline::parse(told.as_bytes())?))
        .map_err(|error| (Status::Limited, error.to_string(), or_root(&error, "install a current iproute2")));
    check("tbf buckets", found.and_then(|all| short(&all)))
}

fn short(all: &[iproute::Discipline]) -> Result<String, Failure> {
    let of = |one: &iproute::Discipline| {
        let burst = one.short_bucket(FRAME)?;
        Some(format!("tbf {} on {} has a burst of {burst} bytes", one.text("handle"), one.text("dev")))
    };
    let found: Vec<String> = all.iter().filter_map(of).collect();
    if found.is_empty() {
        return Ok("none of less than two frames".to_owned());
    }
    let detail = format!("{}: less than two frames, slower than its rate", found.join(", "));
    Err((Status::Limited, detail, fix(&format!("tc qdisc change ... tbf ... burst {}", 2 * FRAME))))
}

fn ifb() -> Check {
    let made = in_new_namespace(|| {
        run("ip", &["link", "add", "weir0", "type", "ifb"])?;
        Ok("can be made: shape what arrives".to_owned())
    });
    check(
        "ifb devices",
        made.map_err(|error| {
            let detail = format!("{error}; only what leaves can be shaped");
            (Status::Limited, detail, or_root(&error, &module_fix(&["ifb"], &["CONFIG_IFB"])))
        }),
    )
}

fn classifier() -> Check {
    check(
        "eBPF classifier",
        bpf::Program::load(bpf::Type::Classifier).map(|_| "loads".to_owned()).map_err(|error| {
            (Status::Missing, error.to_string(), or_root(&error, "use a kernel with CONFIG_BPF_SYSCALL=y"))
        }),
    )
}

/// TCX (Linux 6.6), or clsact with cls_bpf: either carries the classifier.
fn hook() -> Check {
    const LOOPBACK: u32 = 1;
    let tcx = in_new_namespace(|| bpf::Program::load(bpf::Type::Classifier)?.try_tcx(LOOPBACK));
    let clsact = in_new_namespace(|| {
        run("tc", &["qdisc", "add", "dev", "lo", "clsact"])?;
        // The one instruction of a classic program that matches nothing.
        run("tc", &["filter", "add", "dev", "lo", "egress", "bpf", "bytecode", "1,6 0 0 0,"])
    });
    check(
        "TCX or clsact",
        match (tcx, clsact) {
            (Ok(()), Ok(_)) => Ok("TCX links; clsact with cls_bpf works too".to_owned()),
            (Ok(()), Err(_)) => Ok("TCX links".to_owned()),
            (Err(error), Ok(_)) => Ok(format!("clsact with cls_bpf; no TCX links ({error})")),
            (Err(tcx), Err(clsact)) => Err((
                Status::Missing,
                format!("no TCX links ({tcx}), no clsact with cls_bpf ({clsact})"),
                or_root(
                    &clsact,
                    &module_fix(
                        &["cls_bpf", "sch_ingress"],
                        &["CONFIG_NET_CLS_BPF", "CONFIG_NET_SCH_INGRESS"],
                    ),
                ),
            )),
        },
    )
}

/// The kernel's types, by which the programs find their fields, and the reasons that it gives for drops.
fn type_information() -> Vec<Check> {
    let use_btf = "use a kernel with CONFIG_DEBUG_INFO_BTF=y";
    let types = std::fs::read(BTF);
    let found = match &types {
        Ok(types) => Ok(format!("{BTF}, {:.1} MB", types.len() as f64 / 1e6)),
        Err(error) => Err((Status::Missing, format!("{BTF}: {error}"), or_root(error, use_btf))),
    };
    let reasons = ["SKB_DROP_REASON_QDISC_DROP", "SKB_DROP_REASON_NOT_SPECIFIED"]
        .into_iter()
        .find(|name| types.as_ref().is_ok_and(|types| names(types, name)));
    let reasons = match reasons {
        Some("SKB_DROP_REASON_QDISC_DROP") => Ok("those of queues are distinguished".to_owned()),
        Some(_) => Err((
            Status::Limited,
            "those of queues are not distinguished; a loss elsewhere may count".to_owned(),
            fix("use Linux 6.0 or newer"),
        )),
        None => Err((Status::Missing, "not given by this kernel".to_owned(), fix("use Linux 6.0 or newer"))),
    };
    vec![check("BTF", found), check("drop reasons", reasons)]
}

/// Whether BTF has a name: its strings end with zero bytes.
fn names(types: &[u8], name: &str) -> bool {
    let text: Vec<u8> = [b"\0", name.as_bytes(), b"\0"].concat();
    types.windows(text.len()).any(|window| window == text)
}

fn tracepoint(name: &'static str, point: &CStr, sees: &str) -> Check {
    let attached = bpf::Program::load(bpf::Type::RawTracepoint)
        .and_then(|program| program.try_tracepoint(point))
        .map(|()| format!("a program attaches, to see {sees}"));
    let config = "use a kernel with CONFIG_BPF_EVENTS=y and CONFIG_TRACEPOINTS=y";
    check(name, attached.map_err(|error| (Status::Missing, error.to_string(), or_root(&error, config))))
}

fn dequeue() -> Check {
    let found = tracepoint("qdisc_dequeue", c"qdisc_dequeue", "marks");
    match found.status {
        // Queues that cannot mark do without.
        Status::Missing => Check { status: Status::Limited, ..found },
        _ => found,
    }
}

fn bpffs() -> Check {
    let path = CString::new(BPFFS).unwrap_or_default();
    let mut stat = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path ends with a zero byte and the kernel writes no more than one statfs.
    let answered = unsafe { libc::statfs(path.as_ptr(), stat.as_mut_ptr()) };
    let found = if answered == 0 {
        // SAFETY: statfs has filled it.
        let kind = unsafe { stat.assume_init() }.f_type;
        if kind == libc::BPF_FS_MAGIC { Ok(()) } else { Err(io::Error::other("not mounted")) }
    } else {
        Err(io::Error::last_os_error())
    };
    check(
        "bpffs",
        found.map(|()| format!("mounted on {BPFFS}")).map_err(|error| {
            let detail = format!("{BPFFS}: {error}");
            // `weir up` mounts it, too.
            (Status::Limited, detail, or_root(&error, &format!("mount -t bpf bpf {BPFFS}")))
        }),
    )
}

/// What brings missing modules: loading them, their package, or another kernel. The kernel loads what it finds by
/// itself, so those that are there were barred or belong to another root.
fn module_fix(modules: &[&str], options: &[&str]) -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let listed = std::fs::read_to_string(format!("/lib/modules/{}/modules.dep", release.trim()));
    let distribution = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    module_command(modules, options, release.trim(), &listed.unwrap_or_default(), &distribution)
}

fn module_command(
    modules: &[&str],
    options: &[&str],
    release: &str,
    listed: &str,
    distribution: &str,
) -> String {
    let is = |name: &str| {
        distribution
            .lines()
            .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
            .any(|ids| ids.trim_matches('"').split_whitespace().any(|id| id == name))
    };
    if modules.iter().all(|module| listed.contains(&format!("/{module}.ko"))) {
        format!("modprobe -a {}", modules.join(" "))
    } else if !listed.is_empty() && is("ubuntu") {
        format!("apt-get install -y linux-modules-extra-{release}")
    } else if !listed.is_empty() && (is("fedora") || is("rhel")) {
        format!("dnf install -y kernel-modules-extra-{release}")
    } else {
        format!("use a kernel with {}, or weir run --on vm", options.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Status, buckets, in_new_namespace, made, missing_capabilities, module_command, names, run, told_apart,
    };

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        let status = |set: &str| format!("Name:\tweir\nCapPrm:\t000001ffffffffff\nCapEff:\t{set}\n");
        assert!(missing_capabilities(&status("000001ffffffffff")).is_empty());
        assert_eq!(missing_capabilities(&status("0000000000000000")).len(), 3);
        assert_eq!(missing_capabilities(&status("0000008000001000")), ["CAP_PERFMON"]);
        // CAP_SYS_ADMIN stands for the two of eBPF, not for that of networks.
        assert_eq!(missing_capabilities(&status("0000000000200000")), ["CAP_NET_ADMIN"]);
        assert_eq!(missing_capabilities("").len(), 3);
    }

    #[test]
    fn a_missing_module_is_loaded_installed_or_replaced() {
        let command = |listed, distribution| {
            module_command(&["sch_codel"], &["CONFIG_NET_SCH_CODEL"], "6.8.0-1", listed, distribution)
        };
        let there = "kernel/net/sched/sch_codel.ko.zst:\nkernel/net/sched/sch_htb.ko.zst:\n";
        let absent = "kernel/net/sched/sch_fq_codel.ko.zst:\n";
        assert_eq!(command(there, "ID=ubuntu\n"), "modprobe -a sch_codel");
        assert_eq!(command(absent, "ID=ubuntu\n"), "apt-get install -y linux-modules-extra-6.8.0-1");
        assert!(command(absent, "ID=rocky\nID_LIKE=\"rhel centos fedora\"\n").starts_with("dnf install"));
        assert!(command("", "ID=ubuntu\n").contains("CONFIG_NET_SCH_CODEL"));
    }

    /// Kinds that every kernel of Weir's has, so that none may be missing for the one that was tried before it.
    #[test]
    fn each_kind_is_tried_by_itself() {
        if !weir_testkit::skip::is_root() {
            return;
        }
        let kinds = ["bfifo limit 30000", "htb", "no_such_kind", "pfifo"];
        assert_eq!(made(&kinds).unwrap(), [true, true, false, true]);
    }

    #[test]
    fn a_real_bucket_of_one_frame_is_named() {
        let seen = |burst: &str| {
            in_new_namespace(|| {
                let words = format!("qdisc add dev lo root tbf rate 1gbit limit 625000 burst {burst}");
                run("tc", &words.split(' ').collect::<Vec<_>>())?;
                Ok(buckets())
            })
        };
        let short = match seen("1514") {
            Ok(check) => check,
            Err(error) => return weir_testkit::skip::skip("tbf", &error.to_string()),
        };
        assert_eq!(short.status, Status::Limited, "{short:?}");
        assert!(short.detail.contains("on lo has a burst of 15"), "{short:?}");
        assert!(short.fix.is_some_and(|fix| fix.contains("burst 3028")));
        assert_eq!(seen("3028").unwrap().status, Status::Ok);
    }

    #[test]
    fn other_queues_are_told_apart() {
        assert_eq!(told_apart(&[true; 6]).unwrap(), "pie, fq_pie, red, fq, cake, tbf");
        let (_, detail, fix) = told_apart(&[true, false, true, true, false, true]).unwrap_err();
        assert_eq!(detail, "pie, red, fq, tbf; no fq_pie, cake");
        assert!(fix.is_some_and(|fix| !fix.is_empty()));
        assert_eq!(told_apart(&[false; 6]).unwrap_err().1, "no pie, fq_pie, red, fq, cake, tbf");
    }

    #[test]
    fn names_in_btf_are_whole() {
        let types = b"\0int\0SKB_DROP_REASON_QDISC_DROP\0char\0";
        assert!(names(types, "SKB_DROP_REASON_QDISC_DROP"));
        assert!(!names(types, "SKB_DROP_REASON_QDISC"));
    }
}
