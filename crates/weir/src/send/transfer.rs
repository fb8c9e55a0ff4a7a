//! `weir send`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use weir_fq::catalog::Names;
use weir_transport::{Error, SendJob, SendProgress, Sent, send};

use super::found::{Found, in_short};
use super::{peer, rate, size, speed};
use crate::cli::SendArgs;
use crate::talk::{self, Bar};

/// A file that has arrived, as JSON; `docs/reference/probe.md` says what each key means.
#[derive(Serialize)]
struct Report<'a> {
    name: &'a str,
    bytes: u64,
    had_bytes: u64,
    sha256: &'a str,
    took_s: f64,
    connections: u32,
    controller: Option<&'static str>,
    path: Found,
}

/// Sends a file.
pub(super) fn run(args: &SendArgs) -> anyhow::Result<ExitCode> {
    let own = args.file.file_name().context("say which file")?.to_string_lossy();
    let name = args.name.as_deref().unwrap_or(&own);
    let names = Names {
        detector: args.peer.detector.clone(),
        shared: args.controller.clone(),
        fair: args.fair_controller.clone(),
        again: args.again,
    };
    let peer = peer::peer(&args.peer)?;
    let setup = peer.setup();
    // Names that are not known are told before anything is sent.
    if let Err(error) = names.connection(&setup, peer.spacing) {
        return Ok(talk::wrong(&error));
    }
    let stop = talk::stop_flag()?;
    let bar = Bar::new(name);
    let mut speedometer = Speedometer::default();
    let sent = send(&mut SendJob {
        path: &args.file,
        name,
        peer: &peer,
        connection: &mut || {
            names.connection(&setup, peer.spacing).unwrap_or_else(|error| unreachable!("{error}"))
        },
        patience: args.patience.to_std(),
        stop: &stop,
        watch: &mut |progress| show(&bar, &mut speedometer, progress),
    });
    drop(bar);
    match sent {
        Ok(sent) => {
            print(args, name, &sent)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(Error::Stopped) => {
            talk::say!("weir: interrupted; the same command goes on where this one was");
            Ok(ExitCode::from(talk::INTERRUPTED))
        }
        Err(error) => Err(error.into()),
    }
}

/// How fast it has become, by the last second or so.
#[derive(Default)]
struct Speedometer {
    since: Option<(std::time::Instant, u64)>,
    speed: f64,
}

impl Speedometer {
    #[allow(clippy::disallowed_methods, reason = "tells people how long it will take")]
    fn read(&mut self, bytes: u64) -> f64 {
        const APART: Duration = Duration::from_millis(500);
        let now = std::time::Instant::now();
        let (at, before) = *self.since.get_or_insert((now, bytes));
        let passed = now.duration_since(at);
        if passed >= APART {
            let newest = speed(bytes.saturating_sub(before), passed);
            self.speed = if self.speed == 0.0 { newest } else { (self.speed + newest) / 2.0 };
            self.since = Some((now, bytes));
        }
        self.speed
    }
}

fn show(bar: &Bar, speedometer: &mut Speedometer, progress: &SendProgress) {
    let now = speedometer.read(progress.written);
    let left = (progress.size - progress.written) as f64 * 8.0 / now;
    let left = Duration::try_from_secs_f64(left).ok();
    let note = match &progress.waits {
        Some(error) => format!("tries again: {error}"),
        None => format!("{}  {}", rate(now), in_short(&progress.findings)),
    };
    bar.show(progress.written as f64 / (progress.size as f64).max(1.0), left, &note);
}

fn print(args: &SendArgs, name: &str, sent: &Sent) -> anyhow::Result<()> {
    let (detector, controller) = sent.names;
    if args.json {
        return talk::print_json(&Report {
            name,
            bytes: sent.size,
            had_bytes: sent.had,
            sha256: &sent.digest,
            took_s: sent.took.as_secs_f64(),
            connections: sent.connections,
            controller,
            path: Found::new(&sent.findings, detector, sent.ports, sent.lateness, &sent.departed),
        });
    }
    if sent.size > 0 && sent.had == sent.size {
        return talk::print(&format!(
            "{name}: {}, all of it there already\nsha256 {}",
            size(sent.size),
            sent.digest
        ));
    }
    let had = if sent.had > 0 { format!(", {} of them there before", size(sent.had)) } else { String::new() };
    let (seconds, bytes) = (sent.took.as_secs_f64(), sent.size - sent.had);
    talk::print(&format!(
        "{name}: {}{had}, in {seconds:.2} s, {}\nsha256 {}\nbottleneck {}; controller {}",
        size(sent.size),
        rate(speed(bytes, sent.took)),
        sent.digest,
        in_short(&sent.findings),
        controller.unwrap_or("not chosen yet")
    ))
}
