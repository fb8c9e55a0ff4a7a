//! A queue discipline and a congestion controller that are no part of Weir. [`register`] makes them known; from then on
//! scenarios name them (`qdisc = "headdrop target 15ms"`, `controller = "gentle"`), and so does
//! [`weir_sim::Share`], the harness for tests. Nothing in Weir knows of this crate.

mod gentle;
mod headdrop;

pub use gentle::Gentle;
pub use headdrop::{HeadDrop, HeadDropKeys};

use std::path::Path;
use std::sync::Once;
use std::sync::atomic::AtomicBool;

use weir_cc::catalog::{self, Entry};
use weir_report::result::RunResult;
use weir_scenario::Scenario;
use weir_world::{RunOptions, SIM};

/// Makes the discipline and the controller known. More than one call does no harm.
///
/// # Panics
/// If another crate has taken one of the names.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        weir_qdisc::config::register::<HeadDropKeys>("headdrop").expect("no other crate has a headdrop");
        let what = "as reno, but gives way by 30 percent";
        let gentle = Entry::new("gentle", what, |choice, setup| catalog::under(Gentle, choice, setup));
        catalog::register(gentle).expect("no other crate is gentle");
    });
}

/// Runs the scenario of a file in virtual time, as `weir run --on sim` does.
///
/// # Errors
/// What is wrong with the scenario, with file and line, or why it could not run.
pub fn run(file: &Path) -> anyhow::Result<RunResult> {
    register();
    let stop = AtomicBool::new(false);
    let scenario = Scenario::load(file)?;
    Ok(weir_world::run(&scenario, &RunOptions { world: SIM, ..RunOptions::new(&stop) })?)
}
