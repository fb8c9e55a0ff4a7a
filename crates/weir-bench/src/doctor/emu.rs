//! What the world `emu` needs: namespaces with virtual links, a way to read and write packets, and kernel TCP.

use std::io;

use weir_testbed::traffic;

use super::{Check, Failure, Status, as_root, bpf, fix, in_new_namespace, or_root, run};

pub(super) fn checks() -> Vec<Check> {
    vec![
        privileges(),
        namespaces(),
        iproute2(),
        veth(),
        packet_sockets(),
        af_xdp(),
        ebpf(),
        controllers(),
        dctcp(),
        check("QUIC congestion controls", Ok(traffic::quic_controllers().collect::<Vec<_>>().join(" "))),
        processors(),
    ]
}

fn check(name: &'static str, found: Result<String, Failure>) -> Check {
    super::check("emu", name, found)
}

fn privileges() -> Check {
    // SAFETY: geteuid has no preconditions.
    let uid = unsafe { libc::geteuid() };
    check(
        "root",
        if uid == 0 {
            Ok("running as root".to_owned())
        } else {
            Err((Status::Missing, format!("running as user {uid}; making networks needs root"), as_root()))
        },
    )
}

fn namespaces() -> Check {
    check(
        "network namespaces",
        in_new_namespace(|| Ok("can be made".to_owned()))
            .map_err(|error| (Status::Missing, error.to_string(), as_root())),
    )
}

fn iproute2() -> Check {
    let version = run("ip", &["-V"]);
    let install = fix("apt-get install -y iproute2");
    check("iproute2", version.map_err(|error| (Status::Missing, error.to_string(), install)))
}

fn veth() -> Check {
    let made = in_new_namespace(|| {
        run("ip", &["link", "add", "weir0", "type", "veth", "peer", "name", "weir1"])?;
        Ok("can be made".to_owned())
    });
    check(
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
    check("packet sockets", opened.map_err(|error| (Status::Missing, error.to_string(), as_root())))
}

fn af_xdp() -> Check {
    let opened = socket(libc::AF_XDP, 0).map(|()| "can be opened".to_owned());
    check(
        "AF_XDP",
        opened.map_err(|error| {
            let detail = format!("{error}; runs use packet sockets instead");
            (Status::Limited, detail, or_root(&error, "use a kernel with CONFIG_XDP_SOCKETS=y"))
        }),
    )
}

fn ebpf() -> Check {
    check(
        "eBPF",
        bpf::Program::load(bpf::Type::Xdp).map(|_| "an XDP program loads".to_owned()).map_err(|error| {
            (Status::Limited, format!("{error}; runs use packet sockets instead"), as_root())
        }),
    )
}

fn dctcp() -> Check {
    let whose = weir_world::whose_dctcp().map(str::to_owned);
    check("TCP dctcp", whose.map_err(|error| (Status::Limited, error.to_string(), as_root())))
}

fn controllers() -> Check {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = match std::fs::read_to_string(path) {
        Ok(available) => available,
        Err(error) => {
            let detail = format!("{path}: {error}");
            return check(
                "TCP congestion controls",
                Err((Status::Limited, detail, fix("modprobe tcp_cubic"))),
            );
        }
    };
    let missing: Vec<_> = ["reno", "cubic", "bbr"]
        .into_iter()
        .filter(|name| !available.split_whitespace().any(|have| have == *name))
        .collect();
    check(
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
    check(
        "processors",
        if count >= 2 {
            Ok(format!("{count}"))
        } else {
            Err((Status::Limited, "1; the bottleneck will leave packets late at high rates".to_owned(), None))
        },
    )
}
