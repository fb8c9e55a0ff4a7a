//! What a run in virtual time will cost, estimated before it begins. Time that costs nothing makes it easy to ask for
//! more packets, rows or memory than any machine has: by a slip of the pen, or in a scenario that somebody else wrote.
//!
//! | what | estimated as |
//! |---|---|
//! | datagrams | their rate or bytes |
//! | packets of TCP and QUIC | the least of twice the bytes to send, a receive window in each round trip, and twice what the narrowest link carries |
//! | requests | as often as they are asked for; of users without thought as often as the link answers |
//! | rows | a bin for each queue, flow and workload; a sample every 10 ms and a judgement every round trip for each flow, if it has so many packets; requests |
//! | memory | rows, and packets that can be in flight or in a queue |
//! | capture and trace | bytes for each packet |
//!
//! What a flow without an end of its own does counts until the others have ended; bytes may take until the timeout.

use std::collections::BTreeMap;

use weir_core::Duration;
use weir_qdisc::{Limit, QdiscConfig};

use crate::real::window;
use crate::run::Cost;
use weir_scenario::{Direction, Flow, Pattern, Refusal, Scenario, Workload, WorkloadKind};
use weir_testbed::traffic::Stack;

/// Bits of a full packet, and of the shortest with data.
const FULL: f64 = 1514.0 * 8.0;
const SHORT: f64 = 67.0 * 8.0;
/// Payload of a full packet.
const PAYLOAD: f64 = 1448.0;
const DATAGRAM: f64 = 1472.0;
/// Bytes of memory: of a bin of a queue and of a flow, with the copy that results are made from; of a sample; of a
/// judgement and the row that is made of it; of a request; of a packet in a queue; of one that a sender waits for.
const QUEUE_BIN: f64 = 120.0;
const FLOW_BIN: f64 = 48.0;
const SAMPLE: f64 = 150.0;
const JUDGEMENT: f64 = 350.0;
const REQUEST: f64 = 120.0;
const QUEUED: f64 = 150.0;
const IN_FLIGHT: f64 = 300.0;
/// Bytes that a packet and its acknowledgement make in a trace and in a capture.
const TRACED: f64 = 550.0;
const CAPTURED: f64 = 250.0;
/// The usual width of a bin.
const USUAL_INTERVAL: Duration = Duration::from_millis(50);

/// A part of a scenario's cost.
struct Part {
    /// What brings it, as [`Scenario::said`] takes it.
    key: String,
    remedy: &'static str,
    cost: Cost,
}

/// A cost of which most is nothing.
const NOTHING: Cost = Cost { packets: 0.0, rows: 0.0, memory: 0.0, disk: 0.0 };

/// One measure of a cost.
struct Measure {
    of: fn(&Cost) -> f64,
    say: fn(f64) -> String,
}

const MEASURES: [Measure; 4] = [
    Measure { of: |cost| cost.packets, say: |packets| format!("{} packets", count(packets)) },
    Measure { of: |cost| cost.rows, say: |rows| format!("{} rows of tables", count(rows)) },
    Measure { of: |cost| cost.memory, say: |bytes| format!("{:.1} GB of memory", bytes / 1e9) },
    Measure { of: |cost| cost.disk, say: |bytes| format!("{:.1} GB of capture and trace", bytes / 1e9) },
];

/// A large number in words.
fn count(number: f64) -> String {
    match number {
        ..1e9 => format!("{:.1} million", number / 1e6),
        ..1e15 => format!("{:.1} billion", number / 1e9),
        _ => format!("{number:.1e}"),
    }
}

/// Whether a run costs no more than `most`; otherwise the key that brings the largest part, and what to do.
pub(crate) fn affordable(scenario: &Scenario, most: &Cost) -> Result<(), Refusal> {
    let parts = Estimate::new(scenario).parts();
    for Measure { of, say } in MEASURES {
        let sum: f64 = parts.iter().map(|part| of(&part.cost)).sum();
        if sum <= of(most) {
            continue;
        }
        let Some(largest) = parts.iter().max_by(|a, b| of(&a.cost).total_cmp(&of(&b.cost))) else { continue };
        let message = format!(
            "the run would need about {}, more than {}; {}, or allow it with --large",
            say(sum),
            say(of(most)),
            largest.remedy
        );
        return Err(Refusal::new(&largest.key, message));
    }
    Ok(())
}

/// The whole cost of a run.
pub(crate) fn estimate(scenario: &Scenario) -> Cost {
    let parts = Estimate::new(scenario).parts();
    let sum = |of: fn(&Cost) -> f64| parts.iter().map(|part| of(&part.cost)).sum();
    Cost {
        packets: sum(|cost| cost.packets),
        rows: sum(|cost| cost.rows),
        memory: sum(|cost| cost.memory),
        disk: sum(|cost| cost.disk),
    }
}

