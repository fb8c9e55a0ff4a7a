//! Whether flows of real packets get the verdicts that the same scenario gives them in virtual time.

use std::sync::atomic::AtomicBool;

use weir_law::Verdict;
use weir_report::result::RunResult;
use weir_truth::policy::Policy;
use weir_truth::seen::{Case, of_run};
use weir_truth::tally::Tally;
use weir_world::{RunOptions, SIM, run};

use crate::figure::{Statement, Verdict as Holds};

/// Flows that count in both worlds.
#[derive(Default)]
pub(super) struct Alike {
    /// `right` are those with the same verdict.
    tally: Tally,
    /// Whose verdict is another one, in words.
    others: Vec<String>,
}

impl Alike {
    /// Runs the scenario of `case` in virtual time, and compares the verdicts at the end with those of `result`.
    pub(super) fn compare(&mut self, case: &Case, result: &RunResult, policy: &Policy) {
        let stop = AtomicBool::new(false);
        let Ok(virtually) = run(&case.scenario, &RunOptions { world: SIM, ..RunOptions::new(&stop) }) else {
            return;
        };
        let [here, there] = [result, &virtually].map(|result| of_run(case, result, policy));
        for flow in here {
            let Some(other) = there.iter().find(|other| other.index == flow.index) else { continue };
            self.tally.flows += 1;
            if flow.verdict == other.verdict {
                self.tally.right += 1;
                continue;
            }
            let word = |verdict: Verdict| verdict.name();
            self.others.push(format!(
                "{} flow {} ({} over {}, {}): {}, in sim {}",
                case.name,
                flow.index,
                flow.controller,
                flow.transport,
                case.queue,
                word(flow.verdict),
                word(other.verdict)
            ));
        }
    }

    /// What came out, if anything was compared.
    pub(super) fn statement(self, least: f64) -> Option<Statement> {
        if self.tally.flows == 0 {
            return None;
        }
        let tally = &self.tally;
        let mut measured = tally.words();
        for other in &self.others {
            measured.push_str("; ");
            measured.push_str(other);
        }
        Some(Statement {
            text: "flows have the verdicts that they have in world sim".to_owned(),
            paper: format!("at least {least} %"),
            measured,
            verdict: Holds::from(tally.percent(tally.right) >= least),
            interval: Some(tally.interval(tally.right)),
            ..Statement::default()
        })
    }
}
