//! Random mixes that real packets can be sent of: what the kernel's TCP and noq carry, at queues that the kernel has, at
//! rates that a busy machine keeps up with. A mix is drawn from its number alone.

use weir_core::{Rate, Seed};
use weir_law::Preset;
use weir_qdisc::QdiscConfig;
use weir_scenario::{Bottleneck, Flow, Pattern};
use weir_testbed::traffic::Stack;

use crate::mix::{Draws, Mix, WIRE, evader, micros, queue, scenario};
use crate::truth::Class;

/// Queues that Debian's kernels have, and that all worlds have alike.
const REAL: [&str; 8] = [
    "bfifo",
    "codel",
    "codel ecn",
    "red ecn",
    "fq_codel",
    "fq_codel noecn",
    "crq bfifo/codel",
    "crq codel/codel",
];

/// The mix of that number for real packets under a preset of the law.
///
/// # Panics
/// If a queue's words are wrong; a test draws some thousand.
pub fn real(number: u64, preset: Preset) -> Mix {
    let seed = Seed { seed: number, run: 0 };
    let mut random = seed.stream("real");
    let rate = random.log_between(5e6, 30e6);
    let rtt = random.log_between(10e-3, 80e-3);
    let kind = random.one(&REAL);
    // Queues of ten packets and less are all bursts.
    let (words, _) = queue(kind, (rate * rtt / 8.0).max(24.0 * WIRE as f64), &mut random);
    let qdisc: QdiscConfig =
        words.replace("switching drain", "").parse().expect("the words of a mix's queue are known");
    let marks = qdisc.marks();
    let count = 1 + random.below(5) as usize;
    let length = (rtt * 300.0).clamp(10.0, 16.0);
    let bottleneck = Bottleneck::new(Rate::from_bits_per_sec(rate as u64), micros(rtt), qdisc);
    let mut mix = Mix {
        number,
        scenario: scenario(format!("real mix {number}"), number, preset, bottleneck, length),
        truths: Vec::new(),
        queue: kind,
    };
    for index in 0..count {
        let mut random = seed.stream(&format!("flow {index}"));
        let (stack, class) = random.weighted(&[
            ((Stack::Tcp, Class::Aimd), 0.3),
            ((Stack::Tcp, Class::Scalable), if marks { 0.5 } else { 0.0 }),
            ((Stack::Quic, Class::Aimd), 0.1),
            ((Stack::Quic, Class::Scalable), if marks { 0.3 } else { 0.0 }),
            ((Stack::Quic, Class::Bbr), 0.1),
            ((Stack::Quic, Class::Unresponsive), 0.15),
            ((Stack::Quic, Class::Adversary), 0.15),
        ]);
        let controller = match (stack, class) {
            (Stack::Tcp, Class::Aimd) => random.one(&["reno", "cubic"]).to_owned(),
            (Stack::Tcp, _) => "weir-dctcp".to_owned(),
            // The plain names are noq's on real packets.
            (_, Class::Aimd) => random.one(&["weir-reno", "weir-cubic"]).to_owned(),
            (_, Class::Scalable) => "prague".to_owned(),
            (_, Class::Bbr) => random.one(&["bbr2", "weir-bbr3"]).to_owned(),
            // Without `max_rate`, which world sim alone has, a constant rate is what the first signal finds.
            (_, Class::Unresponsive) => random.one(&["fixed-window", "constant-rate"]).to_owned(),
            _ if random.happens(0.5) => evader(&mut random),
            _ => random.one(&["dip", "saw-tooth"]).to_owned(),
        };
        mix.scenario.flows.push(Flow {
            name: format!("f{index}"),
            ecn: class == Class::Scalable || marks && class != Class::Bbr && random.happens(0.5),
            pattern: if stack == Stack::Tcp && random.happens(0.5) {
                Pattern::TwoWay
            } else {
                Pattern::OneWay
            },
            start: micros(random.between(0.0, 1.0)),
            duration: Some(micros(length - 1.0)),
            controller,
            paced: (stack == Stack::Quic).then_some(true),
            ..Flow::of(stack)
        });
        mix.truths.push(class);
    }
    mix
}

#[cfg(test)]
mod tests {
    use weir_law::Preset;
    use weir_scenario::Scenario;
    use weir_testbed::traffic::catalogue_name;

    use super::{Class, real};

    #[test]
    fn real_mixes_are_sound() {
        for number in 0..2_000 {
            let mix = real(number, Preset::Robust);
            let text = toml::to_string(&mix.scenario).unwrap();
            assert_eq!(Scenario::parse(&text, &mix.scenario.name).unwrap(), mix.scenario);
            for (flow, truth) in mix.scenario.flows.iter().zip(&mix.truths) {
                assert_eq!(Class::of(catalogue_name(&flow.controller)), Some(*truth), "{}", flow.controller);
            }
        }
    }
}