/// A scenario and when it ends.
struct Estimate<'a> {
    scenario: &'a Scenario,
    /// Seconds until it ends, and the key that says so.
    end: f64,
    end_key: String,
}

/// What a flow of a scenario comes to, if nothing holds it back.
struct Sent {
    /// Packets that it can have in flight.
    in_flight: f64,
    /// Round trips and looks at its sender.
    rounds: f64,
    samples: f64,
}

impl<'a> Estimate<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let timeout = scenario.measure.timeout.as_secs_f64();
        let mut ends: Vec<(f64, String)> = Vec::new();
        for (index, flow) in scenario.flows.iter().enumerate() {
            let start = flow.start.as_secs_f64();
            let (life, key) = match (flow.bytes, flow.duration) {
                (Some(bytes), _) if flow.stack == Stack::Udp => {
                    (bytes.0 as f64 / DATAGRAM * FULL / bits(flow) + 2.0, "bytes")
                }
                (Some(_), _) => (timeout - start, ""),
                (None, Some(duration)) => (duration.as_secs_f64(), "duration"),
                (None, None) => continue,
            };
            let key = if start > life { "start" } else { key };
            ends.push((
                start + life,
                if key.is_empty() { String::new() } else { format!("flow.{index}.{key}") },
            ));
        }
        for (index, workload) in scenario.workloads.iter().enumerate().filter(|(_, one)| one.has_end()) {
            let start = workload.start.as_secs_f64();
            // What was asked for last has to arrive.
            let life = workload.duration.map_or(timeout, |duration| 2.0 * duration.as_secs_f64() + 10.0);
            let key = if start > life { "start" } else { "duration" };
            ends.push((start + life, format!("workload.{index}.{key}")));
        }
        let last = ends.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        let (end, end_key) = last.filter(|(end, key)| *end < timeout || !key.is_empty()).unwrap_or_default();
        let end_key = if end_key.is_empty() { "measure.timeout".to_owned() } else { end_key };
        Self { scenario, end: if end > 0.0 { end.min(timeout) } else { timeout }, end_key }
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = self.datagrams();
        let mut held = Vec::new();
        let connections = self.connections(&mut held);
        let sent = connections.iter().map(|part| part.cost.packets).sum();
        parts.extend(connections);
        parts.extend(self.workloads());
        let packets: f64 = parts.iter().map(|part| part.cost.packets).sum();
        parts.push(self.bins());
        parts.push(self.judgements(sent, &held));
        parts.push(self.in_flight(packets, &held));
        for (key, is_on, bytes) in [
            ("measure.trace", self.scenario.measure.trace, TRACED),
            ("measure.pcap", self.scenario.measure.pcap, CAPTURED),
        ] {
            let disk = if is_on { packets * bytes } else { 0.0 };
            parts.push(Part {
                key: key.to_owned(),
                remedy: "do without it, or let the run end sooner",
                cost: Cost { disk, ..NOTHING },
            });
        }
        parts
    }

    /// Seconds that a flow can send.
    fn life(&self, flow: &Flow) -> f64 {
        let whole = (self.end - flow.start.as_secs_f64()).max(0.0);
        match (flow.bytes, flow.duration) {
            (None, Some(duration)) => whole.min(duration.as_secs_f64()),
            _ => whole,
        }
    }

    fn datagrams(&self) -> Vec<Part> {
        let flows = self.scenario.flows.iter().enumerate().filter(|(_, flow)| flow.stack == Stack::Udp);
        flows
            .map(|(index, flow)| {
                let by_rate = self.life(flow) * bits(flow) / FULL;
                let by_bytes = flow.bytes.map_or(f64::MAX, |bytes| bytes.0 as f64 / DATAGRAM);
                let packets = f64::from(flow.count) * by_rate.min(by_bytes);
                Part {
                    key: format!("flow.{index}.rate"),
                    remedy: "lower the rate, or let the flow end sooner",
                    cost: Cost { packets, ..NOTHING },
                }
            })
            .collect()
    }

    /// What TCP and QUIC send, and what holds them back into `held`.
    fn connections(&self, held: &mut Vec<Sent>) -> Vec<Part> {
        let scenario = self.scenario;
        let window = window(scenario).0 as f64 / PAYLOAD;
        let rates = scenario.link_rates(self.end);
        let mut links: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        let mut parts = Vec::new();
        for (index, flow) in scenario.flows.iter().enumerate().filter(|(_, flow)| flow.stack != Stack::Udp) {
            let count = f64::from(flow.count);
            let life = self.life(flow);
            let rtt =
                (flow.rtt.unwrap_or(scenario.bottleneck.rtt) + scenario.link_delay(flow) * 2).as_secs_f64();
            let rounds = if rtt > 0.0 { life / rtt } else { f64::MAX };
            let both = if flow.pattern == Pattern::TwoWay { 1.5 } else { 1.0 };
            let by_bytes = flow.bytes.map_or(f64::MAX, |bytes| 2.0 * bytes.0 as f64 / PAYLOAD + 100.0);
            let own = both * by_bytes.min(window * (1.0 + rounds));
            let down = flow.direction == Direction::Down;
            let path = scenario.path(flow).unwrap_or_default();
            let of = |place: &usize| {
                let [forward, back] = rates.get(*place).copied().unwrap_or_default();
                let rate = if down { forward } else { back };
                rate.map(|rate| (2 * place + usize::from(!down), rate))
            };
            let narrowest = path.iter().filter_map(of).min_by(|a, b| a.1.total_cmp(&b.1));
            let packets = match narrowest {
                Some((link, rate)) => {
                    let carried = both * 2.0 * life * rate / FULL;
                    let entry = links.entry(link).or_default();
                    *entry = (entry.0 + count * own.min(carried), entry.1.max(carried));
                    own.min(carried)
                }
                None => own,
            };
            parts.push(Part {
                key: format!("flow.{index}{}", if flow.bytes.is_some() { ".bytes" } else { "" }),
                remedy: "let the flow send less, or end sooner",
                cost: Cost { packets: count * packets, ..NOTHING },
            });
            held.push(Sent {
                in_flight: count * window.min(own),
                rounds: count * rounds.min(packets / 2.0),
                samples: count * (100.0 * life).min(packets),
            });
        }
        let sent: f64 = links.values().map(|(sent, _)| sent).sum();
        let carried: f64 = links.values().map(|(sent, carried)| sent.min(*carried)).sum();
        let Some(fastest) = links.iter().max_by(|a, b| a.1.1.total_cmp(&b.1.1)) else { return parts };
        if carried < sent {
            // It is a link that holds them back; what no link does is sent besides.
            let free: f64 = parts.iter().map(|part| part.cost.packets).sum::<f64>() - sent;
            let key = match (fastest.0 / 2, fastest.0 % 2) {
                (0, 0) => "bottleneck.rate".to_owned(),
                (0, _) => "bottleneck.reverse.rate".to_owned(),
                (place, 0) => format!("link.{}.rate", place - 1),
                (place, _) => format!("link.{}.reverse.rate", place - 1),
            };
            let remedy = "lower the rate, or let the run end sooner";
            return vec![Part { key, remedy, cost: Cost { packets: carried + free, ..NOTHING } }];
        }
        parts
    }

    fn workloads(&self) -> Vec<Part> {
        let rate = self.scenario.bottleneck.mean_bps(0.0, self.end);
        let part = |(index, workload): (usize, &Workload)| {
            let (requests, bytes, key, remedy) = self.requests(workload, rate);
            let life = (self.end - workload.start.as_secs_f64()).max(0.0);
            // Of each request at least a packet; in full ones no more than the link carries.
            let data = (2.0 * requests * bytes / PAYLOAD).min(2.0 * life * rate / FULL);
            let offered = if workload.stack == Stack::Udp {
                life * workload.rate.unwrap_or_default().bits_per_sec() as f64 / FULL
                    * f64::from(workload.most_connections())
            } else {
                data
            };
            let packets = 2.0 * requests + offered;
            Part {
                key: format!("workload.{index}.{key}"),
                remedy,
                cost: Cost { packets, rows: requests, memory: requests * REQUEST, ..NOTHING },
            }
        };
        self.scenario.workloads.iter().enumerate().map(part).collect()
    }

    /// How often a workload asks and for how many bytes in the mean, and what to change.
    fn requests(&self, workload: &Workload, rate: f64) -> (f64, f64, &'static str, &'static str) {
        let seconds = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64();
        let life = (self.end - workload.start.as_secs_f64()).max(0.0);
        let life = workload.duration.map_or(life, |duration| life.min(duration.as_secs_f64()));
        let users = f64::from(workload.most_connections());
        let rtt = workload.rtt.unwrap_or(self.scenario.bottleneck.rtt).as_secs_f64();
        // An answer has a packet at least, and takes a round trip.
        let answered = life * rate / SHORT + users;
        let every = |gap: f64| if gap > 0.0 { users * (life / gap + 1.0) } else { f64::MAX };
        let (asked, bytes, key, remedy) = match workload.kind {
            WorkloadKind::Poisson => {
                let (arrivals, size) = workload.offered(self.scenario.bottleneck.rate);
                let key = if workload.load.is_some() { "load" } else { "arrivals" };
                (life * arrivals, size, key, "lower it, or let the workload end sooner")
            }
            WorkloadKind::Requests => {
                let asked = every(seconds(workload.think) + rtt).min(answered);
                let size = workload.size.unwrap_or_default().0 as f64;
                (asked, size, "think", "let users think longer, or let the workload end sooner")
            }
            WorkloadKind::Video => {
                let segment = seconds(workload.segment);
                let asked = (every(segment) + users * seconds(workload.buffer) / segment).min(answered);
                let bytes = workload.bitrate.unwrap_or_default().bits_per_sec() as f64 / 8.0 * segment;
                (asked, bytes, "segment", "give longer segments, or let the workload end sooner")
            }
            WorkloadKind::OnOff => {
                let asked = every(seconds(workload.on) + seconds(workload.off));
                // While it is on it takes what there is.
                (asked, f64::MAX / 1e100, "on", "give longer times, or let the workload end sooner")
            }
        };
        (workload.requests.map_or(asked, |most| asked.min(most as f64)), bytes, key, remedy)
    }

    fn bins(&self) -> Part {
        let interval = self.scenario.measure.interval;
        let bins = (self.end / interval.as_secs_f64()).ceil();
        let queues = self.scenario.queue_names().iter().map(Vec::len).sum::<usize>() as f64;
        let flows: f64 = self.scenario.flows.iter().map(|flow| f64::from(flow.count)).sum();
        let sources = flows + self.scenario.workloads.len() as f64;
        let (key, remedy) = if interval < USUAL_INTERVAL {
            ("measure.interval".to_owned(), "give wider bins, or let the run end sooner")
        } else {
            (self.end_key.clone(), "let the run end sooner, or give it wider bins by measure.interval")
        };
        let memory = bins * (queues * QUEUE_BIN + sources * FLOW_BIN);
        Part { key, remedy, cost: Cost { rows: bins * (queues + sources), memory, ..NOTHING } }
    }

    /// Samples of senders and judgements of the law, of connections that send so many packets in all: an
    /// acknowledgement has two of them, a round trip that is judged twice as many.
    fn judgements(&self, packets: f64, held: &[Sent]) -> Part {
        let sum = |of: fn(&Sent) -> f64| held.iter().map(of).sum::<f64>();
        let samples = sum(|sent| sent.samples).min(packets / 2.0);
        let rounds = sum(|sent| sent.rounds).min(packets / 4.0);
        let cost = Cost { rows: samples + rounds, memory: samples * SAMPLE + rounds * JUDGEMENT, ..NOTHING };
        let remedy = "let the run end sooner, or take fewer flows";
        Part { key: self.end_key.clone(), remedy, cost }
    }

    /// What waits in queues, and what senders wait for.
    fn in_flight(&self, packets: f64, held: &[Sent]) -> Part {
        let scenario = self.scenario;
        let rtt = crate::real::longest_rtt(scenario).as_secs_f64();
        let limits = scenario.qdiscs();
        let room: f64 = limits.iter().map(|(qdisc, rate)| room(qdisc, *rate, scenario.bottleneck.rtt)).sum();
        let under_way: f64 = limits.iter().map(|(_, rate)| rate.bits_per_sec() as f64 * rtt / FULL).sum();
        let windows: f64 = held.iter().map(|sent| sent.in_flight).sum();
        let memory =
            QUEUED * packets.min(room + under_way) + IN_FLIGHT * windows.min(2.0 * (room + under_way));
        let remedy = "give the queue a lower limit, or let less be under way";
        Part { key: "bottleneck.qdisc".to_owned(), remedy, cost: Cost { memory, ..NOTHING } }
    }
}

