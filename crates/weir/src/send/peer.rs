//! The other end, from the command line.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use anyhow::Context;
use weir_transport::{Peer, Qlog, Trust};

use crate::cli::{ListenArgs, PeerArgs};

/// The port of receivers unless one is named: "weir" on the keys of a telephone.
const PORT: u16 = 9347;

/// The receiver that the arguments name.
pub(super) fn peer(args: &PeerArgs) -> anyhow::Result<Peer> {
    let (name, port) = name_and_port(&args.host)?;
    let address = (name.as_str(), port)
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
        peer.name = Some(args.server_name.clone().unwrap_or(name));
    }
    peer.datagram = args.datagram;
    peer.spacing = args.spacing;
    peer.departures = args.departures;
    peer.qlog = args.qlog.as_deref().map(Qlog::create).transpose()?;
    Ok(peer)
}

/// Splits `host`, `host:port`, `[v6]:port` or `v6`.
fn name_and_port(host: &str) -> anyhow::Result<(String, u16)> {
    let port = |text: &str| text.parse().with_context(|| format!("'{text}' in '{host}' is no port"));
    if let Some(rest) = host.strip_prefix('[') {
        let (name, rest) = rest.split_once(']').with_context(|| format!("a ']' is missing in '{host}'"))?;
        return Ok((name.to_owned(), rest.strip_prefix(':').map_or(Ok(PORT), port)?));
    }
    match host.split_once(':') {
        // More than one colon: an address of IPv6.
        Some((_, rest)) if rest.contains(':') => Ok((host.to_owned(), PORT)),
        Some((name, rest)) => Ok((name.to_owned(), port(rest)?)),
        None => Ok((host.to_owned(), PORT)),
    }
}

/// Where to listen; of several, the first that works.
pub(super) fn listen(args: &ListenArgs) -> anyhow::Result<Vec<SocketAddr>> {
    let Some(text) = &args.listen else {
        let all = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
        return Ok(all.map(|ip| SocketAddr::new(ip, PORT)).to_vec());
    };
    let (name, port) = name_and_port(text)?;
    let ip = name.parse().with_context(|| format!("--listen {text}: '{name}' is no IP address"))?;
    Ok(vec![SocketAddr::new(ip, port)])
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

#[cfg(test)]
mod tests {
    use super::{PORT, name_and_port};

    #[test]
    fn hosts_are_split() {
        for (host, name, port) in [
            ("host", "host", PORT),
            ("host:7", "host", 7),
            ("192.0.2.1:9", "192.0.2.1", 9),
            ("2001:db8::1", "2001:db8::1", PORT),
            ("[2001:db8::1]", "2001:db8::1", PORT),
            ("[2001:db8::1]:8", "2001:db8::1", 8),
        ] {
            assert_eq!(name_and_port(host).unwrap(), (name.to_owned(), port));
        }
        for host in ["host:x", "host:70000", "[2001:db8::1", "[::1]:y"] {
            assert!(name_and_port(host).is_err(), "{host}");
        }
    }
}
