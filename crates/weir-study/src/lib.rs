//! Many runs: a [`sweep`] over a scenario's keys, a [`suite`] of scenarios with what is expected of them, a [`figure`]
//! beside a paper's numbers.
//!
//! | part | what it does |
//! |---|---|
//! | [`engine`] | runs jobs side by side, keeps each result under its address, goes on after an interrupt |
//! | `batch` | jobs in a list, each with a folder of tables; suites and figures are batches |
//! | [`sweep`], [`suite`], [`figure`] | make the jobs, and tables and pages of what came of them |

mod batch;
pub mod engine;
pub mod figure;
pub mod suite;
pub mod sweep;
#[cfg(test)]
mod testing;

pub use engine::{CELLS, Foreign, Job, Options, Progress, StudyError};
