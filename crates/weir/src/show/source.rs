//! Where `weir show` and `weir top` have their knowledge from: the journal of `weir up`, the pinned programs and maps, and
//! the kernel's statistics by `tc`. Turns all of it into the values of [`super::model`].

use std::io;

use anyhow::{Context, bail};
use serde_json::{Map, Value};
use weir_core::{QueueChoice, Time};
use weir_kernel::{Instance, KernelError, Phase, Snapshot};
use weir_law::live::{Count, LiveCounters, LiveFlow, Transport};
use weir_law::{Class, MainSignal, SignalPair, Votes};

use super::model::{
    Bottleneck, Counters, Direction, Discipline, Fault, Flow, FlowTable, Lost, Program, Queue, QueueName,
    State, Verdict, VoteCount,
};
use super::tc;

/// The bottlenecks of the calling thread's network namespace, or those of one interface.
pub(crate) fn read(device: Option<&str>) -> anyhow::Result<Vec<Bottleneck>> {
    let instances = weir_kernel::instances()?;
    let wanted = |instance: &&Instance| device.is_none_or(|device| instance.device == device);
    instances.iter().filter(wanted).map(bottleneck).collect()
}

/// What looks like Weir's in the calling thread's network namespace, or on one interface, and has no journal.
pub(crate) fn lost(device: Option<&str>) -> anyhow::Result<Vec<Lost>> {
    let all = weir_kernel::lost()?.into_iter();
    let wanted = all.filter(|lost| device.is_none_or(|device| lost.device == device));
    let shown = wanted.map(|lost| Lost {
        device: lost.device,
        ifindex: lost.index,
        direction: direction(lost.direction),
        queue_device: lost.queue_device,
        state: Lost::STATE,
        faults: [Fault { what: lost.fault.what, remedy: lost.fault.remedy }],
    });
    Ok(shown.collect())
}

/// Makes sure that the interface that was named is there.
pub(crate) fn find(device: Option<&str>) -> anyhow::Result<()> {
    Ok(device.map_or(Ok(()), weir_kernel::find)?)
}

fn bottleneck(instance: &Instance) -> anyhow::Result<Bottleneck> {
    let setup = &instance.setup;
    let disciplines = match instance.queue_index {
        // The device may go between two looks.
        Some(_) => tc::disciplines(&instance.queue_device)?.unwrap_or_default(),
        None => Vec::new(),
    };
    let maps = maps(instance)?;
    let faults: Vec<Fault> = instance
        .faults
        .iter()
        .map(|fault| Fault { what: fault.what.clone(), remedy: fault.remedy.clone() })
        .collect();
    let by_mark = setup.law.main_signal == MainSignal::Ecn;
    let flows = match &maps {
        Some(maps) => {
            let now = Snapshot::now();
            let flows =
                maps.flows().with_context(|| format!("cannot read the flows of {}", instance.device))?;
            flows.iter().map(|flow| self::flow(instance, flow, now)).collect()
        }
        None => Vec::new(),
    };
    let counters = match &maps {
        Some(maps) => {
            let counted = maps.counters();
            named(&counted.with_context(|| format!("cannot read the counters of {}", instance.device))?)
        }
        None => Counters::default(),
    };
    Ok(Bottleneck {
        device: instance.device.clone(),
        ifindex: instance.index,
        direction: direction(instance.direction),
        queue_device: instance.queue_device.clone(),
        state: match instance.phase {
            Phase::Changing | Phase::Leaving => State::Unfinished,
            Phase::Up if !faults.is_empty() => State::Damaged,
            Phase::Up => State::Up,
        },
        faults,
        since_unix_s: Some(instance.since),
        rate_bits_per_second: setup.rate_of(instance.direction).bits_per_sec(),
        share: setup.share.to_string(),
        split: setup.split.to_string(),
        law: law(instance)?,
        programs: instance
            .programs
            .iter()
            .map(|program| Program { what: program.what.clone(), hook: program.hook })
            .collect(),
        shaper: shaper(&disciplines),
        queues: queues(instance, &disciplines),
        flow_table: maps.as_ref().map(|maps| flow_table(&flows, maps.capacity(), by_mark)),
        counters,
        flows,
    })
}

