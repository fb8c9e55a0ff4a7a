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

    /// Run sets of scenarios that others have agreed on, over several queue disciplines, and report in one page.
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
    /// How packets are read and written.
    #[arg(long, value_enum, default_value_t = Io::Auto)]
    pub(crate) io: Io,
    /// Print the result as JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where scenarios run.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// The world to run it in.
    #[arg(long = "on", value_enum, default_value_t = World::Emu)]
    pub(crate) world: World,
    /// With --on vm: the kernel, as `weir vm list` calls it [default: the newest in the cache].
    #[arg(long, value_name = "VERSION")]
    pub(crate) kernel: Option<String>,
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
    #[command(flatten)]
    pub(crate) place: Place,
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

#[derive(Debug, Subcommand)]
pub(crate) enum SuiteCommand {
    /// List the suites and their scenarios.
    #[command(after_help = "Example:
  weir suite list --json
      prints an array of objects with id, about and scenarios")]
    List {
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Run a suite: each of its scenarios over each discipline.
    #[command(after_help = "Example:
  weir suite run l4s --out results/l4s
      writes suite.html, suite.csv, suite.json and each run's tables to results/l4s")]
    Run(SuiteRunArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SuiteRunArgs {
    /// The suite, as `weir suite list` calls it, or a folder with a suite.toml.
    pub(crate) suite: String,
    /// The world to run it in.
    #[arg(long = "on", value_enum, default_value_t = World::Sim)]
    pub(crate) world: World,
    /// With --on vm: the kernel, as `weir vm list` calls it [default: the newest in the cache].
    #[arg(long, value_name = "VERSION")]
    pub(crate) kernel: Option<String>,
    /// A queue discipline, written as in a scenario, instead of the suite's; may be repeated.
    #[arg(long = "qdisc", value_name = "WORDS")]
    pub(crate) qdiscs: Vec<String>,
    /// Only scenarios with this text in their section or title.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// A seed instead of the scenarios' own.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The number of the run under the seed.
    #[arg(long, default_value_t = 0)]
    pub(crate) run: u64,
    /// How many runs go on at the same time [default: one per processor, in other worlds than sim as the rate allows].
    #[arg(long)]
    pub(crate) jobs: Option<usize>,
    /// Where the page, the tables and the runs' data go [default: results/SUITE].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `weir up` and `weir reload` take besides their words; each flag is also a word.
#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    /// The interface and settings in iproute2's manner: `eth0 rate 500mbit split borrow`. Each flag below with a value,
    /// and --ecn, --noecn and --replace, may be written as a word.
    #[arg(value_name = "[dev] DEVICE [WORDS]")]
    pub(crate) words: Vec<String>,
    /// The interface.
    #[arg(long)]
    pub(crate) dev: Option<String>,
    /// The rate, a little less than the link's own, so that packets wait here.
    #[arg(long)]
    pub(crate) rate: Option<String>,
    /// The rate of what is received, where it is another.
    #[arg(long)]
    pub(crate) ingress_rate: Option<String>,
    /// egress (what the interface sends, the default), ingress or both.
    #[arg(long)]
    pub(crate) direction: Option<String>,
    /// The queues, STANDARD/RESPONSIVE, each of codel, fq_codel, pie, fq_pie, red, fq, cake, pfifo, bfifo with options
    /// after a colon: bfifo:limit=1bdp/codel:target=5ms,ecn [default: codel/codel].
    #[arg(long, value_name = "STANDARD/RESPONSIVE")]
    pub(crate) queues: Option<String>,
    /// The queues mark rather than drop, where they can.
    #[arg(long)]
    pub(crate) ecn: bool,
    /// The queues drop, where they would mark by default.
    #[arg(long)]
    pub(crate) noecn: bool,
    /// hard (each queue keeps to its share, the default) or borrow (it may use what the other leaves).
    #[arg(long)]
    pub(crate) split: Option<String>,
    /// How the rate is divided, by weight [default: 50/50].
    #[arg(long, value_name = "STANDARD/RESPONSIVE")]
    pub(crate) share: Option<String>,
    /// The limit of queues that name none: packets (1000p), bytes (64kb) or 0.5bdp.
    #[arg(long)]
    pub(crate) limit: Option<String>,
    /// The round-trip time of limits in BDP [default: 100ms].
    #[arg(long)]
    pub(crate) rtt: Option<String>,
    /// How many flows are remembered in each direction [default: 65536].
    #[arg(long)]
    pub(crate) flows: Option<String>,
    /// The parameter set of the law: paper (the default) or comsys.
    #[arg(long)]
    pub(crate) preset: Option<String>,
    /// One parameter of the law, in place of the preset's; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
    /// Put a classless qdisc of somebody else aside until weir down.
    #[arg(long)]
    pub(crate) replace: bool,
    /// A TOML file with the same keys; words and flags go over it.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// How the commands that change an interface tell what they do.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct StepOutput {
    /// Print the exact lines and change nothing; needs no privileges.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the steps as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) setup: SetupArgs,
    #[command(flatten)]
    pub(crate) output: StepOutput,
}

#[derive(Debug, Args)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    pub(crate) setup: SetupArgs,
    #[command(flatten)]
    pub(crate) output: StepOutput,
}

#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    /// The interface.
    #[arg(value_name = "[dev] DEVICE")]
    pub(crate) words: Vec<String>,
    /// The interface.
    #[arg(long)]
    pub(crate) dev: Option<String>,
    /// All interfaces of this network namespace.
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) output: StepOutput,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// What: `flows` for a row per flow, `dev DEVICE` for one interface.
    #[arg(value_name = "[flows] [dev DEVICE]")]
    pub(crate) what: Vec<String>,
    /// What the queues and programs have counted, too.
    #[arg(short, long)]
    pub(crate) statistics: bool,
    /// Print a JSON array.
    #[arg(short, long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// The interface [default: all that have a bottleneck].
    #[arg(value_name = "[dev DEVICE]")]
    pub(crate) what: Vec<String>,
    /// The time between two looks, at least 100ms.
    #[arg(short, long, default_value = "1s")]
    pub(crate) interval: weir_core::Duration,
    /// End after so many looks [default: go on].
    #[arg(short = 'n', long)]
    pub(crate) count: Option<u64>,
    /// Print JSON lines, one per bottleneck and interval; needs no terminal.
    #[arg(short, long)]
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
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Seconds for each row of `link`, or for the router of `law`.
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum VmCommand {
    /// Fetch kernels from a Debian mirror; those that are there already are left as they are.
    #[command(after_help = "Example:
  weir vm fetch 6.1 7.2")]
    Fetch(VmFetchArgs),
    /// List the kernels that are there.
    #[command(after_help = "Example:
  weir vm list --json
      prints an array of objects with series, release, packages, signature, modules, built_in, absent, size_bytes, folder")]
    List {
        /// The cache's folder [default: $WEIR_VM_CACHE, else weir/vm in $XDG_CACHE_HOME or ~/.cache].
        #[arg(long, value_name = "DIR")]
        cache: Option<PathBuf>,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Run a command as root under another kernel; its exit status is this command's.
    #[command(after_help = "Example:
  weir vm run 6.1 --file demo:/root/demo -- weir run demo/with-crq.toml --out /results")]
    Run(VmRunArgs),
    /// Remove kernels from the cache.
    #[command(after_help = "Example:
  weir vm remove 6.1")]
    Remove {
        /// The kernels, by the first two numbers of their versions.
        #[arg(required = true, value_name = "KERNEL")]
        kernels: Vec<String>,
        /// The cache's folder [default: $WEIR_VM_CACHE, else weir/vm in $XDG_CACHE_HOME or ~/.cache].
        #[arg(long, value_name = "DIR")]
        cache: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct VmFetchArgs {
    /// The kernels, by the first two numbers of their versions, or all: 6.1, 6.12 and 7.2.
    #[arg(value_name = "KERNEL", default_value = "all")]
    pub(crate) kernels: Vec<String>,
    /// The address of a Debian mirror [default: that of this host's apt sources, else https://deb.debian.org/debian].
    #[arg(long, value_name = "URL")]
    pub(crate) mirror: Option<String>,
    /// The cache's folder [default: $WEIR_VM_CACHE, else weir/vm in $XDG_CACHE_HOME or ~/.cache].
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
}

/// What a guest's clock follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VmClock {
    /// The host's clock.
    Host,
    /// The guest's instructions.
    Counted,
}

#[derive(Debug, Args)]
pub(crate) struct VmRunArgs {
    /// The kernel, by the first two numbers of its version.
    pub(crate) kernel: String,
    /// A file or folder that the guest shall have, a program's libraries included; may be repeated.
    #[arg(long = "file", value_name = "HOST:GUEST")]
    pub(crate) files: Vec<String>,
    /// A program of this host that the guest shall have; may be repeated. The command's own is always there.
    #[arg(long = "program", value_name = "NAME")]
    pub(crate) programs: Vec<String>,
    /// Where the files go that the command leaves in /results.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The guest's processors.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=255))]
    pub(crate) cpus: u32,
    /// The guest's memory in MiB; its files live there too.
    #[arg(long, default_value_t = 2048, value_name = "MIB")]
    pub(crate) memory: u32,
    /// How long the guest may run, by the host's clock.
    #[arg(long, default_value = "600s", value_name = "TIME")]
    pub(crate) timeout: weir_core::Duration,
    /// The guest's time: the host's, or its own instructions counted, a nanosecond each, so that a slow or busy host
    /// changes nothing (emulated, with one processor).
    #[arg(long, value_enum, default_value = "host")]
    pub(crate) clock: VmClock,
    /// Emulate the processor even where KVM works.
    #[arg(long)]
    pub(crate) emulate: bool,
    /// The cache's folder [default: $WEIR_VM_CACHE, else weir/vm in $XDG_CACHE_HOME or ~/.cache].
    #[arg(long, value_name = "DIR")]
    pub(crate) cache: Option<PathBuf>,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}
