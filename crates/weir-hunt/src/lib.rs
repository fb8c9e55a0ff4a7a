//! A hunt: a search for the scenario in which a congestion controller, a queue discipline or the responsiveness law
//! does worst, and what is behind it: the least scenario that still shows the effect.
//!
//! In the manner of CC-Fuzz (D. Ray and S. Seshan, HotNets 2022), which breeds courses of link and cross traffic against
//! controllers, and of AdvNet (S. S. Ahmed et al., arXiv 2605.00755). Unlike theirs, what is found is a plain scenario:
//! a hunt changes nothing but keys that any scenario has.
//!
//! | part | what it does |
//! |---|---|
//! | `file`, `gene`, `objective` | what the file says: what may change, and what is looked for |
//! | `search`, `cma` | which points to try |
//! | `draft`, `evaluate` | a point as a scenario, and what its runs came to |
//! | `shrink`, `plain` | the least scenario, as a file |

mod cma;
mod draft;
mod evaluate;
mod file;
mod gene;
mod objective;
mod plain;
mod run;
mod search;
mod shrink;

use serde::Serialize;
use thiserror::Error;
use weir_report::output::OutputError;
use weir_scenario::toml_file::FileError;

use gene::Gene;
use weir_study::StudyError;
use weir_study::engine::Origin;
use weir_study::sweep::Spread;
use weir_study::sweep::SweepError;
use weir_study::sweep::grammar::Texts;

pub use objective::{Objective, Want};
pub use run::run;
pub use search::Search;

/// A hunt that can begin.
pub struct Hunt {
    texts: Texts,
    name: String,
    genes: Vec<Gene>,
    objective: Objective,
    search: Search,
    seed: u64,
    evaluations: usize,
    /// Runs of each candidate while it searches.
    repeat: u64,
    /// Runs of each candidate once it shrinks.
    confirm: u64,
    tolerance: f64,
    /// Candidates may cost whatever they do.
    large: bool,
    origin: Origin,
}

/// What the command line says in place of the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// How it looks.
    pub search: Option<Search>,
    /// The seed of the search; that of the scenario is its own.
    pub seed: Option<u64>,
    /// How many candidates.
    pub evaluations: Option<usize>,
    /// Candidates may cost whatever they do.
    pub large: bool,
}

/// A hunt that could not be made.
#[derive(Debug, Error)]
pub enum HuntError {
    /// The file could not be read.
    #[error(transparent)]
    Read(#[from] FileError),
    /// Something in a file makes no sense.
    #[error(transparent)]
    File(#[from] SweepError),
    /// Results could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Candidates could not be run.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// No candidate has what is looked for.
    #[error("no candidate has {objective}: {why}")]
    Nothing {
        /// What is looked for.
        objective: String,
        /// What became of them.
        why: String,
    },
}

/// What would run.
#[derive(Clone, Debug, Serialize)]
pub struct Outline {
    /// What it is called.
    pub name: String,
    /// What is looked for.
    pub objective: Objective,
    /// How.
    pub search: Search,
    /// The seed of the search.
    pub seed: u64,
    /// How many candidates.
    pub evaluations: usize,
    /// Runs of each.
    pub repeat: u64,
    /// The keys and how many numbers each has in the search.
    pub genes: Vec<(String, usize)>,
}

/// A hunt, made.
#[derive(Clone, Debug, Serialize)]
pub struct HuntResult {
    /// What it is called.
    pub name: String,
    /// The version of Weir.
    pub version: String,
    /// The command line.
    pub command: String,
    /// What was looked for.
    pub objective: Objective,
    /// How.
    pub search: Search,
    /// The seed of the search.
    pub seed: u64,
    /// Candidates that were asked for.
    pub wanted: usize,
    /// Candidates that have been tried.
    pub evaluations: usize,
    /// The number of the scenario as it stands, without any gene; none if it cannot run or has none.
    pub neutral: Option<f64>,
    /// Each candidate that did worse than all before: how many were tried until then, and its number.
    pub history: Vec<(usize, f64)>,
    /// The genes.
    pub genes: Vec<GeneResult>,
    /// The worst that was found, over the runs that shrinking goes by; none before it is known.
    pub found: Option<Spread>,
    /// The least scenario, over runs that nothing was chosen by.
    pub minimal: Option<Spread>,
    /// Flows of the scenario that the least one does without.
    pub without: Vec<String>,
    /// Candidates that failed, by what went wrong.
    pub failed: Vec<String>,
    /// Why the least scenario cannot run in other worlds, by world.
    pub refused: Vec<(String, String)>,
    /// Whether it was interrupted; the same command goes on.
    pub interrupted: bool,
    /// The hunt's file, word for word.
    pub file: String,
    /// The least scenario as TOML.
    #[serde(skip)]
    pub scenario: Option<String>,
    /// Runs that had their result from an earlier command.
    #[serde(skip)]
    pub reused: usize,
    /// Runs whose stored result was not as it had been written, and that ran again.
    #[serde(skip)]
    pub damaged: usize,
}

/// A gene, as it was found.
#[derive(Clone, Debug, Serialize)]
pub struct GeneResult {
    /// The key.
    pub key: String,
    /// What it was in the worst candidate.
    pub found: String,
    /// What it is in the least scenario; none if that is as the file has it.
    pub minimal: Option<String>,
}

impl Hunt {
    /// What it is called: `name`, or the file's name without `.toml`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What would run.
    pub fn outline(&self) -> Outline {
        Outline {
            name: self.name.clone(),
            objective: self.objective.clone(),
            search: self.search,
            seed: self.seed,
            evaluations: self.evaluations,
            repeat: self.repeat,
            genes: self.genes.iter().map(|gene| (gene.key.name.clone(), gene.parts.len())).collect(),
        }
    }
}
