//! Whether flows get the verdicts in one world that the same scenario gives them in another.

use weir_report::result::RunResult;

use crate::policy::Policy;
use crate::seen::{Case, of_run};
use crate::tally::Tally;

/// Flows that count in both worlds.
#[derive(Debug, Default)]
pub struct Alike {
    /// `right` are those with the same verdict.
    pub tally: Tally,
    /// Whose verdict is another one, in words.
    pub others: Vec<String>,
}

impl Alike {
    /// Compares the verdicts at the end of two runs of one case.
    pub fn compare(&mut self, case: &Case, here: &RunResult, there: &RunResult, policy: &Policy) {
        let there = of_run(case, there, policy);
        for flow in of_run(case, here, policy) {
            let Some(other) = there.iter().find(|other| other.index == flow.index) else { continue };
            self.tally.flows += 1;
            if flow.verdict == other.verdict {
                self.tally.right += 1;
                continue;
            }
            self.others.push(format!(
                "{} flow {} ({} over {}, {}): {}, there {}",
                case.name,
                flow.index,
                flow.controller,
                flow.transport,
                case.queue,
                flow.verdict.name(),
                other.verdict.name()
            ));
        }
    }

    /// How many agree, and who does not.
    pub fn words(&self) -> String {
        let others = self.others.iter().map(|other| format!("; {other}"));
        std::iter::once(self.tally.words()).chain(others).collect()
    }
}
