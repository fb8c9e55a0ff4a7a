//! Commands that make many runs: figures, sweeps, hunts, suites.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weir_study::sweep::Shard;

use super::World;

/// Where scenarios run: on real packets, unless the command changes that.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// The world to run it in.
    #[arg(long = "on", value_enum, default_value_t = World::Emu)]
    pub(crate) world: World,
    /// With --on vm: the kernel, as `weir vm list` calls it [default: the newest in the cache].
    #[arg(long, value_name = "VERSION")]
    pub(crate) kernel: Option<String>,
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
    /// The figure, as `weir figure list` calls it, or `all` that can be made in the world.
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) place: Place,
    /// Fewer runs, a tenth of the rate and of the bytes.
    #[arg(long)]
    pub(crate) quick: bool,
    /// A variant of the setting, if not the figure's first that there is in the world; `weir figure list` names them.
    #[arg(long)]
    pub(crate) variant: Option<String>,
    /// Runs per cell [default: the paper's, or 1 with --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
    /// The seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only cells whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// How many runs go on at the same time [default: one per processor; on real packets as many as fit by rate, which
    /// is also the most; in micro-VMs 1].
    #[arg(long)]
    pub(crate) jobs: Option<usize>,
    /// Where table, plot and the runs' data go [default: results/FIGURE, of all results/figures].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// The sweep, a TOML file with a scenario and the values of its keys.
    pub(crate) file: PathBuf,
    /// Where cells, tables and page go [default: results/NAME].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Run only shard I of N, all of which cost about the same: it keeps its cells and makes no table.
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Shard>,
    /// Take results from these folders first, such as the --out of shards.
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with = "shard")]
    pub(crate) take: Vec<PathBuf>,
    /// How many cells run at the same time [default: one per processor; on real packets as many as fit by rate, which
    /// is also the most].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) jobs: Option<u32>,
    /// How many cells there may be, so that a slip of the pen does not run for years.
    #[arg(long, value_name = "N", default_value_t = weir_study::sweep::MOST_CELLS)]
    pub(crate) max_cells: u64,
    /// Run also what is estimated to take more packets, rows, memory or disk than a slip of the pen should (world sim).
    #[arg(long)]
    pub(crate) large: bool,
    /// Run cells again that failed.
    #[arg(long)]
    pub(crate) retry_failed: bool,
    /// Check every cell, say what would run, and run nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON: what ran, and a summary for each combination.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HuntArgs {
    /// The hunt, a TOML file with a scenario, its genes and what is looked for.
    pub(crate) file: PathBuf,
    /// Where candidates, tables and the least scenario go [default: results/NAME].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// How many candidates are tried, instead of the file's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) evaluations: Option<u32>,
    /// The seed of the search, instead of the file's; that of the scenario is its own.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// How it looks, instead of the file's.
    #[arg(long, value_enum)]
    pub(crate) search: Option<Search>,
    /// How many candidates run at the same time [default: one per processor]. The search is the same whatever it is.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) jobs: Option<u32>,
    /// Run also what is estimated to take more packets, rows, memory or disk than a slip of the pen should.
    #[arg(long)]
    pub(crate) large: bool,
    /// Check both ends of every gene, say what would run, and run nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON: what was found, how, and the least scenario.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a hunt looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Search {
    /// Evolution strategy with covariance matrix adaptation.
    CmaEs,
    /// Candidates by lot.
    Random,
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
#[command(mut_arg("world", |arg| arg.default_value("sim")))]
pub(crate) struct SuiteRunArgs {
    /// The suite, as `weir suite list` calls it, or a folder with a suite.toml.
    pub(crate) suite: String,
    #[command(flatten)]
    pub(crate) place: Place,
    /// A queue discipline, written as in a scenario, instead of the suite's; may be repeated.
    #[arg(long = "qdisc", value_name = "WORDS")]
    pub(crate) qdiscs: Vec<String>,
    /// Only scenarios with this text in their section or title; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Vec<String>,
    /// A seed instead of the scenarios' own.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The number of the run under the seed.
    #[arg(long, default_value_t = 0)]
    pub(crate) run: u64,
    /// Run also what is estimated to take more packets, rows, memory or disk than a slip of the pen should (world sim).
    #[arg(long)]
    pub(crate) large: bool,
    /// How many runs go on at the same time [default: one per processor; on real packets as many as fit by rate, which
    /// is also the most; in micro-VMs 1].
    #[arg(long)]
    pub(crate) jobs: Option<usize>,
    /// Where the page, the tables and the runs' data go [default: results/SUITE].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
