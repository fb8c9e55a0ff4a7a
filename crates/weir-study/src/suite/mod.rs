//! Sets of scenarios that others have agreed on, run in one command over several queue disciplines, and reported on
//! one page.
//!
//! A suite is a folder: `suite.toml` ([`About`]) and the scenario files that it names. Each scenario is a good one by
//! itself (`weir run`); the suite puts each discipline that it compares into `bottleneck.qdisc`. To add a scenario:
//! its file, and an entry in `suite.toml`.

mod measure;
mod page;
mod run;
mod table;

use std::path::Path;

use include_dir::{Dir, include_dir};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;
use weir_core::words::nearest;
use weir_qdisc::QdiscConfig;

use crate::engine::{Job, StudyError};
use weir_scenario::toml_file::{self, FileError};
use weir_scenario::{Scenario, ScenarioError};

pub use measure::{FlowRow, QueueRow, Row, Second};
pub use run::{SuiteResult, run};

/// The suites that come with Weir.
static SHIPPED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/suites");

/// A set of scenarios.
#[derive(Clone, Debug)]
pub struct Suite {
    /// `rfc7928`: the name of its folder.
    pub id: String,
    /// What it is.
    pub about: About,
    /// The scenarios, in order.
    pub scenarios: Vec<Scenario>,
    /// The path of its `suite.toml`, for errors.
    path: String,
    /// Text and path of each scenario's file, for errors.
    files: Vec<(String, String)>,
}

/// `suite.toml`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// What it is.
    pub title: String,
    /// Who has agreed on it.
    pub source: String,
    /// What a reader should know before the numbers.
    pub about: String,
    /// The disciplines that are compared, as in a scenario, unless others are named.
    pub qdiscs: Vec<String>,
    /// The scenarios.
    #[serde(rename = "scenario")]
    pub entries: Vec<Entry>,
}

/// A scenario of a suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The scenario's file in the suite's folder.
    pub file: String,
    /// Its number where it comes from, such as `8.2.3`.
    pub section: String,
    /// What it is.
    pub title: String,
    /// What to look for.
    pub look: String,
    /// Rates, drops and marks count from here on, in seconds of the run.
    #[serde(default, deserialize_with = "from_the_start")]
    pub from_s: f64,
    /// Other disciplines than the suite's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qdiscs: Vec<String>,
    /// What others measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

/// A time of a run in seconds, which begins at 0.
fn from_the_start<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    if seconds.is_finite() && seconds >= 0.0 {
        return Ok(seconds);
    }
    Err(D::Error::custom(format!("from_s = {seconds} is not a time of a run; give seconds from 0 on")))
}

/// What somebody else measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// With which discipline, in words.
    pub qdisc: String,
    /// The numbers, in words.
    pub says: String,
    /// Who, and when.
    pub source: String,
}

/// A suite that is not there or cannot run.
#[derive(Debug, Error)]
pub enum SuiteError {
    /// There is no such suite.
    #[error(
        "there is no suite '{id}'; {near}`weir suite list` shows all; a folder with a suite.toml can be named too"
    )]
    Unknown {
        /// What was asked for.
        id: String,
        /// A question whether another was meant, if one is near, with a space behind it.
        near: String,
    },
    /// A file of the suite cannot be read, or its `suite.toml` is wrong.
    #[error(transparent)]
    File(#[from] FileError),
    /// A scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// A discipline is wrong, or wrong for a scenario.
    #[error("{given} \"{qdisc}\": {message}")]
    Qdisc {
        /// Where it is from: the flag, or the key of a file.
        given: String,
        /// The words.
        qdisc: String,
        /// What is wrong.
        message: String,
    },
    /// No scenario has a text that was asked for.
    #[error(
        "--only \"{0}\": no scenario of the suite has this in its section or title; `weir suite list` shows them"
    )]
    Nothing(String),
    /// The runs could not be made, or data not be written.
    #[error(transparent)]
    Study(#[from] StudyError),
}

/// The suites that come with Weir, by name.
///
/// # Errors
/// If one of them is wrong, which a test rules out.
pub fn all() -> Result<Vec<Suite>, SuiteError> {
    let mut ids: Vec<&str> = shipped_ids().collect();
    ids.sort_unstable();
    ids.into_iter().map(find).collect()
}

