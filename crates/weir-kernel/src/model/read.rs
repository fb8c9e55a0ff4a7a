//! Reads the model: the journal, the pinned maps, and the kernel's statistics.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Map, Value};
use thiserror::Error;
use weir_core::{QueueChoice, Time};
use weir_law::live::{Count, LiveCounters, LiveFlow, Transport};
use weir_law::{MainSignal, SignalPair, Verdict};
use weir_netdev::iproute::{self, Discipline, StatisticsError};

use super::{Bottleneck, Counters, Flow, FlowTable, Model, Queue, State};
use crate::error::KernelError;
use crate::journal::Phase;
use crate::keys::DEFAULT_PRESET;
use crate::show::{self, Instance};
use crate::snapshot::Snapshot;
use crate::tree::{HTB_HANDLE, RESPONSIVE_HANDLE, STANDARD_HANDLE};
use crate::up::UpError;

/// Why the model cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The kernel, or a journal, does not say what is there.
    #[error(transparent)]
    Up(#[from] UpError),
    /// The maps may not be read.
    #[error("no right to read {}: run as root, as in: sudo weir show", .0.display())]
    NotPermitted(PathBuf),
    /// The maps cannot be read.
    #[error("cannot read the {what} of {device}: {source}")]
    Maps {
        /// `flows` or `counters`.
        what: &'static str,
        /// The interface.
        device: String,
        /// Why.
        source: KernelError,
    },
    /// `tc` does not say what the queues counted.
    #[error(transparent)]
    Statistics(#[from] StatisticsError),
    /// A value has no form in JSON: a fault of the program.
    #[error("a setting cannot be written down: {0}; this is a fault of weir")]
    Json(#[from] serde_json::Error),
}

impl Model {
    /// What is up on one interface; empty if nothing is, or if there is no such interface ([`find`](crate::find) knows
    /// which of the two).
    ///
    /// # Errors
    /// When the kernel, the journal, the maps or `tc` do not say.
    pub fn of(device: &str) -> Result<Self, ModelError> {
        Self::read(Some(device))
    }

    /// What is up on all interfaces of the calling thread's network namespace.
    ///
    /// # Errors
    /// As [`Model::of`].
    pub fn all() -> Result<Self, ModelError> {
        Self::read(None)
    }

    /// That of one interface, or of all.
    ///
    /// # Errors
    /// As [`Model::of`].
    pub fn read(device: Option<&str>) -> Result<Self, ModelError> {
        let is_wanted = |name: &str| device.is_none_or(|device| name == device);
        let instances = show::instances()?;
        let wanted = instances.iter().filter(|instance| is_wanted(&instance.device));
        let mut lost = show::lost()?;
        lost.retain(|lost| is_wanted(&lost.device));
        Ok(Self { bottlenecks: wanted.map(bottleneck).collect::<Result<_, _>>()?, lost })
    }
}

fn bottleneck(instance: &Instance) -> Result<Bottleneck, ModelError> {
    let setup = &instance.setup;
    let disciplines = match instance.queue_index {
        // The device may go between two looks.
        Some(_) => iproute::disciplines(Command::new("tc"), &instance.queue_device)?.unwrap_or_default(),
        None => Vec::new(),
    };
    let maps = maps(instance)?;
    let by_mark = setup.law.main_signal == MainSignal::Ecn;
    let unread = |what| move |source| ModelError::Maps { what, device: instance.device.clone(), source };
    let flows = match &maps {
        Some(maps) => {
            let now = Snapshot::now();
            let flows = maps.flows().map_err(unread("flows"))?;
            flows.iter().map(|flow| self::flow(instance, flow, now)).collect()
        }
        None => Vec::new(),
    };
    let counters = match &maps {
        Some(maps) => named(&maps.counters().map_err(unread("counters"))?),
        None => Counters::default(),
    };
    Ok(Bottleneck {
        device: instance.device.clone(),
        ifindex: instance.index,
        direction: instance.direction,
        queue_device: instance.queue_device.clone(),
        state: match instance.phase {
            Phase::Changing | Phase::Leaving => State::Unfinished,
            Phase::Up if !instance.faults.is_empty() => State::Damaged,
            Phase::Up => State::Up,
        },
        faults: instance.faults.clone(),
        warnings: instance.warnings.clone(),
        since_unix_s: Some(instance.since),
        rate_bits_per_second: setup.rate_of(instance.direction).bits_per_sec(),
        sharing: setup.sharing,
        split: setup.split,
        law: law(instance)?,
        programs: instance.programs.clone(),
        shaper: shaper(&disciplines),
        queues: queues(instance, &disciplines),
        flow_table: maps.as_ref().map(|maps| flow_table(&flows, maps.capacity(), by_mark)),
        counters,
        flows,
    })
}

/// The pinned maps; `None` if they are gone.
fn maps(instance: &Instance) -> Result<Option<Snapshot>, ModelError> {
    let pins = &instance.pins;
    // Without the right to look, a map that is there looks like one that is gone.
    if std::fs::metadata(pins).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        return Err(ModelError::NotPermitted(pins.clone()));
    }
    match Snapshot::open(pins) {
        Ok(maps) => Ok(Some(maps)),
        Err(KernelError::NotPinned(_)) => Ok(None),
        Err(source) => {
            let device = format!("{} {}", instance.device, instance.direction);
            Err(ModelError::Maps { what: "flows", device, source })
        }
    }
}

/// All parameters, and before them the preset and what was set over it.
fn law(instance: &Instance) -> Result<Value, ModelError> {
    let Value::Object(mut set) = serde_json::to_value(&instance.setup.keys.law)? else {
        return Ok(Value::Null);
    };
    let preset = set.remove("preset").unwrap_or(serde_json::to_value(DEFAULT_PRESET)?);
    let mut law = Map::from_iter([("preset".to_owned(), preset), ("set".to_owned(), set.into())]);
    if let Value::Object(parameters) = serde_json::to_value(instance.setup.law)? {
        law.extend(parameters);
    }
    Ok(law.into())
}

fn shaper(disciplines: &[Discipline]) -> Option<Discipline> {
    let root = Discipline::root(disciplines)?;
    (root.text("kind") == "htb" && root.text("handle") == handle(HTB_HANDLE)).then(|| root.clone())
}

/// A handle as tc writes it.
fn handle(handle: u32) -> String {
    format!("{:x}:", handle >> 16)
}

fn queues(instance: &Instance, disciplines: &[Discipline]) -> Vec<Queue> {
    let setup = &instance.setup;
    let [standard, responsive] = setup.assured(instance.direction);
    let root = handle(HTB_HANDLE);
    // Under a root of somebody else these handles are somebody else's, too.
    let ours = shaper(disciplines).is_some();
    [
        (QueueChoice::Responsive, 1, RESPONSIVE_HANDLE, responsive, &setup.queues.responsive),
        (QueueChoice::Standard, 2, STANDARD_HANDLE, standard, &setup.queues.standard),
    ]
    .into_iter()
    .map(|(queue, minor, number, rate, leaf)| {
        let discipline = Discipline::with_handle(disciplines, &handle(number)).filter(|_| ours).cloned();
        Queue {
            queue,
            classid: format!("{root}{minor}"),
            assured_bits_per_second: rate.bits_per_sec(),
            setup: leaf.to_string(),
            marks: discipline.as_ref().and_then(Discipline::marks),
            discipline,
        }
    })
    .collect()
}

fn flow_table(flows: &[Flow], capacity: u32, by_mark: bool) -> FlowTable {
    let count = |verdict| {
        let of = |flow: &&Flow| verdict == if by_mark { flow.ecn_verdict } else { flow.loss_verdict };
        flows.iter().filter(of).count() as u64
    };
    FlowTable {
        flows: flows.len() as u64,
        capacity: capacity.into(),
        responsive: count(Verdict::Responsive),
        unresponsive: count(Verdict::Unresponsive),
        unclassified: count(Verdict::Unclassified),
    }
}

fn flow(instance: &Instance, flow: &LiveFlow, now: Time) -> Flow {
    let SignalPair { loss, mark } = flow.signals;
    Flow {
        device: instance.device.clone(),
        direction: instance.direction,
        source: flow.source.to_string(),
        destination: flow.destination.to_string(),
        protocol: match flow.transport {
            Transport::Tcp => "tcp",
            Transport::Quic => "quic",
        },
        loss_verdict: flow.class.loss,
        ecn_verdict: flow.class.ecn,
        queue: flow.choice,
        cycles: flow.cycles,
        rtt_ms: flow.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        bytes: flow.bytes.0,
        packets: flow.packets,
        window_bytes: flow.windows.map(|window| window.0),
        loss_segments: loss,
        mark_segments: mark,
        loss_votes: flow.votes.loss,
        ecn_votes: flow.votes.mark,
        late_signals: flow.late_signals.into(),
        withheld: flow.withheld.into(),
        idle_s: flow.idle(now).as_secs_f64(),
        closing: flow.closing,
    }
}

/// Counters by their names. The test compares this list with the fields.
fn named(counters: &LiveCounters) -> Counters {
    let mut named = Vec::new();
    let kinds = [
        ("tcp", counters.tcp),
        ("quic", counters.quic),
        ("udp", counters.udp),
        ("other", counters.other),
        ("not_ip", counters.not_ip),
        ("fragment", counters.fragment),
        ("truncated", counters.truncated),
        ("malformed", counters.malformed),
        ("to_responsive", counters.to_responsive),
        ("to_standard", counters.to_standard),
    ];
    for (kind, Count { packets, bytes }) in kinds {
        named.extend([(format!("{kind}_packets"), packets), (format!("{kind}_bytes"), bytes)]);
    }
    let events = [
        ("loss_packets", counters.loss_packets),
        ("loss_segments", counters.loss_segments),
        ("mark_packets", counters.mark_packets),
        ("mark_segments", counters.mark_segments),
        ("unowned_signals", counters.unowned_signals),
        ("late_signals", counters.late_signals),
        ("arrived_ce", counters.arrived_ce),
        ("admitted", counters.admitted),
        ("switched", counters.switched),
        ("lapsed", counters.lapsed),
        ("reopened", counters.reopened),
        ("expired", counters.expired),
        ("evicted", counters.evicted),
        ("full", counters.full),
        ("waiting_full", counters.waiting_full),
        ("contended", counters.contended),
        ("ambiguous", counters.ambiguous),
    ];
    named.extend(events.map(|(name, count)| (name.to_owned(), count)));
    Counters(named)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::Value;
    use weir_law::live::LiveCounters;

    use super::named;

    #[test]
    fn every_counter_is_named_and_documented() {
        let counters = named(&LiveCounters::default()).0;
        let names: BTreeSet<String> = counters.iter().map(|(name, _)| name.clone()).collect();
        let Ok(Value::Object(fields)) = serde_json::to_value(LiveCounters::default()) else { panic!() };
        let expected: BTreeSet<String> = fields
            .into_iter()
            .flat_map(|(name, value)| match value {
                Value::Object(parts) => parts.into_iter().map(|(part, _)| format!("{name}_{part}")).collect(),
                _ => vec![name],
            })
            .collect();
        assert_eq!(names, expected);
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/show.md");
        let page = std::fs::read_to_string(page).unwrap();
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "docs/reference/show.md lacks the counter {name}");
        }
    }
}
