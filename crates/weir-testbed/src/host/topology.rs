//! Server, bottleneck and client in a row: the dumbbell's one link that matters, on real interfaces.
//!
//! Two veth pairs join three namespaces. Server and client believe they share one subnet, with static neighbour
//! entries, so that only the flows under test are on the wire: no ARP, no router solicitation, no duplicate address
//! detection. Between them either a program moves frames from one interface to the other ([`Topology::build`]), or
//! the kernel routes ([`Topology::build_forwarding`]), which is the comparison case.
//!
//! ECN per TCP flow: Linux has no socket option for it. `tcp_ecn=2` accepts ECN and asks for it only towards
//! destinations whose route has `features ecn` (`tcp_ecn_send_syn`, net/ipv4/tcp_output.c, tcp_ecn.h), so the server
//! has a second range of addresses behind such a route: a flow between [`Topology::server_ecn_addr`] and the client
//! uses ECN, whichever end connects; a flow of [`Topology::server_addr`] does not. QUIC and UDP set the codepoint
//! themselves and may use either.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use weir_core::Bytes;

use super::{HostError, Namespace};

/// The most addresses a host can have of each kind.
pub const MAX_ADDRESSES: usize = 250;

/// The server's routing table for connections from its ECN addresses.
const ECN_TABLE: u32 = 77;

/// What to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologySpec {
    /// The largest IP packet in bytes, 1280 to 65535; frames are 14 bytes longer.
    pub mtu: u32,
    /// How many server addresses without and how many with ECN, 1 to [`MAX_ADDRESSES`].
    pub server_addresses: usize,
    /// How many client addresses, 1 to [`MAX_ADDRESSES`].
    pub client_addresses: usize,
    /// Whether the hosts also have IPv6 addresses, numbered the same way. Off, no IPv6 packet is ever sent. On, each
    /// host announces its addresses' multicast groups once or twice (MLD, RFC 3810) in the first seconds.
    pub ipv6: bool,
    /// How far a TCP socket buffer may grow (the third value of `tcp_rmem` and `tcp_wmem`): at least twice the
    /// bandwidth-delay product with the queue in it.
    pub tcp_buffer: Bytes,
}

impl Default for TopologySpec {
    fn default() -> Self {
        Self { mtu: 1500, server_addresses: 1, client_addresses: 1, ipv6: false, tcp_buffer: Bytes(64 << 20) }
    }
}

/// Three namespaces and the links between them. Dropping it removes all, once no thread or process is left inside.
#[derive(Debug)]
pub struct Topology {
    /// Where data comes from.
    pub server: Namespace,
    /// Where packets queue.
    pub bottleneck: Namespace,
    /// Where data goes to.
    pub client: Namespace,
    /// The server's interface, in [`Topology::server`].
    pub server_iface: String,
    /// The bottleneck's interface towards the server, in [`Topology::bottleneck`].
    pub bottleneck_server_iface: String,
    /// The bottleneck's interface towards the client, in [`Topology::bottleneck`]: where the queue stands.
    pub bottleneck_client_iface: String,
    /// The client's interface, in [`Topology::client`].
    pub client_iface: String,
    spec: TopologySpec,
}

/// Which of a host's address ranges.
#[derive(Clone, Copy)]
enum Range {
    Server = 1,
    Client = 2,
    ServerEcn = 11,
}

/// Locally administered, "WEIR" in ASCII, and the interface's place on the way from server to client, 1 to 4.
fn mac(place: u8) -> String {
    format!("02:57:45:49:52:{place:02x}")
}

fn v4(range: Range, n: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, range as u8, (n + 1).min(255) as u8)
}

fn v6(range: Range, n: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, range as u16, (n + 1).min(0xffff) as u16)
}

/// How packets get from one side of the bottleneck to the other.
enum Between {
    Frames,
    Routes,
}

