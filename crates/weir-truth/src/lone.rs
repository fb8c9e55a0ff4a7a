//! Random mixes of one to three flows, most of them beside UDP that takes much of the link: what a queue for flows that
//! answer is there for, and where a wrong verdict costs a flow most. A mix is drawn from its number alone.

use weir_core::{Rate, Seed};
use weir_law::Preset;
use weir_qdisc::QdiscConfig;
use weir_scenario::{Bottleneck, Flow};
use weir_testbed::traffic::Stack;

use crate::mix::{Draws, Impaired, MOST_PACKETS, Mix, QUEUES, Setting, WIRE, micros, queue, scenario};
use crate::truth::Class;

/// The lone mix of that number under a preset of the law.
///
/// # Panics
/// If a queue's words are wrong; a test draws some thousand.
pub fn lone(number: u64, preset: Preset) -> Mix {
    let seed = Seed { seed: number, run: 0 };
    let mut random = seed.stream("lone");
    let rate = random.log_between(4e6, 200e6);
    let rtt = random.log_between(4e-3, 150e-3);
    let crq: Vec<_> = QUEUES.iter().filter(|(kind, _)| kind.starts_with("crq")).copied().collect();
    let kind = if random.happens(0.5) { random.weighted(&crq) } else { random.weighted(QUEUES) };
    let bdp = rate * rtt / 8.0;
    let (words, _) = queue(kind, bdp, &mut random);
    let qdisc: QdiscConfig = words.parse().expect("the words of a mix's queue are known");
    let marks = qdisc.marks();
    let count = random.weighted(&[(1, 0.6), (2, 0.25), (3, 0.15)]);
    // Many more round trips than in crowds: a flow that was judged well for a long time is to stay so.
    let length = (rtt * random.log_between(150.0, 4000.0)).clamp(8.0, 60.0);
    let length = length.min((MOST_PACKETS * WIRE as f64 * 8.0 / rate).max(8.0));

    let mut bottleneck = Bottleneck::new(Rate::from_bits_per_sec(rate as u64), micros(rtt), qdisc);
    bottleneck.position = (random.between(0.03, 0.97) * 1000.0).round() / 1000.0;
    if random.happens(0.5) {
        Impaired::draw(&mut random, rtt, bottleneck.position).put(&mut bottleneck);
    }
    let udp = random.happens(0.8).then(|| {
        let share = random.between(0.2, 0.9);
        let start = if random.happens(0.3) { 0.0 } else { length * random.between(0.0, 0.4) };
        Flow {
            name: "udp".to_owned(),
            controller: String::new(),
            rate: Some(Rate::from_bits_per_sec((rate * share) as u64)),
            start: micros(start),
            duration: Some(micros(length - start)),
            ..Flow::of(Stack::Udp)
        }
    });
    let fair = rate / f64::from(count + u32::from(udp.is_some()));
    let of = Setting::draw(&mut random, (kind, marks), rtt, length, fair);
    let mut mix = Mix {
        number,
        scenario: scenario(format!("lone mix {number}"), number, preset, bottleneck, length),
        truths: Vec::new(),
        queue: kind,
    };
    for index in 0..count as usize {
        let mut random = seed.stream(&format!("flow {index}"));
        // UDP comes once, below.
        let class = std::iter::repeat_with(|| of.class(&mut random)).find(|class| *class != Class::Udp);
        let class = class.unwrap_or(Class::Aimd);
        mix.scenario.flows.push(of.flow(index, class, &mut random));
        mix.truths.push(class);
    }
    mix.truths.extend(udp.as_ref().map(|_| Class::Udp));
    mix.scenario.flows.extend(udp);
    mix
}

#[cfg(test)]
mod tests {
    use weir_law::Preset;
    use weir_scenario::Scenario;

    use super::{Class, lone};

    #[test]
    fn lone_mixes_are_sound() {
        for number in 0..2_000 {
            let mix = lone(number, Preset::Robust);
            let text = toml::to_string(&mix.scenario).unwrap();
            assert_eq!(Scenario::parse(&text, &mix.scenario.name).unwrap(), mix.scenario);
            let flows = mix.truths.iter().filter(|truth| **truth != Class::Udp).count();
            assert!((1..=3).contains(&flows) && mix.truths.len() - flows <= 1);
            assert_eq!(mix.scenario.expanded_flows().len(), mix.truths.len());
            let (first, alone) = (mix.truths[0], mix.alone());
            assert_eq!((alone.truths, alone.scenario.expanded_flows().len()), (vec![first], 1));
        }
    }
}