fn bits(flow: &Flow) -> f64 {
    flow.rate.unwrap_or_default().bits_per_sec() as f64
}

/// Packets that a discipline has room for, by the limits among its keys.
fn room(qdisc: &QdiscConfig, rate: weir_core::Rate, rtt: Duration) -> f64 {
    /// What none says more than by itself.
    const UNSAID: f64 = 20_000.0;
    fn walk(value: &serde_json::Value, packets: &dyn Fn(Limit) -> f64) -> f64 {
        let serde_json::Value::Object(keys) = value else { return 0.0 };
        let one = |(key, value): (&String, &serde_json::Value)| match value.as_str() {
            Some(text) if key.ends_with("limit") => text.parse().map_or(0.0, packets),
            _ => walk(value, packets),
        };
        keys.iter().map(one).sum()
    }
    let packets =
        |limit: Limit| match (limit.bytes(rate, rtt), limit.packets(rate, rtt, weir_core::ETHERNET_MTU)) {
            (Some(bytes), _) => bytes as f64 * 8.0 / SHORT,
            (None, packets) => packets.map_or(0.0, f64::from),
        };
    let keys = serde_json::to_value(qdisc).unwrap_or_default();
    // Each of its queues has a limit of its own.
    let queues = match keys["kind"].as_str() {
        Some("drr") => keys["flows"].as_f64().unwrap_or(1024.0),
        _ => 1.0,
    };
    UNSAID + queues * walk(&keys, &packets)
}