impl Topology {
    /// Builds the topology with nothing between the bottleneck's two interfaces: a program in user space is to move
    /// Ethernet frames unchanged from one to the other. Offloads are as the kernel sets them.
    ///
    /// # Errors
    /// [`HostError`] with the line that failed. What was built until then is gone by the time this returns.
    pub fn build(spec: &TopologySpec) -> Result<Self, HostError> {
        Self::assemble(spec, &Between::Frames)
    }

    /// Builds the topology with the kernel routing in the bottleneck (which takes one off each packet's TTL), and runs
    /// `tc` there: lines without the leading `tc`, such as `qdisc add dev toclient root tbf ...`.
    ///
    /// # Errors
    /// As [`Topology::build`]; a refused `tc` line is a [`HostError::Line`].
    pub fn build_forwarding(spec: &TopologySpec, tc: &[String]) -> Result<Self, HostError> {
        let topology = Self::assemble(spec, &Between::Routes)?;
        topology.bottleneck.tc(tc)?;
        Ok(topology)
    }

    /// What this was built from.
    pub fn spec(&self) -> &TopologySpec {
        &self.spec
    }

    /// The Ethernet addresses of the bottleneck's interfaces, towards the server and towards the client.
    pub fn bottleneck_macs(&self) -> [String; 2] {
        [mac(2), mac(3)]
    }

    /// Server address `n`, counting from 0, towards which TCP does not use ECN. It exists if `n` is below
    /// [`TopologySpec::server_addresses`].
    pub fn server_addr(&self, n: usize) -> IpAddr {
        v4(Range::Server, n).into()
    }

    /// Server address `n`, counting from 0, towards which TCP asks for ECN.
    pub fn server_ecn_addr(&self, n: usize) -> IpAddr {
        v4(Range::ServerEcn, n).into()
    }

    /// Client address `n`, counting from 0. It exists if `n` is below [`TopologySpec::client_addresses`].
    pub fn client_addr(&self, n: usize) -> IpAddr {
        v4(Range::Client, n).into()
    }

    /// The IPv6 address beside [`Topology::server_addr`], if the topology has IPv6.
    pub fn server_addr_v6(&self, n: usize) -> Option<IpAddr> {
        self.spec.ipv6.then(|| v6(Range::Server, n).into())
    }

    /// The IPv6 address beside [`Topology::server_ecn_addr`], if the topology has IPv6.
    pub fn server_ecn_addr_v6(&self, n: usize) -> Option<IpAddr> {
        self.spec.ipv6.then(|| v6(Range::ServerEcn, n).into())
    }

    /// The IPv6 address beside [`Topology::client_addr`], if the topology has IPv6.
    pub fn client_addr_v6(&self, n: usize) -> Option<IpAddr> {
        self.spec.ipv6.then(|| v6(Range::Client, n).into())
    }

    fn assemble(spec: &TopologySpec, between: &Between) -> Result<Self, HostError> {
        check(spec)?;
        let topology = Self {
            server: Namespace::create("server")?,
            bottleneck: Namespace::create("bottleneck")?,
            client: Namespace::create("client")?,
            server_iface: "server0".into(),
            bottleneck_server_iface: "toserver".into(),
            bottleneck_client_iface: "toclient".into(),
            client_iface: "client0".into(),
            spec: spec.clone(),
        };
        topology.settings(between)?;
        topology.links()?;
        let routed = matches!(between, Between::Routes);
        let (server, client) = ([Range::Server, Range::ServerEcn].as_slice(), [Range::Client].as_slice());
        let (server_mac, client_mac) = (mac(if routed { 3 } else { 1 }), mac(if routed { 2 } else { 4 }));
        topology.server.ip(&topology.host_lines(&topology.server_iface, server, client, &client_mac))?;
        topology.ask_for_ecn_upwards()?;
        let mut lines = topology.host_lines(&topology.client_iface, client, server, &server_mac);
        let asking = |prefix| format!("route add {prefix} dev {} features ecn", topology.client_iface);
        lines.extend(topology.prefixes(Range::ServerEcn).map(asking));
        topology.client.ip(&lines)?;
        if routed {
            topology.bottleneck.ip(&topology.router_lines())?;
        }
        Ok(topology)
    }

