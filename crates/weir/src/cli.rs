//! Flags, help, man pages and completions, all from this one definition.

mod batch;
mod interface;
mod vm;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use batch::{FigureCommand, FigureRunArgs, Place, SuiteCommand, SuiteRunArgs, SweepArgs};
pub(crate) use interface::{DownArgs, ReloadArgs, SetupArgs, ShowArgs, StepOutput, TopArgs, UpArgs};
pub(crate) use vm::{VmClock, VmCommand, VmFetchArgs, VmRunArgs};

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
  3  it ran, but the result is doubtful (late packets, lost frames); the report says why
  130  interrupted by Ctrl-C, SIGTERM, or SIGHUP (its terminal was closed); what was measured until then is written";

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
  weir reload dev eth0 set min_window_segments=2
      swaps the law; queues, flows and their verdicts stay
  weir reload dev eth0 rate 400mbit
  weir reload --config /etc/weir/eth0.toml dev eth0
      what the file and the words do not say is as by default, not as before")]
    Reload(ReloadArgs),

    /// List or reproduce the papers' figures.
    #[command(
        subcommand,
        after_help = "Examples:
  weir figure list
  weir figure run crq/5 --quick --out results/crq-5"
    )]
    Figure(FigureCommand),

    /// Run a scenario with ranges of values for its keys, on all cores, into one table.
    #[command(after_help = "Examples:
  weir sweep examples/sweeps/coexistence.toml --out results/coexistence
      runs every combination; sweep.csv and sweep.parquet have a row per run and flow, sweep.html the plots
  weir sweep examples/sweeps/coexistence.toml --dry-run
      checks every cell and says how many there are and how many have a result
  The same command goes on where it was stopped; after a change of the file it runs only what is new.")]
    Sweep(SweepArgs),

    /// Run a published set of scenarios over several queue disciplines.
    #[command(
        subcommand,
        after_help = "Examples:
  weir suite list
  weir suite run rfc7928 --out results/rfc7928
  weir suite run rfc7928 --qdisc \"codel limit 1bdp\" --qdisc \"pie limit 1bdp\" --only 8.2"
    )]
    Suite(SuiteCommand),

    /// Say what this host can do for each world, and the command that fixes what is missing.
    #[command(after_help = "Example:
  weir doctor
      prints a line per check; exits with 1 if no world can run")]
    Doctor(DoctorArgs),

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

    /// Measure the cost of Weir's parts on this machine.
    #[command(
        subcommand,
        after_help = "Example:
  weir bench link --seconds 5"
    )]
    Bench(BenchCommand),

    /// Run in a micro-VM with another kernel, for hosts whose own lacks a queue discipline.
    #[command(
        subcommand,
        after_help = "Examples:
  weir vm fetch 6.1
      fetches Debian's kernel 6.1 into the cache; all fetches 6.1, 6.12 and 7.2
  weir vm run 6.1 -- tc qdisc add dev lo root codel
      runs a command as root under that kernel and ends with its exit status
  weir vm run 7.2 --out results/btf -- cp /sys/kernel/btf/vmlinux /results/
      brings back what the command leaves in /results"
    )]
    Vm(VmCommand),

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
    #[command(flatten)]
    pub(crate) place: Place,
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
    /// Write what happens to each packet to packets.tr, whatever the scenario says (world sim).
    #[arg(long)]
    pub(crate) trace: bool,
    /// Run also what is estimated to take more packets, rows, memory or disk than a slip of the pen should (world sim).
    #[arg(long)]
    pub(crate) large: bool,
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
    /// The same packets through the kernel's own queues under HTB.
    Kernel,
    /// As kernel, under another kernel in a micro-VM.
    Vm,
    /// Virtual time: no packets, the same result every time.
    Sim,
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
    /// A capture in pcap or pcapng format, plain or packed with gzip or zstd; - for standard input.
    pub(crate) capture: PathBuf,
    /// The parameter set of the law: paper, comsys or robust (what weir up uses).
    #[arg(long, default_value = "paper")]
    pub(crate) preset: String,
    /// One parameter of the law, in place of the preset's; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Flows that are told apart; packets of more are counted and left out. Some 2 kB of memory each.
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub(crate) flows: u32,
    /// Print JSON: one object with a list of flows, each with its assessments.
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
    Link(BenchArgs),
    /// The responsiveness law in the kernel: time per packet, memory per flow, and a router's throughput with and without.
    #[command(after_help = "Example:
  weir bench law --seconds 20 --json")]
    Law(BenchArgs),
    /// The simulator: packets per second on one core, memory per flow, and the same scenario in ns-3 where that is installed.
    #[command(after_help = "Example:
  weir bench sim --seconds 5 --json")]
    Sim(BenchArgs),
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Seconds for each row of `link`, for the router of `law`, or for each throughput of `sim`.
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
