//! What tests of the engine share.

use std::sync::atomic::{AtomicUsize, Ordering};

use weir_report::result::RunResult;
use weir_scenario::{Refusal, Scenario};
use weir_world::{Clock, RunError, RunOptions, SIM, World};

/// World `sim`, maybe under the name of another, in which some runs come to nothing. It counts what it runs.
pub(crate) struct Faulty {
    named: &'static dyn World,
    fault: fn(&Scenario) -> Result<(), RunError>,
    runs: AtomicUsize,
}

impl Faulty {
    /// One with name and clock of `named`, in which those runs come to nothing for which `fault` fails or panics.
    pub(crate) fn new(
        named: &'static dyn World,
        fault: fn(&Scenario) -> Result<(), RunError>,
    ) -> &'static Self {
        Box::leak(Box::new(Self { named, fault, runs: AtomicUsize::new(0) }))
    }

    /// How many runs there were.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

impl World for Faulty {
    fn name(&self) -> &'static str {
        self.named.name()
    }

    fn clock(&self) -> Clock {
        self.named.clock()
    }

    fn check(&self, scenario: &Scenario) -> Result<(), Refusal> {
        SIM.check(scenario)
    }

    fn run(&self, scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        (self.fault)(scenario).and_then(|()| SIM.run(scenario, options))
    }
}
