//! Random mixes of flows at one bottleneck, of which it is known what each is. A mix is drawn from its number alone, so
//! that anybody can make it again, and each flow from a stream of its own.

use weir_core::{Bytes, Duration, Random, Rate, Seed};
use weir_law::Preset;
use weir_qdisc::QdiscConfig;
use weir_report::result::RunResult;
use weir_scenario::{
    Bottleneck, Flow, Jitter, Measure, Pattern, Remark, Scenario, Sizes, Workload, WorkloadKind,
};
use weir_testbed::traffic::Stack;

use crate::truth::Class;

/// Wire bytes of a full packet, and payload bytes of one of TCP and of QUIC in the simulator.
pub(crate) const WIRE: u64 = 1_514;
const PAYLOAD: [u64; 2] = [1_448, 1_425];
/// What a mix may carry: some tenths of a second on a core.
pub(crate) const MOST_PACKETS: f64 = 250_000.0;
/// Packets that path and queue hold for each flow at least: with less, flows live from one timeout to the next.
const LEAST_PACKETS: f64 = 3.0;
/// What all flows at a constant rate may ask for together, as a share of the link: above it the others starve.
const MOST_CONSTANT: f64 = 0.85;
/// Seconds that requests under way at a mix's end have to finish, some of them after several retransmission timeouts.
const PATIENCE: f64 = 60.0;
/// Bins of series, which nobody looks at.
pub(crate) const INTERVAL: Duration = Duration::from_secs(1);

/// A mix.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Its number.
    pub number: u64,
    /// The scenario, whose flows come one by one.
    pub scenario: Scenario,
    /// What each flow is, in their order.
    pub truths: Vec<Class>,
    /// The queue in a word: `bfifo`, `codel ecn`, `crq`...
    pub queue: &'static str,
}

impl Mix {
    /// The same with flows over QUIC that spread their windows over the round trip, as real stacks do. Requests do not.
    pub fn paced(mut self) -> Self {
        let quic = self.scenario.flows.iter_mut().filter(|flow| flow.stack == Stack::Quic);
        quic.for_each(|flow| flow.paced = Some(true));
        self
    }

    /// The same with its first flow only.
    pub fn alone(mut self) -> Self {
        self.scenario.flows.truncate(1);
        self.truths.truncate(1);
        self
    }

    /// An equal share of the link among its flows, in bits per second.
    pub fn fair_share(&self) -> f64 {
        self.scenario.bottleneck.rate.bits_per_sec() as f64 / self.truths.len().max(1) as f64
    }

    /// What the flow at `index` offered to the queue over its life, in equal shares of the link.
    pub fn offered_share(&self, index: usize, result: &RunResult) -> f64 {
        let life = self.scenario.flows[index].duration.unwrap_or_default().as_secs_f64();
        let bytes = result.standings.get(index).map_or(0, |standing| standing.arrived_bytes);
        bytes as f64 * 8.0 / life.max(1e-3) / self.fair_share()
    }
}

/// Draws that mixes need.
pub(crate) trait Draws {
    /// Evenly between two values.
    fn between(&mut self, low: f64, high: f64) -> f64;
    /// Between two values, evenly in their logarithm.
    fn log_between(&mut self, low: f64, high: f64) -> f64;
    /// Whether something of this probability happens.
    fn happens(&mut self, probability: f64) -> bool;
    /// One of some, by weight.
    fn weighted<T: Copy>(&mut self, of: &[(T, f64)]) -> T;
    /// One of some, all equally likely.
    fn one<T: Copy>(&mut self, of: &[T]) -> T;
}

