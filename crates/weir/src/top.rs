//! `weir top`: flows and queues of a bottleneck as they change, on a terminal or as JSON lines. Reads only.
//! `docs/reference/top.md` explains the columns and fields.

mod columns;
mod filter;
mod hangup;
mod keys;
mod palette;
mod render;
#[cfg(test)]
mod render_tests;
mod sample;
mod screen;
mod stream;
mod view;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_kernel::model::Model;

use crate::cli::TopArgs;
use crate::show;
use crate::talk;
use sample::Sample;

/// Looking more often would be a load of its own.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);

/// Watches until told to stop, or for `--count` looks.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let interval = args.interval.to_std();
    let device = match show::device(&args.what) {
        _ if interval < LEAST_INTERVAL => Err(format!("--interval {}: use 100ms or more", args.interval)),
        device => device,
    };
    let device = match device {
        Ok(device) => device,
        Err(message) => return Ok(talk::wrong(&message)),
    };
    if !args.json && !io::stdout().is_terminal() {
        anyhow::bail!("weir top needs a terminal; weir top --json prints JSON lines, weir show prints once");
    }
    let mut eye = Eye { device, began: now() };
    // What is wrong at the start is reported before the screen is taken, so that it stays readable.
    let first = eye.look()?;
    if first.bottlenecks.is_empty() {
        eye.device.as_deref().map_or(Ok(()), weir_kernel::find)?;
        if let Some(lost) = Model::read(eye.device.as_deref())?.lost.first() {
            anyhow::bail!("{}", lost.fault);
        }
        let on = eye.device.as_deref().map(|device| format!(" on {device}")).unwrap_or_default();
        let make = eye.device.as_deref().unwrap_or("DEVICE");
        anyhow::bail!("there is no bottleneck{on} to watch; make one: weir up dev {make} rate RATE");
    }
    let pace = Pace { interval, count: args.count, stop: talk::lone_stop_flag()? };
    if args.json { stream::run(eye, first, &pace) } else { screen::run(eye, first, &pace) }
}

/// How often, how many times, and until when.
struct Pace {
    interval: Duration,
    count: Option<u64>,
    /// Set by the signals that end a command.
    stop: Arc<AtomicBool>,
}

/// Looks at the bottlenecks.
struct Eye {
    device: Option<String>,
    began: Instant,
}

impl Eye {
    fn look(&mut self) -> anyhow::Result<Sample> {
        let bottlenecks = Model::read(self.device.as_deref())?.bottlenecks;
        Ok(Sample { at_s: now().duration_since(self.began).as_secs_f64(), bottlenecks })
    }
}

#[allow(clippy::disallowed_methods, reason = "looks are timed by the clock")]
fn now() -> Instant {
    Instant::now()
}