/// The suite of that name, or in that folder.
///
/// # Errors
/// If there is none, or it is wrong.
pub fn find(id: &str) -> Result<Suite, SuiteError> {
    if let Some(folder) = SHIPPED.get_dir(id) {
        let read = |name: &str| {
            let file = folder.get_file(Path::new(id).join(name));
            let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
            let text = file.and_then(|file| file.contents_utf8()).ok_or_else(missing);
            text.map(str::to_owned).map_err(|source| FileError::Read { path: format!("{id}/{name}"), source })
        };
        return load(id, id, &read);
    }
    let folder = Path::new(id);
    if folder.join("suite.toml").is_file() {
        let read = |name: &str| toml_file::read(&folder.join(name));
        let name =
            folder.file_name().map_or_else(|| id.to_owned(), |name| name.to_string_lossy().into_owned());
        return load(&name, id, &read);
    }
    let near = nearest(id, shipped_ids()).map_or_else(String::new, |near| format!("did you mean '{near}'? "));
    Err(SuiteError::Unknown { id: id.to_owned(), near })
}

fn shipped_ids() -> impl Iterator<Item = &'static str> {
    SHIPPED.dirs().filter_map(|folder| folder.path().to_str())
}

fn load(
    id: &str,
    place: &str,
    read: &dyn Fn(&str) -> Result<String, FileError>,
) -> Result<Suite, SuiteError> {
    let path = format!("{place}/suite.toml");
    let about: About = toml_file::parse(&read("suite.toml")?, &path)?;
    let scenarios = about.entries.iter().map(|entry| {
        let file = (read(&entry.file)?, format!("{place}/{}", entry.file));
        let scenario = Scenario::parse(&file.0, &file.1)?;
        Ok((Scenario { name: format!("{} {}", entry.section, entry.title), ..scenario }, file))
    });
    let (scenarios, files) = scenarios.collect::<Result<Vec<_>, SuiteError>>()?.into_iter().unzip();
    Ok(Suite { id: id.to_owned(), about, scenarios, path, files })
}

impl Suite {
    /// The jobs of a plan, with the entry and the discipline that each belongs to.
    fn jobs(&self, plan: &Plan) -> Result<Vec<(usize, String, Job)>, SuiteError> {
        // A slip in one of several must not go unnoticed behind the others.
        let nobody = |only: &&String| !self.scenarios.iter().any(|scenario| scenario.name.contains(*only));
        if let Some(only) = plan.only.iter().find(nobody) {
            return Err(SuiteError::Nothing(only.clone()));
        }
        let given =
            if plan.qdiscs.is_empty() { format!("{}: qdiscs:", self.path) } else { "--qdisc".to_owned() };
        let mut jobs = Vec::new();
        for (index, (entry, scenario)) in self.about.entries.iter().zip(&self.scenarios).enumerate() {
            if !plan.only.is_empty() && !plan.only.iter().any(|only| scenario.name.contains(only)) {
                continue;
            }
            let (text, path) = &self.files[index];
            let afford = |of: &Scenario| if plan.large { Ok(()) } else { plan.world.affordable(of) };
            // What is refused as it stands in the file is no fault of a discipline.
            afford(scenario).map_err(|refusal| scenario.wrong(text, path, refusal))?;
            for qdisc in self.qdiscs(entry, plan) {
                let mut scenario = scenario.clone();
                let wrong =
                    |message| SuiteError::Qdisc { given: given.clone(), qdisc: qdisc.clone(), message };
                scenario.bottleneck.qdisc =
                    qdisc.parse::<QdiscConfig>().map_err(|error| wrong(error.to_string()))?;
                scenario.seed = plan.seed.unwrap_or(scenario.seed);
                let checked = scenario.check().and_then(|()| afford(&scenario));
                checked.map_err(|refusal| wrong(scenario.wrong(text, path, refusal).to_string()))?;
                let name = format!("{}, {qdisc}", entry.section);
                jobs.push((index, qdisc.clone(), Job { name, scenario, run: plan.run }));
            }
        }
        Ok(jobs)
    }

    fn qdiscs<'a>(&'a self, entry: &'a Entry, plan: &'a Plan) -> &'a [String] {
        [&plan.qdiscs, &entry.qdiscs].into_iter().find(|list| !list.is_empty()).unwrap_or(&self.about.qdiscs)
    }
}

/// How a suite is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where.
    pub world: &'static dyn weir_world::World,
    /// These disciplines instead of the suite's.
    pub qdiscs: Vec<String>,
    /// Only scenarios with one of these in their section and title; all if there is none.
    pub only: Vec<String>,
    /// A seed instead of the scenarios'.
    pub seed: Option<u64>,
    /// The number of the run under the seed.
    pub run: u64,
    /// Runs may cost whatever they do.
    pub large: bool,
}

impl Plan {
    /// Run 0 of all scenarios in `world`, behind the suite's disciplines.
    pub fn new(world: &'static dyn weir_world::World) -> Self {
        Self { world, qdiscs: Vec::new(), only: Vec::new(), seed: None, run: 0, large: false }
    }
}

#[cfg(test)]
#[path = "suite_tests.rs"]
mod tests;
