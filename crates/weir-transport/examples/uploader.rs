//! Sends a file under a congestion controller of the program's own choice, by what is found out of the bottleneck.
//!
//! `cargo run -p weirnet-transport --example uploader -- FILE HOST:PORT FINGERPRINT`; on HOST runs `weir recv`.
#![allow(clippy::print_stdout, reason = "tells what it does")]

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_cc::{Choice, Controller, EcnUse, Family, Setup};
use weir_fq::{Chosen, Connection, Finding, Options, Trains, TrainsParams};
use weir_transport::{Peer, SendJob, Trust, send};

/// The choice: a flow with a queue of its own need not fill it, one that shares its queue must compete.
fn choose(chosen: &Chosen, setup: &Setup) -> Box<dyn Controller> {
    let name = match chosen.outcome.verdict.finding {
        Finding::FairQueued => "copa",
        Finding::Shared => "cubic",
        Finding::Unknown => "bbr3",
    };
    println!("{:?}: {name}", chosen.outcome.verdict);
    let entry = weir_cc::find(name).expect("a controller of the catalogue");
    // It begins at the rate that the detection has found.
    let setup = Setup { rate: chosen.outcome.rate, ..setup.clone() };
    entry.make(&Choice { family: Family::Quic, ecn: false }, &setup)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, host, fingerprint] = &arguments[..] else {
        return Err("say FILE HOST:PORT FINGERPRINT".into());
    };
    let path = PathBuf::from(file);
    let name = path.file_name().and_then(|name| name.to_str()).ok_or("a file has a name")?;
    let peer = Peer::new(host.parse()?, Trust::Fingerprint(fingerprint.parse()?));
    let setup = peer.setup();
    let sent = send(&mut SendJob {
        path: &path,
        name,
        peer: &peer,
        connection: &mut || {
            let setup = setup.clone();
            Connection::new(Options {
                detector: Box::new(Trains::new(TrainsParams { spacing: peer.spacing, ..Default::default() })),
                choose: Box::new(move |chosen| choose(chosen, &setup)),
                // The bottleneck may become another: it looks again every 10 seconds.
                again: Some(weir_core::Duration::from_secs(10)),
                isolation: None,
                ecn: EcnUse::Off,
            })
        },
        patience: Duration::from_secs(60),
        stop: &AtomicBool::new(false),
        watch: &mut |progress| println!("{} of {} bytes", progress.written, progress.size),
    })?;
    println!("{} bytes in {:.2} s; sha256 {}", sent.size, sent.took.as_secs_f64(), sent.digest);
    Ok(())
}