    /// Kernel settings, written before there is an interface that could send anything.
    fn settings(&self, between: &Between) -> Result<(), HostError> {
        let has_ipv6 = Path::new("/proc/sys/net/ipv6").exists();
        let largest = self.spec.tcp_buffer.0;
        for host in [&self.server, &self.client] {
            // Middle values are the kernel's defaults (Documentation/networking/ip-sysctl.rst).
            host.sysctl("net.ipv4.tcp_rmem", &format!("4096 131072 {largest}"))?;
            host.sysctl("net.ipv4.tcp_wmem", &format!("4096 16384 {largest}"))?;
            // One flow's path must not be the next one's starting point.
            host.sysctl("net.ipv4.tcp_no_metrics_save", "1")?;
            host.sysctl("net.ipv4.tcp_ecn", "2")?;
            // A lost SYN must not turn an ECN flow silently into one without (RFC 3168 section 6.1.1.1 allows it).
            host.sysctl("net.ipv4.tcp_ecn_fallback", "0")?;
            if self.spec.ipv6 {
                for (key, value) in [
                    ("accept_dad", "0"),
                    ("dad_transmits", "0"),
                    ("accept_ra", "0"),
                    ("router_solicitations", "0"),
                ] {
                    host.sysctl(&format!("net.ipv6.conf.default.{key}"), value)?;
                }
                // 1 = no link-local address of its own making.
                host.sysctl("net.ipv6.conf.default.addr_gen_mode", "1")?;
            } else if has_ipv6 {
                host.sysctl("net.ipv6.conf.all.disable_ipv6", "1")?;
                host.sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
            }
        }
        let routes_ipv6 = self.spec.ipv6 && matches!(between, Between::Routes);
        if has_ipv6 && !routes_ipv6 {
            self.bottleneck.sysctl("net.ipv6.conf.all.disable_ipv6", "1")?;
            self.bottleneck.sysctl("net.ipv6.conf.default.disable_ipv6", "1")?;
        }
        if matches!(between, Between::Routes) {
            self.bottleneck.sysctl("net.ipv4.ip_forward", "1")?;
        }
        if routes_ipv6 {
            self.bottleneck.sysctl("net.ipv6.conf.default.addr_gen_mode", "1")?;
            self.bottleneck.sysctl("net.ipv6.conf.all.forwarding", "1")?;
        }
        Ok(())
    }

    /// The two veth pairs, up. One queue each, so that nothing reorders.
    fn links(&self) -> Result<(), HostError> {
        let mtu = self.spec.mtu;
        let far = self.bottleneck.path();
        let pair = |near: &str, near_mac: String, peer: &str, peer_mac: String| {
            vec![
                format!(
                    "link add {near} address {near_mac} mtu {mtu} numtxqueues 1 numrxqueues 1 type veth \
                     peer name {peer} address {peer_mac} mtu {mtu} numtxqueues 1 numrxqueues 1 netns {far}"
                ),
                format!("link set {near} up"),
            ]
        };
        self.server.ip(&pair(&self.server_iface, mac(1), &self.bottleneck_server_iface, mac(2)))?;
        self.client.ip(&pair(&self.client_iface, mac(4), &self.bottleneck_client_iface, mac(3)))?;
        self.bottleneck.ip(&[
            format!("link set {} up", self.bottleneck_server_iface),
            format!("link set {} up", self.bottleneck_client_iface),
        ])
    }

    fn addresses(&self, ranges: &[Range]) -> Vec<(IpAddr, u8)> {
        let mut all = Vec::new();
        for range in ranges {
            let count = if matches!(range, Range::Client) {
                self.spec.client_addresses
            } else {
                self.spec.server_addresses
            };
            for n in 0..count {
                all.push((v4(*range, n).into(), 16));
                if self.spec.ipv6 {
                    all.push((v6(*range, n).into(), 64));
                }
            }
        }
        all
    }

