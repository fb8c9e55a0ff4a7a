//! The congestion controllers that flows can ask for by name.
//!
//! TCP controllers are the kernel's (net/ipv4/tcp_*.c): whether this kernel has one is known only when a socket asks.
//! One is Weir's own, [`DCTCP`], which is registered with the kernel while a run needs it.
//! QUIC has all of weir-cc's, as `weir-NAME` or, where noq has none of that name, by their plain name. noq's
//! (noq-proto 1.4, src/congestion) keep theirs:
//!
//! - `cubic`: RFC 8312 with a few rules of RFC 9438. Beta 0.7 for a loss and for a CE mark alike, at most once per
//!   round trip (for packets sent after the last reduction), undone when the loss proves spurious. No HyStart: slow
//!   start ends with the first signal.
//! - `newreno`: RFC 9002 section 7. Beta 0.5 for a loss and for a CE mark alike, once per round trip.
//! - `bbr3`: BBRv3 after draft-ietf-ccwg-bbr-05/06. While probing for bandwidth, loss above 2 % of the data in flight
//!   ends the probe and bounds the long-term inflight, and Startup ends after a round of six such loss events; in
//!   other phases a round with any loss multiplies the short-term bandwidth and inflight bounds by 0.7, not below
//!   what was delivered in that round. A CE mark counts as a loss of no bytes: it lowers the short-term bounds in the
//!   same way, but while probing and in Startup it has no effect. There is no response to the share of marks (BBRv3's
//!   DCTCP-like rule).

use std::net::{Ipv4Addr, SocketAddr};
use std::{fmt, io};

use thiserror::Error;
use weir_cc::Entry;
use weir_core::words;

use super::{Stack, socket};

/// Pairs of stack and controller of its own, TCP's first. TCP may know more: whatever the kernel has registered, eBPF
/// included. QUIC has weir-cc's besides.
pub const CONTROLLERS: &[(Stack, &str)] = &[
    (Stack::Tcp, "reno"),
    (Stack::Tcp, "cubic"),
    (Stack::Tcp, "bbr"),
    (Stack::Tcp, "dctcp"),
    (Stack::Tcp, DCTCP),
    (Stack::Tcp, "prague"),
    (Stack::Quic, "newreno"),
    (Stack::Quic, "cubic"),
    (Stack::Quic, "bbr3"),
];

/// DCTCP for the kernel's TCP that Weir brings along, by eBPF: `bpf/dctcp.bpf.c`, which the worlds load.
pub const DCTCP: &str = "weir-dctcp";

/// Other names by which people ask for a controller.
const ALIASES: &[(Stack, &str, &str)] = &[(Stack::Quic, "reno", "newreno"), (Stack::Quic, "bbr", "bbr3")];

/// What asks for Weir's controller where the stack, noq or the kernel, has one of the same name.
const PREFIX: &str = "weir-";

/// A controller that a stack has.
#[derive(Clone, Copy)]
pub enum Named {
    /// The stack's own, by its name in [`CONTROLLERS`].
    Own(&'static str),
    /// One of weir-cc's, over QUIC.
    Catalogue(&'static Entry),
}

impl fmt::Display for Named {
    /// Its full name, which no other controller of the stack has.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(name) => f.write_str(name),
            Self::Catalogue(entry) if own(Stack::Quic, entry.name).is_some() => {
                write!(f, "{PREFIX}{}", entry.name)
            }
            Self::Catalogue(entry) => f.write_str(entry.name),
        }
    }
}

/// The full names of all controllers that QUIC has, noq's first.
pub fn quic_controllers() -> impl Iterator<Item = String> {
    let noq =
        CONTROLLERS.iter().filter(|(stack, _)| *stack == Stack::Quic).map(|(_, name)| (*name).to_owned());
    noq.chain(weir_cc::catalog::all().map(|entry| Named::Catalogue(entry).to_string()))
}

/// What weir-cc calls the controller that scenarios call `name` over QUIC, or over TCP if it is [`DCTCP`].
pub fn catalogue_name(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// A controller that its stack does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{stack} has no congestion control '{name}'{near} known are {known}")]
pub struct UnknownController {
    stack: &'static str,
    name: String,
    near: String,
    known: String,
}

impl UnknownController {
    /// The error for `name`, with the nearest of `stack`'s known names.
    pub(super) fn new(stack: Stack, name: &str) -> Self {
        let known = known(stack);
        Self {
            stack: match stack {
                Stack::Tcp => "this kernel's TCP",
                Stack::Quic => "QUIC",
                Stack::Udp => "UDP",
            },
            name: name.to_owned(),
            near: near(&known, name),
            known: known.join(", "),
        }
    }

    /// The error for `name`, which some kernels' TCP has, with what this one's has now.
    pub(super) fn absent(name: &str) -> Self {
        let mut here = kernel_controllers();
        here.push(DCTCP.to_owned());
        let elsewhere =
            if weir_cc::find(name).is_ok() { "; or use stack = \"quic\", or --on sim" } else { "" };
        Self {
            stack: "this kernel's TCP",
            name: name.to_owned(),
            near: near(&known(Stack::Tcp), name),
            known: here.join(", ") + elsewhere,
        }
    }

    /// The error for `name`, which `stack` has in no world.
    pub fn in_any_world(stack: Stack, name: &str) -> Self {
        if stack != Stack::Tcp {
            return Self::new(stack, name);
        }
        let of_kernel = known(stack);
        let of_sim: Vec<String> = weir_cc::catalog::all().map(|entry| entry.name.to_owned()).collect();
        Self {
            stack: "TCP",
            name: name.to_owned(),
            known: format!("{} of the kernel, and in world sim {}", of_kernel.join(", "), of_sim.join(", ")),
            near: near(&[of_kernel, of_sim].concat(), name),
        }
    }
}

/// The names of all controllers that a stack is known to have on real packets.
fn known(stack: Stack) -> Vec<String> {
    let mut known: Vec<String> = match stack {
        Stack::Quic => quic_controllers().collect(),
        Stack::Tcp | Stack::Udp => {
            CONTROLLERS.iter().filter(|(of, _)| *of == stack).map(|(_, name)| (*name).to_owned()).collect()
        }
    };
    known.dedup();
    known
}

/// The question whether another of `known` was meant, if one is near, and what parts the list from it.
fn near(known: &[String], name: &str) -> String {
    let near = words::nearest(name, known.iter().filter(|known| *known != name));
    near.map_or_else(|| ";".to_owned(), |near| format!("; did you mean '{near}'?"))
}

/// The stack's own controller of that name, aliases included.
fn own(stack: Stack, name: &str) -> Option<&'static str> {
    let alias =
        ALIASES.iter().find(|(of, alias, _)| (*of, *alias) == (stack, name)).map(|(_, _, known)| *known);
    let wanted = alias.unwrap_or(name);
    CONTROLLERS.iter().find_map(|(of, known)| (*of == stack && *known == wanted).then_some(*known))
}

