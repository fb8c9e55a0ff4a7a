//! The laboratory: a scenario names a bottleneck, flows and what to measure; a run sends real packets through it and
//! leaves tables, JSON and a report; a figure is many runs beside a paper's numbers.

pub mod batch;
pub mod bench;
pub mod doctor;
pub mod figure;
pub mod host;
pub mod output;
pub mod pcapng;
pub mod report;
pub mod result;
pub mod run;
pub mod scenario;
pub mod suite;
pub mod summary;
pub mod sweep;
pub mod toml_file;
pub mod traffic;
pub mod vm;

mod capture;
mod edges;
mod emulator;
mod gather;
mod kernel_world;
mod link_thread;
mod record;
mod simulator;
mod toml_place;

#[doc(hidden)]
pub mod foreign {
    //! Readers of what other programs print, for tests with bytes that none has printed.

    use crate::kernel_world::counters;

    /// Packets, bytes, drops, requeues and queued packets of the root in what `tc -s -j qdisc show` printed, if there is one.
    ///
    /// # Errors
    /// Where it is no list in JSON.
    pub fn tc_root(json: &[u8]) -> serde_json::Result<Option<[u64; 5]>> {
        let root = counters::root(&counters::parse(json)?);
        Ok(root.map(|root| [root.packets, root.bytes, root.drops, root.requeues, root.queued]))
    }
}
