//! The other end, from the command line.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::Context;
use weir_transport::{Peer, Qlog, Trust};

use crate::cli::{Host, ListenArgs, PORT, PeerArgs};

/// The receiver that the arguments name.
pub(super) fn peer(args: &PeerArgs) -> anyhow::Result<Peer> {
    let Host { name, port } = &args.host;
    let address = (name.as_str(), *port)
        .to_socket_addrs()
        .with_context(|| format!("cannot find '{name}'"))?
        .next()
        .with_context(|| format!("'{name}' has no address"))?;
    let trust = match (args.fingerprint, &args.ca) {
        (Some(fingerprint), _) => Trust::Fingerprint(fingerprint),
        (None, Some(path)) => Trust::Authorities(path.clone()),
        (None, None) => anyhow::bail!("say whom to trust: --fingerprint or --ca"),
    };
    let mut peer = Peer::new(address, trust);
    if args.ca.is_some() {
        peer.name = Some(args.server_name.clone().unwrap_or_else(|| name.clone()));
    }
    peer.datagram = args.datagram;
    peer.spacing = args.spacing;
    peer.departures = args.departures;
    peer.qlog = args.qlog.as_deref().map(Qlog::create).transpose()?;
    Ok(peer)
}

/// Where to listen; of several, the first that works.
pub(super) fn listen(args: &ListenArgs) -> Vec<SocketAddr> {
    let all = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    args.listen.map_or_else(|| all.map(|ip| SocketAddr::new(ip, PORT)).to_vec(), |address| vec![address])
}

/// Where the certificate is kept.
pub(super) fn identity(args: &ListenArgs) -> anyhow::Result<PathBuf> {
    if let Some(path) = &args.identity {
        return Ok(path.clone());
    }
    let home = || std::env::home_dir().map(|home| home.join(".config"));
    let configuration = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home);
    let configuration = configuration.context("there is no home directory; say --identity FILE")?;
    Ok(configuration.join("weir/identity.pem"))
}