/// The pinned maps; `None` if they are gone.
fn maps(instance: &Instance) -> anyhow::Result<Option<Snapshot>> {
    let pins = &instance.pins;
    // Without the right to look nothing can be told from gone.
    if std::fs::metadata(pins).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
        bail!("no right to read {}: run as root, as in: sudo weir show", pins.display());
    }
    match Snapshot::open(pins) {
        Ok(maps) => Ok(Some(maps)),
        Err(KernelError::NotPinned(_)) => Ok(None),
        Err(error) => Err(error)
            .with_context(|| format!("cannot read the flows of {} {}", instance.device, instance.direction)),
    }
}

const fn direction(direction: weir_kernel::Direction) -> Direction {
    match direction {
        weir_kernel::Direction::Egress => Direction::Egress,
        weir_kernel::Direction::Ingress => Direction::Ingress,
    }
}

/// All parameters, and before them the preset and what was set over it.
fn law(instance: &Instance) -> anyhow::Result<Value> {
    let Value::Object(mut set) = serde_json::to_value(&instance.setup.keys.law)? else {
        return Ok(Value::Null);
    };
    let preset = set.remove("preset").unwrap_or(serde_json::to_value(weir_kernel::DEFAULT_PRESET)?);
    let mut law = Map::from_iter([("preset".to_owned(), preset), ("set".to_owned(), set.into())]);
    if let Value::Object(parameters) = serde_json::to_value(instance.setup.law)? {
        law.extend(parameters);
    }
    Ok(law.into())
}

fn shaper(disciplines: &[Discipline]) -> Option<Discipline> {
    disciplines
        .iter()
        .find(|one| {
            one.is_root()
                && one.text("kind") == "htb"
                && one.text("handle") == handle(weir_kernel::HTB_HANDLE)
        })
        .cloned()
}

/// A handle as tc writes it.
fn handle(handle: u32) -> String {
    format!("{:x}:", handle >> 16)
}

fn queues(instance: &Instance, disciplines: &[Discipline]) -> Vec<Queue> {
    let setup = &instance.setup;
    let (standard, responsive) = setup.shares(instance.direction);
    let root = handle(weir_kernel::HTB_HANDLE);
    // Under a root of somebody else these handles are somebody else's, too.
    let ours = shaper(disciplines).is_some();
    [
        (QueueName::Responsive, 1, weir_kernel::RESPONSIVE_HANDLE, responsive, &setup.queues.responsive),
        (QueueName::Standard, 2, weir_kernel::STANDARD_HANDLE, standard, &setup.queues.standard),
    ]
    .into_iter()
    .map(|(queue, minor, number, rate, leaf)| {
        let found = |one: &&Discipline| ours && one.text("handle") == handle(number);
        let discipline = disciplines.iter().find(found).cloned();
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

fn verdicts(class: Class) -> (Verdict, Verdict) {
    let verdict = |verdict| match verdict {
        weir_law::Verdict::Responsive => Verdict::Responsive,
        weir_law::Verdict::Unresponsive => Verdict::Unresponsive,
        weir_law::Verdict::Unclassified => Verdict::Unclassified,
    };
    (verdict(class.loss), verdict(class.ecn))
}

fn flow(instance: &Instance, flow: &LiveFlow, now: Time) -> Flow {
    let (loss_verdict, ecn_verdict) = verdicts(flow.class);
    let votes = |votes: Votes| VoteCount { responsive: votes.responsive, unresponsive: votes.unresponsive };
    let SignalPair { loss, mark } = flow.signals;
    Flow {
        device: instance.device.clone(),
        direction: direction(instance.direction),
        source: flow.source.to_string(),
        destination: flow.destination.to_string(),
        protocol: match flow.transport {
            Transport::Tcp => "tcp",
            Transport::Quic => "quic",
        },
        loss_verdict,
        ecn_verdict,
        queue: match flow.choice {
            QueueChoice::Standard => QueueName::Standard,
            QueueChoice::Responsive | QueueChoice::EcnResponsive => QueueName::Responsive,
        },
        cycles: flow.cycles,
        rtt_ms: flow.rtt.map(|rtt| rtt.as_secs_f64() * 1e3),
        bytes: flow.bytes.0,
        packets: flow.packets,
        window_bytes: flow.windows.map(|window| window.0),
        loss_segments: loss,
        mark_segments: mark,
        loss_votes: votes(flow.votes.loss),
        ecn_votes: votes(flow.votes.mark),
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
