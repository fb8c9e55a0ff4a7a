//! The verbs of the lab: what measures, and what a router does without.

mod batch;
mod vm;

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

pub(crate) use batch::{
    FigureCommand, FigureRunArgs, HuntArgs, Place, Search, SuiteCommand, SuiteRunArgs, SweepArgs,
};
pub(crate) use vm::{VmClock, VmCommand, VmFetchArgs, VmRunArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Run scenarios and measure the bottleneck; several are compared with the first.
    #[command(after_help = "Examples:
  weir run demo/with-crq.toml --out results/crq
      runs the scenario on real packets and writes tables, JSON and report.html to results/crq
  weir run demo/without-crq.toml demo/with-crq.toml
      runs one after the other and compares flow completion times")]
    Run(RunArgs),

    /// Run a scenario with ranges of values for its keys, on all cores, into one table.
    #[command(after_help = "Examples:
  weir sweep examples/sweeps/coexistence.toml --out results/coexistence
      runs every combination; sweep.csv and sweep.parquet have a row per run and flow, sweep.html the plots
  weir sweep examples/sweeps/coexistence.toml --dry-run
      checks every cell and says how many there are and how many have a result
  weir sweep examples/sweeps/coexistence.toml --shard 2/4 --out results/part-2
      runs a quarter of the cells; once all four are there,
  weir sweep examples/sweeps/coexistence.toml --out results/coexistence --take results/part-*
      makes the table of all of them
  The same command goes on where it was stopped; after a change of the file it runs only what is new.")]
    Sweep(SweepArgs),

    /// Search for the scenario in which something does worst, and shrink it.
    #[command(after_help = "Examples:
  weir hunt examples/hunts/shrew-reno.toml --out results/shrew
      tries candidates on all cores; minimal.toml is what is left of the worst, minimal/report.html its report
  weir hunt examples/hunts/shrew-reno.toml --dry-run
      checks both ends of every gene and says what would be tried
  The same command goes on where it was stopped, and computes nothing twice.")]
    Hunt(HuntArgs),

    /// Run a published set of scenarios over several queue disciplines.
    #[command(
        subcommand,
        after_help = "Examples:
  weir suite list
  weir suite run rfc7928 --out results/rfc7928
  weir suite run rfc7928 --qdisc \"codel limit 1bdp\" --qdisc \"pie limit 1bdp\" --only 8.2"
    )]
    Suite(SuiteCommand),

    /// List or reproduce the papers' figures.
    #[command(
        subcommand,
        after_help = "Examples:
  weir figure list
  weir figure run crq/5 --quick --out results/crq-5"
    )]
    Figure(FigureCommand),

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

    /// Measure the cost of Weir's parts on this machine.
    #[command(
        subcommand,
        after_help = "Example:
  weir bench link --seconds 5"
    )]
    Bench(BenchCommand),

    /// Say what this host can do for each world, and the command that fixes what is missing.
    #[command(after_help = "Example:
  weir doctor
      prints a line per check; exits with 1 if no world can run")]
    Doctor(DoctorArgs),
}

impl LabCommand {
    /// What is wrong with a flag that would do nothing in the world that was asked for.
    pub(crate) fn idle_flag(&self) -> Option<&'static str> {
        let (place, io) = match self {
            Self::Run(args) => (&args.place, args.io),
            Self::Suite(SuiteCommand::Run(args)) => (&args.place, Io::Auto),
            Self::Figure(FigureCommand::Run(args)) => (&args.place, Io::Auto),
            _ => return None,
        };
        if place.kernel.is_some() && place.world != World::Vm {
            return Some("--kernel chooses the kernel of a micro-VM: give it with --on vm, or leave it out");
        }
        (io != Io::Auto && matches!(place.world, World::Vm | World::Sim))
            .then_some("--io chooses how packets are read and written: give it with --on emu or --on kernel, or leave it out")
    }
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
    /// How packets are read and written (worlds emu and kernel).
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
    /// The responsiveness law in the kernel: time per packet, memory per flow, and a router's throughput with and
    /// without.
    #[command(after_help = "Example:
  weir bench law --seconds 20 --json")]
    Law(BenchArgs),
    /// The simulator: packets per second on one core, memory per flow, and the same scenario in ns-3 where that is
    /// installed.
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
