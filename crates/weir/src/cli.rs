//! Flags, help, man pages and completions, all from this one definition.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// A bottleneck you can see into: queue packets, and know which flows answer to congestion.
#[derive(Debug, Parser)]
#[command(name = "weir", version, max_term_width = 100, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes:
  0  done
  1  it failed; the message says what to change
  2  the command line is wrong
  3  it ran, but the result is doubtful (late packets, lost frames); the report says why
  130  interrupted; what was measured until then is written";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run scenarios and measure the bottleneck; several are compared with the first.
    #[command(after_help = "Examples:
  weir run demo/with-crq.toml --out results/crq
      runs the scenario on real packets and writes tables, JSON and report.html to results/crq
  weir run demo/without-crq.toml demo/with-crq.toml
      runs one after the other and compares flow completion times")]
    Run(RunArgs),

    /// Tell how a network would judge the flows of a capture.
    #[command(after_help = "Example:
  weir assess capture.pcapng
      prints a row per flow: cycles, windows, signals visible in the capture, verdict")]
    Assess(AssessArgs),

    /// List or reproduce the papers' figures.
    #[command(
        subcommand,
        after_help = "Examples:
  weir figure list
  weir figure run crq/5 --quick --out results/crq-5"
    )]
    Figure(FigureCommand),

    /// Say what this host can do for each world, and the command that fixes what is missing.
    #[command(after_help = "Example:
  weir doctor
      prints a line per check; exits with 1 if no world can run")]
    Doctor(DoctorArgs),

    /// Measure the cost of Weir's parts on this machine.
    #[command(
        subcommand,
        after_help = "Example:
  weir bench link --seconds 5"
    )]
    Bench(BenchCommand),

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
pub(crate) struct RunArgs {
    /// The scenarios, TOML files.
    #[arg(required = true, value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<PathBuf>,
    /// The world to run it in.
    #[arg(long = "on", value_enum, default_value_t = World::Emu)]
    pub(crate) world: World,
    /// Where tables, JSON and report go [default: results/NAME].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The seed, instead of the scenario's.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The number of the run under that seed; independent repetitions count up from 0.
    #[arg(long, default_value_t = 0)]
    pub(crate) run: u64,
    /// Write the packets' headers to packets.pcapng, whatever the scenario says.
    #[arg(long)]
    pub(crate) pcap: bool,
    /// How packets are read and written.
    #[arg(long, value_enum, default_value_t = Io::Auto)]
    pub(crate) io: Io,
    /// Print the result as JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum World {
    /// Real packets of kernel TCP, QUIC and UDP through a queue in user space.
    Emu,
}

/// How the user-space bottleneck reads and writes packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Io {
    /// AF_XDP where the host has it, packet sockets otherwise.
    Auto,
    /// AF_XDP.
    Xdp,
    /// Packet sockets.
    PacketSocket,
}

#[derive(Debug, Args)]
pub(crate) struct AssessArgs {
    /// A capture in pcap or pcapng format.
    pub(crate) capture: PathBuf,
    /// The parameter set of the law: paper or comsys.
    #[arg(long, default_value = "paper")]
    pub(crate) preset: String,
    /// One parameter of the law, in place of the preset's; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print JSON: one object with a list of flows, each with its assessments.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FigureCommand {
    /// List the figures, the worlds they run in and what they show.
    #[command(after_help = "Example:
  weir figure list --json
      prints an array of objects with id, title, paper, worlds, state and variants")]
    List {
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Make a figure again: the paper's numbers, ours beside them, and a plot.
    #[command(after_help = "Example:
  weir figure run crq/5 --quick --out results/crq-5")]
    Run(FigureRunArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FigureRunArgs {
    /// The figure, as `weir figure list` calls it.
    pub(crate) id: String,
    /// The world to run it in.
    #[arg(long = "on", value_enum, default_value_t = World::Emu)]
    pub(crate) world: World,
    /// Fewer runs, a tenth of the rate and of the bytes.
    #[arg(long)]
    pub(crate) quick: bool,
    /// A variant of the setting; `weir figure list` names them.
    #[arg(long, default_value = "paper")]
    pub(crate) variant: String,
    /// Runs per cell [default: the paper's, or 1 with --quick].
    #[arg(long)]
    pub(crate) runs: Option<u32>,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only cells whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// How many runs go on at the same time [default: what this machine's processors allow at the rate].
    #[arg(long)]
    pub(crate) jobs: Option<usize>,
    /// Where table, plot and the runs' data go [default: results/FIGURE].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The user-space bottleneck beside the kernel's forwarding with HTB and bfifo, in one run.
    #[command(after_help = "Example:
  weir bench link --seconds 5 --json")]
    Link(BenchLinkArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BenchLinkArgs {
    /// Seconds per row.
    #[arg(long, default_value_t = 5)]
    pub(crate) seconds: u64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
