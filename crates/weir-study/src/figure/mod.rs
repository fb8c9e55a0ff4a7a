//! The papers' figures as commands: a setting, runs on real packets, the paper's numbers and ours side by side.
//!
//! To add a figure: a folder in `figures/` with its setting and the paper's numbers, one file here that implements
//! [`Figure`], one line in [`all`].

mod crq4;
mod crq5;
mod page;
mod run;
mod setting;
mod table;

use serde::Serialize;
use weir_core::words::nearest;

use crate::batch::Job;
use weir_report::result::RunResult;
use weir_world::World;

pub use run::{FigureError, run};
pub use setting::Variant;

/// A figure of a paper.
pub trait Figure: Sync {
    /// What it is and in what settings it can be made.
    fn about(&self) -> About;

    /// The runs that it takes. Cells that share a run share its scenario.
    fn jobs(&self, plan: &Plan) -> Vec<Job>;

    /// The table, the statements and the page, from the runs' results: one per job, in the same order, or why it failed.
    fn reduce(&self, plan: &Plan, jobs: &[Job], results: &[Result<RunResult, String>]) -> FigureResult;
}

/// A figure in a list.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// `crq/5`: the paper, and the figure's number in it.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Where it is from.
    pub paper: String,
    /// The worlds in which it can be made.
    pub worlds: Vec<&'static str>,
    /// `complete`: every cell is measured.
    pub state: &'static str,
    /// The settings it can be made in; the first is the paper's.
    pub variants: Vec<Variant>,
}

impl About {
    /// A figure whose cells are all measured, on real packets.
    fn new(id: &str, title: &str, paper: &str, variants: &[Variant]) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            paper: paper.to_owned(),
            worlds: weir_world::ALL.map(World::name).to_vec(),
            state: "complete",
            variants: variants.to_vec(),
        }
    }
}

/// How a figure is to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the runs go on.
    pub world: &'static dyn World,
    /// The variant's name.
    pub variant: String,
    /// A tenth of the rate and of the bytes.
    pub quick: bool,
    /// Runs per cell; none for the figure's own number.
    pub runs: Option<u32>,
    /// The seed of all runs.
    pub seed: u64,
    /// Only jobs whose name contains this.
    pub only: Option<String>,
}

/// A figure, made.
#[derive(Clone, Debug, Serialize)]
pub struct FigureResult {
    /// The figure's id.
    pub figure: String,
    /// The world it was made in.
    pub world: String,
    /// The seed of all runs.
    pub seed: u64,
    /// The variant's name.
    pub variant: String,
    /// Whether rate and bytes were a tenth of the paper's.
    pub quick: bool,
    /// Runs that an earlier command had made, which was stopped or had failed runs.
    pub continued: usize,
    /// One per cell.
    pub rows: Vec<Cell>,
    /// What the paper says, and whether it held here.
    pub statements: Vec<Statement>,
    /// Runs that failed or are doubtful, in words.
    pub warnings: Vec<String>,
    /// A table for the terminal.
    #[serde(skip)]
    pub table: String,
    /// The plot and the tables as a self-contained page.
    #[serde(skip)]
    pub html: String,
}

impl FigureResult {
    /// A figure made by `plan` on real packets; table and page are made from it.
    fn new(
        figure: &str,
        plan: &Plan,
        rows: Vec<Cell>,
        statements: Vec<Statement>,
        warnings: Vec<String>,
    ) -> Self {
        Self {
            figure: figure.to_owned(),
            world: plan.world.name().to_owned(),
            seed: plan.seed,
            variant: plan.variant.clone(),
            quick: plan.quick,
            continued: 0,
            rows,
            statements,
            warnings,
            table: String::new(),
            html: String::new(),
        }
    }
}

/// One cell of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The row's name: the flow.
    pub row: String,
    /// The column's name: the queues.
    pub column: String,
    /// The round-trip time without queues.
    pub rtt: String,
    /// What the paper has there; none where the paper gives no number.
    pub paper: Option<f64>,
    /// What the paper's text says of it, where it has no number.
    pub paper_says: Option<String>,
    /// The mean over the runs; none if none succeeded.
    pub measured: Option<f64>,
    /// One value per run.
    pub runs: Vec<f64>,
    /// What a reader must know of this cell: unfinished flows, failed runs.
    pub notes: Vec<String>,
}

/// A sentence of the paper put to the test.
#[derive(Clone, Debug, Serialize)]
pub struct Statement {
    /// The sentence, in our words.
    pub text: String,
    /// What the paper has.
    pub paper: String,
    /// What was measured here.
    pub measured: String,
    /// Whether it holds here.
    pub holds: bool,
}

/// All figures.
pub fn all() -> Vec<Box<dyn Figure>> {
    vec![Box::new(crq4::Crq4::load()), Box::new(crq5::Crq5::load())]
}

/// The figure called `id`.
///
/// # Errors
/// A message that names the nearest known figure.
pub fn find(id: &str) -> Result<Box<dyn Figure>, String> {
    let known: Vec<String> = all().iter().map(|figure| figure.about().id).collect();
    all().into_iter().find(|figure| figure.about().id == id).ok_or_else(|| {
        let near = nearest(id, known).map_or_else(String::new, |near| format!("did you mean '{near}'? "));
        format!("there is no figure '{id}'; {near}`weir figure list` shows all")
    })
}

/// A figure's rows, and its columns with round-trip times, in order of first sight.
pub(crate) fn axes(result: &FigureResult) -> (Vec<String>, Vec<(String, String)>) {
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    for cell in &result.rows {
        let column = (cell.column.clone(), cell.rtt.clone());
        if !columns.contains(&column) {
            columns.push(column);
        }
        if !rows.contains(&cell.row) {
            rows.push(cell.row.clone());
        }
    }
    (rows, columns)
}

/// The cell in a row and a column, if it was made.
pub(crate) fn cell<'a>(
    result: &'a FigureResult,
    row: &str,
    (column, rtt): &(String, String),
) -> Option<&'a Cell> {
    result.rows.iter().find(|cell| cell.row == row && cell.column == *column && cell.rtt == *rtt)
}

/// The mean of `values`; none if there are none.
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::{Plan, all, find};

    #[test]
    fn every_figure_plans_sound_scenarios_in_every_variant() {
        for figure in all() {
            let about = figure.about();
            for variant in &about.variants {
                for quick in [false, true] {
                    let plan = Plan {
                        world: weir_world::EMU,
                        variant: variant.name.clone(),
                        quick,
                        runs: None,
                        seed: 1,
                        only: None,
                    };
                    let jobs = figure.jobs(&plan);
                    assert!(!jobs.is_empty());
                    let mut names: Vec<_> = jobs.iter().map(|job| job.name.clone()).collect();
                    names.sort();
                    names.dedup();
                    assert_eq!(names.len(), jobs.len(), "names of {} are not unique", about.id);
                    for job in &jobs {
                        let text = toml::to_string(&job.scenario).unwrap();
                        weir_scenario::Scenario::parse(&text, &job.name).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn a_misspelt_figure_gets_its_nearest() {
        let message = find("crq-5").err().unwrap();
        assert!(message.contains("did you mean 'crq/5'"), "{message}");
    }
}
