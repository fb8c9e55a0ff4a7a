//! What goes over QUIC: `weir send`, `recv`, `probe` and `serve-probe`. The feature `send`; a router does without.

mod found;
mod peer;
mod probe;
mod recv;
mod transfer;

use std::process::ExitCode;

use crate::cli::SendCommand;

/// Does what one of these verbs asks for.
pub(crate) fn run(command: &SendCommand) -> anyhow::Result<ExitCode> {
    match command {
        SendCommand::Send(args) => transfer::run(args),
        SendCommand::Recv(args) => recv::run(args),
        SendCommand::Probe(args) => probe::run(args),
        SendCommand::ServeProbe(args) => recv::serve_probe(args),
    }
}

/// A rate in words.
fn rate(bits_per_second: f64) -> String {
    match bits_per_second {
        rate if rate >= 1e9 => format!("{:.2} Gbit/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.1} Mbit/s", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.0} kbit/s", rate / 1e3),
        rate => format!("{rate:.0} bit/s"),
    }
}

/// Bytes in words.
fn size(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes >= 1e9 => format!("{:.2} GB", bytes / 1e9),
        bytes if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        bytes if bytes >= 1e3 => format!("{:.1} kB", bytes / 1e3),
        bytes => format!("{bytes} bytes"),
    }
}

/// Bits per second of bytes in a time; zero of no time.
fn speed(bytes: u64, time: std::time::Duration) -> f64 {
    if time.is_zero() { 0.0 } else { bytes as f64 * 8.0 / time.as_secs_f64() }
}
