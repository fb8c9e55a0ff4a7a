//! Fuzz targets: functions that take any bytes and panic where Weir breaks a promise about them.
//!
//! `tools/fuzz.sh` (`make fuzz`) runs them under libFuzzer, guided by coverage counters in the Rust and in the C of
//! `bpf/`, which is also built with the address and undefined-behaviour sanitizers. `cargo test` runs them over the
//! inputs in `corpus/TARGET`, where the fuzzer also leaves what it finds. `docs/validation/fuzzing.md` has the rest.

mod captures;
mod discipline;
mod frame;
mod journal;
mod live;
mod scenario;
mod sweep;
mod transport;

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// What the command and the corpus call it.
    pub name: &'static str,
    /// Runs it on one input. Panics where a promise is broken.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "frame", run: frame::run },
    Target { name: "captures", run: captures::run },
    Target { name: "live", run: live::run },
    Target { name: "scenario", run: scenario::run },
    Target { name: "sweep", run: sweep::run },
    Target { name: "journal", run: journal::run },
    Target { name: "tc", run: discipline::run },
    Target { name: "transport", run: transport::run },
];

/// Whether a text of TOML may name a file by an absolute path: that would be read, from anywhere on this machine.
/// Names without one are looked for in a folder that does not exist.
fn names_a_file(text: &str) -> bool {
    ["\"/", "'/", "\n/", "\r/", "\\"].iter().any(|part| text.contains(part))
}
