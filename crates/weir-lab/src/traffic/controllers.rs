//! The congestion controllers that flows can ask for by name.
//!
//! TCP controllers are the kernel's (net/ipv4/tcp_*.c): whether this kernel has one is known only when a socket asks.
//! QUIC controllers are noq's (noq-proto 1.4, src/congestion):
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

use strsim::damerau_levenshtein;
use thiserror::Error;

use super::Stack;

/// Known pairs of stack and controller, TCP's first. TCP may know more: whatever the kernel has registered, eBPF
/// included.
pub const CONTROLLERS: &[(Stack, &str)] = &[
    (Stack::Tcp, "reno"),
    (Stack::Tcp, "cubic"),
    (Stack::Tcp, "bbr"),
    (Stack::Tcp, "dctcp"),
    (Stack::Tcp, "prague"),
    (Stack::Quic, "newreno"),
    (Stack::Quic, "cubic"),
    (Stack::Quic, "bbr3"),
];

/// Other names by which people ask for a controller.
const ALIASES: &[(Stack, &str, &str)] = &[(Stack::Quic, "reno", "newreno"), (Stack::Quic, "bbr", "bbr3")];

/// A controller that its stack does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{stack} has no congestion control '{name}'; did you mean '{nearest}'? known are {known}")]
pub struct UnknownController {
    stack: &'static str,
    name: String,
    nearest: &'static str,
    known: String,
}

impl UnknownController {
    /// The error for `name`, with the nearest of `stack`'s known names.
    pub(super) fn new(stack: Stack, name: &str) -> Self {
        let names = || CONTROLLERS.iter().filter(move |(of, _)| *of == stack).map(|(_, name)| *name);
        let wanted = name.to_ascii_lowercase();
        Self {
            stack: match stack {
                Stack::Tcp => "this kernel's TCP",
                Stack::Quic => "QUIC",
                Stack::Udp => "UDP",
            },
            name: name.to_owned(),
            nearest: names()
                .filter(|known| *known != name)
                .min_by_key(|known| damerau_levenshtein(known, &wanted))
                .unwrap_or("none"),
            known: names().collect::<Vec<_>>().join(", "),
        }
    }
}

/// The name in [`CONTROLLERS`] that `name` stands for, aliases included (QUIC's `reno` is `newreno`, its `bbr` is
/// `bbr3`).
///
/// # Errors
/// [`UnknownController`], which names the nearest known controller.
pub fn find_controller(stack: Stack, name: &str) -> Result<&'static str, UnknownController> {
    let alias =
        ALIASES.iter().find(|(of, alias, _)| (*of, *alias) == (stack, name)).map(|(_, _, known)| *known);
    let wanted = alias.unwrap_or(name);
    CONTROLLERS
        .iter()
        .find_map(|(of, known)| (*of == stack && *known == wanted).then_some(*known))
        .ok_or_else(|| UnknownController::new(stack, name))
}

/// Whether this kernel's TCP has `name` now; more than [`CONTROLLERS`] where others are registered, by eBPF for one.
pub fn kernel_has_controller(name: &str) -> bool {
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    available.is_ok_and(|available| available.split_whitespace().any(|known| known == name))
}

#[cfg(test)]
mod tests {
    use super::{Stack, find_controller};

    #[test]
    fn an_unknown_name_gets_the_nearest_known() {
        assert_eq!(find_controller(Stack::Tcp, "cubic"), Ok("cubic"));
        assert_eq!(find_controller(Stack::Quic, "bbr"), Ok("bbr3"));
        let error = find_controller(Stack::Quic, "qubic").unwrap_err().to_string();
        assert!(error.contains("did you mean 'cubic'"), "{error}");
        let error = find_controller(Stack::Tcp, "newreno").unwrap_err().to_string();
        assert!(error.contains("did you mean 'reno'"), "{error}");
        assert!(find_controller(Stack::Udp, "cubic").is_err());
    }
}
