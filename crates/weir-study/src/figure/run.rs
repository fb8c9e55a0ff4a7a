//! Makes a figure: its jobs as a batch, then the table, the statements and the page.

use thiserror::Error;

use super::{Figure, FigureResult, Findings, Plan, page, table};
use crate::batch::{self, Batch};
use crate::engine::{self, Options, StudyError};
use weir_report::output;

/// A figure that could not be made.
#[derive(Debug, Error)]
pub enum FigureError {
    /// The variant does not exist.
    #[error("figure {figure} has no variant '{variant}'; it has {known}")]
    Variant {
        /// The figure.
        figure: String,
        /// What was asked for.
        variant: String,
        /// What there is.
        known: String,
    },
    /// The variant is not made in that world.
    #[error(
        "variant {variant} of figure {figure} cannot be made in world {world}; use --on with one of: {known}"
    )]
    World {
        /// The figure.
        figure: String,
        /// Its variant.
        variant: String,
        /// What was asked for.
        world: &'static str,
        /// What there is.
        known: String,
    },
    /// No cell is left.
    #[error(
        "no cell of the figure has '{only}' in its name; `--only` takes a part of a name such as \"{like}\""
    )]
    Nothing {
        /// What was asked for.
        only: String,
        /// The name of the first that there is.
        like: String,
    },
    /// The runs could not be made, or data not be written.
    #[error(transparent)]
    Study(#[from] StudyError),
}

/// Makes a figure. On interrupt, the cells that were filled until then are kept and the rest is missing; the same
/// figure made in the same folder then takes the runs that have ended from there ([`FigureResult::continued`]).
///
/// If data cannot be written, `stop` of the options is set, so that nothing else is measured in vain.
///
/// # Errors
/// If the plan names a variant or cells that there are not, or data cannot be written. A run that fails is no
/// error: its cell says so.
pub fn run(figure: &dyn Figure, plan: &Plan, options: &Options) -> Result<FigureResult, FigureError> {
    let about = figure.about();
    if about.variants.iter().all(|variant| variant.name != plan.variant) {
        let known: Vec<_> = about.variants.iter().map(|variant| variant.name.as_str()).collect();
        return Err(FigureError::Variant {
            figure: about.id.clone(),
            variant: plan.variant.clone(),
            known: known.join(", "),
        });
    }
    let worlds = about.worlds_of(about.variant(&plan.variant));
    if worlds.iter().all(|world| world != plan.world.name()) {
        return Err(FigureError::World {
            figure: about.id.clone(),
            variant: plan.variant.clone(),
            world: plan.world.name(),
            known: worlds.join(", "),
        });
    }
    let jobs = figure.jobs(plan);
    if jobs.is_empty() {
        let all = figure.jobs(&Plan { only: None, ..plan.clone() });
        let like = all.first().map_or_else(String::new, |job| job.name.clone());
        return Err(FigureError::Nothing { only: plan.only.clone().unwrap_or_default(), like });
    }
    let made_of = batch::made_of(&jobs, plan.world, options)?;
    let began = engine::now();
    let made = figure.make(plan, &jobs, options)?;
    let Findings { cells, statements, html, text } = made.findings;
    let mut result = FigureResult {
        figure: about.id.clone(),
        world: plan.world.name().to_owned(),
        seed: plan.seed,
        variant: plan.variant.clone(),
        quick: plan.quick,
        continued: made.continued,
        damaged: made.damaged,
        missing: made.missing,
        version: env!("CARGO_PKG_VERSION"),
        took_s: engine::now().saturating_duration_since(began).as_secs_f64(),
        made_of,
        rows: cells,
        statements,
        warnings: made.warnings,
        table: String::new(),
        html: String::new(),
    };
    result.table = table::text(about, &result);
    if !text.is_empty() {
        result.table += "\n";
        result.table += &text;
    }
    result.html = page::html(about, &result, &html);
    let json = serde_json::to_string_pretty(&result).expect("a figure is plain data");
    let texts =
        [("figure.txt", result.table.as_str()), ("figure.html", &result.html), ("figure.json", &json)];
    output::write_together(&options.out, &texts).map_err(StudyError::from)?;
    if result.missing == 0 {
        made.batches.into_iter().try_for_each(Batch::close)?;
    }
    Ok(result)
}
