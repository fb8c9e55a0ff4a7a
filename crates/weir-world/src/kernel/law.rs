//! The responsiveness law in the kernel: Weir's classifier before the queues, where it chooses the class, and behind
//! them, where answers pass.
//!
//! Answers are looked at where they leave towards the server, so that they have had their delay. A single queue has the
//! same classifier: HTB knows no class of the responsive flows there and puts all packets into its default. Flows get
//! their entries with their first packet, as in the emulator, and not only once they are believed.

use libbpf_rs::MapHandle;
use weir_kernel::attach::{Place, Side};
use weir_kernel::{Held, KernelError, ProgramConfig, Programs, Role, Snapshot, identify};

use super::KernelWorldError;
use super::tree::Tree;
use crate::run::{LAW_CAPACITY, RunError};
use weir_scenario::Scenario;
use weir_testbed::host::Topology;

/// The programs at their hooks; they go when this goes.
pub(super) struct Classifier {
    programs: Programs,
    _held: Held,
}

impl Classifier {
    /// Loads and attaches the programs in the bottleneck.
    pub(super) fn start(scenario: &Scenario, tree: &Tree, topology: &Topology) -> Result<Self, RunError> {
        let params = scenario.law_params().map_err(RunError::Scenario)?;
        let start = || -> Result<Self, KernelError> {
            let (ifindex, netns) = identify(&topology.bottleneck_client_iface)?;
            let (towards_server, _) = identify(&topology.bottleneck_server_iface)?;
            let config = ProgramConfig {
                can_mark: tree.can_mark,
                drops_on_dequeue: tree.drops_on_dequeue,
                events: true,
                admit_at_once: true,
                ..ProgramConfig::new(params, LAW_CAPACITY as u32, ifindex, netns)
            };
            let programs = Programs::load(&config)?;
            let held = programs.hold(&[
                Place { role: Role::Forward, ifindex, side: Side::Egress },
                Place { role: Role::Reverse, ifindex: towards_server, side: Side::Egress },
            ])?;
            Ok(Self { programs, _held: held })
        };
        Ok(topology.bottleneck.enter(start)?.map_err(KernelWorldError::from)?)
    }

    /// The ring to which ended cycles are written.
    pub(super) fn events(&self) -> Result<MapHandle, KernelWorldError> {
        Ok(self.programs.events_ring()?)
    }

    /// What the programs counted, by name.
    pub(super) fn counters(&self) -> Result<Vec<(String, u64)>, KernelWorldError> {
        let counters = Snapshot::of(&self.programs)?.counters()?;
        let mut named = Vec::new();
        if let Ok(serde_json::Value::Object(counters)) = serde_json::to_value(counters) {
            for (name, value) in counters {
                match value {
                    serde_json::Value::Object(parts) => named.extend(
                        parts
                            .iter()
                            .filter_map(|(part, value)| Some((format!("{name}_{part}"), value.as_u64()?))),
                    ),
                    value => named.extend(value.as_u64().map(|value| (name, value))),
                }
            }
        }
        Ok(named)
    }
}
