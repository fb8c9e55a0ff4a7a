//! The verbs of the feature `send`: what goes over QUIC.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgGroup, Args, Subcommand};
use weir_core::{Bytes, Duration};
use weir_transport::{Departures, Fingerprint};

/// The port of receivers unless one is named: "weir" on the keys of a telephone.
pub(crate) const PORT: u16 = 9347;

/// A host to connect to and its port: `host`, `host:port`, `[v6]:port` or `v6`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, port) = split(text, 1)?;
        Ok(Self { name: name.to_owned(), port })
    }
}

/// A name or address, and its port, which is `least` or above.
fn split(text: &str, least: u16) -> Result<(&str, u16), String> {
    let port = |port: &str| {
        let number = port.parse().ok().filter(|number| *number >= least);
        number.ok_or_else(|| format!("'{port}' is no port here: use a number from {least} to 65535"))
    };
    let (name, port) = if let Some(rest) = text.strip_prefix('[') {
        let (name, rest) = rest.split_once(']').ok_or("a ']' is missing")?;
        match rest.strip_prefix(':') {
            Some(rest) => (name, port(rest)?),
            None if rest.is_empty() => (name, PORT),
            None => return Err(format!("'{rest}' behind the ']' is no port")),
        }
    } else {
        match text.split_once(':') {
            // More than one colon: an address of IPv6.
            Some((_, rest)) if rest.contains(':') => (text, PORT),
            Some((name, rest)) => (name, port(rest)?),
            None => (text, PORT),
        }
    };
    if name.is_empty() {
        return Err("it names no host".to_owned());
    }
    Ok((name, port))
}

/// An address to listen at; with port 0 the system chooses one.
fn listen_at(text: &str) -> Result<SocketAddr, String> {
    let (name, port) = split(text, 0)?;
    let ip = name.parse().map_err(|_| format!("'{name}' is no IP address"))?;
    Ok(SocketAddr::new(ip, port))
}

#[derive(Debug, Subcommand)]
pub(crate) enum SendCommand {
    /// Send a file to a host where `weir recv` runs, at a pace that suits the path.
    #[command(after_help = "Examples:
  weir send video.mp4 host.example --fingerprint 5bd0...
      the fingerprint is what weir recv prints there
  weir send video.mp4 192.0.2.7:9999 --ca company.pem --server-name host.example --json
      trusts what the authority has signed for that name; prints a JSON object at the end
  The same command goes on where it was stopped.")]
    Send(SendArgs),

    /// Receive files from hosts where `weir send` runs, and answer probes.
    #[command(after_help = "Examples:
  weir recv --dir incoming
      prints the fingerprint that senders need, then a line per file
  weir recv --listen 192.0.2.7:9999 --once")]
    Recv(RecvArgs),

    /// Say whether the bottleneck of the path to a host is fair-queued, and what it carries.
    #[command(after_help = "Examples:
  weir probe host.example --fingerprint 5bd0...
      prints the finding, how sure it is, the share of the rate and the round trip without queues
  weir probe host.example --fingerprint 5bd0... --watch --every 10s --json
      looks every 10 seconds, a JSON object per line
  The host runs weir serve-probe or weir recv.")]
    Probe(ProbeArgs),

    /// Answer probes, and take no files.
    #[command(after_help = "Example:
  weir serve-probe --listen 192.0.2.7:9347")]
    ServeProbe(ServeProbeArgs),
}