/// The controller that `name` stands for, aliases included: QUIC's `reno` is noq's `newreno`, its `bbr` noq's `bbr3`,
/// its `weir-cubic` and `copa` are weir-cc's `cubic` and `copa`.
///
/// # Errors
/// [`UnknownController`], which names the nearest known controller.
pub fn find_controller(stack: Stack, name: &str) -> Result<Named, UnknownController> {
    if let Some(name) = own(stack, name) {
        return Ok(Named::Own(name));
    }
    let unknown = || UnknownController::new(stack, name);
    if stack != Stack::Quic {
        return Err(unknown());
    }
    weir_cc::find(catalogue_name(name)).map(Named::Catalogue).map_err(|_| unknown())
}

/// Whether this kernel's TCP has `name` now; more than [`CONTROLLERS`] where others are registered, by eBPF for one.
pub fn kernel_has_controller(name: &str) -> bool {
    kernel_controllers().iter().any(|known| known == name)
}

/// What this kernel's TCP has now, modules that are not loaded apart.
fn kernel_controllers() -> Vec<String> {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    available.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// Whether a TCP socket of this process gets `name`, whose module the kernel loads if it has to.
///
/// # Errors
/// If there is no socket to be had, or none may have it.
pub fn kernel_gives_controller(name: &str) -> io::Result<bool> {
    let socket = socket::bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), libc::SOCK_STREAM)?;
    match socket::set_bytes(&socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::{Named, Stack, UnknownController, find_controller, quic_controllers};

    #[test]
    fn an_unknown_name_gets_the_nearest_known() {
        let found = |stack, name| find_controller(stack, name).map(|found| found.to_string());
        assert_eq!(found(Stack::Tcp, "cubic").as_deref(), Ok("cubic"));
        assert_eq!(found(Stack::Quic, "bbr").as_deref(), Ok("bbr3"));
        let error = found(Stack::Quic, "qubic").unwrap_err().to_string();
        assert!(error.contains("did you mean 'cubic'"), "{error}");
        assert!(error.contains("bbr3, weir-reno, weir-cubic, cubic-rfc9438"), "{error}");
        let error = found(Stack::Tcp, "renno").unwrap_err().to_string();
        assert!(error.contains("did you mean 'reno'? known are reno, "), "{error}");
        let error = found(Stack::Tcp, "westwood").unwrap_err().to_string();
        assert!(
            error.ends_with("'westwood'; known are reno, cubic, bbr, dctcp, weir-dctcp, prague"),
            "{error}"
        );
        assert!(found(Stack::Udp, "cubic").is_err());
    }

    #[test]
    fn a_controller_of_other_kernels_is_not_named_among_those_of_this_one() {
        let error = UnknownController::absent("prague").to_string();
        assert!(error.contains("no congestion control 'prague'; known are "), "{error}");
        assert!(error.ends_with(", weir-dctcp; or use stack = \"quic\", or --on sim"), "{error}");
        let error = UnknownController::absent("westwood").to_string();
        assert!(error.ends_with(", weir-dctcp"), "{error}");
    }

    #[test]
    fn over_quic_all_of_the_catalogue_can_be_named_beside_noqs() {
        for (name, full) in [
            ("cubic", "cubic"),
            ("weir-cubic", "weir-cubic"),
            ("weir-newreno", "weir-reno"),
            ("weir-bbr", "bbr1"),
            ("bbr1", "bbr1"),
            ("weir-bbr3", "weir-bbr3"),
            ("prague", "prague"),
        ] {
            let found = find_controller(Stack::Quic, name).unwrap();
            assert_eq!(found.to_string(), full, "{name}");
            assert_eq!(matches!(found, Named::Own(_)), name == "cubic", "{name}");
        }
        for name in quic_controllers() {
            assert_eq!(find_controller(Stack::Quic, &name).unwrap().to_string(), name);
        }
        assert!(find_controller(Stack::Tcp, "weir-cubic").is_err());
    }
}