    /// A host's own addresses, and where to send what is for the other host.
    fn host_lines(&self, iface: &str, own: &[Range], others: &[Range], other_mac: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for (address, prefix) in self.addresses(own) {
            let nodad = if address.is_ipv6() { " nodad" } else { "" };
            lines.push(format!("addr add {address}/{prefix} dev {iface}{nodad}"));
        }
        lines.extend(self.neighbours(iface, others, other_mac));
        lines
    }

    /// Makes connections *from* the server's ECN addresses ask for ECN as well, for flows that run the other way.
    fn ask_for_ecn_upwards(&self) -> Result<(), HostError> {
        let rule = |own| format!("rule add from {own} lookup {ECN_TABLE}");
        let rules: Vec<String> = self.prefixes(Range::ServerEcn).map(rule).collect();
        self.server.ip(&rules[..1])?;
        self.server.ip6(&rules[1..])?;
        let route =
            |others| format!("route add {others} dev {} table {ECN_TABLE} features ecn", self.server_iface);
        self.server.ip(&self.prefixes(Range::Client).map(route).collect::<Vec<_>>())
    }

    /// The address prefixes of a range: IPv4, and IPv6 if the topology has it.
    fn prefixes(&self, range: Range) -> impl Iterator<Item = String> {
        let v6 = self.spec.ipv6.then(|| format!("fd77::{:x}:0/112", range as u16));
        std::iter::once(format!("10.77.{}.0/24", range as u8)).chain(v6)
    }

    fn neighbours(&self, iface: &str, others: &[Range], lladdr: &str) -> Vec<String> {
        let entry =
            |(address, _)| format!("neigh replace {address} lladdr {lladdr} dev {iface} nud permanent");
        self.addresses(others).into_iter().map(entry).collect()
    }

    /// Routes and neighbours of a bottleneck in which the kernel forwards. It needs no address of its own.
    fn router_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let sides = [
            (&self.bottleneck_server_iface, [Range::Server, Range::ServerEcn].as_slice(), mac(1)),
            (&self.bottleneck_client_iface, [Range::Client].as_slice(), mac(4)),
        ];
        for (iface, ranges, lladdr) in sides {
            for range in ranges {
                lines.extend(self.prefixes(*range).map(|prefix| format!("route add {prefix} dev {iface}")));
            }
            lines.extend(self.neighbours(iface, ranges, &lladdr));
        }
        lines
    }
}

fn check(spec: &TopologySpec) -> Result<(), HostError> {
    let counts = [("server_addresses", spec.server_addresses), ("client_addresses", spec.client_addresses)];
    for (what, count) in counts {
        if !(1..=MAX_ADDRESSES).contains(&count) {
            return Err(HostError::Spec(format!("{what} is {count}; it must be 1 to {MAX_ADDRESSES}")));
        }
    }
    if !(1280..=65_535).contains(&spec.mtu) {
        return Err(HostError::Spec(format!("mtu is {}; it must be 1280 to 65535 bytes", spec.mtu)));
    }
    if !(65_536..=i32::MAX as u64).contains(&spec.tcp_buffer.0) {
        return Err(HostError::Spec(format!(
            "tcp_buffer is {}; it must be 64kb to 2gb - 1b",
            spec.tcp_buffer
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Topology, TopologySpec};
    use crate::host::HostError;

    #[test]
    fn impossible_topologies_are_refused_before_anything_is_made() {
        for spec in [
            TopologySpec { mtu: 100, ..TopologySpec::default() },
            TopologySpec { server_addresses: 0, ..TopologySpec::default() },
            TopologySpec { client_addresses: 251, ..TopologySpec::default() },
            TopologySpec { tcp_buffer: weir_core::Bytes(1), ..TopologySpec::default() },
        ] {
            let refused = Topology::build(&spec);
            assert!(matches!(refused, Err(HostError::Spec(_))), "{spec:?}");
        }
    }
}