/// A receiver, and how it is known.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("trust").required(true).args(["fingerprint", "ca"]))]
pub(crate) struct PeerArgs {
    /// The receiver: a name or an address, perhaps with a port (`host:9347`, `[2001:db8::7]:9347`).
    pub(crate) host: Host,
    /// The fingerprint of its certificate, as it prints it: SHA-256 in hexadecimal digits.
    #[arg(long, value_name = "HEX")]
    pub(crate) fingerprint: Option<Fingerprint>,
    /// A file of certificates in PEM: authorities that may vouch for the receiver's name.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The name in its certificate, with --ca, if it is not HOST.
    #[arg(long, value_name = "NAME", requires = "ca", conflicts_with = "fingerprint")]
    pub(crate) server_name: Option<String>,
    /// By which it is found out whether the bottleneck is fair-queued: trains, published or paper.
    #[arg(long, value_name = "NAME", default_value = "trains")]
    pub(crate) detector: String,
    /// Bytes of UDP payload in a full packet.
    #[arg(long, value_name = "BYTES", default_value_t = weir_transport::DATAGRAM,
        value_parser = clap::value_parser!(u16).range(1200..=1452))]
    pub(crate) datagram: u16,
    /// Least time between the packets of a detector: at least twice what this host's own link takes for one.
    #[arg(long, value_name = "TIME", default_value_t = weir_transport::SPACING)]
    pub(crate) spacing: Duration,
    /// Who lets a detector's packets go at their times: kernel (its fq or etf), thread, or auto.
    #[arg(long, value_name = "WHO", default_value = "auto")]
    pub(crate) departures: Departures,
    /// Write what detections do into FILE as qlog, a sequence of JSON texts; a file that is there is written over.
    #[arg(long, value_name = "FILE")]
    pub(crate) qlog: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    /// The file.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) peer: PeerArgs,
    /// What it is called there [default: its own name].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The congestion controller for a bottleneck that is shared, and for one of which nothing is known.
    #[arg(long, value_name = "NAME", default_value = "cubic-regain")]
    pub(crate) controller: String,
    /// The congestion controller for a bottleneck that is fair-queued [default: the detector's].
    #[arg(long, value_name = "NAME")]
    pub(crate) fair_controller: Option<String>,
    /// Time from one look at the bottleneck to the next [default: the detector's].
    #[arg(long, value_name = "TIME")]
    pub(crate) again: Option<Duration>,
    /// How long to go on trying after the connection has broken.
    #[arg(long, value_name = "TIME", default_value_t = Duration::from_secs(60))]
    pub(crate) patience: Duration,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where a receiver listens, and who it is.
#[derive(Debug, Args)]
pub(crate) struct ListenArgs {
    /// The address to listen at [default: port 9347 of all addresses].
    #[arg(long, value_name = "ADDR", value_parser = listen_at)]
    pub(crate) listen: Option<SocketAddr>,
    /// Its certificate and key in PEM; made if there is no such file [default: weir/identity.pem in the user's
    /// configuration].
    #[arg(long, value_name = "FILE")]
    pub(crate) identity: Option<PathBuf>,
    /// Print JSON: an object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RecvArgs {
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    /// Where files go; what has arrived in part is there, too, as .NAME.weir-part.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// The largest file that is taken [default: what the disk has room for].
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_size: Option<Bytes>,
    /// End when one file has arrived.
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServeProbeArgs {
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    #[command(flatten)]
    pub(crate) peer: PeerArgs,
    /// Look again and again, until interrupted.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Time from one look to the next, with --watch.
    #[arg(long, value_name = "TIME", default_value_t = Duration::from_secs(5), requires = "watch")]
    pub(crate) every: Duration,
    /// How long one look may take.
    #[arg(long, value_name = "TIME", default_value_t = Duration::from_secs(30))]
    pub(crate) patience: Duration,
    /// Print JSON; with --watch an object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Host, PORT, listen_at};

    #[test]
    fn hosts_are_split() {
        for (text, name, port) in [
            ("host", "host", PORT),
            ("host:7", "host", 7),
            ("192.0.2.1:9", "192.0.2.1", 9),
            ("2001:db8::1", "2001:db8::1", PORT),
            ("[2001:db8::1]", "2001:db8::1", PORT),
            ("[2001:db8::1]:8", "2001:db8::1", 8),
        ] {
            assert_eq!(text.parse(), Ok(Host { name: name.to_owned(), port }));
        }
        for text in ["", ":7", "host:x", "host:70000", "[2001:db8::1", "[::1]:y", "[::1]7", "[]:7"] {
            assert!(text.parse::<Host>().is_err(), "{text}");
        }
        assert_eq!(listen_at("[::1]:7"), Ok(([0, 0, 0, 0, 0, 0, 0, 1], 7).into()));
        assert!(listen_at("host:7").is_err());
    }

    #[test]
    fn nobody_is_at_port_0_but_one_may_listen_there() {
        for text in ["host:0", "[::1]:0", "host:70000"] {
            let error = text.parse::<Host>().unwrap_err();
            assert!(error.contains("use a number from 1 to 65535"), "{error}");
        }
        assert_eq!(listen_at("127.0.0.1:0"), Ok(([127, 0, 0, 1], 0).into()));
        let error = listen_at("127.0.0.1:70000").unwrap_err();
        assert!(error.contains("use a number from 0 to 65535"), "{error}");
        #[derive(clap::Parser)]
        struct Line {
            #[command(subcommand)]
            _command: super::SendCommand,
        }
        let zeros = "0".repeat(64);
        let line = ["weir", "probe", "127.0.0.1:0", "--fingerprint", &zeros];
        let error = Line::try_parse_from(line).err().unwrap().to_string();
        assert!(error.contains("'127.0.0.1:0' for '<HOST>'"), "{error}");
    }
}
