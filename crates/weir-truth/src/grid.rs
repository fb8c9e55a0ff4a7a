//! A regular grid: each controller at each queue, on few links, alone and beside flows that answer.

use weir_core::{Duration, Rate};
use weir_law::Preset;
use weir_scenario::{Bottleneck, Flow, Measure, Scenario};
use weir_testbed::traffic::Stack;

use crate::seen::Case;
use crate::truth::Class;

const CONTROLLERS: &[&str] = &[
    "reno",
    "cubic",
    "cubic-rfc9438",
    "dctcp",
    "prague",
    "bbr2",
    "bbr3",
    "bbr2-ecn",
    "bbr3-ecn",
    "bbr1",
    "copa",
    "pcc-allegro",
    "pcc-vivace",
    "fixed-window",
    "constant-rate",
    "saw-tooth",
    "dip",
    "dip-3",
    "dip-4",
];

const QUEUES: &[&str] = &[
    "bfifo limit 0.5bdp",
    "bfifo limit 2bdp",
    "codel",
    "codel ecn",
    "pie",
    "pie ecn",
    "fq_codel",
    "step threshold 0.3bdp",
    "dualpi2",
    "crq standard bfifo limit 1bdp responsive codel split shared",
];

/// Mbit/s, and round trips in milliseconds.
const RATES: [u64; 2] = [10, 50];
const RTTS: [u64; 2] = [20, 80];
const POSITIONS: [f64; 2] = [0.2, 0.8];
/// Who is beside the flow.
const BESIDE: [&str; 3] = ["", "reno", "cubic"];
const OTHERS: u32 = 4;
const ROUND_TRIPS: u64 = 200;
const SHORTEST: Duration = Duration::from_secs(6);
/// Of a constant rate, in equal shares of the link: alone just above it, else twice its share.
const CONSTANT: [f64; 2] = [1.05, 2.0];

/// All of it under a preset; one link and one place if it is to be quick.
pub fn cases(preset: Preset, word: &'static str, seed: u64, is_quick: bool) -> Vec<Case> {
    let few = |all: usize| if is_quick { 1 } else { all };
    let mut cases = Vec::new();
    for controller in CONTROLLERS {
        for queue in QUEUES {
            for rate in &RATES[..few(2)] {
                for rtt in &RTTS[..few(2)] {
                    for position in &POSITIONS[..few(2)] {
                        for stack in [Stack::Tcp, Stack::Quic] {
                            for beside in BESIDE {
                                let link = (*rate, *rtt, *position);
                                cases.push(case(
                                    (controller, stack),
                                    queue,
                                    link,
                                    beside,
                                    (preset, word, seed),
                                ));
                            }
                        }
                    }
                }
            }
        }
    }
    cases
}

fn case(
    (controller, stack): (&str, Stack),
    queue: &str,
    (mbit, millis, position): (u64, u64, f64),
    beside: &str,
    (preset, word, seed): (Preset, &'static str, u64),
) -> Case {
    let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
    let rtt = Duration::from_millis(millis);
    let mut bottleneck =
        Bottleneck::new(rate, rtt, queue.parse().expect("the words of a grid's queue are known"));
    bottleneck.position = position;
    let marks = bottleneck.qdisc.marks();
    let length = (rtt * ROUND_TRIPS).max(SHORTEST);
    let flow = |name: &str, controller: &str, start: Duration| Flow {
        name: name.to_owned(),
        controller: controller.to_owned(),
        start,
        duration: Some(length - start),
        // Where the queue marks, whoever can answers marks; BBR that does not answer on long paths does not ask.
        ecn: marks && !matches!(controller, "bbr2" | "bbr3"),
        ..Flow::of(stack)
    };
    let mut flows = vec![flow("judged", controller, Duration::ZERO)];
    if !beside.is_empty() {
        let others = (1..=OTHERS).map(|index| {
            flow(&format!("other {index}"), beside, Duration::from_millis(u64::from(index) * 97))
        });
        flows.extend(others);
    }
    if controller == "constant-rate" {
        let share = CONSTANT[usize::from(flows.len() > 1)];
        flows[0].max_rate = Some(rate.scale(share / flows.len() as f64));
    }
    let truth = |flow: &Flow| Class::of(&flow.controller).expect("a grid has controllers of known classes");
    let alone = if beside.is_empty() { "alone".to_owned() } else { format!("beside {OTHERS} {beside}") };
    let stack = if stack == Stack::Tcp { "TCP" } else { "QUIC" };
    let name = format!("{stack} {controller}, {queue}, {mbit}mbit {millis}ms {position}, {alone}, {word}");
    Case {
        truths: flows.iter().map(truth).collect(),
        queue: queue.split(" standard").next().unwrap_or(queue).to_owned(),
        preset: word,
        looked_at: 1,
        scenario: Scenario {
            name: name.clone(),
            seed,
            bottleneck,
            law: toml::Table::from_iter([(
                "preset".to_owned(),
                toml::Value::try_from(preset).expect("a preset is a word"),
            )]),
            links: Vec::new(),
            flows,
            workloads: Vec::new(),
            measure: Measure {
                interval: Duration::from_secs(1),
                timeout: length + Duration::from_secs(1),
                ..Measure::default()
            },
        },
        name,
    }
}