impl Draws for Random {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    fn log_between(&mut self, low: f64, high: f64) -> f64 {
        libm::exp(self.between(libm::log(low), libm::log(high)))
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    fn weighted<T: Copy>(&mut self, of: &[(T, f64)]) -> T {
        let mut left = self.unit() * of.iter().map(|(_, weight)| weight).sum::<f64>();
        for (item, weight) in of {
            left -= weight;
            if left < 0.0 {
                return *item;
            }
        }
        of[of.len() - 1].0
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Whole microseconds, which a scenario's text keeps.
pub(crate) fn micros(seconds: f64) -> Duration {
    Duration::from_micros((seconds * 1e6).max(0.0) as u64)
}

/// The queues of mixes, with how often.
pub(crate) const QUEUES: &[(&str, f64)] = &[
    ("bfifo", 3.0),
    ("codel", 1.5),
    ("codel ecn", 1.5),
    ("pie", 1.0),
    ("pie ecn", 1.0),
    ("red", 0.7),
    ("red ecn", 0.7),
    ("fq_codel noecn", 0.7),
    ("fq_codel", 0.7),
    ("step", 0.8),
    ("dualpi2", 1.3),
    ("pi2", 0.8),
    ("crq bfifo/codel", 1.5),
    ("crq codel/codel", 1.0),
    ("crq codel ecn/codel ecn", 1.0),
];

/// The words of a queue for a link with that bandwidth-delay product, and how many such products it holds before it
/// drops or marks, at most.
pub(crate) fn queue(kind: &str, bdp: f64, random: &mut Random) -> (String, f64) {
    // Below that no window of several packets fits.
    let bytes = |of: f64| ((bdp * of) as u64).max(8 * WIRE);
    match kind {
        "bfifo" => {
            let size = random.one(&[0.25, 0.5, 1.0, 2.0]);
            (format!("bfifo limit {}b", bytes(size)), size)
        }
        "red" | "red ecn" => {
            let limit = bytes(2.0).max(32 * WIRE);
            (format!("red limit {limit}b{}", if kind == "red" { "" } else { " ecn" }), 0.5)
        }
        "step" => (format!("step threshold {}b", bytes(random.log_between(0.15, 1.0))), 0.5),
        "crq bfifo/codel" | "crq codel/codel" | "crq codel ecn/codel ecn" => {
            let ecn = if kind.ends_with("ecn") { " ecn" } else { "" };
            let limit = bytes(1.0).max(16 * WIRE);
            let standard = if kind.starts_with("crq bfifo") { "bfifo" } else { "codel" };
            let packets = limit / WIRE;
            let standard = match standard {
                "bfifo" => format!("bfifo limit {limit}b"),
                _ => format!("codel{ecn} limit {packets}p"),
            };
            let split = random.one(&["hard", "shared"]);
            let switching = random.one(&["immediate", "drain"]);
            let words = format!(
                "crq standard {standard} responsive codel{ecn} limit {packets}p split {split} switching {switching}"
            );
            (words, 0.3)
        }
        other => (other.to_owned(), 0.3),
    }
}

/// The mix of that number under a preset of the law.
///
/// # Panics
/// If a queue's words are wrong; a test draws some thousand.
pub fn mix(number: u64, preset: Preset) -> Mix {
    let seed = Seed { seed: number, run: 0 };
    let mut random = seed.stream("mix");
    let rate = random.log_between(4e6, 200e6);
    let rtt = random.log_between(5e-3, 150e-3);
    let kind = random.weighted(QUEUES);
    let bdp = rate * rtt / 8.0;
    let (words, holds) = queue(kind, bdp, &mut random);
    let qdisc: QdiscConfig = words.parse().expect("the words of a mix's queue are known");
    let marks = qdisc.marks();

    let room = (bdp * (1.0 + holds)).max(8.0 * WIRE as f64) / WIRE as f64;
    let most = (room / LEAST_PACKETS).clamp(2.0, 12.0);
    let count = random.log_between(2.0, most + 1.0).floor().clamp(2.0, 12.0) as usize;
    let length = (rtt * random.between(150.0, 400.0)).clamp(8.0, 40.0);
    let length = length.min((MOST_PACKETS * WIRE as f64 * 8.0 / rate).max(8.0));

    let mut bottleneck = Bottleneck::new(Rate::from_bits_per_sec(rate as u64), micros(rtt), qdisc);
    bottleneck.position = (random.between(0.03, 0.97) * 1000.0).round() / 1000.0;
    Impaired::draw(&mut random, rtt, bottleneck.position).put(&mut bottleneck);
    let of = Setting::draw(&mut random, (kind, marks), rtt, length, rate / count as f64);
    // Flows of one kind only are as common in the world as mixtures are.
    let alike = random.happens(0.3).then(|| of.class(&mut random)).filter(|class| *class != Class::Udp);
    let has_requests = random.happens(0.25);

    let mut flows = Vec::new();
    let mut truths = Vec::new();
    let mut same = None;
    for index in 0..count {
        let mut random = seed.stream(&format!("flow {index}"));
        let class = alike.unwrap_or_else(|| of.class(&mut random));
        let mut flow = of.flow(index, class, &mut random);
        if alike.is_some() {
            // One controller with one use of ECN.
            let (controller, ecn) = same.get_or_insert_with(|| (flow.controller.clone(), flow.ecn));
            if flow.stack != Stack::Udp {
                (flow.controller, flow.ecn) = (controller.clone(), *ecn);
            }
            of.pace(&mut flow, &mut random);
        }
        flows.push(flow);
        truths.push(class);
    }
    limit_constant(&mut flows, rate, of.fair);
    let workloads = if has_requests { vec![of.requests(rate, &mut random)] } else { Vec::new() };
    let mut scenario = scenario(format!("mix {number}"), number, preset, bottleneck, length);
    (scenario.flows, scenario.workloads) = (flows, workloads);
    Mix { number, scenario, truths, queue: kind }
}

/// A scenario of so many seconds without flows.
pub(crate) fn scenario(
    name: String,
    number: u64,
    preset: Preset,
    bottleneck: Bottleneck,
    length: f64,
) -> Scenario {
    Scenario {
        name,
        seed: number,
        bottleneck,
        law: toml::Table::from_iter([(
            "preset".to_owned(),
            toml::Value::try_from(preset).expect("a preset is a word"),
        )]),
        links: Vec::new(),
        flows: Vec::new(),
        workloads: Vec::new(),
        measure: Measure { interval: INTERVAL, timeout: micros(length + PATIENCE), ..Measure::default() },
    }
}

/// What happens to packets behind the queue.
pub(crate) struct Impaired {
    jitter: Option<Jitter>,
    loss: Option<String>,
    reorder: Option<String>,
}

impl Impaired {
    pub(crate) fn draw(random: &mut Random, rtt: f64, position: f64) -> Self {
        // Half of the round trip behind the bottleneck of the flow with the shortest one.
        let behind = rtt * 0.5 * position * 0.5;
        let jitter = random.happens(0.2).then(|| {
            let spread = (behind * random.between(0.1, 0.9)).min(random.log_between(0.2e-3, 5e-3));
            Jitter { spread: micros(spread.max(1e-6)), reorders: random.happens(0.3) }
        });
        let loss = random.happens(0.2).then(|| format!("{:.4}%", random.log_between(0.01, 0.5)));
        let reorder = random.happens(0.2).then(|| {
            let late = micros((rtt * random.log_between(0.02, 0.5)).max(1e-4));
            format!("{:.3}% {late}", random.log_between(0.1, 2.0))
        });
        Self { jitter: jitter.filter(|jitter| jitter.spread.as_secs_f64() < behind), loss, reorder }
    }

    pub(crate) fn put(self, bottleneck: &mut Bottleneck) {
        bottleneck.jitter = self.jitter;
        bottleneck.loss = self.loss.map(|share| share.parse().expect("a share"));
        bottleneck.reorder = self.reorder.map(|words| words.parse().expect("a reordering"));
    }
}

/// What the flows of a mix share.
pub(crate) struct Setting {
    marks: bool,
    is_l4s: bool,
    rtt: f64,
    length: f64,
    /// Over how much time they start.
    spread: f64,
    stretches: bool,
    offloads: bool,
    /// An equal share of the link, in bits per second.
    fair: f64,
}

impl Setting {
    /// At a queue of that kind, which marks or does not, over `rtt` and `length` seconds.
    pub(crate) fn draw(
        random: &mut Random,
        (kind, marks): (&str, bool),
        rtt: f64,
        length: f64,
        fair: f64,
    ) -> Self {
        Self {
            marks,
            is_l4s: matches!(kind, "dualpi2" | "pi2"),
            rtt,
            length,
            spread: (10.0 * rtt).max(1.0),
            stretches: random.happens(0.2),
            offloads: random.happens(0.2),
            fair,
        }
    }

    pub(crate) fn class(&self, random: &mut Random) -> Class {
        let scalable = if self.is_l4s {
            0.45
        } else if self.marks {
            0.25
        } else {
            0.04
        };
        random.weighted(&[
            (Class::Aimd, 0.40),
            (Class::Scalable, scalable),
            (Class::Bbr, 0.13),
            (Class::Bbr1, 0.05),
            (Class::Copa, 0.04),
            (Class::Pcc, 0.06),
            (Class::Unresponsive, 0.14),
            (Class::Adversary, 0.12),
            (Class::Udp, 0.03),
        ])
    }

    fn controller(&self, class: Class, random: &mut Random) -> String {
        let ecn = self.marks && random.happens(0.6);
        if class == Class::Adversary && random.happens(0.5) {
            return evader(random);
        }
        let name = match class {
            Class::Aimd => random.one(&["reno", "cubic", "cubic", "cubic-rfc9438"]),
            Class::Scalable if self.is_l4s => random.weighted(&[("prague", 0.8), ("dctcp", 0.2)]),
            Class::Scalable => random.one(&["prague", "dctcp"]),
            Class::Bbr if ecn => random.one(&["bbr2-ecn", "bbr3-ecn"]),
            Class::Bbr => random.one(&["bbr2", "bbr3"]),
            Class::Bbr1 => "bbr1",
            Class::Copa => "copa",
            Class::Pcc => random.one(&["pcc-allegro", "pcc-vivace"]),
            Class::Unresponsive => random.weighted(&[("fixed-window", 0.35), ("constant-rate", 0.65)]),
            Class::Adversary => {
                random.weighted(&[("saw-tooth", 0.4), ("dip", 0.3), ("dip-3", 0.15), ("dip-4", 0.15)])
            }
            Class::Udp => "",
        };
        name.to_owned()
    }

    pub(crate) fn flow(&self, index: usize, class: Class, random: &mut Random) -> Flow {
        let stack = match class {
            Class::Udp => Stack::Udp,
            _ => random.one(&[Stack::Tcp, Stack::Quic]),
        };
        let asks = random.happens(if self.marks { 0.5 } else { 0.15 });
        let controller = self.controller(class, random);
        let rtt = self.rtt * random.log_between(0.5, 2.0);
        let start = random.between(0.0, self.spread);
        // Some come late, some leave early.
        let start = if random.happens(0.08) { self.length * random.between(0.2, 0.4) } else { start };
        // Those who keep what slow start finds find much where they are first.
        let is_first = random.happens(0.7) && keeps_window(&controller);
        let start = if is_first { start.min(self.spread) * 0.02 } else { start };
        let end = if random.happens(0.08) { self.length * random.between(0.7, 0.9) } else { self.length };
        let two_way = random.happens(0.2);
        let (ack_every, gso) = (4 + random.below(13) as u32, 2 + random.below(43) as u32);
        let (stretches, offloads, autosizes) =
            (random.happens(0.5), random.happens(0.5), random.happens(0.5));
        let (bleaches, abuses) = (random.happens(0.04), random.happens(0.25));
        let mut flow = Flow {
            name: format!("f{index}"),
            controller: controller.clone(),
            rtt: Some(micros(rtt)),
            start: micros(start),
            duration: Some(micros(end - start)),
            // BBR 2 and 3 that ask for ECN ignore marks on long paths, so those that use it have names of their own.
            ecn: asks && !matches!(controller.as_str(), "bbr2" | "bbr3"),
            ..Flow::of(stack)
        };
        if class == Class::Udp {
            let share = random.between(0.2, 0.8);
            flow.rate = Some(Rate::from_bits_per_sec((self.fair * share).max(1e4) as u64));
            return flow;
        }
        if stack == Stack::Tcp && two_way {
            flow.pattern = Pattern::TwoWay;
        }
        if self.stretches && stretches {
            flow.ack_every = Some(ack_every);
        }
        if self.offloads && offloads {
            flow.gso = Some(gso);
            flow.tso_autosize = (stack == Stack::Tcp && autosizes).then_some(true);
        }
        let uses = flow.ecn || class == Class::Scalable || controller.ends_with("-ecn");
        if uses && bleaches && self.marks {
            flow.remark = Some(Remark::NotEct);
        } else if matches!(class, Class::Unresponsive | Class::Adversary) && uses && self.is_l4s && abuses {
            flow.remark = Some(Remark::Ect1);
        }
        self.pace(&mut flow, random);
        flow
    }

    /// A constant rate is one to three fair shares, or somewhat less.
    fn pace(&self, flow: &mut Flow, random: &mut Random) {
        if flow.controller != "constant-rate" {
            flow.max_rate = None;
            return;
        }
        let payload = PAYLOAD[usize::from(flow.stack == Stack::Quic)] as f64 / WIRE as f64;
        let share = random.log_between(0.7, 3.0);
        flow.max_rate = Some(Rate::from_bits_per_sec((self.fair * share * payload) as u64));
    }

    fn requests(&self, rate: f64, random: &mut Random) -> Workload {
        let size = random.log_between(5e3, 100e3);
        // Requests that cost no more than the flows do.
        let load = random.between(0.02, 0.15).min(300.0 * size * 8.0 / rate);
        Workload {
            name: "requests".to_owned(),
            controller: "cubic".to_owned(),
            load: Some((load * 1e4).round().max(1.0) / 1e4),
            connections: Some(200),
            size: Some(Bytes(size as u64)),
            sizes: Some(Sizes::Exponential),
            duration: Some(micros(self.length)),
            ..Workload::new(WorkloadKind::Poisson, random.one(&[Stack::Tcp, Stack::Quic]))
        }
    }
}

/// A sender that draws what it does: it gives way too little or too briefly to leave anybody more room, or in its own
/// time.
pub(crate) fn evader(random: &mut Random) -> String {
    let depth = if random.happens(0.2) { 0 } else { 5 + random.below(41) };
    // Who gives way deeply does so briefly.
    let hold = if depth > 25 { 1 } else { 1 + random.below(3) };
    let swing = if random.happens(0.4) { 0 } else { 10 + random.below(51) };
    let noise = if random.happens(0.5) { 0 } else { 2 + random.below(24) };
    let every = if random.happens(0.7) { 1 } else { 2 + random.below(3) };
    let ceiling = 100 + random.below(101);
    let period = random.log_between(4.0, 64.0) as u64;
    let pace = if random.happens(0.3) { 100 + random.below(100) } else { 0 };
    let lag = random.below(4);
    format!(
        "evader depth {depth} lag {lag} hold {hold} swing {swing} period {period} noise {noise} every {every} \
         ceiling {ceiling} pace {pace}"
    )
}

/// Whether a controller keeps a window that it found at its first signal.
fn keeps_window(controller: &str) -> bool {
    matches!(Class::of(controller), Some(Class::Unresponsive | Class::Adversary))
        && controller != "constant-rate"
}

/// Slows flows at a constant rate down where together they ask for too much, but none below 0.7 of a fair share.
fn limit_constant(flows: &mut [Flow], rate: f64, fair: f64) {
    let asked = |flow: &Flow| flow.max_rate.map_or(0.0, |rate| rate.bits_per_sec() as f64);
    let all: f64 = flows.iter().map(asked).sum();
    let most = rate * MOST_CONSTANT;
    if all <= most {
        return;
    }
    for flow in flows {
        let payload = PAYLOAD[usize::from(flow.stack == Stack::Quic)] as f64 / WIRE as f64;
        let least = 0.7 * fair * payload;
        if let Some(max) = &mut flow.max_rate {
            let less = max.bits_per_sec() as f64 * most / all;
            *max = Rate::from_bits_per_sec(less.max(least) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_law::Preset;
    use weir_scenario::Scenario;

    use super::{Class, mix};

    #[test]
    fn mixes_are_sound_and_have_everything() {
        let mixes: Vec<_> = (0..2_000).map(|number| mix(number, Preset::Robust)).collect();
        for mix in &mixes {
            let text = toml::to_string(&mix.scenario).unwrap();
            let read = Scenario::parse(&text, &mix.scenario.name).unwrap();
            assert_eq!(read, mix.scenario);
            assert_eq!(mix.scenario.expanded_flows().len(), mix.truths.len());
            for (flow, truth) in mix.scenario.flows.iter().zip(&mix.truths) {
                assert_eq!(Class::of(&flow.controller), Some(*truth), "{}", flow.controller);
            }
        }
        for class in Class::ALL {
            let flows = mixes.iter().flat_map(|mix| &mix.truths).filter(|truth| **truth == class).count();
            assert!(flows > 100, "{flows} flows are {}", class.name());
        }
        for (queue, _) in super::QUEUES {
            assert!(mixes.iter().filter(|mix| mix.queue == *queue).count() > 30, "{queue}");
        }
    }

    #[test]
    fn a_mix_is_drawn_from_its_number_alone() {
        let (one, again) = (mix(7, Preset::Paper), mix(7, Preset::Paper));
        assert_eq!(one.scenario, again.scenario);
        assert_ne!(one.scenario, mix(8, Preset::Paper).scenario);
        let other = Scenario { law: one.scenario.law.clone(), ..mix(7, Preset::Robust).scenario };
        assert_eq!(one.scenario, other, "presets differ in the law alone");
    }
}
