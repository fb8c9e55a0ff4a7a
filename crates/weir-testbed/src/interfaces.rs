//! The interfaces around a user-space bottleneck, made fit for it: single frames with complete checksums go in, and
//! nothing is lost before the bottleneck sees it.

use weir_netdev::offload::{self, OffloadError, OffloadGuard, Role};

use crate::host::{HostError, Namespace, Topology};

/// Packets that a host's interface may hold while the bottleneck is late; far more than any burst here.
pub const WAITING: u32 = 4_000;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum InterfacesError {
    /// The hosts' queues could not be set.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Offloads could not be switched off.
    #[error(transparent)]
    Offload(#[from] OffloadError),
}

/// Prepares all four interfaces. Offloads come back when the guards go.
pub fn prepare(topology: &Topology) -> Result<Vec<OffloadGuard>, InterfacesError> {
    let mut guards = Vec::new();
    for (host, interface) in ends(topology) {
        guards.push(host.enter(|| offload::prepare(interface, Role::Host))??);
        // A veth without a qdisc drops when the ring at its far end is full; with one it waits.
        host.tc(&[format!("qdisc add dev {interface} root pfifo limit {WAITING}")])?;
    }
    for interface in [&topology.bottleneck_server_iface, &topology.bottleneck_client_iface] {
        guards.push(topology.bottleneck.enter(|| offload::prepare(interface, Role::Bottleneck))??);
    }
    Ok(guards)
}

/// Packets that the hosts' interfaces dropped, on the way out or in.
pub fn host_drops(topology: &Topology) -> Result<u64, HostError> {
    let mut drops = 0;
    for (host, interface) in ends(topology) {
        drops += host.enter(|| interface_drops(interface))?;
    }
    Ok(drops)
}

fn ends(topology: &Topology) -> [(&Namespace, &String); 2] {
    [(&topology.server, &topology.server_iface), (&topology.client, &topology.client_iface)]
}

/// Packets that an interface of the calling thread's namespace dropped, receiving and sending.
fn interface_drops(interface: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'));
    let columns: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
    [3, 11].iter().filter_map(|column| columns.get(*column)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::interface_drops;

    #[test]
    fn loopback_drops_nothing() {
        assert_eq!((interface_drops("lo"), interface_drops("none")), (0, 0));
    }
}
