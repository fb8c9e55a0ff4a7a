//! Flags, help, man pages and completions, all from this one definition.

mod interface;
#[cfg(feature = "lab")]
mod lab;
#[cfg(feature = "send")]
mod send;

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use interface::{DownArgs, ReloadArgs, SetupArgs, ShowArgs, StepOutput, TopArgs, UpArgs};
#[cfg(feature = "lab")]
pub(crate) use lab::*;
#[cfg(feature = "send")]
pub(crate) use send::*;

/// A bottleneck you can see into: queue packets, and know which flows answer to congestion.
#[derive(Debug, Parser)]
#[command(name = "weir", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes:
  0  done, also where the reader of the output has gone (weir ... | head)
  1  it failed, or its output could not be written; the message says what to change
  2  the command line is wrong, or what the file of --config says
  3  it ran, but the result is doubtful (late packets, lost frames) and the report says why, or nothing was found out
  130  interrupted by Ctrl-C, SIGTERM, or SIGHUP (its terminal was closed); what was measured until then is written";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[cfg(feature = "lab")]
    #[command(flatten)]
    Lab(LabCommand),

    #[cfg(feature = "send")]
    #[command(flatten)]
    Send(SendCommand),

    /// Tell how a network would judge the flows of a capture.
    #[command(after_help = "Examples:
  weir assess capture.pcapng
      prints a row per flow: cycles, windows, signals visible in the capture, verdict
  tcpdump -i eth0 -s 100 -c 100000 -w - | weir assess -
      judges what was captured once tcpdump ends")]
    Assess(AssessArgs),

    /// Put congestion-responsive queuing on a live interface, or change what is there.
    #[command(after_help = "Examples:
  weir up eth0 --rate 500mbit
      shapes what eth0 sends to 500 Mbit/s: responsive flows get a queue of their own
  weir up dev eth0 rate 500mbit direction both ingress_rate 100mbit queues codel/codel ecn
      the same in iproute2's words, for both directions, with marks instead of drops
  weir up eth0 --rate 500mbit --dry-run
      prints the exact ip and tc lines and changes nothing
  weir up --config /etc/weir/eth0.toml dev eth0
      takes from the file what the command line does not say")]
    Up(UpArgs),

    /// Take off an interface what weir up put there, and put back what was there before.
    #[command(after_help = "Examples:
  weir down dev eth0
  weir down --all")]
    Down(DownArgs),

    /// Change parameters of what is up, without losing what is known of flows.
    #[command(after_help = "Examples:
  weir reload dev eth0 set lapse_round_trips=16
      swaps the law; queues, flows and their verdicts stay
  weir reload dev eth0 rate 400mbit
  weir reload --config /etc/weir/eth0.toml dev eth0
      what the file and the words do not say is as by default, not as before")]
    Reload(ReloadArgs),

    /// Show the bottlenecks that `weir up` made: settings, queues, counters, flows.
    #[command(after_help = "Examples:
  weir show
      a block per bottleneck: settings, whether its programs are attached, how many flows answer
  weir show -s dev eth0
      the same with what the kernel's queues and the programs have counted
  weir show flows dev eth0 --json
      a JSON array with an object per flow")]
    Show(ShowArgs),

    /// Watch the flows and queues of a bottleneck that `weir up` made.
    #[command(after_help = "Examples:
  weir top dev eth0
      a table of flows; h lists the keys
  weir top --json --interval 1s --count 60 > eth0.jsonl
      a JSON object per bottleneck and second, without a terminal")]
    Top(TopArgs),

    /// Print the completion script for a shell.
    #[command(after_help = "Example:
  weir completions bash > /etc/bash_completion.d/weir")]
    Completions {
        /// The shell.
        shell: Shell,
    },

    /// Write a man page for weir and each of its subcommands.
    #[command(after_help = "Example:
  weir man /usr/local/share/man/man1")]
    Man {
        /// The directory to write to; it is made if it does not exist.
        dir: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AssessArgs {
    /// A capture in pcap or pcapng format, plain or packed with gzip or zstd; - for standard input.
    pub(crate) capture: PathBuf,
    /// The parameter set of the law: paper, comsys or robust (what weir up uses).
    #[arg(long, default_value = "paper")]
    pub(crate) preset: String,
    /// One parameter of the law, in place of the preset's; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Flows that are distinguished; packets of more are counted and left out. Some 2 kB of memory each.
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub(crate) flows: u32,
    /// Print JSON: one object with a list of flows, each with its assessments.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The verbs of the features `lab` and `send`, for the answer of a command that was built without them.
const LAB: &[&str] = &["run", "sweep", "hunt", "suite", "figure", "vm", "bench", "doctor"];
const SEND: &[&str] = &["send", "recv", "probe", "serve-probe"];

/// What to build, if the command line asks for a verb that this command was built without.
pub(crate) fn absent(said: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(verb)) = said.get(ContextKind::InvalidSubcommand) else { return None };
    let features = [("lab", LAB, cfg!(feature = "lab")), ("QUIC", SEND, cfg!(feature = "send"))];
    let (name, ..) =
        features.iter().find(|(_, verbs, is_here)| !is_here && verbs.contains(&verb.as_str()))?;
    Some(format!(
        "this weir was built without its {name}, which '{verb}' is of; one with it: cargo build --release -p weirnet"
    ))
}

#[cfg(all(test, feature = "lab", feature = "send"))]
mod tests {
    use clap::Subcommand;

    use super::{LAB, LabCommand, SEND, SendCommand};

    fn verbs<C: Subcommand>() -> Vec<String> {
        let command = C::augment_subcommands(clap::Command::new("weir"));
        command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect()
    }

    #[test]
    fn the_verbs_of_features_are_listed() {
        assert_eq!(verbs::<LabCommand>(), LAB);
        assert_eq!(verbs::<SendCommand>(), SEND);
    }
}
