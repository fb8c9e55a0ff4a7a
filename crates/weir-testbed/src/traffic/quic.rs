//! QUIC flows over noq (a fork of quinn): one connection and one stream each, the server pushes what the client asks
//! for.
//!
//! Each end is a single-threaded runtime in a thread inside its namespace. The controller is noq's own or, by
//! [`weir_transport::Factory`], one of weir-cc's. Where noq cannot be configured, its socket is wrapped: [`Wire`] takes ECT(0) off
//! outgoing datagrams of flows without ECN (noq always starts with ECN and gives up when acknowledgements report no marks),
//! turns it into ECT(1) for scalable controllers, and counts spin edges; [`Marks`] reads how many marks the receiver counts.
//!
//! Facts about noq 1.4 that matter to a measurement:
//! - It sends ECT(0) and has no switch for ECT(1). It reports CE marks to its controller once per acknowledgement
//!   that shows new ones, without their number, and stops using ECN when the counts do not add up (RFC 9000 section
//!   13.4.2). It compares with the number of acknowledged ranges, not packets, so a path that clears ECT from only some
//!   packets goes unnoticed.
//! - With `allow_spin`, an end still disables the bit for one connection in eight, drawn from its random numbers, and
//!   then sends a random bit in each packet. [`SPINNING_SEED`] makes the draw known.
//! - MTU discovery off, its black-hole detector can still lower the datagram size; `min_mtu` equal to the initial one
//!   prevents that.

mod endpoint;
#[cfg(test)]
mod seed;
mod wire;

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration as StdDuration;

use noq::congestion::{Bbr3Config, ControllerFactory, CubicConfig, NewRenoConfig};
use noq::udp::EcnCodepoint;
use weir_core::{Bytes, Ecn, Random, Time};

use super::controllers::Named;
use super::socket;
use super::{Ends, QuicSpec, Threads, TrafficError};
use endpoint::{Client, Identity, Server};
use weir_transport::{Factory, Marks};
use wire::{Outgoing, Wire};

/// The largest UDP payload that fits a 1500-byte MTU over IPv4 and IPv6 alike, with 20 bytes to spare for IPv6.
pub const MAX_DATAGRAM: u16 = 1452;
/// RFC 9000 section 14: no path may carry less.
const MIN_DATAGRAM: u16 = 1200;

/// A seed of noq's random numbers with which the first connections of an endpoint spin, found by trying
/// (`find_seeds` in `quic/seed.rs`) and specific to the versions of noq-proto and rand in the lock file.
/// The results' [`super::SpinCount`] shows whether it held.
const SPINNING_SEED: [u8; 32] = [1; 32];

/// A quiet connection ends after this: far longer than any outage that heavy loss makes.
const IDLE_TIMEOUT: StdDuration = StdDuration::from_secs(60);
const KEEP_ALIVE: StdDuration = StdDuration::from_secs(10);

pub(super) fn start(ends: &Ends<'_>, spec: &QuicSpec, controller: Named) -> Result<Threads, TrafficError> {
    let flow = ends.spec;
    if !(MIN_DATAGRAM..=MAX_DATAGRAM).contains(&spec.datagram) {
        let message =
            format!("datagram is {} bytes; it must be {MIN_DATAGRAM} to {MAX_DATAGRAM}", spec.datagram);
        return Err(ends.spec_error(message));
    }
    if !(65_536..=1 << 32).contains(&spec.window.0) {
        return Err(ends.spec_error(format!("window is {}; it must be 64kb to 4gb", spec.window)));
    }
    let identity = Identity::new().map_err(|message| ends.spec_error(message))?;
    let bind = |addr| {
        let socket = socket::bound(addr, libc::SOCK_DGRAM)?;
        socket::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 16 << 20)?;
        socket::set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 4 << 20)?;
        Ok(UdpSocket::from(socket))
    };
    let server_socket =
        ends.open(ends.server, || format!("bind to {}", flow.server), move || bind(flow.server))?;
    let client_socket =
        ends.open(ends.client, || format!("bind to {}", flow.client), move || bind(flow.client))?;
    let decider =
        |end, marks| decider(controller, flow.ecn, spec.seed.stream(&format!("{} {end}", flow.name)), marks);
    // The receiver sends only requests and acknowledgements, which are not counted.
    let marks = Marks::default();
    let (sending, ecn) = decider("sender", marks.clone());
    let (receiving, _) = decider("receiver", Marks::default());
    let server = Server {
        control: ends.control.clone(),
        config: endpoint::transport(spec, sending)
            .and_then(|transport| identity.server(transport, marks))
            .map_err(|message| ends.spec_error(message))?,
        ecn,
    };
    let client = Client {
        control: ends.control.clone(),
        config: endpoint::transport(spec, receiving)
            .and_then(|transport| identity.client(transport))
            .map_err(|message| ends.spec_error(message))?,
        ecn,
        server: flow.server,
        start: Time::ZERO + flow.start,
        amount: flow.amount,
        received: Arc::clone(ends.received),
    };
    ends.spawn(move || server.run(server_socket), move || client.run(client_socket))
}

/// How an end's controllers are made, and what codepoint its packets carry.
fn decider(
    controller: Named,
    ecn: bool,
    random: Random,
    marks: Marks,
) -> (Arc<dyn ControllerFactory + Send + Sync>, Option<EcnCodepoint>) {
    let own = ecn.then_some(EcnCodepoint::Ect0);
    match controller {
        Named::Catalogue(entry) => {
            let factory = Factory { entry, ecn, random, marks };
            let codepoint = match factory.ecn_use().codepoint() {
                Ecn::Ect0 => Some(EcnCodepoint::Ect0),
                Ecn::Ect1 => Some(EcnCodepoint::Ect1),
                Ecn::NotEct | Ecn::Ce => None,
            };
            (Arc::new(factory), codepoint)
        }
        Named::Own("cubic") => (Arc::new(CubicConfig::default()), own),
        Named::Own("bbr3") => (Arc::new(Bbr3Config::default()), own),
        Named::Own(_) => (Arc::new(NewRenoConfig::default()), own),
    }
}

/// Flow-control windows of at most what QUIC can express.
fn window(bytes: Bytes) -> u64 {
    bytes.0.min((1 << 62) - 1)
}
