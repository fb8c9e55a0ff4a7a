//! Where scenarios run: the trait, and the worlds that come with Weir.

use std::fmt;

use weir_report::result::RunResult;
use weir_scenario::{Refusal, Scenario};

use crate::emu::Emu;
use crate::kernel::Kernel;
use crate::run::{RunError, RunOptions};
use crate::sim::Sim;
use crate::vm::Vm;

/// A place where a scenario runs.
pub trait World: Sync {
    /// What `--on` and results call it.
    fn name(&self) -> &'static str;

    /// By which clock packets move there.
    fn clock(&self) -> Clock;

    /// Whether it has what `scenario` asks for, as far as that is known without running it.
    ///
    /// # Errors
    /// The first key that it cannot serve.
    fn check(&self, scenario: &Scenario) -> Result<(), Refusal>;

    /// Whether a run costs no more than it may unless a [larger one](RunOptions::large) is asked for. The real clock is
    /// bound enough.
    ///
    /// # Errors
    /// The key that costs most.
    fn affordable(&self, _scenario: &Scenario) -> Result<(), Refusal> {
        Ok(())
    }

    /// Runs a scenario that it has [accepted](World::check). Whatever it makes on the host is gone when this returns,
    /// and when the process is killed.
    ///
    /// # Errors
    /// If what the run needs cannot be set up, or fails. A flow that fails is no error: its result says what happened.
    fn run(&self, scenario: &Scenario, options: &RunOptions) -> Result<RunResult, RunError>;
}

/// What packets wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The next event: a run takes what its computation takes, and runs do not disturb each other.
    Virtual,
    /// The clock on the wall: runs on one machine disturb each other.
    Real,
    /// That of a micro-VM, of which each run or batch of runs has its own.
    Guest,
}

/// Real packets through a queue in user space.
pub const EMU: &dyn World = &Emu;
/// Real packets through the kernel's own queues.
pub const KERNEL: &dyn World = &Kernel;
/// [`KERNEL`] in a micro-VM with a kernel of its own.
pub const VM: &dyn World = &Vm;
/// Virtual time.
pub const SIM: &dyn World = &Sim;

/// The worlds that come with Weir.
pub const ALL: [&dyn World; 4] = [EMU, KERNEL, VM, SIM];

impl dyn World + '_ {
    /// Whether time is computed: then nothing can be late, and a result depends on nothing but the scenario and its
    /// seed.
    pub fn is_virtual(&self) -> bool {
        self.clock() == Clock::Virtual
    }
}

impl fmt::Debug for dyn World + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
