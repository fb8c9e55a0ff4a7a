//! Runs a scenario in a world: on real packets through a queue in user space ([`EMU`]) or in the
//! kernel, in a micro-VM, or in virtual time.

pub mod run;
pub mod vm;
pub mod world;

mod capture;
mod cycles;
mod dctcp;
mod detect;
mod emu;
mod gather;
mod kernel;
mod link_thread;
mod real;
mod record;
mod sim;
mod standing;

pub use dctcp::{DctcpError, WeirDctcp, whose_dctcp};
pub use run::{Cost, Progress, RunError, RunOptions, check, run};
pub use world::{ALL, Clock, EMU, KERNEL, SIM, VM, World};

#[doc(hidden)]
pub mod foreign {
    //! Readers of what other programs print, for tests with bytes that none has printed.

    use crate::kernel::counters;

    /// Packets, bytes, drops, requeues and queued packets of the root in what `tc -s -j qdisc show` printed, if there
    /// is one.
    ///
    /// # Errors
    /// Where it is no list in JSON.
    pub fn tc_root(json: &[u8]) -> serde_json::Result<Option<[u64; 5]>> {
        let root = counters::root(&weir_netdev::iproute::Discipline::parse(json)?);
        Ok(root.map(|root| [root.packets, root.bytes, root.drops, root.requeues, root.queued]))
    }
}
