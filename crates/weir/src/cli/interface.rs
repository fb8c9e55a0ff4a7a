//! Commands of a live interface.

use std::path::PathBuf;

use clap::Args;

/// What `weir up` and `weir reload` take besides their words; each flag is also a word.
#[derive(Debug, Args)]
pub(crate) struct SetupArgs {
    /// The interface and settings in iproute2's manner: `eth0 rate 500mbit split hard`. Each flag below with a value,
    /// and --ecn, --noecn and --replace, may be written as a word.
    #[arg(value_name = "[dev] DEVICE [WORDS]")]
    pub(crate) words: Vec<String>,
    /// The interface.
    #[arg(long)]
    pub(crate) dev: Option<String>,
    /// The rate, a little less than the link's own, so that packets wait here. As in tc, 100mbit is bits per second and
    /// 100mbps bytes.
    #[arg(long)]
    pub(crate) rate: Option<String>,
    /// The rate of what is received, where it is another.
    #[arg(long)]
    pub(crate) ingress_rate: Option<String>,
    /// egress (what the interface sends, the default), ingress or both.
    #[arg(long)]
    pub(crate) direction: Option<String>,
    /// The queues, STANDARD/RESPONSIVE, each of codel, fq_codel, pie, fq_pie, red, fq, cake, pfifo, bfifo with its
    /// words as in scenarios: bfifo/codel, "bfifo limit 1bdp/codel ecn target 5ms" [default: codel/codel].
    #[arg(long, value_name = "STANDARD/RESPONSIVE")]
    pub(crate) queues: Option<String>,
    /// The standard queue by itself: "bfifo limit 1bdp". As a word it needs no quotes: the queue's words follow it.
    #[arg(long, value_name = "QUEUE")]
    pub(crate) standard: Option<String>,
    /// The responsive queue by itself: "codel ecn target 5ms".
    #[arg(long, value_name = "QUEUE")]
    pub(crate) responsive: Option<String>,
    /// The queues mark rather than drop, where they can.
    #[arg(long)]
    pub(crate) ecn: bool,
    /// The queues drop, where they would mark by default.
    #[arg(long)]
    pub(crate) noecn: bool,
    /// shared (each queue is sure of its share and may use what the other leaves, the default) or hard (it keeps to its
    /// share).
    #[arg(long)]
    pub(crate) split: Option<String>,
    /// How the rate is divided: equal (the default), weights such as 30:70, or strict (responsive flows go first).
    #[arg(long, value_name = "STANDARD:RESPONSIVE")]
    pub(crate) sharing: Option<String>,
    /// Answered with the word that stands in its place.
    #[arg(long, hide = true)]
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
    /// The parameter set of the law: robust (the default), paper or comsys.
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

/// How the commands that change an interface report what they do.
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
